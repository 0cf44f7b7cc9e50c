//! Carries an installation from one store to another: nobody works on either meanwhile, everything
//! is compared, and the source stays as it is.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use super::{
    AloneError, AppError, FileLocks, lock_alone, pg_limits, rebuild, rules, shared_name, store_mark,
};
use crate::archive::ArchiveError;
use crate::clock::Clock;
use crate::config::{Config, SecretUrl};
use crate::db::backup::Unsound;
use crate::db::transfer::{self, Carried, PgSide, Plan, Progress, Side, SqliteSide, TransferError};
use crate::db::{Db, DbError, Hold, PgDb, private};
use crate::store::{PgStore, SqliteStore};

/// Hears how far it is.
pub type Watch = Box<dyn FnMut(&Progress) + Send>;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    Embedded(PathBuf),
    /// On a PostgreSQL server.
    Shared(SecretUrl),
}

impl Place {
    /// The one that the configuration names.
    #[must_use]
    pub fn configured(config: &Config) -> Self {
        match config.postgres_url() {
            Some(url) => Self::Shared(url.to_owned().into()),
            None => Self::Embedded(config.database_path()),
        }
    }

    /// What `database.url` has to be to work there; passwords are not told.
    #[must_use]
    pub fn setting(&self, config: &Config) -> String {
        match self {
            Self::Shared(url) => url.to_string(),
            Self::Embedded(path) if *path == config.data_dir.join("feedmill.db") => String::new(),
            Self::Embedded(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("file:{}", path.display())
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(path) => write!(f, "{}", path.display()),
            Self::Shared(url) => write!(f, "{url}"),
        }
    }
}

/// A path, `file:` or `sqlite:` with one, or the address of a PostgreSQL server.
impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let advice = "write postgres://user:password@host:5432/name or a path such as feedmill.db";
        let (scheme, rest) = match text.split_once(':') {
            // A path may hold a colon, and a scheme holds no slash.
            Some((scheme, rest)) if !scheme.contains(['/', '.']) => (scheme, rest),
            _ => ("file", text),
        };
        match scheme.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Ok(Self::Shared(text.to_owned().into())),
            "file" | "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
                path if path.trim_matches('/').is_empty() => {
                    Err(format!("names no file: {advice}"))
                }
                path if Path::new(path).is_dir() => {
                    Err(format!("is a directory: name the file in it, such as {path}/feedmill.db"))
                }
                path => Ok(Self::Embedded(path.into())),
            },
            _ => Err(format!("is no known database: {advice}")),
        }
    }
}

/// Why a store was not carried, backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// A database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// What the application says.
    #[error(transparent)]
    App(#[from] AppError),
    /// The rows did not get there.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A file is not what can be restored.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    /// Segments cannot be brought along.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Both names are of one database.
    #[error("source and target are the same database ({0}): name another target")]
    Same(String),
    /// There is nothing to carry.
    #[error("there is no database at {0}: name another with --from or --data-dir")]
    Absent(String),
    /// Somebody works there.
    #[error("{0}")]
    Running(String),
    /// The name is taken.
    #[error("{0} exists already: choose another name")]
    Exists(String),
    /// What is there would be lost.
    #[error("{0} holds data already: say --force to set it aside and restore all the same")]
    Occupied(String),
    /// The system said no.
    #[error("cannot write {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

impl CarryError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) => error.code(),
            Self::App(error) => error.code(),
            Self::Transfer(error) => error.code(),
            Self::Unsound(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::Same(_) => "same_database",
            Self::Absent(_) => "no_database",
            Self::Running(_) => "engine_running",
            Self::Exists(_) => "exists",
            Self::Occupied(_) => "target_not_empty",
            Self::Io { .. } => "unwritable",
        }
    }

    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }
}

/// A store that nobody else works on while this is kept.
pub(super) enum Alone {
    File { path: PathBuf, _locks: FileLocks },
    Server { db: PgDb, lock: Hold },
}

impl Alone {
    pub(super) async fn with(place: &Place, config: &Config) -> Result<Self, CarryError> {
        match place {
            Place::Embedded(path) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                if let Some(dir) = dir {
                    private::make_dir(dir).map_err(CarryError::io(dir))?;
                }
                match lock_alone(path) {
                    Ok(locks) => Ok(Self::File { path: path.clone(), _locks: locks }),
                    Err(AloneError::InUse(message)) => Err(CarryError::Running(message)),
                    Err(AloneError::Lock(error)) => Err(AppError::from(error).into()),
                }
            }
            Place::Shared(url) => {
                let db = PgDb::open_with(url.expose(), None, pg_limits(config)).await?;
                match db.alone().await? {
                    Ok(lock) => Ok(Self::Server { db, lock }),
                    Err(in_use) => Err(CarryError::Running(in_use.to_string())),
                }
            }
        }
    }

    /// By what it can be recognised.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::File { path, .. } => identity(path),
            Self::Server { db, .. } => db.place(),
        }
    }

    pub(super) async fn side(&self) -> Result<Box<dyn Side>, DbError> {
        Ok(match self {
            Self::File { path, .. } => {
                let path = path.clone();
                Box::new(blocking(move || SqliteSide::open(&path)).await?)
            }
            Self::Server { db, .. } => Box::new(PgSide::open(db).await?),
        })
    }

    /// Ends the leases that came along: nobody works on them any more.
    pub(super) async fn free_leases(&self, config: &Config, clock: &Clock) -> Result<u64, DbError> {
        let rules = rules(config, clock);
        match self {
            Self::File { path, .. } => {
                let path = path.clone();
                let db = blocking(move || Db::open(&path)).await?;
                let store = SqliteStore::new(db.clone(), clock.clone(), rules);
                let freed = store.frontier().free_leases().await;
                db.close().await;
                freed
            }
            Self::Server { db, .. } => {
                PgStore::new(db.clone(), rules).frontier().free_leases().await
            }
        }
    }

    pub(super) async fn close(self) {
        if let Self::Server { db, lock } = self {
            lock.release().await;
            db.close().await;
        }
    }
}

/// The path by which a file is known, however it was named.
pub(super) fn identity(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Runs what blocks on a thread of its own.
pub(super) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<DbError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(DbError::Engine(error.to_string()).into()),
    }
}

/// The names of sinks that change with the kind of store, here and there.
pub(super) fn renamed_sinks(config: &Config, to: &Place) -> Vec<(String, String)> {
    let names =
        config.sinks.keys().filter_map(|name| Some((name.clone(), shared_name(config, name)?)));
    match to {
        Place::Shared(_) => names.collect(),
        Place::Embedded(_) => names.map(|(plain, shared)| (shared, plain)).collect(),
    }
}

/// What to move.
#[derive(Clone, Debug)]
pub struct Move {
    /// From where.
    pub from: Place,
    /// To where.
    pub to: Place,
    /// Throw away what an unfinished move left in the target.
    pub restart: bool,
}

/// What was moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// The rows.
    #[serde(flatten)]
    pub carried: Carried,
    /// Leases that were ended in the target.
    pub freed: u64,
}

/// Refuses to read a database that is not there. Of the configured one it is known whether it was.
pub(super) fn check_present(config: &Config, path: &Path) -> Result<(), CarryError> {
    if path == config.database_path() {
        store_mark::check_file(config)?;
    }
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => Ok(()),
        _ => Err(CarryError::Absent(path.display().to_string())),
    }
}

/// Moves an installation.
pub async fn move_store(
    config: &Config,
    clock: &Clock,
    what: &Move,
    watch: Watch,
) -> Result<Moved, CarryError> {
    if what.from == Place::configured(config) {
        rebuild::check_finished(config)?;
    }
    if let Place::Embedded(path) = &what.from {
        check_present(config, path)?;
    }
    if let (Place::Embedded(from), Place::Embedded(to)) = (&what.from, &what.to)
        && identity(from) == identity(to)
    {
        return Err(CarryError::Same(identity(to)));
    }
    let source = Alone::with(&what.from, config).await?;
    if let (Alone::Server { db, .. }, Place::Shared(url)) = (&source, &what.to) {
        let other = PgDb::connect_with(url.expose(), None, pg_limits(config)).await?;
        let same = db.place() == other.place();
        other.close().await;
        if same {
            return Err(CarryError::Same(db.place()));
        }
    }
    let target = Alone::with(&what.to, config).await?;
    let plan = Plan {
        from: source.identity(),
        restart: what.restart,
        alone: true,
        sinks: renamed_sinks(config, &what.to),
    };
    let carried = transfer(source.side().await?, target.side().await?, plan, watch).await?;
    let freed = target.free_leases(config, clock).await?;
    source.close().await;
    target.close().await;
    Ok(Moved { carried, freed })
}

/// Carries the rows, on a thread of its own.
pub(super) async fn transfer(
    mut source: Box<dyn Side>,
    mut target: Box<dyn Side>,
    plan: Plan,
    mut watch: Watch,
) -> Result<Carried, CarryError> {
    blocking(move || Ok(transfer::carry(source.as_mut(), target.as_mut(), &plan, watch.as_mut())?))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_server() {
        let file = |path: &str| Ok(Place::Embedded(path.into()));
        for (text, expected) in [
            ("feeds.db", file("feeds.db")),
            ("./a:b.db", file("./a:b.db")),
            ("/var/feeds.db", file("/var/feeds.db")),
            ("file:/var/feeds.db", file("/var/feeds.db")),
            ("sqlite:///var/feeds.db", file("/var/feeds.db")),
            ("postgres://a:b@c/d", Ok(Place::Shared("postgres://a:b@c/d".to_owned().into()))),
        ] {
            assert_eq!(text.parse::<Place>(), expected, "{text}");
        }
        for (text, words) in [
            ("", "names no file"),
            ("sqlite://", "names no file"),
            ("mysql://a:secret@c/d", "is no known database"),
            ("/", "names no file"),
            (".", "is a directory"),
        ] {
            let told = text.parse::<Place>().unwrap_err();
            assert!(told.contains(words) && !told.contains("secret"), "{text}: {told}");
        }
    }

    #[test]
    fn what_to_configure_is_told_without_passwords() {
        let config = Config::default();
        let setting = |text: &str| text.parse::<Place>().unwrap().setting(&config);
        assert_eq!(setting("postgres://ann:secret@db/news"), "postgres://ann:***@db/news");
        assert_eq!(setting("/var/feeds.db"), "file:/var/feeds.db");
        let usual = config.data_dir.join("feedmill.db").display().to_string();
        assert_eq!(setting(&usual), "");
    }
}
