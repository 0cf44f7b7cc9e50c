//! Handing addresses to the queue on someone's request. What the guard refuses as it is written can never
//! be fetched, and gets no task.

use crate::db::DbError;
use crate::fetch::Guard;
use crate::frontier::{Rejected, SubmitReport};
use crate::model::{Code, NewTask};
use crate::store::Store;
use feedmill_formats::url;

/// Why the guard refuses an address as it is written. What is no address is left to the queue, and where
/// a name leads is known only when it is fetched.
#[must_use]
pub fn refusal(guard: &Guard, task: &NewTask) -> Option<Rejected> {
    let url = url::parse(&task.url).ok()?;
    let refused = guard.check_url(&url).err()?;
    let code = Code::Guarded.as_str();
    Some(Rejected { at: 0, url: task.url.clone(), code, reason: refused.to_string() })
}

/// Takes addresses in that may be fetched; the report says of the others why not.
pub async fn submit(
    store: &dyn Store,
    guard: &Guard,
    tasks: Vec<NewTask>,
) -> Result<SubmitReport, DbError> {
    let (mut taken, mut places, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (at, task) in tasks.into_iter().enumerate() {
        match refusal(guard, &task) {
            Some(rejected) => refused.push(Rejected { at, ..rejected }),
            None => {
                places.push(at);
                taken.push(task);
            }
        }
    }
    let mut report = match taken.is_empty() {
        true => SubmitReport::default(),
        false => store.submit(taken).await?,
    };
    for rejected in &mut report.rejected {
        rejected.at = places.get(rejected.at).copied().unwrap_or(rejected.at);
    }
    report.rejected.extend(refused);
    report.rejected.sort_by_key(|rejected| rejected.at);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fetch;
    use crate::model::{Kind, Source};

    #[test]
    fn what_can_never_be_fetched_is_refused_as_it_is_written() {
        let fetch = Fetch {
            resolve: vec!["*.test=127.0.0.1:80".parse().unwrap()],
            allow_networks: vec!["10.0.0.0/8".parse().unwrap()],
            ..Fetch::default()
        };
        let guard = Guard::new(&fetch);
        let told = |url: &str| {
            let task =
                NewTask::manual(url.to_owned(), Kind::Article, None, Source::DEFAULT_PRIORITY);
            refusal(&guard, &task).map(|rejected| (rejected.code, rejected.url, rejected.reason))
        };
        for url in [
            "http://127.0.0.1/a",
            "http://2130706433/a",
            "http://[::1]/a",
            "http://localhost/a",
            "http://169.254.169.254/latest/meta-data/",
            "https://a.example:22/a",
        ] {
            let (code, about, reason) = told(url).unwrap();
            assert_eq!((code, &*about), ("refused_address", url));
            assert!(reason.starts_with("refused: "), "{reason}");
        }
        for url in ["http://a.test/a", "http://10.1.2.3/a", "https://a.example/a", "nope"] {
            assert_eq!(told(url), None, "{url}");
        }
    }
}
