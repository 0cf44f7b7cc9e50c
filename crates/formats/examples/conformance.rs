//! How much of a reference we agree with, as a share: `conformance dates FILE` or `robots FILE`.
//!
//! `dates` is a JSON list of `{"s": text, "feedparser": seconds}`, `robots` lines of JSON with
//! `robots`, `agent`, `url` and `allowed`. What we do not agree with is listed first.

use std::error::Error;

use feedmill_formats::date;
use feedmill_formats::robots::Robots;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, file] = args.as_slice() else {
        return Err("say dates or robots, and a file".into());
    };
    let text = std::fs::read_to_string(file)?;
    let cases = match what.as_str() {
        "dates" => dates(&serde_json::from_str(&text)?),
        "robots" => {
            let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            robots(&lines?)
        }
        other => return Err(format!("`{other}` is neither dates nor robots").into()),
    };
    let agreed = cases.iter().filter(|case| case.is_none()).count();
    #[expect(clippy::print_stdout, reason = "this is what it is for")]
    {
        for case in cases.iter().flatten() {
            println!("{case}");
        }
        println!("{agreed} of {}: {:.4}", cases.len(), agreed as f64 / cases.len().max(1) as f64);
    }
    Ok(())
}

/// What is different, for each date that the reference can read.
fn dates(cases: &Value) -> Vec<Option<String>> {
    let case = |case: &Value| {
        let (text, wanted) = (case.get("s")?.as_str()?, case.get("feedparser")?.as_i64()?);
        let found = date::parse(text).map(|at| at.ms().div_euclid(1_000));
        let told = match found {
            Some(found) => date::Ts::from_ms(found * 1_000).to_string(),
            None => "nothing".to_owned(),
        };
        Some((found != Some(wanted)).then(|| format!("{text:?}: {told}")))
    };
    cases.as_array().map(|cases| cases.iter().filter_map(case).collect()).unwrap_or_default()
}

/// What is different, for each case.
fn robots(cases: &[Value]) -> Vec<Option<String>> {
    let case = |case: &Value| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap_or_default();
        let url = text("url");
        let after_host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = after_host.find(['/', '?', ';']).and_then(|at| after_host.get(at..));
        let path = path.unwrap_or("/").split('#').next().unwrap_or("/");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let allowed = Robots::parse(text("robots").as_bytes()).allows(text("agent"), &path);
        let wanted = case.get("allowed").and_then(Value::as_bool).unwrap_or_default();
        (allowed != wanted).then(|| format!("{case}"))
    };
    cases.iter().map(case).collect()
}
