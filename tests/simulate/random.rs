//! Randomness that a seed decides entirely: the same seed is the same world on every machine.

/// SplitMix64: small, fast, and good enough to pick faults with.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    /// A stream of its own for one purpose, so that a fault more or less does not change everything else.
    pub fn stream(seed: u64, purpose: &str, number: u64) -> Self {
        let hash = crc32fast::hash(purpose.as_bytes());
        let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ (u64::from(hash) << 17));
        random.0 = random.0.wrapping_add(number.wrapping_mul(0xD134_2543_DE82_EF95));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to `end`, without `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Whether something happens that happens `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
