//! `feedmill migrate`: the steps of the database's schema.

use clap::Subcommand;
use rusqlite::OpenFlags;
use serde_json::json;

use super::{Context, Failure, text};
use crate::app::{self, AppError, pg_limits};
use crate::config::Config;
use crate::db::{Connection, DbError, PgDb, backup, migrate, open_own, private};

/// Shows and takes the steps of the database's schema
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Takes every step that is missing; all other commands do so too
    Up,
    /// Takes steps back: what they hold is lost
    Down {
        /// How many
        #[arg(long, default_value_t = 1)]
        steps: usize,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Lists the steps and whether they were taken
    Status,
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    match command {
        Command::Up => told_up(&up(&config).await?, context),
        Command::Down { steps, yes } => down(&config, *steps, *yes, context).await,
        Command::Status => told_status(&status(&config).await?, context),
    }
}

async fn up(config: &Config) -> Result<Vec<&'static str>, Failure> {
    if let Some(url) = config.postgres_url() {
        let db = PgDb::connect_with(url, None, pg_limits(config)).await?;
        app::check_shared(config, &db).await?;
        return Ok(migrate::postgres::up(&mut db.maintenance().await?).await?);
    }
    app::check_file(config)?;
    let path = config.database_path();
    let dir = path.parent().unwrap_or(&config.data_dir);
    private::make_dir(dir).map_err(|error| {
        Failure::failed("data_dir", format!("cannot make {}: {error}", dir.display()))
    })?;
    backup::make(&path);
    let mut conn = open_own(&path, OpenFlags::SQLITE_OPEN_CREATE)?;
    conn.pragma_update(None, "journal_mode", "WAL").map_err(DbError::from)?;
    Ok(migrate::up(&mut conn)?)
}

fn told_up(taken: &[&str], context: &Context) -> Result<(), Failure> {
    let told = match taken {
        [] => "the schema is current".to_owned(),
        names => format!("took {}", names.join(", ")),
    };
    context.out.done(&json!({ "taken": taken }), &told)
}

async fn down(config: &Config, steps: usize, yes: bool, context: &Context) -> Result<(), Failure> {
    let what = format!("Take back {} and lose what they hold", text::count(steps as u64, "step"));
    // Held until the end: an engine that starts meanwhile is told to wait.
    let taken = match config.postgres_url() {
        Some(url) => {
            let db = PgDb::connect_with(url, None, pg_limits(config)).await?;
            let alone = db.alone().await?.map_err(|in_use| in_use_failure(&in_use))?;
            context.out.confirm(yes, &what)?;
            let taken = migrate::postgres::down(&mut db.maintenance().await?, steps).await;
            alone.release().await;
            taken?
        }
        None => {
            // What is not there is told before a lock is made beside it.
            let path = config.database_path();
            let mut conn = open_own(&path, OpenFlags::empty())?;
            let _alone = match app::lock_alone(&path) {
                Ok(alone) => alone,
                Err(app::AloneError::InUse(message)) => return Err(in_use_failure(&message)),
                Err(app::AloneError::Lock(error)) => return Err(AppError::from(error).into()),
            };
            context.out.confirm(yes, &what)?;
            migrate::down(&mut conn, steps)?
        }
    };
    let told = match taken.as_slice() {
        [] => "there is no step to take back".to_owned(),
        names => format!("took back {}", names.join(", ")),
    };
    context.out.done(&json!({ "taken_back": taken }), &told)
}

fn in_use_failure(message: &dyn std::fmt::Display) -> Failure {
    Failure::failed("engine_running", message.to_string())
}

pub(super) async fn status(config: &Config) -> Result<Vec<migrate::Step>, DbError> {
    if let Some(url) = config.postgres_url() {
        let db = PgDb::connect_with(url, None, pg_limits(config)).await?;
        return migrate::postgres::status(&db.client().await?).await;
    }
    let path = config.database_path();
    if path.exists() {
        migrate::status(&open_own(&path, OpenFlags::empty())?)
    } else {
        // Looking must not make the file.
        migrate::status(&Connection::open_in_memory()?)
    }
}

fn told_status(steps: &[migrate::Step], context: &Context) -> Result<(), Failure> {
    context.out.emit(&json!({ "steps": steps }), |out| {
        let state = |applied| if applied { "applied" } else { "missing" }.to_owned();
        let rows = steps.iter().map(|step| [step.name.to_owned(), state(step.applied)]);
        out.table(["step", "state"], rows.collect())
    })
}
