//! LASH on fabrics that need one layer and several.

use super::EngineCase;
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn lash_equals_opensm() {
    super::compare("lash", &Family::ALL, options, 80);
}

fn options(case: &mut EngineCase, random: &mut Random) {
    if random.percent(30) {
        case.set("qos", "TRUE");
    }
    if random.percent(20) {
        case.set("lash_start_vl", random.below(8));
    }
    if random.percent(20) {
        case.set("scatter_ports", random.below(1000));
    }
}
