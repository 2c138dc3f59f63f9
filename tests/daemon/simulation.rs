//! The whole daemon on simulated fabrics: bring-up, changes of the fabric, storms, two SMs.

mod balancing;
mod devices;
mod duplicates;
mod fdr10;
mod interrupted;
mod links;
mod multicast;
mod quarantine;
mod rejected;
mod reload;
mod repaired;
mod sma_load;
mod strict_transitions;
mod tables;
mod unacknowledged;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, Lid, MKey, Pkey, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::sim::{SetFault, SmaSpeed};
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outgoing};
use torus_sm::wire::attr::{AttrId, NodeKind, Notice, SmState, TrapNumber};
use torus_sm::wire::mad::{Method, Status};
use torus_sm::wire::smp::{SmpFields, SmpRoute, request};

/// Position of the switch at which the daemon's host is.
const ORIGIN: [u16; 3] = [0, 0, 0];

pub(crate) async fn up(cluster: &SimCluster) -> Sm {
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!((sm.state(), sm.engine()), (SmState::Master, "torus-2QoS"));
    sm
}

async fn comes_up_and_stays(shape: &str, hosts: u8) {
    let cluster = SimCluster::healthy(shape, hosts);
    let start = Instant::now();
    let sm = up(&cluster).await;
    assert!(start.elapsed() < Duration::from_secs(1), "nothing was waited for");
    let down = cluster.topology.cables.iter().flatten().filter(|&&(node, num)| {
        let guid = cluster.topology.nodes[node].guid;
        cluster.fabric.port_info(guid, num).expect("a port").port_state()
            != torus_sm::wire::attr::PortState::Active
    });
    assert_eq!(down.count(), 0);
    let tables = cluster.tables();
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    // Light sweeps read one SwitchInfo per switch and change nothing.
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(10)).await;
    let switches = cluster.tables().len() as u64;
    assert_eq!(cluster.fabric.requests(AttrId::SWITCH_INFO), [switches, 0]);
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [0, 0]);
    assert_eq!(cluster.fabric.sets(), 0);
    assert_eq!(cluster.tables(), tables);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_6x5x1_torus_comes_up_and_stays() {
    comes_up_and_stays("6x5x1", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_3x3x3_torus_comes_up_and_stays() {
    comes_up_and_stays("3x3x3", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_4x4x4_torus_comes_up_and_stays() {
    comes_up_and_stays("4x4x4", 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_8x8x8_torus_with_two_hosts_comes_up_and_stays() {
    comes_up_and_stays("8x8x8", 2).await;
}

#[tokio::test(start_paused = true)]
async fn enhanced_port_0_small_tables_and_a_router() {
    let mut shape: Shape = "3x4x1".parse().expect("a shape");
    shape.router = true;
    let hardware = Hardware {
        enhanced_port0: true,
        linear_fdb_cap: 128,
        multicast_fdb_cap: 64,
        partition_cap: 4,
        partition_enforcement_cap: 4,
        guid_cap: 2,
        ..Hardware::default()
    };
    let cluster = SimCluster::new(shape, hardware, 1);
    let sm = up(&cluster).await;
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

/// Switches with OptimizedSLtoVL take the most common map for all inputs first, then the exceptions.
#[tokio::test(start_paused = true)]
async fn optimized_sl_to_vl_mapping_needs_fewer_sets() {
    assert_eq!(sl_to_vl_sets(false).await, 37_888);
    assert_eq!(sl_to_vl_sets(true).await, 11_264);
}

/// SLtoVLMappingTable Sets of a cold start of an 8x8x8 torus whose switches have OptimizedSLtoVL.
async fn sl_to_vl_sets(use_optimized_slvl: bool) -> u64 {
    let mut shape: Shape = "8x8x8".parse().expect("a shape");
    shape.hosts = 2;
    let hardware = Hardware { optimized_sl_to_vl: true, ..Hardware::default() };
    let cluster = SimCluster::new(shape, hardware, 1);
    let sm = cluster.start(ORIGIN, Options { use_optimized_slvl, ..cluster.options() });
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let [_, sets] = cluster.fabric.requests(AttrId::SL_TO_VL);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    sets
}

#[tokio::test(start_paused = true)]
async fn a_lost_cable_is_routed_around_and_comes_back() {
    let cluster = SimCluster::healthy("4x4x4", 1);
    let sm = up(&cluster).await;
    let first = cluster.tables();
    let cable = (cluster.shape.switch_guid([1, 1, 1]), PortNum(1));
    assert!(cluster.fabric.unlink(cable.0, cable.1));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_ne!(cluster.tables(), first);
    assert_eq!(sm.engine(), "torus-2QoS");
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    assert!(cluster.fabric.relink(cable.0, cable.1));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == first, "the first tables are back");
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn smps_over_a_lost_link_delay_nothing() {
    let cluster = SimCluster::healthy("3x3x3", 1);
    let sm = up(&cluster).await;
    let places = (0..27).map(|n: u16| [n % 3, n / 3 % 3, n / 9]);
    // The links in the positive direction of all switches: all links between switches.
    for (at, num) in places.flat_map(|at| [1, 3, 5].map(|num| (at, num))) {
        let switch = cluster.shape.switch_guid(at);
        let port = PortNum(num);
        let start = Instant::now();
        assert!(cluster.fabric.unlink(switch, port));
        while !cluster.faults(&sm).is_empty() && start.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(1)).await;
        }
        // An SMP that is not answered times out after 800 ms.
        let took = start.elapsed();
        assert!(took < Duration::from_millis(200), "{at:?} port {num}: {took:?}");
        assert!(cluster.fabric.relink(switch, port));
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_fabric_keeps_its_tables_and_the_reason_is_logged() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let dumps = |options: Options| Options { log_flags: 0x43, ..options };
    let alone = Some("torus-2QoS,no_fallback".into());
    let sm = cluster.start(
        ORIGIN,
        dumps(Options { routing_engine: alone, torus_repair: false, ..cluster.options() }),
    );
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let tables = cluster.tables();
    let generation = sm.generation();
    // Two links of the ring are lost at once, so that no sweep sees the loss of one alone.
    let [one, other] = [[0, 2, 0], [2, 2, 0]].map(|at| cluster.shape.switch_guid(at));
    let dump = cluster.dir().join("opensm-torus.dump");
    let places = std::fs::read_to_string(&dump).expect("a dump of the torus");
    std::fs::remove_file(&dump).expect("it was there");
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.unlink(one, PortNum(1)) && cluster.fabric.unlink(other, PortNum(1)));
    sleep(Duration::from_secs(60)).await;
    for tables in [AttrId::LINEAR_FT, AttrId::MULTICAST_FT] {
        assert_eq!(cluster.fabric.requests(tables)[1], 0, "Sets of {tables:?}");
    }
    assert!(cluster.tables() == tables);
    let refused = sm.refused.borrow().clone().expect("the engine rejects the fabric");
    let text = torus_sm::publish::report::rejected(&refused);
    let end = |x: u16, port: u8| {
        let guid = cluster.shape.switch_guid([x, 2, 0]);
        format!("switch {x},2,0 (GUID {guid} \"sw {x},2,0\") (port {port})")
    };
    for wanted in [
        "ERROR: ERR 4E33: the x ring at y=2, z=0 is in 2 pieces".into(),
        format!("the cable between {} and {} is missing", end(2, 1), end(3, 2)),
        format!("repair first, in this order: (1) the cable between {} and", end(0, 1)),
        "ERROR: No routing engine able to successfully configure switch tables on current fabric: \
         torus-2QoS found no routes"
            .into(),
        format!("the routes of generation {generation} stay in force: "),
        " of 600 paths between 25 ACTIVE host ports work".into(),
        "; an example of a broken path: from ".into(),
    ] {
        assert_eq!(text.matches(&wanted).count(), 1, "{wanted} in\n{text}");
    }
    // A rejected torus is dumped as far as it was recognised.
    assert_eq!(std::fs::read_to_string(&dump).expect("a dump of the torus"), places);
    assert!(cluster.fabric.relink(one, PortNum(1)));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(*sm.refused.borrow(), None);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn working_paths_are_counted_by_following_packets() {
    let cluster = SimCluster::healthy("3x3x1", 2);
    let alone = Some("torus-2QoS,no_fallback".into());
    let options = Options { routing_engine: alone, torus_repair: false, ..cluster.options() };
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    // The loss of two switches that are not neighbours removes their four hosts and all paths
    // through them.
    for at in [[1, 1, 0], [2, 2, 0]] {
        let guid = cluster.shape.switch_guid(at);
        (1..=8).for_each(|num| {
            cluster.fabric.unlink(guid, PortNum(num));
        });
    }
    sleep(Duration::from_secs(30)).await;
    let hosts: Vec<Guid> = cluster
        .topology
        .nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Ca)
        .map(|node| node.guid)
        .collect();
    let lid = |guid| cluster.fabric.port_info(guid, PortNum(1)).expect("a port").lid();
    let reaches = |from, to| from != to && cluster.fabric.reaches(from, PortNum(1), lid(to), false);
    let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
    let working = pairs.filter(|&(from, to)| reaches(from, to)).count();
    let refused = sm.refused.borrow().clone().expect("the engine rejects the fabric");
    let last = refused.notes.last().expect("notes").text.clone();
    let counts = format!(
        "{working} of 182 paths between 14 ACTIVE host ports work; 4 host ports left the fabric"
    );
    assert!(last.contains(&counts), "{counts}: {last}");
    assert!(working < 182 && working > 91, "{working}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_cable_is_found_without_traps() {
    let cluster = SimCluster::healthy("3x3x3", 1);
    let sm = up(&cluster).await;
    // No device sends a trap from now on; only the light sweep can find out.
    let switches = cluster.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
    let guid = cluster.shape.switch_guid([1, 1, 1]);
    switches.for_each(|node| assert!(cluster.fabric.silence(node.guid)));
    assert!(cluster.fabric.unlink(guid, PortNum(3)));
    cluster.topology.nodes.iter().for_each(|node| assert!(cluster.fabric.revive(node.guid)));
    cluster.fabric.set_trap_interval(Duration::from_secs(3600));
    sleep(Duration::from_secs(11)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn hosts_come_and_go() {
    let cluster = SimCluster::healthy("3x3x1", 2);
    let sm = up(&cluster).await;
    let host = cluster.shape.host_guid([2, 2, 0], 1);
    let hosts = |sm: &Sm| {
        let subnet = sm.subnet.borrow().clone().expect("it is up");
        subnet.fabric.nodes().iter().filter(|node| node.kind() == NodeKind::Ca).count()
    };
    let lid = cluster.fabric.port_info(host, PortNum(1)).expect("a port").lid();
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    settle().await;
    assert_eq!(hosts(&sm), 17);
    assert!(cluster.fabric.relink(host, PortNum(1)));
    settle().await;
    assert_eq!(hosts(&sm), 18);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(cluster.fabric.port_info(host, PortNum(1)).expect("a port").lid(), lid);
}

#[tokio::test(start_paused = true)]
async fn a_new_description_is_noticed() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster).await;
    for guid in [cluster.shape.host_guid([1, 2, 0], 0), cluster.shape.switch_guid([1, 2, 0])] {
        cluster.fabric.reset_counters();
        assert!(cluster.fabric.set_description(guid, "renamed"));
        settle().await;
        let subnet = sm.subnet.borrow().clone().expect("it is up");
        let node = subnet.fabric.node_by_guid(guid).expect("it is known");
        assert_eq!(subnet.fabric.node(node).description.to_string(), "renamed");
        assert_eq!(cluster.fabric.sets(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn rebooted_nodes_are_configured_again() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = up(&cluster).await;
    let tables = cluster.tables();
    let switch = cluster.shape.switch_guid([2, 1, 0]);
    let own_switch = cluster.shape.switch_guid(ORIGIN);
    let host = cluster.shape.host_guid([3, 3, 0], 0);
    for node in [switch, host, own_switch] {
        assert!(cluster.fabric.reboot(node));
        settle().await;
        // A switch whose own trap cannot be routed is found by the light sweep at the latest.
        sleep(Duration::from_secs(11)).await;
        assert_eq!(cluster.faults(&sm), [""; 0], "after {node}");
        assert!(cluster.tables() == tables, "after {node}");
        assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0, "after {node}");
    }
}

/// A host behind a switch that restarted restarts as well, after it got a table and before it is ACTIVE. Without a
/// LID, the switch cannot send a trap about it.
#[tokio::test(start_paused = true)]
async fn a_host_that_restarts_while_it_is_configured_gets_its_tables_again() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm =
        cluster.start(ORIGIN, Options { qos: true, strict_transitions: true, ..cluster.options() });
    settle().await;
    let at = [1, 1, 0];
    let host = cluster.shape.host_guid(at, 0);
    let mapping = || cluster.fabric.sl2vl(host, PortNum(0), PortNum(1));
    let planned = mapping();
    cluster.fabric.set_sma_speed(SmaSpeed {
        service_time: Duration::from_micros(50),
        queue: SmaSpeed::UNLIMITED,
    });
    for delay in (0..6000).step_by(250) {
        assert!(cluster.fabric.reboot(host) && mapping() != planned);
        assert!(cluster.fabric.reboot(cluster.shape.switch_guid(at)));
        let late = Instant::now() + Duration::from_secs(60);
        while mapping() != planned && Instant::now() < late {
            sleep(Duration::from_micros(10)).await;
        }
        assert_eq!(mapping(), planned);
        sleep(Duration::from_micros(delay)).await;
        assert!(cluster.fabric.reboot(host));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.faults(&sm), [""; 0], "{delay} us later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_switch_delays_nothing() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = up(&cluster).await;
    let dead = cluster.shape.switch_guid([2, 2, 0]);
    cluster.fabric.silence(dead);
    [1, 2, 3, 4, 7].into_iter().for_each(|num| assert!(cluster.fabric.unlink(dead, PortNum(num))));
    let start = Instant::now();
    let mut subnet = sm.subnet.clone();
    subnet.mark_unchanged();
    subnet.changed().await.expect("the daemon runs");
    // The neighbours' traps suffice: the daemon waits for no SMP over the lost links.
    assert!(start.elapsed() < Duration::from_millis(100), "after {:?}", start.elapsed());
    let known = subnet.borrow().as_ref().map(|subnet| subnet.fabric.switches().len());
    assert_eq!(known, Some(15));
}

/// A program that only sends.
struct Deaf;

impl MadSink for Deaf {
    fn deliver(&self, _: Delivery<'_>) {}
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_traps_leads_to_few_queries() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = up(&cluster).await;
    let info = |guid| cluster.fabric.port_info(guid, PortNum(1)).expect("a port");
    let host = cluster.shape.host_guid([2, 2, 0], 0);
    let from = info(host).lid();
    let to = info(host).master_sm_lid();
    let port = cluster.fabric.attach(host, PortNum(1), Arc::new(Deaf), false).expect("a host");
    cluster.fabric.reset_counters();
    let start = Instant::now();
    for tid in 1..=2000u64 {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
        notice.set_issuer_lid(from);
        notice.set_subject_lid(from);
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
        let to = Address::smi(to);
        port.post(&Outgoing { agent: Agent::SmiLid, to, timeout: None, retries: 0, mad: &mad.0 })
            .expect("the port accepts the MAD");
        sleep(Duration::from_millis(2)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(4));
    sleep(Duration::from_secs(3)).await;
    let [queries, _] = cluster.fabric.requests(AttrId::PORT_INFO);
    // A burst of eight, then one per second, and one per second to the local port.
    assert!((1..=24).contains(&queries), "{queries} queries");
    assert_eq!(cluster.fabric.requests(AttrId::NODE_INFO), [0, 0]);
    assert_eq!(cluster.fabric.sets(), 0);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_flapping_link_does_not_keep_the_daemon_busy() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = up(&cluster).await;
    let tables = cluster.tables();
    cluster.fabric.reset_counters();
    let switch = cluster.shape.switch_guid([1, 2, 0]);
    cluster.fabric.flap(switch, PortNum(1), Duration::from_millis(5), 2000);
    sleep(Duration::from_secs(10)).await;
    let sweeps = cluster.sweeps();
    assert!(sweeps <= 80, "{sweeps} sweeps in ten seconds");
    sleep(Duration::from_secs(15)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert!(cluster.tables() == tables, "the first tables are back");
}

#[tokio::test(start_paused = true)]
async fn a_failed_reload_keeps_the_configuration() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let broken = Arc::new(AtomicBool::new(true));
    let asked = broken.clone();
    let options = cluster.options();
    let fast = Options { sweep_interval: 1, ..options.clone() };
    let reload = move || {
        let is_broken = asked.load(Ordering::Relaxed);
        if is_broken {
            Err("opensm.conf:1:1: nonsense".to_owned())
        } else {
            Ok(fast.clone().into())
        }
    };
    let sm = cluster.start_with(ORIGIN, options, Box::new(reload));
    settle().await;
    let light_sweeps = async || {
        sm.tell(SmEvent::Reload);
        settle().await;
        cluster.fabric.reset_counters();
        sleep(Duration::from_secs(20)).await;
        cluster.fabric.requests(AttrId::SWITCH_INFO)[0] / cluster.tables().len() as u64
    };
    assert_eq!(light_sweeps().await, 2);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    broken.store(false, Ordering::Relaxed);
    assert_eq!(light_sweeps().await, 20);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

fn master_of(cluster: &SimCluster, guid: Guid) -> Lid {
    cluster.fabric.port_info(guid, PortNum(1)).expect("a port").master_sm_lid()
}

#[tokio::test(start_paused = true)]
async fn the_better_of_two_managers_is_master_and_the_other_takes_over() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let corner = [2, 3, 0];
    let far = cluster.shape.host_guid([1, 1, 0], 0);
    let lid_at =
        |at| cluster.fabric.port_info(cluster.shape.host_guid(at, 0), PortNum(1)).map(|p| p.lid());
    let with_priority = |sm_priority| Options { sm_priority, ..cluster.options() };
    let better = cluster.start(corner, with_priority(9));
    settle().await;
    // Only a standby that takes over sweeps.
    let passive = Options { standby_query_rate: 0, ..with_priority(3) };
    let worse = cluster.start(ORIGIN, passive);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((better.state(), worse.state()), (SmState::Master, SmState::Standby));
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.sweeps(), 0, "the standby hears that the master lives");
    assert_eq!(cluster.faults(&better), [""; 0]);
    assert_eq!(Some(master_of(&cluster, far)), lid_at(corner));
    let tables = cluster.tables();
    assert_eq!(better.stop().await, Exit::Clean);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(worse.state(), SmState::Master);
    assert_eq!(cluster.faults(&worse), [""; 0]);
    assert_eq!(Some(master_of(&cluster, far)), lid_at(ORIGIN));
    assert!(cluster.tables() == tables, "the new master keeps LIDs and routes");
}

#[tokio::test(start_paused = true)]
async fn two_managers_that_start_together_elect_one_master() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let with_priority = |sm_priority| Options { sm_priority, ..cluster.options() };
    let worse = cluster.start(ORIGIN, with_priority(3));
    let better = cluster.start([2, 2, 0], with_priority(9));
    sleep(Duration::from_secs(60)).await;
    assert_eq!((better.state(), worse.state()), (SmState::Master, SmState::Standby));
    assert_eq!(cluster.faults(&better), [""; 0]);
}
