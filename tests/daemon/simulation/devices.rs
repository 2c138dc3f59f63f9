//! Devices that refuse or ignore Sets, report local changes, or return after they were cut off.

use super::{Deaf, ORIGIN};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::tamper::{Tampering, let_refuse, let_vanish, path};
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, Lid, MKey, PortNum};
use torus_sm::transport::{Address, Agent, MadPort, Outgoing};
use torus_sm::wire::attr::{AttrId, Notice, PortInfo, PortState, TrapNumber};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

/// Starts a daemon whose requests can be changed.
pub(super) async fn start(cluster: &SimCluster, options: Options) -> (Sm, Tampering) {
    let tampering = Tampering::default();
    let same = options.clone();
    let port = tampering.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind(ORIGIN, options, reload, move |inner| port.wrap(inner));
    settle().await;
    (sm, tampering)
}

/// Records the LIDs of ports that are asked to register.
fn record_reregistrations(tampering: &Tampering) -> Arc<Mutex<BTreeSet<Lid>>> {
    let asked: Arc<Mutex<BTreeSet<Lid>>> = Arc::default();
    let record = asked.clone();
    tampering.set(move |mad| {
        let is_set = (mad.method(), mad.header().attr_id()) == (Method::SET, AttrId::PORT_INFO);
        let info = PortInfo::read(mad.smp_data());
        if is_set && info.client_reregister() {
            record.lock().unwrap().insert(info.lid());
        }
    });
    asked
}

fn taken(asked: &Mutex<BTreeSet<Lid>>) -> BTreeSet<Lid> {
    std::mem::take(&mut *asked.lock().unwrap())
}

fn lid_of(cluster: &SimCluster, guid: Guid, num: u8) -> Lid {
    cluster.fabric.port_info(guid, PortNum(num)).expect("a port").lid()
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_cut_off_is_asked_to_register() {
    let shape = "4x4x1".parse().expect("a shape");
    let hardware = Hardware { enhanced_port0: true, ..Hardware::default() };
    let cluster = SimCluster::new(shape, hardware, 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let asked = record_reregistrations(&tampering);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    let switch = cluster.shape.switch_guid([2, 2, 0]);
    let host = cluster.shape.host_guid([2, 2, 0], 0);
    (1..=4).for_each(|num| assert!(cluster.fabric.unlink(switch, PortNum(num))));
    sleep(Duration::from_secs(15)).await;
    let state = cluster.fabric.port_info(host, PortNum(1)).expect("a port").port_state();
    assert_eq!(state, PortState::Active, "the host's own link stays up");
    assert_eq!(taken(&asked), BTreeSet::new());
    (1..=4).for_each(|num| assert!(cluster.fabric.relink(switch, PortNum(num))));
    sleep(Duration::from_secs(15)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let returned = [lid_of(&cluster, switch, 0), lid_of(&cluster, host, 1)];
    assert_eq!(taken(&asked), BTreeSet::from(returned));
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_names_another_manager_is_asked_to_register() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    let asked = record_reregistrations(&tampering);
    let host = cluster.shape.host_guid([2, 1, 0], 0);
    let mut info = cluster.fabric.port_info(host, PortNum(1)).expect("a port");
    let lid = info.lid();
    let manager = info.master_sm_lid();
    info.set_master_sm_lid(Lid(99));
    info.set_port_state(PortState::NoChange);
    info.set_phys_state(torus_sm::wire::attr::PhysState::NoChange);
    // As the manager of a merged subnet would do.
    let port = cluster.fabric.attach(host, PortNum(1), Arc::new(Deaf), false).expect("a host");
    let local = SmpRoute::Directed(DirectedRoute::LOCAL);
    let mad = request(
        &local,
        SmpFields {
            method: Method::SET,
            attr_id: AttrId::PORT_INFO,
            attr_mod: 1,
            m_key: MKey::NONE,
            tid: 7,
        },
        &info.0,
    );
    post(&port, Agent::SmiDirected, Lid::PERMISSIVE, &mad);
    settle().await;
    let named = || cluster.fabric.port_info(host, PortNum(1)).expect("a port").master_sm_lid();
    assert_eq!(named(), Lid(99));
    sm.tell(SmEvent::Reload);
    settle().await;
    assert_eq!((named(), taken(&asked)), (manager, BTreeSet::from([lid])));
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

fn post(port: &dyn MadPort, agent: Agent, to: Lid, mad: &Mad) {
    let to = Address::smi(to);
    port.post(&Outgoing { agent, to, timeout: None, retries: 0, mad: &mad.0 })
        .expect("the port accepts the MAD");
}

/// The directed route from the daemon to its switch.
const OWN_SWITCH: [PortNum; 1] = [PortNum(1)];

/// Lets the daemon's switch refuse Sets of an attribute.
fn refuse(tampering: &Tampering, attr_id: u16) {
    tampering.set(move |mad| {
        let is_set = (mad.method(), mad.header().attr_id()) == (Method::SET, attr_id);
        if is_set && path(mad) == OWN_SWITCH {
            let_refuse(mad);
        }
    });
}

/// Reboots the daemon's switch, so that it needs all its tables again, and lets the daemon know.
async fn restart_switch(cluster: &SimCluster, sm: &Sm) {
    assert!(cluster.fabric.reboot(cluster.shape.switch_guid(ORIGIN)));
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_vl_arbitration_leaves_the_subnet_up() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    refuse(&tampering, AttrId::VL_ARBITRATION);
    restart_switch(&cluster, &sm).await;
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    let switch = cluster.shape.switch_guid(ORIGIN);
    let refused = &subnet.devices.refused;
    assert!(!refused.is_empty());
    for set in refused {
        assert_eq!((set.node, set.attr_id, set.status), (switch, AttrId::VL_ARBITRATION, 4));
        assert!(!set.is_essential && set.port.0 > 0, "{set:?}");
    }
    let text = torus_sm::publish::report::bring_up(&subnet);
    for wanted in ["VLArbitrationTable", "0x0004 (version not supported)", "\"[1] at path"] {
        assert!(text.contains(wanted), "{wanted} in\n{text}");
    }
    assert_eq!(cluster.faults(&sm), [""; 0], "the subnet is up");
    // No heavy sweeps, and each Set is repeated after 10, 20, 40 and 80 s.
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [0, 0]);
    let [_, tries] = cluster.fabric.requests(AttrId::VL_ARBITRATION);
    assert!((1..=4).contains(&(tries / refused.len() as u64)), "{tries} Sets");
    // The Sets are repeated at once when the switch restarts.
    tampering.end();
    restart_switch(&cluster, &sm).await;
    assert!(sm.subnet.borrow().as_ref().expect("it is up").devices.refused.is_empty());
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_forwarding_table_is_an_error_and_tried_after_delays() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    refuse(&tampering, AttrId::LINEAR_FT);
    restart_switch(&cluster, &sm).await;
    let failed = || sm.subnet.borrow().as_ref().expect("published").failed_sets;
    assert!(failed() > 0);
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(600)).await;
    assert!(failed() > 0);
    let sweeps = cluster.sweeps();
    assert!(sweeps <= 20, "{sweeps} heavy sweeps in ten minutes");
    let [_, tries] = cluster.fabric.requests(AttrId::LINEAR_FT);
    assert!((3..=20).contains(&tries), "{tries} Sets");
    tampering.end();
    sleep(Duration::from_secs(700)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_port_that_is_active_all_the_same_is_tolerated() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let lid = lid_of(&cluster, host, 1);
    // The host becomes ACTIVE by its switch, and refuses to be made so.
    tampering.set(move |mad| {
        let info = PortInfo::read(mad.smp_data());
        let is_set = (mad.method(), mad.header().attr_id()) == (Method::SET, AttrId::PORT_INFO);
        if is_set && info.lid() == lid && info.port_state() == PortState::Active {
            let_refuse(mad);
        }
    });
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    settle().await;
    assert!(cluster.fabric.relink(host, PortNum(1)));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_acknowledges_no_set_gets_few() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, tampering) = start(&cluster, cluster.options()).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let lost = Arc::new(Mutex::new(0));
    let count = lost.clone();
    let switch = cluster.shape.switch_guid([1, 0, 0]);
    tampering.set(move |mad| {
        if mad.method() == Method::SET && path(mad) == [PortNum(1), PortNum(1)] {
            *count.lock().unwrap() += 1;
            let_vanish(mad);
        }
    });
    assert!(cluster.fabric.reboot(switch));
    sleep(Duration::from_secs(60)).await;
    let subnet = sm.subnet.borrow().clone().expect("published");
    let node = subnet.fabric.node_by_guid(switch).expect("it answers Gets");
    assert_eq!(subnet.fabric.node(node).route.to_string(), "0,1,1");
    assert_eq!(subnet.devices.silent, [switch]);
    assert!(subnet.failed_sets > 0);
    let sets = *lost.lock().unwrap();
    // Seven attempts with all retransmissions; without the delays there would be thousands.
    assert!((2..=500).contains(&sets), "{sets} Sets");
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(600)).await;
    assert!(cluster.sweeps() <= 20, "{} heavy sweeps", cluster.sweeps());
    tampering.end();
    sleep(Duration::from_secs(320)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(sm.subnet.borrow().as_ref().expect("it is up").devices.silent.is_empty());
}

#[tokio::test(start_paused = true)]
async fn changed_descriptions_are_read_without_a_sweep() {
    let cluster = SimCluster::healthy("4x4x1", 4);
    let (sm, _) = start(&cluster, cluster.options()).await;
    cluster.fabric.reset_counters();
    let hosts: Vec<Guid> = cluster.hosts().collect();
    for (number, &host) in hosts.iter().enumerate() {
        assert!(cluster.fabric.set_description(host, &format!("node{number}")));
    }
    settle().await;
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    for (number, &host) in hosts.iter().enumerate() {
        let node = subnet.fabric.node_by_guid(host).expect("it is known");
        assert_eq!(subnet.fabric.node(node).description.to_string(), format!("node{number}"));
    }
    let count = hosts.len() as u64;
    assert_eq!(cluster.fabric.requests(AttrId::NODE_DESCRIPTION), [count, 0]);
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [0, 0]);
    assert_eq!(cluster.fabric.requests(AttrId::PORT_INFO), [0, 0]);
    assert_eq!(cluster.fabric.sets(), 0);
}

/// Sends a trap from a host.
fn send_trap(cluster: &SimCluster, port: &dyn MadPort, guid: Guid, tid: u64, mut notice: Notice) {
    let info = cluster.fabric.port_info(guid, PortNum(1)).expect("a port");
    notice.set_is_generic(true);
    notice.set_issuer_lid(info.lid());
    notice.set_subject_lid(info.lid());
    let mut data = [0; 64];
    data.copy_from_slice(&notice.0[..64]);
    let none = SmpRoute::Lid(Lid(0));
    let mad = request(
        &none,
        SmpFields {
            method: Method::TRAP,
            attr_id: AttrId::NOTICE,
            attr_mod: 0,
            m_key: MKey::NONE,
            tid,
        },
        &data,
    );
    post(port, Agent::SmiLid, info.master_sm_lid(), &mad);
}

#[tokio::test(start_paused = true)]
async fn a_new_manager_is_asked_for_its_sm_info() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, _) = start(&cluster, cluster.options()).await;
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    cluster.fabric.reset_counters();
    let before = sm.generation();
    // The port sets IsSM.
    let port = cluster.fabric.attach(host, PortNum(1), Arc::new(Deaf), true).expect("a host");
    let info = cluster.fabric.port_info(host, PortNum(1)).expect("a port");
    let mut notice = Notice::default();
    notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
    notice.set_capability_mask(info.capability_mask());
    send_trap(&cluster, &port, host, 1, notice);
    // The program does not answer SMInfo.
    sleep(Duration::from_secs(2)).await;
    // Two of the queries check the link of the local port, which happens every second.
    assert_eq!(cluster.fabric.requests(AttrId::PORT_INFO), [3, 0]);
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [0, 0]);
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    let slot = subnet.fabric.port_by_guid(info_guid(&subnet, host)).expect("it is known");
    let known = subnet.fabric.port(slot).info().expect("PortInfo");
    assert_eq!(known.capability_mask(), info.capability_mask());
    assert!(sm.generation() > before);
    // Trap 145 leads to NodeInfo alone.
    let mut notice = Notice::default();
    notice.set_trap_number(TrapNumber::SYSTEM_GUID);
    send_trap(&cluster, &port, host, 2, notice);
    settle().await;
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [1, 0]);
    // The device's own trap 144 about IsSM names its description, too.
    assert_eq!(cluster.fabric.requests(AttrId::NODE_DESCRIPTION), [1, 0]);
}

/// GUID of port 1 of a host.
fn info_guid(subnet: &torus_sm::publish::Subnet, host: Guid) -> Guid {
    let node = subnet.fabric.node_by_guid(host).expect("it is known");
    subnet.fabric.port(subnet.fabric.port_of(node, PortNum(1)).expect("port 1")).guid
}
