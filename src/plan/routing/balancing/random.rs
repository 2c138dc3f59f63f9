//! The random numbers of `scatter_ports`.

/// Terms of the state: the longer lag of the recurrence.
const LONG_LAG: usize = 31;
/// The shorter lag of the recurrence.
const SHORT_LAG: usize = 3;
/// Numbers discarded after seeding, as in glibc's `srandom_r`.
const DISCARDED_DRAWS: usize = 10 * LONG_LAG;

/// The additive feedback generator of glibc's random(3): x(i) = x(i-3) + x(i-31) modulo 2^32, of
/// which the upper 31 bits are returned. A seed therefore scatters the same ports as in OpenSM on
/// Linux.
pub(in crate::plan::routing) struct Random {
    terms: [u32; LONG_LAG],
    /// Index of the oldest term, which the next one replaces.
    oldest: usize,
}

impl Random {
    /// Seeds the generator as srandom(3) does; 0 counts as 1.
    pub(in crate::plan::routing) fn new(seed: u32) -> Self {
        let mut terms = [seed.max(1); LONG_LAG];
        let mut term = seed.max(1) as i32;
        for slot in &mut terms[1..] {
            // Lehmer's generator. A 32-bit seed may be negative.
            let next = 16807 * i64::from(term) % 0x7FFF_FFFF;
            term = if next < 0 { next + 0x7FFF_FFFF } else { next } as i32;
            *slot = term as u32;
        }
        // glibc starts three terms into the state.
        let mut random = Self { terms, oldest: SHORT_LAG };
        for _ in 0..DISCARDED_DRAWS {
            random.draw();
        }
        random
    }

    /// The next 31-bit number.
    pub(in crate::plan::routing) fn draw(&mut self) -> u32 {
        let near = (self.oldest + LONG_LAG - SHORT_LAG) % LONG_LAG;
        let next = self.terms[self.oldest].wrapping_add(self.terms[near]);
        self.terms[self.oldest] = next;
        self.oldest = (self.oldest + 1) % LONG_LAG;
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
