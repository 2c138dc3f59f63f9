//! DFSSSP, whose VLs are compared for each pair of LIDs.

use super::{EngineCase, sssp};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn dfsssp_equals_opensm() {
    super::compare("dfsssp", &Family::ALL, options, 20);
}

fn options(case: &mut EngineCase, random: &mut Random) {
    sssp::options(case, random);
    if random.percent(50) {
        case.set("qos", "TRUE");
    }
}
