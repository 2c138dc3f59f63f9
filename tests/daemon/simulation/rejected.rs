//! A fabric whose plans are rejected: hosts that return, new ones, and multicast groups.

use super::*;
use testkit::ReloadableSm;
use testkit::multicast::MulticastTrees;
use testkit::sa_client::{Client, DEFAULT_PREFIX, joins, path_query};
use torus_sm::ids::Mlid;
use torus_sm::manage::loop_status::ReconfigureResult;
use torus_sm::notes::Severity;
use torus_sm::wire::attr::PortState;
use torus_sm::wire::mad::Header;
use torus_sm::wire::sa::SaStatus;

/// Hosts between which the routes do not use the ring that [`break_ring`] breaks.
const MEMBERS: [[u16; 3]; 3] = [[1, 1, 0], [3, 3, 0], [4, 4, 0]];

fn options(cluster: &SimCluster) -> Options {
    let alone = Some("torus-2QoS,no_fallback".into());
    Options { routing_engine: alone, torus_repair: false, ..cluster.options() }
}

/// Removes two cables of the x ring at y=2 at once, after which torus-2QoS rejects the fabric.
async fn break_ring(cluster: &SimCluster, sm: &Sm) {
    let [one, other] = [[0, 2, 0], [2, 2, 0]].map(|at| cluster.shape.switch_guid(at));
    assert!(cluster.fabric.unlink(one, PortNum(1)) && cluster.fabric.unlink(other, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert!(sm.refused.borrow().is_some(), "the engine rejects the fabric");
}

fn state(cluster: &SimCluster, host: Guid) -> PortState {
    cluster.fabric.port_info(host, PortNum(1)).expect("a port").port_state()
}

/// The warnings about the rejected plan.
fn warnings(sm: &Sm) -> Vec<String> {
    let refused = sm.refused.borrow().clone().expect("the plan is rejected");
    let warnings = refused.notes.iter().filter(|note| note.severity == Severity::Warning);
    warnings.map(|note| note.text.clone()).collect()
}

async fn join(cluster: &SimCluster, places: &[[u16; 3]]) {
    let hosts = places.iter().map(|&at| cluster.shape.host_guid(at, 0));
    let hosts: Vec<_> = hosts.map(|host| (host, Guid(host.0 + 1))).collect();
    let stats = joins::all(&cluster.fabric, &hosts, Method::SET, 1, 1).await;
    assert_eq!(stats.granted, hosts.len());
    settle().await;
}

/// The hosts that the tree of the first group that was joined reaches.
fn tree(cluster: &SimCluster, sm: &Sm) -> Vec<Guid> {
    let mut differences = Vec::new();
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    cluster.compare_multicast_tables(&subnet, &mut differences);
    assert_eq!(differences, [""; 0]);
    for node in cluster.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch) {
        let masks = cluster.fabric.mft(node.guid, 0).unwrap_or_default();
        let used = masks.into_iter().fold(0, |used, mask| used | mask);
        for num in (1..16).filter(|num| used >> num & 1 == 1).map(PortNum) {
            let state = cluster.fabric.port_info(node.guid, num).expect("a port").port_state();
            assert_eq!(state, PortState::Active, "a tree uses port {num} of {}", node.guid);
        }
    }
    let trees = MulticastTrees::read(&cluster.fabric, &cluster.topology);
    trees.members(Mlid(0xC001)).expect("a tree").into_iter().collect()
}

/// The status of the reply to a query for the path between two hosts.
async fn path_status(cluster: &SimCluster, client: [u16; 3], ends: [[u16; 3]; 2]) -> u16 {
    let ends = ends.map(|at| Guid(cluster.shape.host_guid(at, 0).0 + 1));
    let client = Client::at(cluster, client, false);
    let reply = client.call(&path_query(DEFAULT_PREFIX, ends)).await;
    Header::read(&reply).status()
}

fn hosts(cluster: &SimCluster, places: &[[u16; 3]]) -> Vec<Guid> {
    let mut hosts: Vec<_> = places.iter().map(|&at| cluster.shape.host_guid(at, 0)).collect();
    hosts.sort_unstable();
    hosts
}

#[tokio::test(start_paused = true)]
async fn a_host_that_returns_while_the_plan_is_rejected_becomes_active_and_reachable() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    let [host, other] = [[3, 3, 0], [1, 1, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let lid = cluster.host_lid([3, 3, 0]);
    break_ring(&cluster, &sm).await;
    let before = warnings(&sm).join("\n");
    assert!(before.contains("between 25 ACTIVE host ports"), "{before}");
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    let without = warnings(&sm).join("\n");
    assert!(without.contains("between 24 ACTIVE host ports"), "{without}");
    assert!(without.contains("; 1 host port left the fabric"), "{without}");
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(state(&cluster, host), PortState::Active);
    assert_eq!(cluster.host_lid([3, 3, 0]), lid);
    assert!(cluster.fabric.reaches(other, PortNum(1), lid, true), "the routes in force lead there");
    assert_eq!(warnings(&sm).join("\n"), before, "all is as before");
    assert_eq!(path_status(&cluster, [1, 1, 0], [[1, 1, 0], [3, 3, 0]]).await, 0);
    let broken = path_status(&cluster, [4, 4, 0], [[1, 2, 0], [0, 0, 0]]).await;
    assert_eq!(broken, SaStatus::NO_RECORDS, "the path leads over a lost cable");
    let cable = cluster.shape.switch_guid([0, 2, 0]);
    assert!(cluster.fabric.relink(cable, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(*sm.refused.borrow(), None);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_returns_with_the_loss_of_the_cables_becomes_active() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    let host = cluster.shape.host_guid([3, 3, 0], 0);
    let lid = cluster.host_lid([3, 3, 0]);
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert!(cluster.fabric.relink(host, PortNum(1)));
    break_ring(&cluster, &sm).await;
    assert_eq!(state(&cluster, host), PortState::Active);
    assert_eq!(cluster.host_lid([3, 3, 0]), lid);
}

#[tokio::test(start_paused = true)]
async fn a_new_host_is_active_without_routes_while_the_plan_is_rejected() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let [host, other] = [[3, 3, 0], [1, 1, 0]].map(|at| cluster.shape.host_guid(at, 0));
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    break_ring(&cluster, &sm).await;
    let tables = cluster.tables();
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(state(&cluster, host), PortState::Active);
    let lid = cluster.host_lid([3, 3, 0]);
    assert_ne!(lid, Lid(0));
    assert!(!cluster.fabric.reaches(other, PortNum(1), lid, false));
    assert!(cluster.fabric.reaches(other, PortNum(1), cluster.host_lid([4, 4, 0]), true));
    let text = warnings(&sm).join("\n");
    assert!(text.contains("between 24 ACTIVE host ports"), "{text}");
    assert!(text.contains("1 host port came or moved after these routes were computed"), "{text}");
    let known = [4, 4, 0];
    let new = [3, 3, 0];
    let none = SaStatus::NO_RECORDS;
    assert_eq!(path_status(&cluster, known, [known, [1, 1, 0]]).await, 0);
    assert_eq!(path_status(&cluster, known, [known, new]).await, none);
    assert_eq!(path_status(&cluster, known, [new, known]).await, none);
    let lfts = |tables: &[(Guid, Vec<u8>, Vec<Option<_>>)]| -> Vec<Vec<u8>> {
        tables.iter().map(|(_, lft, _)| lft[..usize::from(lid.0)].to_vec()).collect()
    };
    assert!(lfts(&cluster.tables()) == lfts(&tables), "all other routes are as before");
    let cable = cluster.shape.switch_guid([0, 2, 0]);
    assert!(cluster.fabric.relink(cable, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(cluster.host_lid([3, 3, 0]), lid, "it keeps its LID");
}

#[tokio::test(start_paused = true)]
async fn joins_and_leaves_are_programmed_while_the_plan_is_rejected() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    break_ring(&cluster, &sm).await;
    join(&cluster, &MEMBERS[..2]).await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS[..2]));
    join(&cluster, &MEMBERS[2..]).await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS));
    let refused = sm.refused.borrow().clone().expect("the plan is still rejected");
    {
        let status = sm.management.as_ref().expect("not taken").live.status.load();
        let last = status.history.reconfigurations.back().expect("the update of the groups");
        assert!(last.figures.multicast_only);
        assert_eq!(last.result, ReconfigureResult::Rejected(refused.headline.clone()));
    }
    let gone = cluster.shape.host_guid(MEMBERS[2], 0);
    let stats =
        joins::all(&cluster.fabric, &[(gone, Guid(gone.0 + 1))], Method::DELETE, 1, 1).await;
    assert_eq!(stats.granted, 1);
    settle().await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS[..2]));
}

#[tokio::test(start_paused = true)]
async fn trees_avoid_cables_that_die_while_the_plan_is_rejected() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    join(&cluster, &MEMBERS).await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS));
    // The spanning tree of the engine runs along this ring.
    break_ring(&cluster, &sm).await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS));
    // Each cable that the trees use now, one after the other.
    for x in 0..5 {
        let switch = cluster.shape.switch_guid([x, 2, 0]);
        assert!(cluster.fabric.unlink(switch, PortNum(3)));
        sleep(Duration::from_secs(20)).await;
        assert!(sm.refused.borrow().is_some(), "the plan is still rejected");
        assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS), "without {x}");
        assert!(cluster.fabric.relink(switch, PortNum(3)));
        sleep(Duration::from_secs(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_and_groups_follow_the_fabric_after_a_rejection_by_verification() {
    // With 2 VLs, the routes around a missing switch have a credit loop.
    let hardware = Hardware { vl_cap: 2, ..Hardware::default() };
    let mut shape: Shape = "5x5x1".parse().expect("a shape");
    shape.hosts = 1;
    let cluster = SimCluster::new(shape, hardware, 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    assert_eq!(sm.engine(), "torus-2QoS");
    let missing = cluster.shape.switch_guid([2, 2, 0]);
    for num in 1..=7 {
        cluster.fabric.unlink(missing, PortNum(num));
    }
    sleep(Duration::from_secs(20)).await;
    let refused = sm.refused.borrow().clone().expect("the plan is rejected");
    let text = torus_sm::publish::report::rejected(&refused);
    assert!(text.contains("the plan is faulty and was not applied"), "{text}");
    let host = cluster.shape.host_guid([4, 4, 0], 0);
    let lid = cluster.host_lid([4, 4, 0]);
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(state(&cluster, host), PortState::Active);
    assert!(cluster.fabric.reaches(cluster.shape.host_guid(ORIGIN, 0), PortNum(1), lid, true));
    join(&cluster, &MEMBERS).await;
    assert_eq!(tree(&cluster, &sm), hosts(&cluster, &MEMBERS));
    assert!(sm.refused.borrow().is_some(), "the plan is still rejected");
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_partitions_but_no_lids_while_the_plan_is_rejected() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let file = cluster.file("partitions.conf");
    std::fs::write(&file, "Default=0x7fff: ALL=full;\n").expect("a file");
    let partition_config_file = Some(file.display().to_string());
    let options = Options { partition_config_file, ..options(&cluster) };
    let daemon = ReloadableSm::start(&cluster, ORIGIN, options);
    settle().await;
    break_ring(&cluster, &daemon.sm).await;
    let hosts: Vec<Guid> = cluster.hosts().collect();
    let lids = || -> Vec<(Lid, u8)> {
        let infos = hosts.iter().map(|&host| cluster.fabric.port_info(host, PortNum(1)));
        infos.map(|info| info.expect("a port")).map(|info| (info.lid(), info.lmc())).collect()
    };
    let before = lids();
    let tables = cluster.tables();
    std::fs::write(&file, "Default=0x7fff: ALL=full;\nA=0x10: ALL=full;\n").expect("a file");
    // The routes in force lead to one LID per host.
    daemon.reload(|options| options.lmc = 2);
    sleep(Duration::from_secs(20)).await;
    assert!(daemon.sm.refused.borrow().is_some(), "the plan is still rejected");
    let keys = cluster.fabric.pkeys(hosts[3], PortNum(1), 0).expect("a table");
    assert!(keys.chunks(2).any(|key| key == [0x80, 0x10]), "{keys:?}");
    assert_eq!(lids(), before);
    assert!(cluster.tables() == tables);
}

/// The LIDs and states of the ports of all hosts.
fn host_ports(cluster: &SimCluster) -> Vec<(Guid, Lid, PortState)> {
    let hosts = cluster.hosts().map(|host| (host, cluster.fabric.port_info(host, PortNum(1))));
    let ports = hosts.map(|(host, info)| (host, info.expect("a port")));
    ports.map(|(host, info)| (host, info.lid(), info.port_state())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_starts_with_a_rejected_plan_brings_up_what_returns() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let [host, other, new] =
        [[3, 3, 0], [1, 1, 0], [4, 4, 0]].map(|at| cluster.shape.host_guid(at, 0));
    assert!(cluster.fabric.unlink(new, PortNum(1)));
    let first = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    let lid = cluster.host_lid([3, 3, 0]);
    break_ring(&cluster, &first).await;
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    first.stop().await;
    let before = host_ports(&cluster);
    let tables = cluster.tables();

    let second = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    assert!(second.subnet.borrow().is_none(), "no plan is accepted");
    assert_eq!(host_ports(&cluster), before, "nothing changes");
    assert!(cluster.fabric.relink(host, PortNum(1)) && cluster.fabric.relink(new, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    for at in [host, new] {
        assert_eq!(state(&cluster, at), PortState::Active);
    }
    assert_eq!(cluster.host_lid([3, 3, 0]), lid, "it has its LID again");
    assert!(cluster.fabric.reaches(other, PortNum(1), lid, true), "the switches have its routes");
    let new_lid = cluster.host_lid([4, 4, 0]);
    let mut lids: Vec<Lid> = host_ports(&cluster).iter().map(|&(_, lid, _)| lid).collect();
    lids.sort_unstable();
    assert!(lids[0] != Lid(0) && lids.windows(2).all(|pair| pair[0] != pair[1]), "{lids:?}");
    assert!(cluster.tables() == tables, "no table of a switch changes");
    assert!(second.subnet.borrow().is_none(), "no plan is accepted");
    let text = warnings(&second).join("\n");
    assert!(text.contains("only LIDs, P_Keys and the states of ports"), "{text}");

    let cable = cluster.shape.switch_guid([0, 2, 0]);
    assert!(cluster.fabric.relink(cable, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&second), [""; 0]);
    assert_eq!([cluster.host_lid([3, 3, 0]), cluster.host_lid([4, 4, 0])], [lid, new_lid]);
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_restarts_while_there_is_no_plan_comes_up_without_routes() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let first = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    break_ring(&cluster, &first).await;
    first.stop().await;
    let second = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    let tables = cluster.tables();
    let switch = cluster.shape.switch_guid([3, 3, 0]);
    let lid = cluster.fabric.port_info(switch, PortNum::ZERO).expect("a port").lid();
    assert!(cluster.fabric.reboot(switch));
    sleep(Duration::from_secs(20)).await;
    assert!(second.subnet.borrow().is_none(), "no plan is accepted");
    for num in [1, 2, 3, 4].map(PortNum) {
        let info = cluster.fabric.port_info(switch, num).expect("a port");
        assert_eq!(info.port_state(), PortState::Active, "port {num}");
    }
    assert_eq!(state(&cluster, cluster.shape.host_guid([3, 3, 0], 0)), PortState::Active);
    assert_eq!(cluster.fabric.port_info(switch, PortNum::ZERO).expect("a port").lid(), lid);
    for (before, now) in
        tables.iter().zip(cluster.tables()).filter(|(before, _)| before.0 != switch)
    {
        assert!(*before == now, "the tables of {} are as before", now.0);
    }
    let forwards = cluster.fabric.lft(switch).expect("a table").iter().any(|&exit| exit != 0xFF);
    assert!(!forwards, "it got no routes");

    // Its links are ACTIVE by now, which must not look as if it had its tables.
    let cable = cluster.shape.switch_guid([0, 2, 0]);
    assert!(cluster.fabric.relink(cable, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(cluster.faults(&second), [""; 0]);
}
