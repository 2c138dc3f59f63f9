//! Virtual ports on simulated adapters: discovery, P_Keys, ACTIVE; faults, traps and migration.

mod aliases;
mod early;
mod faults;
mod own_lids;
mod rates;
mod sa;

use crate::smp_trace::trace;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{ActivitySubjects, Options, VendorAttributes};
use torus_sm::daemon::activity::FILE_NAME as ACTIVITY_FILE;
use torus_sm::ids::{Guid, MKey, PortNum};
use torus_sm::sim::{SimVport, VportSpec};
use torus_sm::vendor::virtual_ports::VirtualStatus;
use torus_sm::wire::attr::tables::PkeyBlock;
use torus_sm::wire::attr::{AttrId, PortState, SmState};
use torus_sm::wire::mad::Mad;

const ORIGIN: [u16; 3] = [0, 0, 0];
const PORT: PortNum = PortNum(1);
/// Longer than discovery, planning and activation.
const QUIET: Duration = Duration::from_secs(5);
/// Longer than `sweep_interval`.
const POLLED: Duration = Duration::from_secs(15);
/// All attributes of vports.
const ATTRIBUTES: [u16; 6] = [
    AttrId::VIRTUALIZATION_INFO,
    AttrId::VPORT_STATE,
    AttrId::VPORT_INFO,
    AttrId::VNODE_INFO,
    AttrId::VNODE_DESCRIPTION,
    AttrId::VPORT_PKEY_TABLE,
];

/// The GUID of the vport with an index of a host.
fn vport_guid(host: Guid, index: u16) -> Guid {
    match index {
        0 => Guid(host.0 + 1),
        index => Guid(0xFF00_0000_0000_0000 | host.0 << 8 | u64::from(index)),
    }
}

/// `count` vports of a host, the first of which is the port itself.
fn vports(host: Guid, count: u16) -> Vec<VportSpec> {
    let vport = |index| VportSpec {
        guid: vport_guid(host, index),
        vnode: Guid(vport_guid(host, index).0 | 0xF0_0000),
        description: format!("vf{index}").into(),
        lid_required: false,
        lid_by_vport_index: 0,
        is_up: true,
    };
    (0..count).map(vport).collect()
}

fn cluster_with_vports(count: u16) -> SimCluster {
    let cluster = SimCluster::healthy("3x3x1", 1);
    for host in cluster.hosts() {
        assert!(cluster.fabric.set_virtual_ports(host, PORT, vports(host, count)));
    }
    cluster
}

fn enabled(cluster: &SimCluster) -> Options {
    Options { virt_enabled: 2, ..cluster.options() }
}

fn held(cluster: &SimCluster, host: Guid, index: u16) -> (SimVport, PortState) {
    cluster.fabric.virtual_port(host, PORT, index).expect("a vport")
}

fn state(cluster: &SimCluster, host: Guid, index: u16) -> PortState {
    held(cluster, host, index).1
}

/// The P_Keys that a vport holds.
fn keys(cluster: &SimCluster, host: Guid, index: u16) -> Vec<u16> {
    let table = held(cluster, host, index).0.pkeys;
    table.iter().filter(|key| key.0 != 0).map(|key| key.0).collect()
}

fn status(sm: &Sm) -> Arc<VirtualStatus> {
    sm.management.as_ref().expect("the sources").live.virtual_ports.load_full()
}

/// Requests for attributes of vports.
fn requests(cluster: &SimCluster) -> u64 {
    ATTRIBUTES.iter().flat_map(|&id| cluster.fabric.requests(id)).sum()
}

#[tokio::test(start_paused = true)]
async fn vports_become_active_with_their_p_keys() {
    let cluster = cluster_with_vports(3);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    settle().await;
    sleep(QUIET).await;
    assert_eq!(sm.state(), SmState::Master);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    for host in cluster.hosts() {
        for index in 0..3 {
            let (vport, state) = held(&cluster, host, index);
            assert_eq!((state, vport.reregistrations), (PortState::Active, 1), "{host} {index}");
            assert_eq!(keys(&cluster, host, index), [0xFFFF]);
        }
    }
    let seen = status(&sm);
    assert!(seen.is_enabled);
    assert_eq!((seen.ports.len(), seen.activations), (9, 27));
    // Nothing more than a poll of each port follows.
    let before = requests(&cluster);
    sleep(Duration::from_secs(12)).await;
    let polls = requests(&cluster) - before;
    assert!((9..=18).contains(&polls), "{polls} requests");
}

#[tokio::test(start_paused = true)]
async fn without_the_capability_or_the_option_all_smps_are_the_same() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let without = trace(cluster, SimCluster::healthy("3x3x1", 1).options()).await;
    let cluster = SimCluster::healthy("3x3x1", 1);
    let incapable = Options { virt_enabled: 2, ..cluster.options() };
    let with = trace(cluster, incapable).await;
    assert!(with.len() > 500 && with == without, "{} and {}", with.len(), without.len());
    let cluster = cluster_with_vports(2);
    let off = Options { vendor_attributes: VendorAttributes::Off, ..cluster.options() };
    let off = trace(cluster, Options { virt_enabled: 2, ..off }).await;
    let cluster = cluster_with_vports(2);
    let vendor_attributes = VendorAttributes::Off;
    let options = Options { vendor_attributes, ..cluster.options() };
    let disabled = trace(cluster, options).await;
    let is_of_vports = |mad: &Mad| ATTRIBUTES.contains(&mad.header().attr_id());
    assert!(off == disabled && !off.iter().any(is_of_vports));
}

#[tokio::test(start_paused = true)]
async fn by_default_no_vport_is_touched() {
    let cluster = cluster_with_vports(2);
    let sm = cluster.start(ORIGIN, cluster.options());
    sleep(POLLED).await;
    assert_eq!((requests(&cluster), status(&sm).is_enabled), (0, false));
    assert_eq!(state(&cluster, cluster.shape.host_guid([1, 1, 0], 0), 1), PortState::Down);
}

#[tokio::test(start_paused = true)]
async fn virtualization_is_disabled_on_request() {
    let cluster = cluster_with_vports(2);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let sm = ReloadableSm::start(&cluster, ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
    sm.reload(|options| options.virt_enabled = 1);
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 1), PortState::Down);
    sm.reload(|options| options.virt_enabled = 2);
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
}

#[tokio::test(start_paused = true)]
async fn a_trap_brings_up_a_vport_with_few_requests() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let change = |with_trap, up| {
        let set = move |spec: &mut VportSpec| spec.is_up = up;
        assert!(cluster.fabric.change_virtual_port(host, PORT, 2, with_trap, set));
    };
    change(false, false);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 2), PortState::Down);
    assert_eq!(status(&sm).ports[&Guid(host.0 + 1)].vports.len(), 2);
    let before = requests(&cluster);
    change(true, true);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&cluster, host, 2), PortState::Active);
    let sent = requests(&cluster) - before;
    assert!(sent <= 10, "{sent} requests");
    // It goes, and returns without a trap: the next poll finds it.
    change(true, false);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&sm).ports[&Guid(host.0 + 1)].vports.len(), 2);
    change(false, true);
    sleep(POLLED).await;
    assert_eq!(state(&cluster, host, 2), PortState::Active);
    // Its clients register again after each restart.
    assert_eq!(held(&cluster, host, 2).0.reregistrations, 1);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_restarts_or_returns_gets_its_vports_again() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert!(cluster.fabric.reboot(host));
    assert_eq!(state(&cluster, host, 1), PortState::Down);
    sleep(POLLED).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
    assert!(cluster.fabric.unlink(host, PORT));
    sleep(QUIET).await;
    assert_eq!(status(&sm).ports.len(), 8, "its vports are gone with it");
    assert!(cluster.fabric.relink(host, PORT));
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 2), PortState::Active);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// P_Keys that the physical port holds for its vports stay while a new master does not know these yet.
#[tokio::test(start_paused = true)]
async fn a_new_master_takes_over_without_disturbing_vports() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let text =
        format!("Default=0x7fff, ipoib: ALL=full;\nred=0x10: {:#x}=full;\n", vport_guid(host, 2).0);
    let options = with_partitions(&cluster, &text);
    let first = cluster.start(ORIGIN, Options { sm_priority: 9, ..options.clone() });
    settle().await;
    let second = cluster.start([2, 2, 0], options);
    sleep(QUIET).await;
    assert_eq!((first.state(), second.state()), (SmState::Master, SmState::Standby));
    assert!(!status(&second).is_enabled);
    let key_sets = |cluster: &SimCluster| {
        [AttrId::VPORT_PKEY_TABLE, AttrId::PKEY_TABLE].map(|id| cluster.fabric.requests(id)[1])
    };
    let before = key_sets(&cluster);
    first.kill().await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(second.state(), SmState::Master);
    assert_eq!(key_sets(&cluster), before, "the tables are as planned");
    assert_eq!(status(&second).ports.len(), 9);
    let (vport, state) = held(&cluster, host, 2);
    assert_eq!((state, vport.reregistrations), (PortState::Active, 2));
    assert_eq!(keys(&cluster, host, 2), [0xFFFF, 0x8010]);
    assert_eq!(cluster.faults(&second), [""; 0]);
}

/// A configuration with these partitions.
fn with_partitions(cluster: &SimCluster, text: &str) -> Options {
    let path = cluster.file("partitions.conf");
    fs::write(&path, text).expect("a file");
    Options { partition_config_file: Some(path.display().to_string()), ..enabled(cluster) }
}

#[tokio::test(start_paused = true)]
async fn vports_have_p_keys_of_their_own_and_their_port_holds_all() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let text = format!(
        "Default=0x7fff, ipoib: ALL=full;\nvms=0x10: ALL_VCAS=limited, {:#x}=full;\n\
         one=0x20: {:#x}=full;\n",
        vport_guid(host, 1).0,
        vport_guid(host, 2).0
    );
    let sm = ReloadableSm::start(&cluster, ORIGIN, with_partitions(&cluster, &text));
    sleep(QUIET).await;
    assert_eq!(keys(&cluster, host, 0), [0xFFFF]);
    assert_eq!(keys(&cluster, host, 1), [0xFFFF, 0x8010]);
    assert_eq!(keys(&cluster, host, 2), [0xFFFF, 0x0010, 0x8020]);
    let physical = |cluster: &SimCluster| {
        let block = PkeyBlock::read(&cluster.fabric.pkeys(host, PORT, 0).expect("a port"));
        let keys = block.0.iter().filter(|key| key.0 != 0);
        let mut keys: Vec<u16> = keys.map(|key| key.0).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(physical(&cluster), [0x8010, 0x8020, 0xFFFF]);
    let other = cluster.shape.host_guid([2, 2, 0], 0);
    assert_eq!(keys(&cluster, other, 1), [0xFFFF, 0x0010]);
    assert_eq!(cluster.faults(&sm.sm), [""; 0]);
    // A reload writes what differs.
    fs::write(cluster.file("partitions.conf"), "Default=0x7fff, ipoib: ALL=full;\n")
        .expect("a file");
    sm.reload(|_| ());
    sleep(QUIET).await;
    assert_eq!((keys(&cluster, host, 2), physical(&cluster)), (vec![0xFFFF], vec![0xFFFF]));
    assert_eq!(state(&cluster, host, 2), PortState::Active);
}

#[tokio::test(start_paused = true)]
async fn the_activity_report_follows_vports() {
    let cluster = cluster_with_vports(2);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let activity_report_subjects = ActivitySubjects::VIRTUALIZATION;
    let options = Options { activity_report_subjects, ..enabled(&cluster) };
    let sm = cluster.start(ORIGIN, options);
    sleep(QUIET).await;
    let down = |spec: &mut VportSpec| spec.is_up = false;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 1, true, down));
    sleep(QUIET).await;
    sm.stop().await;
    let text = fs::read_to_string(cluster.file(ACTIVITY_FILE)).expect("the report");
    let port = format!("port_guid={}", Guid(host.0 + 1));
    let of_port: Vec<&str> = text.lines().filter(|line| line.contains(&port)).collect();
    assert!(of_port[0].ends_with(&format!(" 6 port_virt_discover {port} top_index=1")), "{text}");
    let guid = vport_guid(host, 1);
    let change = |state: u8| {
        format!(
            " 7 vport_state_change {port} vport_guid={guid} vport_index=1 vnode_guid={} \
             vport_state={state}",
            Guid(guid.0 | 0xF0_0000)
        )
    };
    let states: Vec<&&str> = of_port.iter().filter(|line| line.contains("vport_index=1")).collect();
    assert_eq!(states.len(), 3, "{text}");
    for (line, state) in states.iter().zip([2, 4, 1]) {
        assert!(line.ends_with(&change(state)), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_vports_than_a_block_of_states_come_up_on_protected_ports() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    assert!(cluster.fabric.set_virtual_ports(host, PORT, vports(host, 130)));
    let protection = Options { m_key: MKey(0x77), m_key_protection_level: 2, ..enabled(&cluster) };
    let sm = cluster.start(ORIGIN, protection);
    sleep(QUIET).await;
    for index in [0, 1, 127, 128, 129] {
        assert_eq!(state(&cluster, host, index), PortState::Active, "vport {index}");
    }
    assert_eq!(status(&sm).activations, 130);
}

/// Moves the GUID of a vport to another host; returns how often clients there were asked to register.
async fn registrations_after_migration(rereg_on_guid_migr: bool) -> u64 {
    let cluster = cluster_with_vports(2);
    let [from, to] = [[1, 1, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let sm = cluster.start(ORIGIN, Options { rereg_on_guid_migr, ..enabled(&cluster) });
    sleep(QUIET).await;
    let down = |spec: &mut VportSpec| spec.is_up = false;
    assert!(cluster.fabric.change_virtual_port(from, PORT, 1, true, down));
    sleep(QUIET).await;
    let moved = vport_guid(from, 1);
    let take = |spec: &mut VportSpec| spec.guid = moved;
    assert!(cluster.fabric.change_virtual_port(to, PORT, 1, true, take));
    sleep(QUIET).await;
    assert_eq!(state(&cluster, to, 1), PortState::Active);
    drop(sm);
    held(&cluster, to, 1).0.reregistrations
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_guid_that_moves_register_again_if_wanted() {
    assert_eq!(registrations_after_migration(true).await, 1);
    assert_eq!(registrations_after_migration(false).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_vports_are_dumped_after_each_change() {
    let cluster = cluster_with_vports(2);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let virt_dump_file = Some("vports.dump".to_owned());
    let sm = cluster.start(ORIGIN, Options { virt_dump_file, ..enabled(&cluster) });
    sleep(QUIET).await;
    let lines = || {
        let text = fs::read_to_string(cluster.file("vports.dump")).expect("the dump");
        let lines = text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned);
        lines.collect::<Vec<String>>()
    };
    let guid = vport_guid(host, 1);
    let vnode = Guid(guid.0 | 0xF0_0000);
    let own = format!("  1 {guid} {vnode} ACTIVE 0 0xffff \"vf1\"");
    assert!(lines().len() == 18 && lines().contains(&own), "{own}: {:?}", lines());
    let down = |spec: &mut VportSpec| spec.is_up = false;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 1, true, down));
    sleep(QUIET).await;
    assert!(lines().len() == 17 && !lines().contains(&own));
    drop(sm);
}

/// The requests of a start: three to a port; and to a vport its VPortInfo, VNodeInfo, VNodeDescription, one
/// block of P_Keys, and the Set that makes it ACTIVE.
#[tokio::test(start_paused = true)]
async fn a_vport_comes_up_with_five_requests() {
    let cluster = cluster_with_vports(16);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(status(&sm).activations, 9 * 16);
    let sent = requests(&cluster);
    assert!(sent <= 9 * (4 + 16 * 5), "{sent} requests");
}
