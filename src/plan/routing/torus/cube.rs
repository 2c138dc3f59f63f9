//! Rules of the discovery: which switches can be searched for in a partly placed cube.
//!
//! Corner `n` of a cube has the offsets `x = n & 1`, `y = n >> 1 & 1`, `z = n >> 2 & 1` from the
//! base of the cube; in a mask, bit `n` stands for corner `n`. Each rule is written once for a
//! shape of the set of placed or missing corners, and holds for all rotations and reflections of
//! that shape. Only the order of the candidates is asymmetric: it follows the corner numbers, with
//! the exceptions listed as data below. This order is part of the result, because it decides the
//! order of placement, and with it the distribution of destinations over parallel cables.

/// A search for the switch at one corner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Candidate {
    /// Completes a face of which three corners are placed: searches for the switch cabled to both
    /// `from` and `to` that is not the one at `middle`.
    Face {
        /// The corner to place.
        target: u8,
        /// The placed neighbour of `target` whose cables are searched.
        from: u8,
        /// The placed corner opposite to `target`.
        middle: u8,
        /// The other placed neighbour of `target`.
        to: u8,
    },
    /// Searches for the neighbour of `base` along `axis`: its cable is perpendicular to the cables
    /// from `base` to all `arms`.
    Perpendicular {
        /// The corner to place.
        target: u8,
        /// The placed neighbour of `target`.
        base: u8,
        /// Dimension of the cable from `base` to `target`, 0 to 2.
        axis: u8,
        /// Mask of the placed neighbours of `base`.
        arms: u8,
    },
}

const X: u8 = 1;
const Y: u8 = 2;
const Z: u8 = 4;

/// Exceptions to the start of a face search, as (mask of missing corners, mask of targets). The
/// search for these targets starts at the higher-numbered of the two neighbours, all others at the
/// lower-numbered one. The start makes a difference only where miscabling leaves more than one
/// answer.
const FROM_HIGHER: [(u8, u8); 16] = [
    (0x01, 1 << 0),
    (0x08, 1 << 3),
    (0x17, 1 << 4),
    (0x71, 1 << 0 | 1 << 5 | 1 << 6),
    (0x80, 1 << 7),
    (0xA0, 1 << 5 | 1 << 7),
    (0xA2, 1 << 7),
    (0xA8, 1 << 5),
    (0xB0, 1 << 7),
    (0xB2, 1 << 4 | 1 << 7),
    (0xC0, 1 << 6 | 1 << 7),
    (0xC4, 1 << 7),
    (0xC8, 1 << 6),
    (0xD0, 1 << 7),
    (0xD4, 1 << 4 | 1 << 7),
    (0xE0, 1 << 5 | 1 << 6),
];

/// Candidates for each set of placed corners.
pub(super) struct CubeRules {
    /// Mask of the distinct corners: those with offset 0 in inactive dimensions.
    pub corners: u8,
    by_placed: Vec<Vec<Candidate>>,
}

impl CubeRules {
    /// Creates the rules for a lattice; `active` marks the dimensions with a radix above 1.
    pub(super) fn new(active: [bool; 3]) -> Self {
        let axes: Vec<u8> =
            [X, Y, Z].into_iter().zip(active).filter(|a| a.1).map(|a| a.0).collect();
        let span: u8 = axes.iter().sum();
        let corners: u8 =
            (0..8u8).filter(|corner| corner & !span == 0).map(|corner| 1 << corner).sum();
        Self {
            corners,
            by_placed: (0..=255)
                .map(|placed| match axes[..] {
                    _ if placed & !corners != 0 => Vec::new(),
                    [p, q] => in_plane(placed, corners, p, q),
                    [_, _, _] => in_space(placed),
                    _ => Vec::new(),
                })
                .collect(),
        }
    }

    /// The candidates to try, in order, if the corners in the mask `placed` are placed.
    pub(super) fn candidates(&self, placed: u8) -> &[Candidate] {
        &self.by_placed[usize::from(placed)]
    }
}

fn corners_of(mask: u8) -> Vec<u8> {
    (0..8).filter(|corner| mask >> corner & 1 == 1).collect()
}

fn axis_number(bit: u8) -> u8 {
    bit.trailing_zeros() as u8
}

/// A search that completes the face of `target` spanned by the dimensions `p` and `q`.
fn face(target: u8, p: u8, q: u8, start_higher: bool) -> Candidate {
    let lower = (target ^ p).min(target ^ q);
    let higher = (target ^ p).max(target ^ q);
    let (from, to) = if start_higher { (higher, lower) } else { (lower, higher) };
    Candidate::Face { target, from, middle: target ^ p ^ q, to }
}

/// A search for `base ^ axis`, perpendicular to the dimensions in `arms`.
fn perpendicular(base: u8, axis: u8, arms: &[u8]) -> Candidate {
    let arms = arms.iter().map(|arm| 1 << (base ^ arm)).sum();
    Candidate::Perpendicular { target: base ^ axis, base, axis: axis_number(axis), arms }
}

/// The candidates with two active dimensions, `p` and `q`.
fn in_plane(placed: u8, corners: u8, p: u8, q: u8) -> Vec<Candidate> {
    let missing = corners_of(corners & !placed);
    match corners_of(placed)[..] {
        [_, _, _] => vec![face(missing[0], p, q, false)],
        [a, b] if a ^ b == p || a ^ b == q => {
            let edge = a ^ b;
            let axis = p ^ q ^ edge;
            let mut found = [perpendicular(a, axis, &[edge]), perpendicular(b, axis, &[edge])];
            found.sort_by_key(target);
            found.into()
        }
        _ => Vec::new(),
    }
}

fn target(candidate: &Candidate) -> u8 {
    match *candidate {
        Candidate::Face { target, .. } | Candidate::Perpendicular { target, .. } => target,
    }
}

/// The candidates with three active dimensions.
fn in_space(placed: u8) -> Vec<Candidate> {
    let here = corners_of(placed);
    let missing = corners_of(!placed);
    match (&here[..], &missing[..]) {
        (_, &[corner]) => vec![complete(placed, corner, normal_for_last(corner))],
        (_, &[a, b]) if (a ^ b).is_power_of_two() => {
            vec![complete(placed, a, a ^ b), complete(placed, b, a ^ b)]
        }
        (_, [_, _, _]) => around_bend(placed, &missing),
        ([_, _, _, _], _) => match (hub(&here, 3), flat(&here)) {
            (Some(corner), _) => around_hub(placed, corner),
            (None, Some(normal)) => out_of_face(&here, normal),
            (None, None) => Vec::new(),
        },
        ([_, _, _], _) => hub(&here, 2).map_or_else(Vec::new, |middle| {
            let arms: Vec<u8> =
                here.iter().filter(|&&c| c != middle).map(|&c| c ^ middle).collect();
            vec![perpendicular(middle, !(arms[0] | arms[1]) & (X | Y | Z), &arms)]
        }),
        _ => Vec::new(),
    }
}

/// A search that completes the face of `target` with the normal `normal`.
fn complete(placed: u8, target: u8, normal: u8) -> Candidate {
    let (p, q) = match normal {
        X => (Y, Z),
        Y => (X, Z),
        _ => (X, Y),
    };
    let exception = FROM_HIGHER.iter().find(|(missing, _)| *missing == !placed);
    let start_higher = exception.is_some_and(|(_, targets)| targets >> target & 1 == 1);
    face(target, p, q, start_higher)
}

/// The normal of the face through which the last missing corner is searched for.
fn normal_for_last(corner: u8) -> u8 {
    match corner {
        0 | 3 | 7 => Z,
        1 | 4 | 5 => Y,
        _ => X,
    }
}

/// The corner with exactly `degree` neighbours among `corners`, if these are all other corners.
fn hub(corners: &[u8], degree: usize) -> Option<u8> {
    (corners.len() == degree + 1).then_some(())?;
    corners.iter().copied().find(|&corner| degree_of(corners, corner) == degree)
}

fn degree_of(corners: &[u8], a: u8) -> usize {
    corners.iter().filter(|&&b| is_neighbor(a, b)).count()
}

fn is_neighbor(a: u8, b: u8) -> bool {
    (a ^ b).is_power_of_two()
}

/// The normal of the face that the four corners form; `None` if they form no face.
fn flat(corners: &[u8]) -> Option<u8> {
    [X, Y, Z].into_iter().find(|axis| corners.iter().all(|c| (c ^ corners[0]) & axis == 0))
}

/// Candidates if three corners of one face are missing: each of the outer two has one face with
/// three placed corners, whose normal points to the middle one.
fn around_bend(placed: u8, missing: &[u8]) -> Vec<Candidate> {
    let Some(middle) = hub(missing, 2) else { return Vec::new() };
    let outer = missing.iter().copied().filter(|&corner| corner != middle);
    outer.map(|corner| complete(placed, corner, corner ^ middle)).collect()
}

/// Candidates if a corner and its three neighbours are placed: completes its three faces, first the
/// one with normal z, the others by ascending target, or by descending target around corner 2.
fn around_hub(placed: u8, corner: u8) -> Vec<Candidate> {
    let mut rest = [candidate_through(X, placed, corner), candidate_through(Y, placed, corner)];
    rest.sort_by_key(target);
    if corner == 2 {
        rest.reverse();
    }
    [candidate_through(Z, placed, corner), rest[0], rest[1]].into()
}

fn candidate_through(normal: u8, placed: u8, corner: u8) -> Candidate {
    complete(placed, corner ^ (X | Y | Z) ^ normal, normal)
}

/// Candidates if a full face is placed: perpendicular at each of its corners, by descending target.
fn out_of_face(corners: &[u8], normal: u8) -> Vec<Candidate> {
    let arms: Vec<u8> = [X, Y, Z].into_iter().filter(|&axis| axis != normal).collect();
    let mut found: Vec<_> = corners.iter().map(|&c| perpendicular(c, normal, &arms)).collect();
    found.sort_by_key(|candidate| std::cmp::Reverse(target(candidate)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(rules: &CubeRules, placed: u8) -> Vec<u8> {
        rules.candidates(placed).iter().map(target).collect()
    }

    #[test]
    fn there_are_106_situations() {
        let all = [[true; 3], [true, true, false], [true, false, true], [false, true, true]];
        let handled = all.map(|active| {
            let rules = CubeRules::new(active);
            (0..=255).filter(|&placed| !rules.candidates(placed).is_empty()).count()
        });
        assert_eq!(handled, [82, 8, 8, 8]);
        assert_eq!(handled.iter().sum::<usize>(), 106);
    }

    #[test]
    fn searches_stand_on_placed_corners() {
        for active in [[true; 3], [true, true, false], [true, false, true], [false, true, true]] {
            let rules = CubeRules::new(active);
            for placed in 0..=255u8 {
                for candidate in rules.candidates(placed) {
                    let needed = match *candidate {
                        Candidate::Face { from, middle, to, .. } => {
                            1 << from | 1 << middle | 1 << to
                        }
                        Candidate::Perpendicular { base, arms, .. } => 1 << base | arms,
                    };
                    assert_eq!(placed & needed, needed);
                    assert_eq!(placed >> target(candidate) & 1, 0);
                    assert_eq!(rules.corners >> target(candidate) & 1, 1);
                }
            }
        }
    }

    #[test]
    fn orders_and_exceptions() {
        let rules = CubeRules::new([true; 3]);
        assert_eq!(targets(&rules, !(1 << 6)), [6]);
        assert_eq!(targets(&rules, 0b0101_1111), [5, 7]);
        assert_eq!(targets(&rules, 0b0001_1111), [5, 6]);
        assert_eq!(targets(&rules, 0b0001_0111), [3, 5, 6], "hub 0");
        assert_eq!(targets(&rules, 0b0100_1101), [1, 7, 4], "hub 2");
        assert_eq!(targets(&rules, 0b0000_1111), [7, 6, 5, 4]);
        assert_eq!(targets(&rules, 0b0000_0111), [4]);
        assert!(targets(&rules, 0b0000_0011).is_empty());
        let flat = CubeRules::new([true, true, false]);
        assert_eq!(targets(&flat, 0b0011), [2, 3]);
        assert_eq!(targets(&flat, 0b1010), [0, 2]);
        assert!(targets(&flat, 0b1001).is_empty());
    }
}
