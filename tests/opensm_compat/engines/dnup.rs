//! DNUP with and without connect_roots, and the balancing options.

use super::minhop::balancing;
use super::{EngineCase, daemons};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn dnup_equals_opensm() {
    super::compare("dnup", &Family::ALL, options, 35);
}

#[test]
fn dnup_runs_as_opensm() {
    daemons::compare("dnup", &Family::ALL, options, 1);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    if random.percent(25) {
        case.set("connect_roots", "TRUE");
    }
    if random.percent(40) {
        balancing(case, random);
    }
}
