//! Pages that we wrote ourselves, in many languages and forms, beside what a person reads in them.
//!
//! `pages/NAME.json` says what is true of `pages/NAME.html`, and is written by hand. Where the engine
//! is known to say something else, `deviates` says what; a change of that, for better or worse, fails
//! the test. `pages/NAME.md`, where there is one, is the article as Markdown. `UPDATE_GOLDEN=1`
//! writes `deviates` and the Markdown anew, never the truth.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use feedmill_formats::article::{Evidence, Extracted, extract, markdown};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// So many pages are there at least, and so many of them are read without a flaw.
const PAGES: usize = 32;
const EXACT: usize = 28;

/// What is true of a page, in the order in which people read it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Truth {
    /// What the page is here for.
    about: String,
    url: String,
    /// The code, when the page is no article; nothing else is true of it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authors: Vec<String>,
    /// A time, or a day where the page tells no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead_image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paywalled: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    text: Vec<String>,
    /// What the engine says where it is wrong.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    deviates: BTreeMap<String, Value>,
}

impl Truth {
    /// What the engine says, where it is not this.
    fn compare(&self, article: &Extracted) -> BTreeMap<String, Value> {
        let at = article.published.map(|at| at.to_string());
        let day = article.day.clone().or_else(|| article.published.map(|at| at.day()));
        let is_day = self.published.as_ref().is_some_and(|told| told.len() == "2026-11-15".len());
        let fields = [
            ("refused", json!(self.refused), Value::Null),
            ("title", json!(self.title.as_deref().unwrap_or_default()), json!(article.title)),
            ("authors", json!(self.authors), json!(article.authors)),
            ("published", json!(self.published), json!(if is_day { day } else { at })),
            ("updated", json!(self.updated), json!(article.updated.map(|at| at.to_string()))),
            ("language", json!(self.language), json!(article.language)),
            ("site_name", json!(self.site_name), json!(article.site_name)),
            ("section", json!(self.section), json!(article.section)),
            ("tags", json!(self.tags), json!(article.tags)),
            ("lead_image", json!(self.lead_image), json!(article.lead_image)),
            ("page_type", json!(self.page_type), json!(article.page_type)),
            ("paywalled", json!(self.paywalled), json!(article.paywalled)),
        ];
        let mut wrong: BTreeMap<String, Value> = fields
            .into_iter()
            .filter(|(_, truth, told)| truth != told)
            .map(|(name, _, told)| (name.to_owned(), told))
            .collect();
        let told: Vec<&str> = article.text.split("\n\n").collect();
        let lost: Vec<&String> =
            self.text.iter().filter(|one| !told.contains(&one.as_str())).collect();
        let added: Vec<&str> =
            told.iter().copied().filter(|one| self.text.iter().all(|own| own != one)).collect();
        for (name, paragraphs) in [("text_lost", json!(lost)), ("text_added", json!(added))] {
            if paragraphs.as_array().is_some_and(|all| !all.is_empty()) {
                wrong.insert(name.to_owned(), paragraphs);
            }
        }
        if lost.is_empty() && added.is_empty() && told != self.text {
            wrong.insert("text_order".to_owned(), json!(told));
        }
        wrong
    }
}

fn pages() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "html")).collect();
    pages.sort();
    pages
}

/// What differs, a line for each side of a field.
fn told(wrong: &BTreeMap<String, Value>, mark: char) -> String {
    wrong.iter().fold(String::new(), |mut out, (name, value)| {
        let several = value.as_array().filter(|all| !all.is_empty());
        let lines = several.cloned().unwrap_or_else(|| vec![value.clone()]);
        for line in lines {
            writeln!(out, "  {mark} {name}: {line}").unwrap();
        }
        out
    })
}

#[test]
fn pages_are_read_as_people_read_them() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let (mut report, mut exact, mut texts) = (String::new(), 0, 0);
    let pages = pages();
    for path in &pages {
        let html = std::fs::read_to_string(path).unwrap();
        let beside = path.with_extension("json");
        let mut truth: Truth =
            serde_json::from_str(&std::fs::read_to_string(&beside).unwrap()).unwrap();
        let read = extract(&html, &truth.url, &Evidence::default());
        let wrong = match &read {
            Ok(article) => truth.compare(article),
            Err(error) if truth.refused.as_deref() == Some(error.code()) => BTreeMap::new(),
            Err(error) => BTreeMap::from([("refused".to_owned(), json!(error.code()))]),
        };
        exact += usize::from(wrong.is_empty());
        texts +=
            usize::from(!wrong.keys().any(|name| name.starts_with("text") || name == "refused"));
        let name = path.file_stem().unwrap().to_string_lossy();
        if wrong != truth.deviates {
            writeln!(report, "{name} ({}):", truth.about).unwrap();
            report.push_str(&told(&truth.deviates, '-'));
            report.push_str(&told(&wrong, '+'));
        }
        let written = path.with_extension("md");
        if let (Ok(expected), Ok(article)) = (std::fs::read_to_string(&written), &read) {
            let markdown = markdown(&article.html, Some(&truth.url)) + "\n";
            if markdown != expected {
                writeln!(report, "{name}.md is now:\n{markdown}").unwrap();
                if update {
                    std::fs::write(&written, markdown).unwrap();
                }
            }
        }
        if update && wrong != truth.deviates {
            truth.deviates = wrong;
            std::fs::write(&beside, serde_json::to_string_pretty(&truth).unwrap() + "\n").unwrap();
        }
    }
    println!("{} pages, {exact} exact, {texts} with the exact text", pages.len());
    assert!(
        update || report.is_empty(),
        "lines with - were known to be wrong, lines with + are:\n{report}"
    );
    assert!(pages.len() >= PAGES && exact >= EXACT, "{} pages, {exact} exact", pages.len());
}
