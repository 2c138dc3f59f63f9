//! SSSP with compute and I/O nodes given or not.

use super::{EngineCase, daemons};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn sssp_equals_opensm() {
    super::compare("sssp", &Family::ALL, options, 90);
}

#[test]
fn sssp_runs_as_opensm() {
    daemons::compare("sssp", &Family::ALL, options, 5);
}

/// Random lists of compute and I/O nodes.
pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    for key in ["cn_guid_file", "io_guid_file"] {
        if random.percent(30) {
            let mut hosts = case.host_ports();
            random.shuffle(&mut hosts);
            hosts.truncate(1 + random.below(hosts.len()));
            let lines = hosts.iter().map(|guid| format!("{:#x}\n", guid.0)).collect();
            case.add_file(key, lines);
        }
    }
}
