//! FDR10 of Mellanox devices (`fdr10`).

use super::ORIGIN;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::{DeviceModel, Topology};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{AttrId, NodeKind};

/// Device IDs of SwitchX and ConnectX-3.
const SWITCH_X: u16 = 0xc738;
const CONNECT_X3: u16 = 0x1003;
/// A device without ExtendedPortInfo.
const INFINISCALE: u16 = 0xb924;

/// A 3x3 torus of Mellanox devices, except for one switch.
fn cluster() -> (SimCluster, Guid) {
    let shape: Shape = "3x3x1".parse().expect("a shape");
    let mut topology = shape.build().expect("a shape that can be built");
    let other = shape.switch_guid([2, 2, 0]);
    for node in &mut topology.nodes {
        let device_id = match node.kind {
            NodeKind::Switch if node.guid == other => INFINISCALE,
            NodeKind::Switch => SWITCH_X,
            _ => CONNECT_X3,
        };
        node.model = DeviceModel { vendor_id: 0x2c9, device_id, ..Default::default() };
    }
    (SimCluster::wired(shape, topology, Hardware::default(), 1), other)
}

/// A daemon whose options can be replaced before a reload.
fn start(cluster: &SimCluster, fdr10: u8) -> (Sm, Arc<Mutex<Options>>) {
    let options = Options { fdr10, ..cluster.options() };
    let shared = Arc::new(Mutex::new(options.clone()));
    let source = shared.clone();
    let reload = Box::new(move || Ok(source.lock().expect("no panic").clone().into()));
    (cluster.start_with(ORIGIN, options, reload), shared)
}

/// The linked ports with FDR10 enabled, without those of `other`.
fn enabled(cluster: &SimCluster, other: Guid) -> usize {
    let links = cluster.fabric.links();
    let ends = links.iter().flatten().filter(|(guid, _)| *guid != other);
    ends.filter(|&&(guid, num)| cluster.fabric.has_fdr10_enabled(guid, num) == Some(true)).count()
}

fn linked_ports(topology: &Topology, without: Guid) -> usize {
    let ends = topology.cables.iter().flatten();
    ends.filter(|&&(node, _)| topology.nodes[node].guid != without).count()
}

#[tokio::test(start_paused = true)]
async fn fdr10_is_enabled_and_disabled_by_differences() {
    let (cluster, other) = cluster();
    let ports = linked_ports(&cluster.topology, other);
    let (sm, options) = start(&cluster, 1);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(enabled(&cluster, other), ports);
    assert_eq!(cluster.fabric.requests(AttrId::MLNX_EXT_PORT_INFO), [ports as u64; 2]);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    assert_eq!(cluster.fabric.requests(AttrId::MLNX_EXT_PORT_INFO), [ports as u64, 0]);

    // A focused sweep asks only the ports whose link came back.
    let cable = (cluster.shape.switch_guid([1, 1, 0]), PortNum(1));
    assert!(cluster.fabric.unlink(cable.0, cable.1));
    sleep(Duration::from_secs(1)).await;
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.relink(cable.0, cable.1));
    settle().await;
    let [gets, sets] = cluster.fabric.requests(AttrId::MLNX_EXT_PORT_INFO);
    assert!((1..=4).contains(&gets) && sets == 0, "{gets} Gets, {sets} Sets");

    options.lock().expect("no panic").fdr10 = 2;
    sm.tell(SmEvent::Reload);
    settle().await;
    assert_eq!(enabled(&cluster, other), 0);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn fdr10_0_asks_no_device() {
    let (cluster, other) = cluster();
    let (sm, _) = start(&cluster, 0);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(enabled(&cluster, other), 0);
    assert_eq!(cluster.fabric.requests(AttrId::MLNX_EXT_PORT_INFO), [0, 0]);
}
