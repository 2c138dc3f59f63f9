//! The sequence that `scatter_ports` draws from.

/// Terms that the recurrence remembers.
const TERMS: usize = 31;
/// Distance of the nearer of the two terms that are added.
const NEAR: usize = 3;
/// Draws thrown away after seeding.
const WARM_UP: usize = 10 * TERMS;

/// The additive feedback generator of the GNU C library's random(3), so that the same seed
/// scatters the same ports as it does in OpenSM on Linux:
/// x(i) = x(i-3) + x(i-31) modulo 2^32, of which the upper 31 bits are drawn.
pub(super) struct Random {
    terms: [u32; TERMS],
    /// Place of the oldest term, which the next one replaces.
    oldest: usize,
}

impl Random {
    /// The sequence that srandom(`seed`) starts; 0 counts as 1.
    pub(super) fn new(seed: u32) -> Self {
        let mut terms = [seed.max(1); TERMS];
        let mut term = seed.max(1) as i32;
        for slot in &mut terms[1..] {
            // Lehmer's generator, with the sign that a 32-bit seed may carry.
            let next = 16807 * i64::from(term) % 0x7FFF_FFFF;
            term = if next < 0 { next + 0x7FFF_FFFF } else { next } as i32;
            *slot = term as u32;
        }
        // The C library replaces the nearer term first, as if three terms had passed.
        let mut random = Self { terms, oldest: NEAR };
        for _ in 0..WARM_UP {
            random.draw();
        }
        random
    }

    /// The next number, 31 bits.
    pub(super) fn draw(&mut self) -> u32 {
        let near = (self.oldest + TERMS - NEAR) % TERMS;
        let next = self.terms[self.oldest].wrapping_add(self.terms[near]);
        self.terms[self.oldest] = next;
        self.oldest = (self.oldest + 1) % TERMS;
        next >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By seed: the first four numbers and the thousandth, as the C library draws them.
    const DRAWN: [(u32, [u32; 4], u32); 6] = [
        (0x1, [1804289383, 846930886, 1681692777, 1714636915], 1143565421),
        (0x2, [1505335290, 1738766719, 190686788, 260874575], 2057566690),
        (0x7, [1045618677, 1863967299, 1272579899, 461085871], 1850767143),
        (0x1092, [475847265, 515213143, 1724485243, 1865465291], 1696841731),
        (0x80000001, [1081815585, 5219348, 1080917272, 1083470877], 448876553),
        (0xffffffff, [254925627, 1205188300, 366127624, 1401405153], 1892540048),
    ];

    #[test]
    fn numbers_are_those_of_the_c_library() {
        for (seed, first, thousandth) in DRAWN {
            let mut random = Random::new(seed);
            assert_eq!([(); 4].map(|()| random.draw()), first, "seed {seed}");
            assert_eq!((4..1000).map(|_| random.draw()).last(), Some(thousandth), "seed {seed}");
        }
    }
}
