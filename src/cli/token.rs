//! `feedmill token`: who may use the HTTP server, and what was done with it.

use clap::Subcommand;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;

use super::{Context, Failure, text};
use crate::store::gate::{self, AuditRow, Scope, TokenRow};

/// The longest name of a token.
const LONGEST: usize = 100;

/// Makes and revokes tokens for the HTTP server
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Makes a token and shows it, this once
    Create {
        /// What to call it, for those who look later
        name: String,
        /// What it may be used for: read, write (change what is followed) or admin (change settings)
        #[arg(long)]
        scope: Scope,
    },
    /// Lists all tokens, without the tokens themselves
    List,
    /// Revokes a token, at once
    Revoke {
        /// Its name
        name: String,
    },
    /// Lists what was changed through the HTTP server, and by whom, and refused logins, newest first
    Audit {
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Goes on before this one
        #[arg(long, value_name = "ID")]
        before: Option<i64>,
    },
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Create { name, scope } => create(name, *scope, context).await,
        Command::List => list(context).await,
        Command::Revoke { name } => revoke(name, context).await,
        Command::Audit { limit, before } => audit(*limit, *before, context).await,
    }
}

async fn create(name: &str, scope: Scope, context: &Context) -> Result<(), Failure> {
    let printable = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if !printable || name.chars().count() > LONGEST {
        let message = format!("choose a name of 1 to {LONGEST} printable characters");
        return Err(Failure::usage("bad_name", message));
    }
    let mut secret = [0; 32];
    getrandom(&mut secret, GetRandomFlags::empty())
        .map_err(|error| Failure::failed("random", error.to_string()))?;
    let store = context.store_or_new().await?;
    let made = gate::create(&*store, name, scope, secret, context.clock.now()).await?;
    let Some(token) = made else {
        let message = format!(
            "there is a token named `{}` already: revoke it first, or choose another name",
            text::one_line(name)
        );
        return Err(Failure::failed("name_taken", message));
    };
    let value = json!({ "name": name, "scope": scope, "token": token });
    context.out.note("this is the only time that it is shown");
    context.out.emit(&value, |_| token.clone())
}

fn told(token: &TokenRow) -> serde_json::Value {
    json!({
        "name": token.name, "scope": token.scope, "created_at": token.created_at,
        "last_used_at": token.used_at,
    })
}

async fn list(context: &Context) -> Result<(), Failure> {
    let tokens = gate::tokens(&*context.store().await?).await?;
    let value: Vec<_> = tokens.iter().map(told).collect();
    let now = context.clock.now();
    context.out.emit(&json!({ "tokens": value }), |out| {
        if tokens.is_empty() {
            return "no tokens: `feedmill token create NAME --scope read` makes one".to_owned();
        }
        let rows = tokens.iter().map(|token| {
            [
                text::one_line(&token.name),
                token.scope.to_string(),
                text::when(token.created_at, now),
                text::ever(token.used_at, now),
            ]
        });
        out.table(["name", "scope", "made", "last used"], rows.collect())
    })
}

async fn revoke(name: &str, context: &Context) -> Result<(), Failure> {
    if !gate::revoke(&*context.store().await?, name).await? {
        let name = text::one_line(name);
        let message = format!("no token is called `{name}`: `feedmill token list` shows them");
        return Err(Failure::failed("unknown_token", message));
    }
    let told = format!("{} is revoked", text::one_line(name));
    context.out.done(&json!({ "revoked": name }), &told)
}

async fn audit(limit: u32, before: Option<i64>, context: &Context) -> Result<(), Failure> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let rows = gate::audit(&*context.store().await?, before, limit).await?;
    let told = |row: &AuditRow| {
        json!({
            "id": row.id, "at": row.at, "who": row.who, "method": row.method, "path": row.path,
            "status": row.status,
        })
    };
    let value: Vec<_> = rows.iter().map(told).collect();
    context.out.emit(&json!({ "audit": value }), |out| {
        if rows.is_empty() {
            return "nothing was changed".to_owned();
        }
        let rows = rows.iter().map(|row| {
            [
                row.id.to_string(),
                row.at.to_string(),
                text::one_line(&row.who),
                row.method.clone(),
                text::one_line(&row.path),
                row.status.to_string(),
            ]
        });
        out.table(["id", "at", "who", "method", "path", "status"], rows.collect())
    })
}
