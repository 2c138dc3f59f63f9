//! SL to VL mappings that switches hold while QoS is off: engines that keep paths apart by SLs are
//! verified with them.

use testkit::{Observer, SimCluster, settle};
use torus_sm::config::options::Options;
use torus_sm::ids::Guid;
use torus_sm::notes::Severity;
use torus_sm::publish::Subnet;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::AttrId;

const A: [u16; 3] = [0, 0, 0];
/// The observer, which writes mappings.
const EYE: [u16; 3] = [3, 0, 0];

/// A ring of six switches, which lash and dfsssp route with two SLs.
fn ring() -> SimCluster {
    SimCluster::healthy("6x1x1", 1)
}

fn options(cluster: &SimCluster, engine: &str) -> Options {
    Options {
        qos: false,
        routing_engine: Some(format!("{engine},no_fallback")),
        ..cluster.options()
    }
}

/// The warnings of a subnet that are about SL to VL mappings.
fn warnings(subnet: &Subnet) -> Vec<&str> {
    let warnings = subnet.summary.notes.iter().filter(|note| note.severity == Severity::Warning);
    warnings.map(|note| note.text.as_str()).filter(|text| text.contains("SL to VL")).collect()
}

/// Maps all SLs to VL 0 on all pairs of ports of a switch.
async fn map_all_to_vl_0(cluster: &SimCluster, eye: &Observer, switch: Guid) {
    let node = cluster.topology.nodes.iter().find(|node| node.guid == switch).expect("a switch");
    for pair in (0..=node.num_ports)
        .flat_map(|input| (0..=node.num_ports).map(move |output| (input, output)))
    {
        let modifier = u32::from(pair.0) << 8 | u32::from(pair.1);
        let route = eye.route_to(cluster, switch);
        let request = SmpRequest::set(route, AttrId::SL_TO_VL, modifier, [0; 64]);
        eye.call(&request).await.expect("the switch answers");
    }
}

/// Switches whose mappings keep the SLs apart are no reason for a warning; those whose mappings are
/// all VL 0 are, as soon as one ring of them is.
#[tokio::test(start_paused = true)]
async fn the_proof_uses_the_mappings_that_switches_hold() {
    for engine in ["lash", "dfsssp"] {
        let cluster = ring();
        let sm = cluster.start(A, options(&cluster, engine));
        settle().await;
        let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
        assert_eq!(subnet.plan.routing.engine, engine);
        assert_eq!(warnings(&subnet), [""; 0], "{engine}: each SL has its own VL in new switches");
        assert!(!subnet.summary.assumes_mappings, "{engine}: the mappings were read");
        assert_eq!(cluster.fabric.requests(AttrId::SL_TO_VL)[1], 0, "none is written");
        sm.stop().await;

        let eye = Observer::at(&cluster, EYE);
        for x in 0..6 {
            map_all_to_vl_0(&cluster, &eye, cluster.shape.switch_guid([x, 0, 0])).await;
        }
        let sm = cluster.start(A, options(&cluster, engine));
        settle().await;
        let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
        let [warning] = warnings(&subnet)[..] else {
            panic!("{engine}: {:?}", subnet.summary.notes)
        };
        assert!(
            warning.contains("that the switches hold put these SLs on the same VL"),
            "{warning}"
        );
        assert!(warning.contains("VL 0 ->") && warning.ends_with("set qos TRUE (-Q)"), "{warning}");
        assert!(subnet.summary.cycle.is_some());
        assert_eq!(subnet.failed_sets, 0);
        sm.stop().await;
    }
}

/// With QoS, and with engines of one SL, nothing is read.
#[tokio::test(start_paused = true)]
async fn mappings_are_read_only_where_they_decide() {
    let cluster = ring();
    for (engine, qos) in [("lash", true), ("minhop", false)] {
        let gets = cluster.fabric.requests(AttrId::SL_TO_VL)[0];
        let sm = cluster.start(A, Options { qos, ..options(&cluster, engine) });
        settle().await;
        assert_eq!(sm.engine(), engine);
        let read = cluster.fabric.requests(AttrId::SL_TO_VL)[0] - gets;
        assert_eq!(read, 0, "{engine}, qos {qos}");
        sm.stop().await;
    }
}
