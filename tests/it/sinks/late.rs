//! A sink that is added afterwards gets everything from the beginning, while more arrives.

use std::collections::BTreeSet;
use std::fs;

use super::faults::{all_arrived, events, publish, seed, wanted};
use super::{lines, places};
use crate::kill::{start, terminate};

#[tokio::test(flavor = "multi_thread")]
async fn a_late_sink_misses_nothing_at_the_seam() {
    let world = seed().await;
    let (database, now) = (world.config.database_path(), world.clock.now().ms());
    // As many articles as there are to be events, for this is about articles.
    let count = wanted();
    publish(&database, 1, count + 1, now);
    let limit = std::time::Duration::from_secs(60 + count / 20);
    let dir = world.dir().to_owned();
    let sink = |name: &str| {
        format!("[sinks.{name}]\nkind = \"ndjson\"\ndir = \"{}/{name}\"\n", dir.display())
    };
    let file = dir.join("feedmill.toml");
    fs::write(&file, sink("first")).unwrap();
    let mut child = start(&world, &world.config.data_dir, None, &[]);
    all_arrived(&world, &["first"], limit).await;
    assert!(terminate(&mut child));

    fs::write(&file, sink("first") + &sink("late")).unwrap();
    let mut child = start(&world, &world.config.data_dir, None, &[]);
    // One small part after the other, until the late one has caught up with what there was.
    let (mut next, mut caught_up) = (count + 1, false);
    while !caught_up || next < count + 200 {
        publish(&database, next, next + 5, now);
        next += 5;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let sinks = world.store.sinks().await.unwrap();
        let place = |name: &str| sinks.iter().find(|it| it.name == name).map(|it| it.cursor.seq);
        caught_up = place("late").is_some_and(|late| late >= i64::try_from(count * 4).unwrap());
        assert!(next < count + 1_000_000, "it never catches up");
    }
    all_arrived(&world, &["first", "late"], limit).await;
    assert!(terminate(&mut child));
    let all: BTreeSet<i64> = events(&world).await.iter().map(|event| event.seq).collect();
    assert!(all.len() as u64 > count * 4 + 200);
    for name in ["first", "late"] {
        let mut there = BTreeSet::new();
        for folder in ["entries", "articles", "events"] {
            there.extend(places(&lines(&dir.join(name), folder)));
        }
        assert_eq!(there, all, "{name}");
    }
}
