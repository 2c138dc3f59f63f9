//! torus-2QoS on random tori with lost switches and links. `torus_random` compares its plans.

use super::{EngineCase, daemons};
use testkit::fabrics::{self, Family};
use testkit::torus::random::{self, Random};

#[test]
fn torus_2qos_runs_as_opensm() {
    daemons::run("torus-2QoS", 8, |seed| {
        let mut random = Random::new(seed);
        let torus = random::case(1 + seed);
        let mut case = EngineCase {
            seed,
            family: Family::Torus,
            engine: "torus-2QoS",
            topology: torus.topology,
            local: torus.local,
            conf: format!(
                "qos TRUE\ntorus_repair FALSE\nmax_op_vls {}\nlmc {}\n",
                torus.max_op_vls, torus.lmc
            ),
            files: vec![("torus_config", torus.config)],
            groups: Vec::new(),
        };
        let share = [0, 50, 100][random.below(3)];
        fabrics::attach_aggregation_nodes(&mut case.topology, &mut random, share);
        case.add_groups(&mut random);
        case
    });
}
