//! DFSSSP, whose VLs are compared for each pair of LIDs.

use super::{EngineCase, daemons, sssp};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn dfsssp_equals_opensm() {
    super::compare("dfsssp", &Family::ALL, options, 20);
}

#[test]
fn dfsssp_runs_as_opensm() {
    daemons::compare("dfsssp", &Family::ALL, options, 6);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    sssp::options(case, random);
    if random.percent(50) {
        case.set("qos", "TRUE");
    }
}
