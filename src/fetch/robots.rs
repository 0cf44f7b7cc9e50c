//! Parsed robots.txt files, so that a busy origin's rules are read once and not per page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use feedmill_formats::robots::Robots;

use crate::db::DbError;
use crate::model::{RobotsRef, Verdict};
use crate::store::Store;

/// Copies kept at the most; when full, all are let go and read again as needed.
const MOST: usize = 1_000;

/// Rules by the copy that they come from; a newer copy is another key.
#[derive(Debug, Default)]
pub struct RobotsCache(Mutex<HashMap<RobotsRef, Arc<Robots>>>);

impl RobotsCache {
    /// The rules of that copy, or of a newer one.
    pub async fn rules(&self, store: &dyn Store, copy: &RobotsRef) -> Result<Arc<Robots>, DbError> {
        if let Some(rules) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(copy) {
            return Ok(Arc::clone(rules));
        }
        let text = match store.robots(&copy.origin).await?.map(|state| state.verdict) {
            Some(Verdict::Rules(text)) => text,
            Some(Verdict::AllowAll) | None => String::new(),
        };
        let rules = Arc::new(Robots::parse(text.as_bytes()));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(copy.clone(), Arc::clone(&rules));
        Ok(rules)
    }
}
