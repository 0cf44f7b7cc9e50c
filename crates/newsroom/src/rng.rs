//! Small deterministic random numbers (SplitMix64): every draw follows from a key, so any story
//! can be made again on its own. Never seeded from a clock or the system.

/// A stream of draws that is fixed by its key.
pub(crate) struct Rng(u64);

/// Streams that must not depend on each other start from different purposes.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Publisher = 1,
    Rhythm,
    Copy,
    Headline,
    Body,
    Page,
    Validator,
}

impl Rng {
    pub(crate) fn of(purpose: Purpose, parts: &[u64]) -> Self {
        let mut rng = Self(purpose as u64);
        for part in parts {
            rng.0 = rng.next() ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..limit`; 0 when there is nothing to choose from.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A number in `0.0..1.0`.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    pub(crate) fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        list.get(self.below(list.len())).copied().unwrap_or_default()
    }

    /// `count` members of the list, in random order, without repetition.
    pub(crate) fn some<T: Copy>(&mut self, list: &[T], count: usize) -> Vec<T> {
        let mut left = list.to_vec();
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count && !left.is_empty() {
            chosen.push(left.swap_remove(self.below(left.len())));
        }
        chosen
    }
}
