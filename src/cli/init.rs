//! `feedmill init`: a place to work in.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde_json::json;

use super::{Context, Failure};
use crate::config::reference;
use crate::db::private;

const FILE: &str = "feedmill.toml";

/// Makes the data directory, its database and a configuration file
///
/// The file is feedmill.toml in the current directory; one that exists is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  feedmill init --contact https://example.org/about-our-bot")]
pub(super) struct Args {
    /// The data directory [default: ./feedmill-data]
    dir: Option<String>,
    /// A web page or mail address at which publishers can reach you
    #[arg(long, value_name = "URL")]
    contact: Option<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let given = args.contact.clone().or_else(|| match Path::new(FILE).exists() {
        true => None,
        false => context
            .out
            .ask("A web page or mail address at which publishers can reach you (empty for none):"),
    });
    let contact = given.filter(|contact| !contact.is_empty());
    let mut options = context.load_options();
    let dir = args.dir.clone().map(|dir| ("data_dir".to_owned(), dir));
    options.overrides.extend(dir);
    options.overrides.extend(contact.clone().map(|contact| ("fetch.contact".to_owned(), contact)));
    // Everything is checked before anything is made.
    let loaded = context.load_with(&options)?;
    let config = &loaded.config;
    context.open(config).await?.close().await;
    let dir = config.data_dir.display().to_string();
    let moved = args.dir.as_ref().or(context.globals.data_dir.as_ref());
    let made =
        write_new(Path::new(FILE), &starting_point(contact.as_deref(), moved.map(String::as_str)))?;
    if !made && args.contact.is_some() {
        context.out.warn(&format!(
            "{FILE} exists and is kept as it is: set contact in its [fetch] section yourself"
        ));
    }
    let value = json!({ "data_dir": dir, "file": FILE, "file_made": made });
    context.out.done(&value, &told(&dir, made, config.fetch.contact.is_empty()))
}

fn told(dir: &str, made: bool, no_contact: bool) -> String {
    let file = if made { "made" } else { "exists already and is kept" };
    let mut told = format!("data directory {dir} is ready; {FILE} {file}\n\nNext:\n");
    if no_contact {
        told.push_str(&format!(
            "  set contact in {FILE}: a publisher who can ask does not need to block\n"
        ));
    }
    told.push_str("  feedmill source add https://example.com/feed.xml\n  feedmill run");
    told
}

/// The reference with what was chosen in it; all else stays a comment.
fn starting_point(contact: Option<&str>, data_dir: Option<&str>) -> String {
    let chosen = [("#contact = ", contact), ("#data_dir = ", data_dir)];
    let line = |line: &str| {
        let set = chosen.iter().find_map(|(key, value)| {
            Some((key, (*value)?)).filter(|(key, _)| line.starts_with(**key))
        });
        match set {
            Some((key, value)) => {
                format!("{}{}\n", key.trim_start_matches('#'), toml::Value::from(value))
            }
            None => format!("{line}\n"),
        }
    };
    reference().lines().map(line).collect()
}

/// Writes a file that must not exist yet; false when it does.
fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    // It may get passwords, and it says which networks may be asked.
    let written = private::options()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => {
            let message = format!("cannot write {}: {error}", path.display());
            Err(Failure::failed("unwritable", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, LoadOptions, load};

    #[test]
    fn the_file_sets_what_was_chosen_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        for (contact, data_dir) in [
            (None, None),
            (Some("https://example.org/\"bot\""), Some("C:\\feeds")),
            (None, Some("here")),
        ] {
            std::fs::write(&file, starting_point(contact, data_dir)).unwrap();
            let options = LoadOptions { file: Some(file.clone()), ..LoadOptions::default() };
            let loaded = load(&options).unwrap();
            let mut expected = Config::default();
            expected.fetch.contact = contact.unwrap_or_default().to_owned();
            if let Some(data_dir) = data_dir {
                expected.data_dir = data_dir.into();
            }
            assert_eq!(loaded.config, expected);
        }
        assert_eq!(starting_point(None, None), reference());
    }

    #[test]
    fn a_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(write_new(&file, "mine").unwrap());
        assert!(!write_new(&file, "other").unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
}
