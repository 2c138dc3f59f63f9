//! The engine `file` with the tables and min hop tables that minhop dumped, whose LIDs are others
//! than OpenSM's.

use super::{EngineCase, daemons};
use testkit::fabrics::Family;
use testkit::planning::{PlanSetup, options as plan_options};
use testkit::torus::random::Random;
use torus_sm::publish::dump_file::StopWriting;
use torus_sm::publish::dumps;

#[test]
fn file_equals_opensm() {
    super::compare("file", &Family::ALL, options, 80);
}

#[test]
fn file_runs_as_opensm() {
    daemons::compare("file", &Family::ALL, options, 3);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    let mut options = plan_options("minhop", false);
    options.port_shifting = random.percent(50);
    options.scatter_ports = if random.percent(50) { 1 + random.below(1000) as u32 } else { 0 };
    // The LIDs of the dump belong to an LMC of 0.
    case.set("lmc", 0);
    if random.percent(15) {
        return; // without a file, the engine balances shortest paths
    }
    let setup = PlanSetup::new(&case.topology, case.local, options, String::new());
    let plan = setup.plan(&[]).expect("minhop routes every fabric");
    let folder = tempfile::tempdir().expect("a folder");
    dumps::write_routing(folder.path(), &setup.fabric, &plan, &StopWriting::default())
        .expect("dumps");
    let dump = std::fs::read_to_string(folder.path().join("opensm-lfts.dump")).expect("a dump");
    case.add_file("lfts_file", dump);
}
