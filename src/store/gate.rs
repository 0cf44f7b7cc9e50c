//! Who may use the HTTP server, and what was done with it.
//!
//! A token is shown once, when it is made. What is kept is its hash, which is compared in constant time.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Store;
use crate::db::DbError;
use crate::db::statement::{Cells, Terms};
use crate::model::{Ts, named};

named! {
    /// What a token may be used for; each includes those before it.
    pub enum Scope {
        /// To look.
        Read = 0 "read",
        /// And to change what is followed, asked for and handed on.
        Write = 1 "write",
        /// And to change settings, and to see who did what.
        Admin = 2 "admin",
    }
}

/// What a token begins with.
const SIGN: &str = "fm_";
/// Characters of its part that is no secret.
const ID: usize = 12;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// The part of it that is no secret.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it may be used for.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Ts,
    /// When it was last used, within a minute.
    pub used_at: Option<Ts>,
}

/// Something that was changed through the HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place in the book.
    pub id: i64,
    /// When.
    pub at: Ts,
    /// By whom: the name of a token.
    pub who: String,
    /// How.
    pub method: String,
    /// Where.
    pub path: String,
    /// What came of it.
    pub status: u16,
}

/// Rows of the audit log that are kept; older ones are removed as new ones come.
const MAX_AUDIT_ROWS: i64 = 200_000;
/// Characters of a path that the audit log keeps.
const MAX_AUDIT_PATH: usize = 500;

impl AuditRow {
    /// A row about a request that ended just now. Long paths are cut.
    #[must_use]
    pub fn new(at: Ts, who: String, method: &impl ToString, path: &str, status: u16) -> Self {
        let path = path.chars().filter(|char| *char != '\0').take(MAX_AUDIT_PATH).collect();
        Self { id: 0, at, who, method: method.to_string(), path, status }
    }
}

/// Makes a token and keeps its hash; `None` when the name is taken. Only now it can be read.
pub async fn create(
    store: &dyn Store,
    name: &str,
    scope: Scope,
    secret: [u8; 32],
    now: Ts,
) -> Result<Option<String>, DbError> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("{SIGN}{hex}");
    let id: String = hex.chars().take(ID).collect();
    let mut terms = Terms::new(store.dialect());
    let (id, label) = (terms.text(&id), terms.text(name));
    let hash = terms.bytes(&Sha256::digest(&token));
    let (scope, at) = (terms.int(scope.number()), terms.int(now.ms()));
    let sql = format!(
        "INSERT INTO token(id, name, scope, hash, created_at)
         VALUES({id}, {label}, {scope}, {hash}, {at}) ON CONFLICT DO NOTHING"
    );
    let made = store.change(vec![terms.statement(sql)]).await?;
    Ok((made > 0).then_some(token))
}

/// All tokens, by name.
pub async fn tokens(store: &dyn Store) -> Result<Vec<TokenRow>, DbError> {
    let sql = "SELECT id, name, scope, created_at, used_at FROM token ORDER BY name".to_owned();
    let rows = store.select(Terms::new(store.dialect()).statement(sql)).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Cells) -> Result<TokenRow, DbError> {
    let scope = row.int(2)?;
    let unknown = || DbError::Corrupt { what: "scope", value: scope.to_string() };
    Ok(TokenRow {
        id: row.text(0)?.to_owned(),
        name: row.text(1)?.to_owned(),
        scope: Scope::from_number(scope).ok_or_else(unknown)?,
        created_at: Ts::from_ms(row.int(3)?),
        used_at: row.maybe_int(4)?.map(Ts::from_ms),
    })
}

/// Revokes a token by its name; whether there was one.
pub async fn revoke(store: &dyn Store, name: &str) -> Result<bool, DbError> {
    let mut terms = Terms::new(store.dialect());
    let name = terms.text(name);
    let statement = terms.statement(format!("DELETE FROM token WHERE name = {name}"));
    Ok(store.change(vec![statement]).await? > 0)
}

/// The part of a token that is no secret.
#[must_use]
pub fn id_of(token: &str) -> Option<String> {
    token.strip_prefix(SIGN).map(|secret| secret.chars().take(ID).collect())
}

/// Whose token it is; nothing when it is nobody's.
pub async fn whose(store: &dyn Store, token: &str) -> Result<Option<TokenRow>, DbError> {
    let Some(secret) = token.strip_prefix(SIGN) else { return Ok(None) };
    let id: String = secret.chars().take(ID).collect();
    let mut terms = Terms::new(store.dialect());
    let id = terms.text(&id);
    let sql =
        format!("SELECT id, name, scope, created_at, used_at, hash FROM token WHERE id = {id}");
    let rows = store.select(terms.statement(sql)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let kept: [u8; 32] = row.bytes(5)?;
    let given: [u8; 32] = Sha256::digest(token).into();
    if bool::from(kept.ct_eq(&given)) { read(row).map(Some) } else { Ok(None) }
}

/// Notes that a token was used.
pub async fn used(store: &dyn Store, id: &str, now: Ts) -> Result<(), DbError> {
    let mut terms = Terms::new(store.dialect());
    let (at, id) = (terms.int(now.ms()), terms.text(id));
    let statement = terms.statement(format!("UPDATE token SET used_at = {at} WHERE id = {id}"));
    store.change(vec![statement]).await.map(drop)
}

/// Writes something down that was changed, and removes what is too old.
pub async fn note(store: &dyn Store, done: &AuditRow) -> Result<(), DbError> {
    let mut terms = Terms::new(store.dialect());
    let (at, who) = (terms.int(done.at.ms()), terms.text(&done.who));
    let (method, path) = (terms.text(&done.method), terms.text(&done.path));
    let status = terms.int(done.status.into());
    let sql = format!(
        "INSERT INTO audit(at, who, method, path, status)
         VALUES({at}, {who}, {method}, {path}, {status})"
    );
    let old =
        format!("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - {MAX_AUDIT_ROWS}");
    let removal = Terms::new(store.dialect()).statement(old);
    store.change(vec![terms.statement(sql), removal]).await.map(drop)
}

/// What was changed, newest first, before a place in the book.
pub async fn audit(
    store: &dyn Store,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<AuditRow>, DbError> {
    let mut terms = Terms::new(store.dialect());
    if let Some(before) = before {
        let before = terms.int(before);
        terms.add(format!("id < {before}"));
    }
    let sql = format!(
        "SELECT id, at, who, method, path, status FROM audit WHERE {} ORDER BY id DESC LIMIT {}",
        terms.sql(),
        i64::try_from(limit).unwrap_or(i64::MAX)
    );
    let rows = store.select(terms.statement(sql)).await?;
    let read = |row: &Cells| {
        Ok(AuditRow {
            id: row.int(0)?,
            at: Ts::from_ms(row.int(1)?),
            who: row.text(2)?.to_owned(),
            method: row.text(3)?.to_owned(),
            path: row.text(4)?.to_owned(),
            status: row.narrow(5)?,
        })
    };
    rows.iter().map(read).collect()
}
