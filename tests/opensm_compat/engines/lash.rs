//! LASH on fabrics that need one layer and several, with and without the analysis of meshes.

use super::minhop::switch_ports;
use super::{EngineCase, daemons};
use testkit::fabrics::Family;
use testkit::torus::random::Random;

/// Lattices more often, because the analysis finds a mesh in them.
const MESHES: [Family; 7] = [
    Family::Lattice,
    Family::Mesh,
    Family::Lattice,
    Family::Torus,
    Family::Hypercube,
    Family::Lattice,
    Family::Irregular,
];

#[test]
fn lash_equals_opensm() {
    super::compare("lash", &Family::ALL, options, 80);
}

#[test]
fn lash_runs_as_opensm() {
    daemons::compare("lash", &Family::ALL, options, 7);
}

#[test]
fn lash_with_mesh_analysis_equals_opensm() {
    super::compare("lash", &MESHES, mesh_options, 80);
}

fn mesh_options(case: &mut EngineCase, random: &mut Random) {
    case.set("do_mesh_analysis", "TRUE");
    options(case, random);
}

pub(super) fn options(case: &mut EngineCase, random: &mut Random) {
    if random.percent(30) {
        case.set("qos", "TRUE");
    }
    if random.percent(20) {
        case.set("lash_start_vl", random.below(8));
    }
    if random.percent(20) {
        case.set("scatter_ports", random.below(1000));
    }
    if random.percent(25) {
        // They concern multicast trees only.
        let text = switch_ports(case, random, |random| format!(" {}", 1 + random.below(4)));
        case.add_file("hop_weights_file", text);
    }
}
