//! Comparison of a derived torus with the true one.
//!
//! Each reading of a fabric as a torus assumes faults: missing switches and links, and stray ones.
//! A fabric is provably ambiguous if another reading assumes no more faults than the true one.
//! This module counts the faults from coordinates and links alone, independently of the program.

use super::fixtures::Case;
use std::cmp::Ordering;
use std::fmt;
use torus_sm::config::torus::TorusSize;
use torus_sm::notes::Severity;
use torus_sm::plan::routing::RoutingError;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::torus_config::{DerivedTorus, derive, shape};

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The same up to names of axes, reflection and rotation.
    Right,
    /// Another reading that assumes as few faults as possible, and reports the true shape as well.
    Ambiguous(String),
    /// Another reading that assumes fewer faults than the true one, and reports that there are
    /// others.
    Misled(String),
    /// None of these.
    Wrong(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Ambiguous(why) => write!(f, "ambiguous: {why}"),
            Self::Misled(why) => write!(f, "misled: {why}"),
            Self::Wrong(why) => write!(f, "wrong: {why}"),
        }
    }
}

/// Number of missing and stray switches and links that coordinates by switch assume.
pub(crate) fn faults(case: &Case, size: TorusSize, at: &[Option<[u32; 3]>]) -> usize {
    let pairs = case.pairs();
    let placed = at.iter().flatten().count();
    let outside = at.len() - placed;
    let positions: u32 = size.radix.iter().product();
    let missing = positions as usize - placed;
    let above = |from: [u32; 3], axis: usize| {
        let radix = size.radix[axis];
        let closes = size.looped[axis] && radix > 2;
        let mut to = from;
        to[axis] = (to[axis] + 1) % radix;
        (radix > 1 && (closes || to[axis] > 0)).then_some(to)
    };
    let number = |at: [u32; 3]| ((at[0] * size.radix[1] + at[1]) * size.radix[2] + at[2]) as usize;
    let mut switch = vec![None; positions as usize];
    for (id, at) in at.iter().enumerate() {
        if let Some(at) = at {
            assert!(switch[number(*at)].replace(id).is_none(), "two switches at {at:?}");
        }
    }
    let mut absent = 0;
    let mut explained = 0;
    for from in at.iter().flatten() {
        for to in (0..3).filter_map(|axis| above(*from, axis)) {
            if let (Some(a), Some(b)) = (switch[number(*from)], switch[number(to)]) {
                let is_there = pairs.contains(&(a.min(b), a.max(b)));
                explained += usize::from(is_there);
                absent += usize::from(!is_there);
            }
        }
    }
    missing + outside + absent + pairs.len() - explained
}

/// Derives a case and compares the result, which must be routable wherever the truth is.
pub(crate) fn compare(case: &Case) -> Verdict {
    let derived = match derive(&case.fabric) {
        Ok(derived) => derived,
        Err(error) => return Verdict::Wrong(format!("nothing derived: {error}")),
    };
    if let Err(why) = routes_as_well(case, &derived) {
        return Verdict::Wrong(why);
    }
    let size = derived.config.size.unwrap();
    let here: Vec<_> = derived.coordinates.iter().map(|at| at.map(|at| at.0)).collect();
    let both = case.at.iter().zip(&here);
    let pairs: Vec<_> = both.clone().filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    let is_whole = both.clone().all(|(a, b)| a.is_some() == b.is_some());
    if is_whole && is_same_map((case.size(), size), &pairs) {
        return Verdict::Right;
    }
    let ours = faults(case, size, &here);
    let theirs = faults(case, case.size(), &case.at);
    let is_told = derived.alternatives.iter().any(|&size| sorted(size) == sorted(case.size()));
    let text = || {
        format!(
            "{ours} faults in {} (or {:?}), {theirs} in the truth {}",
            shape(&size),
            derived.alternatives.iter().map(shape).collect::<Vec<_>>(),
            shape(&case.size())
        )
    };
    match ours.cmp(&theirs) {
        Ordering::Greater => Verdict::Wrong(text()),
        Ordering::Less if derived.is_ambiguous() => Verdict::Misled(text()),
        Ordering::Equal if is_told => Verdict::Ambiguous(text()),
        _ => Verdict::Wrong(format!("ambiguity not reported: {}", text())),
    }
}

/// True if the engine accepts the derived configuration and places as many switches of the torus as
/// with the true one, provided that it accepts that.
fn routes_as_well(case: &Case, derived: &DerivedTorus) -> Result<(), String> {
    let Ok(theirs) = case.route(case.truth.clone()) else { return Ok(()) };
    let ours = case.route(derived.config.clone());
    let ours = ours.map_err(|no| format!("refused {:?}: {}", derived.config, reasons(&no)))?;
    let count = |routing| Torus::of(routing).unwrap().switches().count();
    let ours = count(&ours);
    let theirs = count(&theirs);
    if ours >= theirs { Ok(()) } else { Err(format!("{ours} switches placed, not {theirs}")) }
}

/// Axes, radices and openness in an order that does not depend on names.
pub(crate) fn sorted(size: TorusSize) -> Vec<(u32, bool)> {
    let mut axes: Vec<(u32, bool)> = size
        .radix
        .into_iter()
        .zip(size.looped)
        .filter(|axis| axis.0 > 1)
        .map(|(radix, looped)| (radix, looped && radix > 2))
        .collect();
    axes.sort_unstable();
    axes
}

fn reasons(refusal: &RoutingError) -> String {
    let errors = refusal.notes.iter().filter(|note| note.severity == Severity::Error);
    errors.map(|note| note.text.clone()).collect::<Vec<_>>().join("; ")
}

/// True if one axis is another after reflection and rotation (reflection alone if open).
pub(crate) fn is_same_axis(pairs: &[(u32, u32)], radix: u32, looped: bool) -> bool {
    let shifts = if looped { 0..radix } else { 0..1 };
    shifts.into_iter().any(|shift| {
        pairs.iter().all(|&(a, b)| (a + shift) % radix == b)
            || pairs.iter().all(|&(a, b)| (2 * radix - 1 - a + shift) % radix == b)
    })
}

/// True if two placements are the same up to names of axes, reflection and rotation.
pub(crate) fn is_same_map((a, b): (TorusSize, TorusSize), pairs: &[([u32; 3], [u32; 3])]) -> bool {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    ORDERS.iter().any(|order| {
        (0..3).all(|axis| {
            let other = order[axis];
            let radix = a.radix[axis];
            let looped = a.looped[axis] && radix > 2;
            if radix != b.radix[other] || (radix > 2 && a.looped[axis] != b.looped[other]) {
                return false;
            }
            let along: Vec<_> = pairs.iter().map(|(a, b)| (a[axis], b[other])).collect();
            is_same_axis(&along, radix, looped)
        })
    })
}
