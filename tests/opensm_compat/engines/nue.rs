//! Nue with one layer and several, with switches included or not.

use super::{EngineCase, daemons};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn nue_equals_opensm() {
    super::compare("nue", &Family::ALL, options, 50);
}

#[test]
fn nue_runs_as_opensm() {
    daemons::compare("nue", &Family::ALL, options, 4);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    if random.percent(60) {
        case.set("qos", "TRUE");
        case.set("nue_max_num_vls", random.below(10));
    }
    if random.percent(30) {
        case.set("nue_include_switches", "TRUE");
    }
}
