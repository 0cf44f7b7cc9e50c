//! Numbers that look random and follow from a seed.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// Stirs a number (the finaliser of `SplitMix64`).
pub(crate) const fn stir(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in 0..1 from any number.
pub(crate) const fn unit(x: u64) -> f64 {
    (stir(x) >> 11) as f64 / (1u64 << 53) as f64
}

impl Dice {
    pub(crate) const fn new(seed: u64, stream: u64) -> Self {
        Self(stir(seed ^ stir(stream.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// In 0..1.
    pub(crate) const fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        unit(self.0)
    }

    /// In 0..limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.unit() * limit as f64) as usize
    }

    pub(crate) fn between(&mut self, from: u32, until: u32) -> u32 {
        from + (self.unit() * f64::from(until - from)) as u32
    }

    /// Even on a scale of logarithms.
    pub(crate) fn log_uniform(&mut self, from: f64, until: f64) -> f64 {
        from * (until / from).powf(self.unit())
    }

    /// The time to the next event of a kind that comes once in `mean` on average.
    pub(crate) fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    pub(crate) fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len());
        from.get(at).copied().unwrap_or_default()
    }
}
