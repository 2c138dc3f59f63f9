//! The subnet administrator on Debian's ibsim: queried by saquery, compared with Debian's opensm on
//! the same fabric, and used by clients that join the broadcast group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::sa_client::{DEFAULT_PREFIX, UmadClient, is_inside, request, run_inside, with_tid};
use testkit::{Ibsim, Running, have, own_program, tool, torus_sm, wait_for};
use torus_sm::config::options::Options;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Gid, Guid, Pkey};
use torus_sm::plan::partitions;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::{JoinState, McMemberRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// A 3x3x3 torus with one host per switch, and a subnet manager that runs at the first host.
struct Site {
    shape: Shape,
    topology: Topology,
    sim: Ibsim,
    _manager: Running,
    _files: TempDir,
}

impl Site {
    fn new(program: &Path) -> Self {
        let shape = Shape { hosts: 1, ..Shape::torus([3; 3]) };
        let topology = shape.build().expect("a torus");
        let files = tempfile::tempdir().expect("a folder");
        let net = files.path().join("fabric.net");
        let conf = files.path().join("torus-2QoS.conf");
        fs::write(&net, ibnet::write(&topology)).expect("a file");
        fs::write(&conf, shape.torus_conf()).expect("a file");
        let sim = Ibsim::start(&net);
        let log = sim.dir().join("sm.log");
        let manager = sim
            .command(&host(&shape, [0, 0, 0]), program)
            .args(["-R", "torus-2QoS,no_fallback", "-Q", "-n", "64", "-d2", "--torus_config"])
            .arg(&conf)
            .arg("-f")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the subnet manager starts");
        wait_for(&log, "SUBNET UP", Duration::from_secs(30));
        Self { shape, topology, sim, _manager: Running(manager), _files: files }
    }

    /// The output of a program that runs at the host `at`.
    fn text(&self, at: [u16; 3], program: &str, args: &[&str]) -> String {
        let output = self.sim.run(&host(&self.shape, at), program, args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = text(&output.stdout);
        let err = text(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {out}{err}");
        out
    }

    /// `name..value` lines of a record that saquery prints at the host (1, 0, 0).
    fn record(&self, args: &[&str]) -> BTreeMap<String, String> {
        let text = self.text([1, 0, 0], "saquery", args);
        let fields = text.lines().filter_map(|line| line.trim().split_once(".."));
        let clean = |value: &str| value.trim_start_matches('.').to_owned();
        fields.map(|(name, value)| (name.to_owned(), clean(value))).collect()
    }

    /// GUIDs of all end ports.
    fn end_ports(&self) -> Vec<Guid> {
        let guid = |node: &torus_sm::fabric::topology::TopologyNode| match node.kind {
            NodeKind::Switch => node.guid,
            _ => Guid(node.guid.0 + 1),
        };
        self.topology.nodes.iter().map(guid).collect()
    }
}

/// The name of a host for SIM_HOST.
fn host(shape: &Shape, at: [u16; 3]) -> String {
    format!("H-{:016x}", shape.host_guid(at, 0).0)
}

/// A GID in the notation of saquery.
fn gid(guid: Guid) -> String {
    Gid::new(DEFAULT_PREFIX, guid).to_string()
}

#[test]
fn paths_are_those_of_opensm() {
    if !have(&["ibsim", "opensm", "saquery"]) {
        return;
    }
    let ours = Site::new(&torus_sm());
    let theirs = Site::new(&tool("opensm").expect("checked"));
    let ports = ours.end_ports();
    // 36 pairs: hosts, switches, and ports with themselves.
    let mut pairs: Vec<(Guid, Guid)> =
        (0..34).map(|n| (ports[n * 7 % ports.len()], ports[(n * 31 + 5) % ports.len()])).collect();
    pairs.extend([(ports[0], ports[0]), (ports[1], ports[1])]);
    let mut levels = BTreeSet::new();
    for (from, to) in pairs {
        let args = ["-p", "--sgid", &gid(from), "--dgid", &gid(to)];
        let mut our = ours.record(&args);
        let mut their = theirs.record(&args);
        assert!(our.contains_key("pkt_life"), "{from} to {to}: {our:?}");
        // LIDs differ between subnets.
        for lid in ["slid", "dlid"] {
            our.remove(lid);
            their.remove(lid);
        }
        assert_eq!(our, their, "from {from} to {to}");
        levels.insert(our["sl"].clone());
    }
    assert!(levels.len() > 3, "the sample crosses datelines: {levels:?}");
}

#[test]
fn records_of_nodes_ports_and_managers() {
    if !have(&["ibsim", "saquery", "smpquery"]) {
        return;
    }
    let site = Site::new(&torus_sm());
    let guid = Guid(site.shape.host_guid([2, 1, 0], 0).0 + 1);
    let path = site.record(&["-p", "--sgid", &gid(guid), "--dgid", &gid(guid)]);
    let lid = &path["slid"];
    let node = site.record(&["NR", lid]);
    assert_eq!(node["port_guid"], format!("{guid}"));
    assert_eq!(node["node_type"], "Channel Adapter");
    let class = site.record(&["CPI"]);
    assert_eq!(class["Class version"], "2");
    assert_eq!(class["Response time value"], "0x10");
    let manager = site.record(&["SMIR"]);
    assert_eq!(manager["GUID"], format!("{}", Guid(site.shape.host_guid([0; 3], 0).0 + 1)));
    assert_eq!(manager["SMState"], "3");
    assert_eq!(manager["SM_Key"], "0x0000000000000000");
    // The record of the port itself equals that of the administrator, except for fields that sweeps
    // change.
    let from_sa = site.text([1, 0, 0], "saquery", &["PIR", &format!("{lid}/1")]);
    let from_port = site.text([1, 0, 0], "smpquery", &["portinfo", lid, "1"]);
    let fields = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.trim().split_once(":."));
        lines.map(|(k, v)| (k.to_owned(), v.trim_start_matches('.').to_owned())).collect()
    };
    let from_sa = fields(&from_sa);
    let from_port = fields(&from_port);
    for field in [
        "Lid",
        "SMLid",
        "CapMask",
        "LinkState",
        "PhysLinkState",
        "NeighborMTU",
        "OperVLs",
        "LinkWidthActive",
        "LinkSpeedActive",
        "GidPrefix",
        "LMC",
        "SMSL",
        "SubnetTimeout",
        "LinkWidthEnabled",
        "LinkSpeedEnabled",
        "VLHighLimit",
    ] {
        assert!(from_port.contains_key(field), "{field} is printed: {from_port:?}");
        assert_eq!(from_sa.get(field), from_port.get(field), "{field}");
    }
    let group = site.record(&["MCMR"]);
    assert_eq!(group["MGID"], broadcast().to_string());
    assert_eq!((group["mlid"].as_str(), group["qkey"].as_str()), ("0xc000", "0xb1b"));
}

fn broadcast() -> Gid {
    partitions::default(&Options::default())[0].groups[0].mgid
}

/// Output ports by switch GUID, from the devices.
type Mfts = BTreeMap<u64, Vec<u8>>;

impl Site {
    /// Runs an ignored test of this module at the host `at`.
    fn inside(&self, at: [u16; 3], part: &str) {
        let command = self.sim.command(&host(&self.shape, at), &own_program());
        run_inside(command, module_path!(), part);
    }

    /// The entries of MLID 0xC000.
    fn mfts(&self) -> Mfts {
        let text = self.text([1, 0, 0], "dump_mfts", &[]);
        let mut mfts = Mfts::new();
        let mut switch = 0;
        let mut columns = Vec::new();
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once(" guid 0x") {
                let hex = rest.split_whitespace().next().unwrap_or_default();
                switch = u64::from_str_radix(hex, 16).expect("a GUID");
            } else if line.trim_start().starts_with("Ports:") {
                // The numbers are above the columns of the entries.
                let digits = line.char_indices().filter(|(_, c)| c.is_ascii_digit());
                columns = digits.map(|(at, c)| (at, c as u8 - b'0')).collect::<Vec<(usize, u8)>>();
            } else if line.starts_with("0xc000") {
                let is_set = |at: usize| line.as_bytes().get(at) == Some(&b'x');
                let ports = columns.iter().filter(|&&(at, _)| is_set(at)).map(|&(_, port)| port);
                mfts.insert(switch, ports.collect());
            }
        }
        mfts
    }

    /// Waits until exactly the hosts `members` are in the tree.
    fn wait_for_tree(&self, members: &[[u16; 3]]) {
        let wanted: BTreeSet<u64> =
            members.iter().map(|&at| self.shape.host_guid(at, 0).0).collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mfts = self.mfts();
            let found = members.iter().map(|&at| self.flood(&mfts, at)).collect::<Vec<_>>();
            let others = |at: [u16; 3]| {
                let mut others = wanted.clone();
                others.remove(&self.shape.host_guid(at, 0).0);
                Ok(others)
            };
            if members.iter().zip(&found).all(|(&at, found)| *found == others(at)) {
                return;
            }
            assert!(Instant::now() < deadline, "{mfts:?}\n{found:?}\nwanted {wanted:?}");
        }
    }

    /// The hosts that receive a packet from the host `from` to the group; an error if a packet
    /// reaches a node twice or leaves by an unconnected port.
    fn flood(&self, mfts: &Mfts, from: [u16; 3]) -> Result<BTreeSet<u64>, String> {
        let nodes = &self.topology.nodes;
        let peer = |node: usize, port: u8| {
            self.topology.cables.iter().find_map(|&[a, b]| match (a, b) {
                (a, b) if (a.0, a.1.0) == (node, port) => Some((b.0, b.1.0)),
                (a, b) if (b.0, b.1.0) == (node, port) => Some((a.0, a.1.0)),
                _ => None,
            })
        };
        let source = self.shape.host_guid(from, 0);
        let start = nodes.iter().position(|node| node.guid == source).ok_or("no such host")?;
        let mut queue = VecDeque::from([peer(start, 1).ok_or("a host without a cable")?]);
        let mut seen = BTreeSet::new();
        let mut heard = BTreeSet::new();
        while let Some((node, input)) = queue.pop_front() {
            let guid = nodes[node].guid.0;
            if !seen.insert(guid) {
                return Err(format!("{guid:#x} gets a packet twice"));
            }
            if nodes[node].kind != NodeKind::Switch {
                heard.insert(guid);
                continue;
            }
            for &port in mfts.get(&guid).into_iter().flatten().filter(|&&port| port != input) {
                queue.push_back(peer(node, port).ok_or(format!("{guid:#x} port {port} is open"))?);
            }
        }
        Ok(heard)
    }
}

#[test]
fn members_of_the_broadcast_group_hear_each_other() {
    if !have(&["ibsim", "dump_mfts"]) {
        return;
    }
    let site = Site::new(&torus_sm());
    let members = [[1, 0, 0], [0, 2, 1], [2, 2, 2], [1, 1, 2]];
    for (n, &member) in members.iter().enumerate() {
        site.inside(member, "inside_joins");
        if n > 0 {
            site.wait_for_tree(&members[..=n]);
        }
    }
    site.inside(members[1], "inside_leaves");
    site.wait_for_tree(&[members[0], members[2], members[3]]);
}

/// Requests a change of the local port's membership in the broadcast group; status and record of
/// the reply.
fn change_membership(method: Method) -> (u16, McMemberRecord) {
    // With the same transaction ID, a second request would be a retransmission of the first.
    static TID: AtomicU64 = AtomicU64::new(1);
    let client = UmadClient::open();
    let mut record = McMemberRecord::default();
    record.set_mgid(broadcast());
    record.set_port_gid(Gid::new(DEFAULT_PREFIX, client.guid()));
    record.set_join_state(JoinState::FULL);
    let named = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let request = request(SaAttr::MC_MEMBER_RECORD, method, named, &record);
    let reply = client.call(&with_tid(request, TID.fetch_add(1, Ordering::Relaxed)));
    (reply.status(), McMemberRecord::parse(&reply.mad[DATA_OFFSET..]))
}

#[test]
#[ignore = "needs the shim: run by members_of_the_broadcast_group_hear_each_other"]
fn inside_joins() {
    if !is_inside() {
        return;
    }
    let (status, record) = change_membership(Method::SET);
    assert_eq!(status, 0);
    assert_eq!((record.mlid().0, record.qkey()), (0xC000, 0x0b1b));
    assert_eq!((record.pkey(), record.join_state()), (Pkey::DEFAULT_FULL, JoinState::FULL));
}

#[test]
#[ignore = "needs the shim: run by members_of_the_broadcast_group_hear_each_other"]
fn inside_leaves() {
    if !is_inside() {
        return;
    }
    let (status, record) = change_membership(Method::DELETE);
    assert_eq!(status, 0);
    assert!(record.join_state().is_empty());
    let (status, _) = change_membership(Method::DELETE);
    assert_eq!(status, 0x0200, "who is no member cannot leave");
}
