//! Which host somebody means.

pub use super::explain::find_host as find;
use super::explain::host_in;
use crate::db::DbError;
use crate::frontier::queue_key;
use crate::store::Store;

/// What an operator names to give orders about: a host that is known, or one that is yet to come.
pub async fn name_of(given: &str, store: &dyn Store) -> Result<Option<String>, DbError> {
    if let Some(known) = find(given, store).await? {
        return Ok(Some(known.name));
    }
    let host = host_in(given).filter(|host| host.contains(['.', ':']));
    Ok(host.map(|host| queue_key(&host, &store.rules().groups).to_owned()))
}
