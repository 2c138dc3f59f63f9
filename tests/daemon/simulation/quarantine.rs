//! Links that flap or report errors.

use super::devices::start;
use super::links::count;
use std::sync::atomic::Ordering;
use std::time::Duration;
use testkit::tamper::begins_heavy_sweep;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use torus_sm::ids::PortNum;
use torus_sm::manage::action::{OperatorAction, RequestId};
use torus_sm::wire::attr::{AttrId, PhysState, PortState, TrapNumber};

const MS: Duration = Duration::from_millis(1);

fn quarantined(sm: &Sm) -> Vec<QuarantinedLink> {
    sm.subnet.borrow().as_ref().expect("up").devices.quarantined.clone()
}

#[tokio::test(start_paused = true)]
async fn a_flapping_link_is_quarantined_until_it_is_calm() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    let tables = cluster.tables();
    let switch = cluster.shape.switch_guid([1, 2, 0]);
    let sweeps = count(&tampering, begins_heavy_sweep);
    // Ends with the cable plugged in.
    assert!(cluster.fabric.flap(switch, PortNum(1), 300 * MS, 200));
    sleep(Duration::from_secs(10)).await;
    let links = quarantined(&sm);
    assert_eq!(links.len(), 1, "{links:?}");
    assert!(links[0].ends.contains(&(switch, PortNum(1))));
    assert_eq!(links[0].cause, QuarantineCause::Flaps);
    let report = torus_sm::publish::report::bring_up(&sm.subnet.borrow().clone().expect("up"));
    assert!(report.contains("flaps; it is treated as down"), "{report}");
    // The fabric is not routed again while the link goes on flapping.
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(40)).await;
    assert_eq!(cluster.fabric.requests(AttrId::LINEAR_FT), [0, 0]);
    assert_eq!(quarantined(&sm).len(), 1);
    // 60 s of flapping end, and 10 s of calm.
    sleep(Duration::from_secs(25)).await;
    assert_eq!(quarantined(&sm), []);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == tables, "the first tables are back");
    assert_eq!(sweeps.load(Ordering::Relaxed), 0, "heavy sweeps in 200 flaps");
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_operator_releases_a_quarantined_link() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let (sm, _) = start(&cluster, cluster.options()).await;
    let tables = cluster.tables();
    let switch = cluster.shape.switch_guid([1, 2, 0]);
    assert!(cluster.fabric.flap(switch, PortNum(1), 300 * MS, 20));
    // The link is up again and not calm yet.
    sleep(Duration::from_secs(7)).await;
    let links = quarantined(&sm);
    assert_eq!(links.len(), 1, "{links:?}");
    assert!(cluster.tables() != tables, "the link is not used");
    sm.tell(SmEvent::Operator(RequestId(1), OperatorAction::Release(switch, PortNum(2))));
    settle().await;
    assert_eq!(quarantined(&sm), links, "another port's link");
    let (guid, num) = links[0].ends[1];
    sm.tell(SmEvent::Operator(RequestId(2), OperatorAction::Release(guid, num)));
    settle().await;
    assert_eq!(quarantined(&sm), []);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == tables, "the first tables are back");
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_flapping_host_is_quarantined_until_it_is_calm() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, _) = start(&cluster, cluster.options()).await;
    let host = cluster.shape.host_guid([1, 2, 0], 0);
    assert!(cluster.fabric.flap(host, PortNum(1), 500 * MS, 40));
    sleep(Duration::from_secs(15)).await;
    let subnet = sm.subnet.borrow().clone().expect("up");
    assert_eq!(subnet.devices.quarantined.len(), 1);
    assert_eq!(subnet.fabric.node_by_guid(host), None);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(sm.subnet.borrow().as_ref().expect("up").devices.quarantined.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_only_link_of_a_switch_is_not_quarantined() {
    let cluster = SimCluster::healthy("4x1x1", 1);
    let minhop = Options { routing_engine: Some("minhop".into()), ..cluster.options() };
    let (sm, _) = start(&cluster, minhop).await;
    let switch = cluster.shape.switch_guid([2, 0, 0]);
    assert!(cluster.fabric.unlink(switch, PortNum(1)));
    settle().await;
    assert!(cluster.fabric.flap(switch, PortNum(2), 500 * MS, 40));
    sleep(Duration::from_secs(21)).await;
    let subnet = sm.subnet.borrow().clone().expect("up");
    assert!(subnet.devices.quarantined.is_empty(), "{:?}", subnet.devices);
    assert!(subnet.fabric.node_by_guid(switch).is_some());
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_link_of_an_unhealthy_port_is_not_used_for_a_minute() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let (sm, _) = start(&cluster, cluster.options()).await;
    let tables = cluster.tables();
    let switch = cluster.shape.switch_guid([1, 2, 0]);
    let end = (switch, PortNum(1));
    assert!(cluster.fabric.storm(end, TrapNumber::LINK_INTEGRITY, 20 * MS, 300));
    sleep(Duration::from_secs(8)).await;
    let links = quarantined(&sm);
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].cause, QuarantineCause::Errors(end));
    assert!(cluster.tables() != tables);
    let state = |num| cluster.fabric.port_info(switch, num).expect("a port").phys_state();
    assert_eq!(state(end.1), PhysState::LinkUp, "the port is not disabled");
    sleep(Duration::from_secs(70)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == tables, "the first tables are back");
}

#[tokio::test(start_paused = true)]
async fn a_babbling_port_is_disabled_by_policy() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let options = Options { babbling_port_policy: true, ..cluster.options() };
    let (sm, _) = start(&cluster, options).await;
    let host = cluster.shape.host_guid([1, 2, 0], 0);
    assert!(cluster.fabric.storm((host, PortNum(1)), TrapNumber::BUFFER_OVERRUN, 20 * MS, 250));
    sleep(Duration::from_secs(8)).await;
    assert_eq!(cluster.faults(&sm), [""; 0], "250 traps are tolerated");
    assert_eq!(quarantined(&sm), [], "the host would be cut off");
    assert!(cluster.fabric.storm((host, PortNum(1)), TrapNumber::BUFFER_OVERRUN, 20 * MS, 1));
    sleep(Duration::from_secs(8)).await;
    let subnet = sm.subnet.borrow().clone().expect("up");
    assert_eq!(subnet.fabric.node_by_guid(host), None);
    // The switch is nearer to the SM than its host.
    let switch = cluster.shape.switch_guid([1, 2, 0]);
    let port = PortNum(7);
    let info = cluster.fabric.port_info(switch, port).expect("a port");
    assert_eq!((info.phys_state(), info.port_state()), (PhysState::Disabled, PortState::Down));
}

#[tokio::test(start_paused = true)]
async fn ports_that_are_needed_are_not_disabled() {
    let cluster = SimCluster::healthy("4x1x1", 1);
    let options = Options {
        babbling_port_policy: true,
        routing_engine: Some("minhop".into()),
        ..cluster.options()
    };
    let (sm, _) = start(&cluster, options).await;
    let switch = cluster.shape.switch_guid([2, 0, 0]);
    assert!(cluster.fabric.unlink(switch, PortNum(1)));
    settle().await;
    // The only link of a part of the fabric, and both ends of the daemon's own link.
    let own = [
        (cluster.shape.host_guid([0; 3], 0), PortNum(1)),
        (cluster.shape.switch_guid([0; 3]), PortNum(7)),
    ];
    for end in own.into_iter().chain([(switch, PortNum(2))]) {
        assert!(cluster.fabric.storm(end, TrapNumber::FLOW_CONTROL, 20 * MS, 300));
    }
    sleep(Duration::from_secs(10)).await;
    for (guid, num) in own.into_iter().chain([(switch, PortNum(2))]) {
        let info = cluster.fabric.port_info(guid, num).expect("a port");
        assert_eq!(info.port_state(), PortState::Active, "{guid}[{num}]");
    }
    assert_eq!(quarantined(&sm), []);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}
