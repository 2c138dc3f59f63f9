//! `qos-setup` on devices: the tables that a daemon writes to a simulated fabric, read back.

mod creation;
mod examples;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::SimCluster;
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::config::qos_policy::QosPolicy;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{PortInfo, PortState};

/// The (low, high) tables of a port as its device holds them, and its limit.
type Arbitration = (Vec<(u8, u8)>, Vec<(u8, u8)>, u8);

/// The first `caps` entries of both tables of a port; unwritten entries are 0:0.
fn arbitration(
    cluster: &SimCluster,
    guid: Guid,
    num: PortNum,
    caps: (usize, usize),
) -> Arbitration {
    let table = |first: u8, cap: usize| {
        let blocks = (first..first + 2).filter_map(|block| cluster.fabric.vl_arb(guid, num, block));
        let entries = blocks.flat_map(|block| {
            let pairs = block.chunks(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>();
            pairs.into_iter()
        });
        entries.take(cap).collect()
    };
    let info = cluster.fabric.port_info(guid, num).expect("a port");
    (table(1, caps.0), table(3, caps.1), info.vl_high_limit())
}

fn mapping(cluster: &SimCluster, guid: Guid, input: u8, output: u8) -> [u8; 16] {
    let read = cluster.fabric.sl2vl(guid, PortNum(input), PortNum(output));
    read.expect("a mapping").vls()
}

/// Ports of a switch of three dimensions with two hosts.
const SWITCH_PORTS: u8 = 8;
/// The value of `qos_sl2vl` below.
const USUAL: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 15];

/// The options of the tests below, without the policy.
fn setup_options(cluster: &SimCluster, engine: &str) -> Options {
    Options {
        routing_engine: Some(engine.into()),
        qos_policy_file: Some(cluster.file("qos-policy.conf").display().to_string()),
        qos_vlarb_high: Some("0:4,5:6".into()),
        qos_vlarb_low: Some("1:4,2:4,7:7".into()),
        qos_sl2vl: Some("0,1,2,3,4,5,6,7,0,0,0,0,0,0,0,15".into()),
        qos_high_limit: 2,
        ..cluster.options()
    }
}

/// 3x3 switches with two hosts each. The columns of switches have 8, 4 and 2 VLs; of the hosts at
/// each switch the first has 8, the second a single one.
fn mixed() -> SimCluster {
    let cluster = SimCluster::healthy("3x3x1", 2);
    let shape = &cluster.shape;
    for x in 0..3 {
        for y in 0..3 {
            let code = 4 - x as u8;
            assert!(cluster.fabric.set_vl_caps(shape.switch_guid([x, y, 0]), code, 8 >> x));
            assert!(cluster.fabric.set_vl_caps(shape.host_guid([x, y, 0], 0), 4, 8));
            assert!(cluster.fabric.set_vl_caps(shape.host_guid([x, y, 0], 1), 1, 0));
        }
    }
    cluster
}

fn mixed_policy(cluster: &SimCluster) -> String {
    let shape = &cluster.shape;
    let left = [0, 1, 2].map(|y| shape.switch_guid([0, y, 0]).to_string()).join(", ");
    let one = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    format!(
        "port-groups
            port-group name: left port-guid: {left} end-port-group
            port-group name: hosts node-type: CA end-port-group
            port-group name: one port-guid: {one} end-port-group
        end-port-groups
        qos-setup
            vlarb-tables
                vlarb-scope
                    group: left
                    across: one
                    vlarb-high: 0:10,1:20,2:30,3:40,4:50,5:60,6:70,7:80
                    vlarb-low: 7:1,6:2
                    vl-high-limit: 5
                end-vlarb-scope
                vlarb-scope
                    group: hosts
                    vlarb-low: 3:3,1:1
                end-vlarb-scope
            end-vlarb-tables
            sl2vl-tables
                sl2vl-scope
                    across-to: one
                    sl2vl-table: 3,2,1
                end-sl2vl-scope
                sl2vl-scope
                    group: left
                    from: 1-4
                    to: *
                    sl2vl-table: 7,6,5,4,3,2,1,0,15
                end-sl2vl-scope
                sl2vl-scope
                    group: left, hosts
                    sl2vl-table: 9,8
                end-sl2vl-scope
            end-sl2vl-tables
        end-qos-setup
        qos-ulps
            default : 0
        end-qos-ulps
        "
    )
}

fn row(vls: &[u8]) -> [u8; 16] {
    std::array::from_fn(|sl| vls.get(sl).copied().unwrap_or_default())
}

/// The end of a cable.
type End = (Guid, PortNum);

/// Both ends of every link, by either end.
fn peers(cluster: &SimCluster) -> HashMap<End, End> {
    let nodes = &cluster.topology.nodes;
    let cables = cluster.topology.cables.iter();
    let ends = cables.map(|cable| cable.map(|(node, num)| (nodes[node].guid, num)));
    ends.flat_map(|[one, two]| [(one, two), (two, one)]).collect()
}

fn is_left(cluster: &SimCluster, guid: Guid) -> bool {
    (0..3).any(|y| cluster.shape.switch_guid([0, y, 0]) == guid)
}

/// The port in the group `one`.
fn one(cluster: &SimCluster) -> End {
    (cluster.shape.host_guid([1, 1, 0], 0), PortNum(1))
}

fn is_host(cluster: &SimCluster, guid: Guid) -> bool {
    cluster.hosts().any(|host| host == guid)
}

/// The tables of a port by the scopes of [`mixed_policy`], before they are cut.
fn wanted_arbitration(cluster: &SimCluster, guid: Guid, peer: End) -> Arbitration {
    let usual = (vec![(1, 4), (2, 4), (7, 7)], vec![(0, 4), (5, 6)], 2);
    if is_left(cluster, guid) || peer == one(cluster) {
        let all = (0..8).map(|vl| (vl, 10 + 10 * vl)).collect();
        return (vec![(7, 1), (6, 2)], all, 5);
    }
    if is_host(cluster, guid) { (vec![(3, 3), (1, 1)], usual.1, usual.2) } else { usual }
}

/// The mapping of a port by the scopes of [`mixed_policy`], before it is cut.
fn wanted_mapping(cluster: &SimCluster, guid: Guid, input: u8, peer: End) -> [u8; 16] {
    let left = is_left(cluster, guid);
    match () {
        () if peer == one(cluster) => row(&[3, 2, 1]),
        () if left && (1..=4).contains(&input) => row(&[7, 6, 5, 4, 3, 2, 1, 0, 15]),
        () if left || is_host(cluster, guid) => row(&[9, 8]),
        () => USUAL,
    }
}

/// Checks that the devices hold the tables of [`mixed_policy`], as far as they support them; the
/// number of mappings compared.
fn check_mixed(cluster: &SimCluster) -> usize {
    let mut seen = 0;
    for ((guid, num), peer) in peers(cluster) {
        let info = cluster.fabric.port_info(guid, num).expect("a port");
        assert_eq!(info.port_state(), PortState::Active);
        let other = cluster.fabric.port_info(peer.0, peer.1).expect("a port");
        assert_eq!(info.operational_vls(), info.vl_cap().min(other.vl_cap()));
        let mask = PortInfo::data_vls(info.operational_vls()) - 1;
        if info.vl_cap() > 1 {
            let (low, high, limit) = wanted_arbitration(cluster, guid, peer);
            let caps = (info.vl_arb_low_cap().into(), info.vl_arb_high_cap().into());
            let fit = |mut table: Vec<(u8, u8)>, cap| {
                table.resize(cap, (0, 0));
                table.into_iter().map(|(vl, weight)| (vl & mask, weight)).collect::<Vec<_>>()
            };
            let wanted = (fit(low, caps.0), fit(high, caps.1), limit);
            assert_eq!(arbitration(cluster, guid, num, caps), wanted, "{guid} port {num}");
        }
        // The simulator keeps the mapping of a host's port under its number 0.
        let is_host = is_host(cluster, guid);
        let (inputs, output) = if is_host { (0..=0, 0) } else { (0..=SWITCH_PORTS, num.0) };
        for input in inputs {
            let wanted = wanted_mapping(cluster, guid, input, peer);
            let wanted = wanted.map(|vl| if vl == 15 { 15 } else { vl & mask });
            assert_eq!(mapping(cluster, guid, input, output), wanted, "{guid} {input} > {num}");
            seen += 1;
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn the_tables_of_devices_with_different_vls_are_those_of_the_scopes() {
    let cluster = mixed();
    let file = cluster.file("qos-policy.conf");
    std::fs::write(&file, mixed_policy(&cluster)).expect("a file");
    let options = setup_options(&cluster, "minhop");
    let same = options.clone();
    let sm = cluster.start_with([0, 0, 0], options, Box::new(move || Ok(same.clone().into())));
    sleep(Duration::from_secs(30)).await;
    // At each of nine switches six ports with links, and two hosts.
    let inputs = usize::from(SWITCH_PORTS) + 1;
    assert_eq!(check_mixed(&cluster), 9 * (6 * inputs + 2));
    let notes = sm.subnet.borrow().as_ref().expect("SUBNET UP").plan.notes.clone();
    let count = |part: &str| notes.iter().filter(|note| note.text.contains(part)).count();
    assert_eq!(count("the sl2vl-table uses VLs 8-9, not operational at"), 1, "{notes:?}");
    assert_eq!(count("vlarb-high has 8 entries, but only 4 fit at"), 1, "{notes:?}");

    // Another sweep writes nothing.
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    sleep(Duration::from_secs(30)).await;

    // A wrong file is rejected.
    let wrong = mixed_policy(&cluster).replace("sl2vl-table: 3,2,1", "sl2vl-table: 3,2,16");
    std::fs::write(&file, wrong).expect("a file");
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    check_mixed(&cluster);

    // A new file is applied; scopes that it does not have any more fall back to the options.
    let less = mixed_policy(&cluster).replace("across: one", "").replace("3,2,1\n", "1,1,1,1\n");
    std::fs::write(&file, less).expect("a file");
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    let (switch, to_one) = peers(&cluster)[&one(&cluster)];
    assert_eq!(mapping(&cluster, switch, 1, to_one.0), row(&[1, 1, 1, 1]));
    let (low, _, limit) = arbitration(&cluster, switch, to_one, (4, 4));
    assert_eq!((low, limit), (vec![(1, 4), (2, 4), (3, 7), (0, 0)], 2));

    // Without the section all tables come from the options.
    std::fs::write(&file, "qos-ulps\n default : 0\nend-qos-ulps\n").expect("a file");
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    let usual = USUAL.map(|vl| if vl == 15 { 15 } else { vl & 3 });
    assert_eq!(mapping(&cluster, cluster.shape.switch_guid([0, 0, 0]), 1, 1), usual);
    assert_eq!(mapping(&cluster, switch, 1, to_one.0), usual);
}

/// The qos_* options of the MLNX OFED manual: packets of SLs that are mapped to VL 15 are dropped,
/// which is no fault of the routes.
#[tokio::test(start_paused = true)]
async fn the_manuals_options_take_effect() {
    let dropping = "0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15";
    let whole = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
    let weights = "0:0,1:64,2:128,3:192,4:0,5:64,6:64,7:64";
    let all = vec![(0, 0), (1, 64), (2, 128), (3, 192), (4, 0), (5, 64), (6, 64), (7, 64)];
    let cases = [
        (0, "2:1", "0:96,1:224", dropping, vec![(2, 1)], vec![(0, 96), (1, 224)]),
        (0, "1:32,2:32", "0:1,", dropping, vec![(1, 32), (2, 32)], vec![(0, 1)]),
        (
            0,
            "1:32,2:96,3:96,4:96",
            "0:1",
            dropping,
            vec![(1, 32), (2, 96), (3, 96), (4, 96)],
            vec![(0, 1)],
        ),
        (6, "0:4", weights, whole, vec![(0, 4)], all),
    ];
    for (limit, high, low, map, wanted_high, wanted_low) in cases {
        let cluster = SimCluster::healthy("2x2x1", 1);
        let options = Options {
            routing_engine: Some("minhop".into()),
            qos_max_vls: 8,
            qos_high_limit: limit,
            qos_vlarb_high: Some(high.into()),
            qos_vlarb_low: Some(low.into()),
            qos_sl2vl: Some(map.into()),
            ..cluster.options()
        };
        let sm = cluster.start([0, 0, 0], options);
        sleep(Duration::from_secs(30)).await;
        assert_eq!(cluster.faults(&sm), Vec::<String>::new());
        let wanted: Vec<u8> = map.split(',').map(|vl| vl.parse().expect("a VL")).collect();
        let wanted: Vec<u8> = wanted.iter().map(|&vl| if vl == 15 { 15 } else { vl & 7 }).collect();
        let host = cluster.shape.host_guid([1, 1, 0], 0);
        for (guid, num) in [(host, 1), (cluster.shape.switch_guid([1, 1, 0]), 7)] {
            let output = if guid == host { 0 } else { num };
            assert_eq!(mapping(&cluster, guid, 0, output)[..], wanted[..]);
            let caps = (wanted_low.len(), wanted_high.len());
            let tables = arbitration(&cluster, guid, PortNum(num), caps);
            assert_eq!(tables, (wanted_low.clone(), wanted_high.clone(), limit as u8));
        }
    }
}

/// The example of the 2007 proposal, on a fabric with the parts it names.
#[tokio::test(start_paused = true)]
async fn the_tables_of_the_proposal_are_on_the_devices() {
    let mut shape: Shape = "3x1x1".parse().expect("a shape");
    shape.hosts = 3;
    let mut topology = shape.build().expect("a ring");
    let storage = [0, 1].map(|host| shape.host_guid([1, 0, 0], host));
    for (guid, number) in storage.into_iter().zip(1..) {
        let node = topology.nodes.iter_mut().find(|node| node.guid == guid).expect("a host");
        node.port_guids = vec![(PortNum(1), Guid(0x1000_0000_0000_0000 + number))];
    }
    let hardware =
        Hardware { vl_cap: 5, vl_arb_high_cap: 16, vl_arb_low_cap: 16, ..Hardware::default() };
    let cluster = SimCluster::wired(shape, topology, hardware, 1);
    let proposal = include_str!("../../../vectors/qos-policy/proposal.conf");
    std::fs::write(cluster.file("qos-policy.conf"), proposal).expect("a file");
    let options = setup_options(&cluster, "minhop");
    let member = Guid(cluster.shape.host_guid([2, 0, 0], 0).0 + 1);
    let text = format!("Default=0x7fff : ALL=full;\nPart1=0x10 : {member}=full;\n");
    let (partitions, _) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    let partitions = Arc::new(partitions.expect("partitions"));
    let same = options.clone();
    let reload = move || Ok(Configuration::with_partitions(same.clone(), partitions.clone()));
    let sm = cluster.start_with([0, 0, 0], options, Box::new(reload));
    sleep(Duration::from_secs(30)).await;
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;

    // Storage: its ports and the ports across.
    let high = vec![(0, 255), (1, 127), (2, 63), (3, 31), (4, 15), (5, 7), (6, 3), (7, 1)];
    let low = vec![(8, 255), (9, 127), (10, 63), (11, 31), (12, 15), (13, 7), (14, 3)];
    let peers = peers(&cluster);
    let ends = |host: Guid| [(host, PortNum(1)), peers[&(host, PortNum(1))]];
    for (guid, num) in storage.into_iter().flat_map(ends) {
        assert_eq!(arbitration(&cluster, guid, num, (7, 8)), (low.clone(), high.clone(), 10));
    }
    let [_, other] = ends(cluster.shape.host_guid([1, 0, 0], 2));
    assert_eq!(arbitration(&cluster, other.0, other.1, (3, 2)).2, 2, "the options'");

    // Part1: all of its tables.
    let member = cluster.shape.host_guid([2, 0, 0], 0);
    let wanted = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7];
    assert_eq!(mapping(&cluster, member, 0, 0), wanted);

    // From Storage1 to Storage2, through their switch.
    let [[_, (switch, from)], [_, (_, to)]] = storage.map(ends);
    let mut wanted = [1; 16];
    (wanted[0], wanted[15]) = (0, 0);
    assert_eq!(mapping(&cluster, switch, from.0, to.0), wanted);
    assert_eq!(mapping(&cluster, switch, to.0, from.0), USUAL, "not the other way");
    assert_eq!(mapping(&cluster, switch, other.1.0, to.0), USUAL);
}

/// torus-2QoS keeps its own mappings and reports it; arbitration is applied, with the engine's
/// rules for ports that lead to hosts.
#[tokio::test(start_paused = true)]
async fn torus_2qos_applies_arbitration_and_rejects_mappings() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let text = "port-groups
        port-group
            name: switches
            node-type: SWITCH
        end-port-group
        port-group
            name: hosts
            node-type: CA
        end-port-group
    end-port-groups
    qos-setup
        vlarb-tables
            vlarb-scope
                across: hosts
                vlarb-high: 0:32,4:64
                vl-high-limit: 9
            end-vlarb-scope
            vlarb-scope
                group: switches
                vlarb-low: 0:8,1:8,2:8,3:8,4:1,5:1,6:1,7:2
            end-vlarb-scope
        end-vlarb-tables
        sl2vl-tables
            sl2vl-scope
                group: switches
                sl2vl-table: 0
            end-sl2vl-scope
        end-sl2vl-tables
    end-qos-setup
    qos-ulps
        default : 0
    end-qos-ulps
    ";
    let plain = SimCluster::healthy("3x3x1", 1);
    let before = plain.start([0, 0, 0], setup_options(&plain, "torus-2QoS"));
    std::fs::write(cluster.file("qos-policy.conf"), text).expect("a file");
    let sm = cluster.start([0, 0, 0], setup_options(&cluster, "torus-2QoS"));
    sleep(Duration::from_secs(30)).await;
    assert_eq!((sm.engine(), before.engine()), ("torus-2QoS", "torus-2QoS"));
    assert_eq!(cluster.tables(), plain.tables(), "routes and mappings are the engine's");
    let switch = cluster.shape.switch_guid([1, 1, 0]);
    // Port 7 leads to the host, ports 1 to 4 to switches.
    let to_host = arbitration(&cluster, switch, PortNum(7), (3, 2));
    assert_eq!((to_host.1, to_host.2), (vec![(0, 32), (1, 64)], 9));
    let (low, _, limit) = arbitration(&cluster, switch, PortNum(1), (8, 2));
    assert_eq!(low, [(0, 8), (1, 8), (2, 8), (3, 8), (4, 1), (5, 1), (6, 1), (7, 2)]);
    assert_eq!(limit, 2);
    let notes = sm.subnet.borrow().as_ref().expect("SUBNET UP").plan.notes.clone();
    let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
    let of_policy: Vec<&&str> =
        texts.iter().filter(|text| text.contains("qos-policy.conf")).collect();
    assert_eq!(of_policy.len(), 2, "{texts:#?}");
    assert!(of_policy[0].contains("equal for VLs 0-3"), "{of_policy:?}");
    assert!(of_policy[1].contains("this sl2vl-scope is rejected: torus-2QoS"), "{of_policy:?}");

    // The resolved policy is kept while nodes and P_Keys are the same.
    let published = || sm.subnet.borrow().clone().expect("SUBNET UP");
    let first = published().qos_policy.clone().expect("a policy");
    let generation = sm.generation();
    assert!(cluster.fabric.unlink(switch, PortNum(1)));
    sleep(Duration::from_secs(30)).await;
    assert!(sm.generation() > generation);
    let second = published().qos_policy.clone().expect("a policy");
    assert!(Arc::ptr_eq(&first, &second));
    cluster.fabric.set_description(switch, "another name");
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    assert!(!Arc::ptr_eq(&second, &published().qos_policy.clone().expect("a policy")));
}

#[test]
fn the_example_of_our_manual_is_right() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/qos-policy.conf.5");
    let page = std::fs::read_to_string(page).expect("the page").replace("\\-", "-");
    let (_, rest) = page.split_once(".SH EXAMPLE\n.EX\n").expect("an example");
    let (example, _) = rest.split_once(".EE").expect("its end");
    let (policy, findings) = QosPolicy::parse(Path::new("example"), example);
    assert_eq!(findings, []);
    let policy = policy.expect("a policy");
    assert_eq!((policy.vl_arbitration.len(), policy.sl_to_vl.len()), (1, 1));
}
