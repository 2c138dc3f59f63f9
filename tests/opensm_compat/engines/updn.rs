//! UPDN with roots found or given, IDs, and the balancing options.

use super::minhop::balancing;
use super::{EngineCase, daemons};
use std::fmt::Write as _;
use testkit::fabrics::Family;
use testkit::torus::random::Random;

/// Fat trees twice, because the roots of other fabrics are given in a file only.
pub(super) const FAMILIES: [Family; 9] = [
    Family::FatTree2,
    Family::FatTree3,
    Family::Mesh,
    Family::FatTree2,
    Family::Torus,
    Family::Hypercube,
    Family::FatTree3,
    Family::Irregular,
    Family::Dragonfly,
];

#[test]
fn updn_equals_opensm() {
    super::compare("updn", &FAMILIES, options, 35);
}

#[test]
fn updn_runs_as_opensm() {
    daemons::compare("updn", &FAMILIES, options, 1);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    let is_tree = matches!(case.family, Family::FatTree2 | Family::FatTree3);
    if random.percent(if is_tree { 25 } else { 90 }) {
        let mut switches = case.switches();
        random.shuffle(&mut switches);
        let count = [1, 1, 1, 2, 3][random.below(5)];
        let roots = switches.iter().take(count);
        let text = roots.map(|(guid, _)| format!("{:#x}\n", guid.0)).collect();
        case.add_file("root_guid_file", text);
    }
    if random.percent(25) {
        case.set("connect_roots", "TRUE");
    }
    if random.percent(30) {
        let mut text = String::new();
        for (guid, _) in case.switches() {
            if random.percent(60) {
                let _ = writeln!(text, "{:#x} {}", guid.0, random.below(20));
            }
        }
        case.add_file("ids_guid_file", text);
    }
    if random.percent(40) {
        balancing(case, random);
    }
}
