//! The flags that say how a source is asked, and `feedmill source access`, which changes it.

use std::net::IpAddr;

use serde_json::json;

use super::super::{Context, Failure, text};
use crate::app::edit;
use crate::fetch::Guard;
use crate::model::{Access, Auth, Secret, SecretUrl, Source, SourceChange};
use crate::sources::check_access;

/// How a source is asked, where that is not everybody's way. A secret may be given as `@FILE`,
/// which keeps it out of the list of processes and of the shell's history.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "How it is asked")]
pub(in crate::cli) struct Flags {
    /// A header line for its own site, as "NAME: VALUE" or @FILE; may be repeated
    #[arg(long = "header", value_name = "LINE")]
    headers: Vec<String>,
    /// The Cookie line for its own site, or @FILE
    #[arg(long, value_name = "LINE")]
    cookie: Option<String>,
    /// A name and password for its own site, as USER:PASSWORD or @FILE
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "bearer")]
    basic: Option<String>,
    /// A token for its own site, or @FILE
    #[arg(long, value_name = "TOKEN")]
    bearer: Option<String>,
    /// The User-Agent for its own site
    #[arg(long, value_name = "AGENT")]
    user_agent: Option<String>,
    /// A proxy for its requests, or @FILE [default: as fetch.proxy says]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// An address of this machine to connect from; may be repeated [default: as fetch.bind says]
    #[arg(long, value_name = "IP")]
    bind: Vec<IpAddr>,
    /// Asks for its pages without the validators of their last answer
    #[arg(long)]
    unconditional: bool,
}

/// Shows how a source is requested, or changes it: headers, credentials, proxy
///
/// Without flags it shows what is set, without secrets. Flags replace everything that is set; --clear
/// removes it, so that the source is requested like every other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source access news.example
  feedmill source access news.example --bearer @token.txt
  feedmill source access news.example --clear")]
pub(in crate::cli) struct Args {
    /// The source's name or id
    name: String,
    #[command(flatten)]
    flags: Flags,
    /// Removes everything that is set
    #[arg(long, conflicts_with_all = [
        "headers", "cookie", "basic", "bearer", "user_agent", "proxy", "bind", "unconditional",
    ])]
    clear: bool,
}

impl Flags {
    /// What they say.
    pub(super) fn access(&self) -> Result<Access, Failure> {
        let mut access = Access {
            user_agent: self.user_agent.clone(),
            cookie: self.cookie.as_deref().map(given).transpose()?.map(Secret::from),
            proxy: self.proxy.as_deref().map(given).transpose()?.map(SecretUrl::from),
            bind: self.bind.clone(),
            unconditional: self.unconditional,
            ..Access::default()
        };
        for line in &self.headers {
            let line = given(line)?;
            // A line without a colon has no name, which is refused with advice.
            let (name, value) = line.split_once(':').unwrap_or(("", &line));
            let value = Secret::from(value.trim().to_owned());
            access.headers.insert(name.trim().to_ascii_lowercase(), value);
        }
        if let Some(pair) = self.basic.as_deref().map(given).transpose()? {
            let (user, password) = pair.split_once(':').unwrap_or(("", &pair));
            let (user, password) = (user.to_owned(), Secret::from(password.to_owned()));
            access.auth = Some(Auth::Basic { user, password });
        }
        if let Some(token) = self.bearer.as_deref().map(given).transpose()? {
            access.auth = Some(Auth::Bearer(Secret::from(token)));
        }
        Ok(access)
    }
}

/// A value, or what is in the file that it names. Editors end a file with a newline that is not
/// part of it.
fn given(value: &str) -> Result<String, Failure> {
    let Some(path) = value.strip_prefix('@') else { return Ok(value.to_owned()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::failed("input", format!("cannot read {path}: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Shows or replaces how a source is asked.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (name, access) = (args.name.as_str(), args.flags.access()?);
    if access.is_empty() && !args.clear {
        return show(name, context).await;
    }
    check_access(&access)?;
    edit::check_proxy(&Guard::new(&context.load()?.config.fetch), &access)?;
    let source = context.store().await?.respecify(name, SourceChange::Access(access)).await?;
    context.out.done(&source, &sentence(&source))
}

async fn show(name: &str, context: &Context) -> Result<(), Failure> {
    let (source, _) = context.store().await?.source(name).await?;
    let value = json!({ "source": source.spec.name, "access": source.spec.access });
    context.out.emit(&value, |_| sentence(&source))
}

fn sentence(source: &Source) -> String {
    let how = told(&source.spec.access).unwrap_or_else(|| "like everybody".to_owned());
    text::one_line(&format!("{} is asked {how}", source.spec.name))
}

/// What is set, without secrets; `None` when it is everybody's way.
pub(super) fn told(access: &Access) -> Option<String> {
    let mut parts: Vec<String> =
        access.headers.keys().map(|name| format!("header {name}")).collect();
    parts.extend(access.user_agent.iter().map(|agent| format!("agent {agent}")));
    parts.extend(access.cookie.iter().map(|_| "a cookie".to_owned()));
    parts.extend(access.auth.iter().map(|auth| match auth {
        Auth::Basic { user, .. } => format!("the password of {user}"),
        Auth::Bearer(_) => "a token".to_owned(),
    }));
    parts.extend(access.proxy.iter().map(|proxy| format!("proxy {proxy}")));
    parts.extend(access.bind.iter().map(|ip| format!("from {ip}")));
    parts.extend(access.unconditional.then(|| "unconditional requests for pages".to_owned()));
    (!parts.is_empty()).then(|| format!("with {}", parts.join(", ")))
}
