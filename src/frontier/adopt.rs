//! What of the configuration stands in the rows of hosts: their groups, and how many requests at a
//! time they get.
//!
//! An engine adopts it when it starts, and everybody else goes by what was adopted: a host that is in
//! two queues at once would be asked twice as often. Nothing here is done beside another engine.

use serde::{Deserialize, Serialize};

use super::{Rules, queue_key};
use crate::db::DbError;
use crate::model::Ts;

/// The row of `meta` that tells what was adopted.
pub(super) const NOTE: &str = "hosts";

/// What was adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    concurrency: u32,
    groups: Vec<(String, Vec<String>)>,
}

impl Adopted {
    /// What these rules ask for.
    #[must_use]
    pub fn of(rules: &Rules) -> Self {
        Self { concurrency: rules.concurrency, groups: rules.groups.clone() }
    }

    /// The rules with what was adopted in place of what they ask for.
    #[must_use]
    pub fn in_place_of(self, mut rules: Rules) -> Rules {
        (rules.concurrency, rules.groups) = (self.concurrency, self.groups);
        rules
    }

    /// What hosts had so far when it is not what they get from now on.
    pub(super) fn other_concurrency(&self, rules: &Rules) -> Option<u32> {
        (self.concurrency != rules.concurrency).then_some(self.concurrency)
    }

    pub(super) fn to_text(&self) -> Result<String, DbError> {
        serde_json::to_string(self).map_err(|error| DbError::Engine(error.to_string()))
    }

    pub(super) fn from_text(text: &str) -> Result<Self, DbError> {
        serde_json::from_str(text)
            .map_err(|_| DbError::Corrupt { what: "note of hosts", value: text.to_owned() })
    }
}

/// Whether all that a queue of this name holds belongs there, as far as one of its addresses tells.
pub(super) fn is_settled(name: &str, sample: Option<&str>, rules: &Rules) -> bool {
    let is_group = rules.groups.iter().any(|(group, _)| group == name);
    let own = sample.is_none_or(|url| host_of(url) == name);
    !is_group && own && queue_key(name, &rules.groups) == name
}

/// The queue that an address belongs to.
pub(super) fn queue_for(url: &str, rules: &Rules) -> String {
    queue_key(&host_of(url), &rules.groups).to_owned()
}

fn host_of(url: &str) -> String {
    feedmill_formats::url::parse(url)
        .map(|url| feedmill_formats::url::host(&url))
        .unwrap_or_default()
}

/// Takes the tasks in `moved(task_id, queue_id)` to their new queues, in both databases. One that is
/// known there already is the same address: the one that is there stays.
pub(super) fn take_along(now: Ts) -> String {
    let (moved, now) = ("(SELECT task_id FROM moved)", now.ms());
    format!(
        "DELETE FROM queue WHERE task_id IN {moved};
         DELETE FROM delayed WHERE task_id IN {moved};
         DELETE FROM task WHERE id IN (SELECT t.id FROM task t JOIN moved m ON m.task_id = t.id
           JOIN task o ON o.host_id = m.queue_id AND o.lane = t.lane AND o.hash = t.hash);
         UPDATE task SET host_id = (SELECT queue_id FROM moved WHERE task_id = task.id)
           WHERE id IN {moved};
         INSERT INTO queue(host_id, lane, nprio, due, task_id)
           SELECT host_id, lane, 10 - prio, due, id FROM task
           WHERE id IN {moved} AND status = 0 AND due <= {now};
         INSERT INTO delayed(due, task_id)
           SELECT due, id FROM task WHERE id IN {moved} AND status = 0 AND due > {now};"
    )
}

/// Lets a queue keep what another one that goes into it has learned.
pub(super) fn merge(from: i64, into: i64) -> String {
    let later = |column: &str| {
        format!(
            "UPDATE host SET {column} = (SELECT max(o.{column}) FROM host o WHERE o.queue_id = {from})
             WHERE queue_id = {into} AND coalesce({column}, -1) <
               coalesce((SELECT max(o.{column}) FROM host o WHERE o.queue_id = {from}), -1);"
        )
    };
    let columns =
        ["crawl_ms", "learned_ms", "slow_ms", "blocked_until", "next_at", "last_fetch_at"];
    // Who asked for the longer block comes with it, so this is before the block itself.
    let by = format!(
        "UPDATE host SET blocked_by = (SELECT o.blocked_by FROM host o WHERE o.id = {from})
         WHERE queue_id = {into} AND blocked_until <
           coalesce((SELECT o.blocked_until FROM host o WHERE o.id = {from}), 0);"
    );
    std::iter::once(by).chain(columns.into_iter().map(later)).collect()
}

/// Forgets a queue that is empty.
pub(super) fn forget(queue: i64) -> String {
    format!(
        "DELETE FROM host WHERE queue_id = {queue}
           AND NOT EXISTS (SELECT 1 FROM task WHERE host_id = {queue});"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_settled_when_its_name_is_its_hosts_own() {
        let rules = |groups: &[(&str, &[&str])]| Rules {
            key: feedmill_formats::url::KeyRules::default(),
            delay: std::time::Duration::from_secs(1).into(),
            lease: std::time::Duration::from_secs(60),
            robots_for_feeds: false,
            discover: true,
            ignore_pauses: false,
            concurrency: 1,
            groups: groups
                .iter()
                .map(|(name, hosts)| {
                    ((*name).to_owned(), hosts.iter().map(ToString::to_string).collect())
                })
                .collect(),
        };
        let (none, one) = (rules(&[]), rules(&[("platform", &["*.blog.example"])]));
        assert!(is_settled("a.example", Some("https://a.example/1"), &one));
        assert!(is_settled("a.example", None, &none));
        assert!(!is_settled("x.blog.example", None, &one), "it joins a group");
        assert!(!is_settled("platform", Some("https://x.blog.example/"), &none), "it is dissolved");
        assert!(
            !is_settled("platform", Some("https://x.blog.example/"), &one),
            "it may be smaller"
        );
        assert_eq!(queue_for("https://x.blog.example/1", &one), "platform");
        assert_eq!(queue_for("https://x.blog.example/1", &none), "x.blog.example");
    }
}
