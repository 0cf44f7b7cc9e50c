//! Several deliveries at a time without mixing up what is about the same thing. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Item;

/// Parts of a batch that can be delivered beside each other: each keeps the order of the log, and
/// everything about the same thing is in one of them.
#[must_use]
pub fn lanes(batch: &[Item], most: usize) -> Vec<Vec<&Item>> {
    let count = most.clamp(1, batch.len().max(1));
    let mut lanes = vec![Vec::new(); count];
    for item in batch {
        let mut hash = DefaultHasher::new();
        item.key().hash(&mut hash);
        let place = usize::try_from(hash.finish() % count as u64).unwrap_or_default();
        if let Some(lane) = lanes.get_mut(place) {
            lane.push(item);
        }
    }
    lanes.retain(|lane| !lane.is_empty());
    lanes
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::About;
    use super::*;
    use crate::model::{Event, EventKind, Ts};

    proptest! {
        #[test]
        fn nothing_is_lost_and_order_holds_for_each_thing(keys in prop::collection::vec(0u8..20, 0..60), most in 0usize..9) {
            let batch: Vec<Item> = (0i64..).zip(&keys).map(|(seq, key)| {
                let event = Event { seq, at: Ts::default(), kind: EventKind::FeedGone, subject: key.to_string(), source: None, payload: Value::Null };
                Item { event, about: About::Event, source: None, trail: Default::default() }
            }).collect();
            let lanes = lanes(&batch, most);
            prop_assert!(lanes.len() <= most.max(1));
            prop_assert_eq!(lanes.iter().map(Vec::len).sum::<usize>(), batch.len());
            let mut homes = HashMap::new();
            for (number, lane) in lanes.iter().enumerate() {
                prop_assert!(lane.is_sorted_by_key(|item| item.event.seq));
                for item in lane {
                    prop_assert_eq!(*homes.entry(item.key()).or_insert(number), number);
                }
            }
        }
    }
}
