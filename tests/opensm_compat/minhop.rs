//! Min Hop's tables against those of OpenSM's `-R minhop`, by GUID, on fabrics that ibsim
//! simulates. Prints SKIPPED where ibsim or opensm is not installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torus_sm::config::guid_lists::{self, GuidLists};
use torus_sm::config::options::Options;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::fabric::{Fabric, PortId, ibnet, synthetic::SyntheticView};
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::minhop::MinHop;
use torus_sm::plan::routing::{Engine, Routing, RoutingInput};
use torus_sm::wire::attr::NodeKind;

const EXAMPLES: &str = "/usr/share/doc/ibsim-utils/net-examples";

/// Port GUID and output port by switch and LID, as OpenSM dumps them (`None`: unreachable).
type Tables = BTreeMap<Guid, BTreeMap<Lid, (Guid, Option<u8>)>>;

/// The configuration of both programs beside the fabric.
#[derive(Default)]
struct Tuning {
    name: &'static str,
    lmc: u8,
    /// Lines of opensm.conf, and their equivalent options.
    conf: &'static str,
    options: Options,
    /// Key in opensm.conf and contents of its file.
    file: Option<(&'static str, String)>,
    lists: GuidLists,
}

#[test]
fn tables_equal_opensm() {
    let Some(tools) = Tools::find() else {
        eprintln!(
            "SKIPPED: ibsim, its umad shim or opensm is not installed (apt-get install ibsim-utils opensm)"
        );
        return;
    };
    let mut cases = 0;
    for (name, topology) in fabrics() {
        for tuning in tunings(&topology) {
            compare(&tools, &name, &topology, &tuning);
            cases += 1;
        }
    }
    assert!(cases >= 30, "only {cases} cases were compared");
}

fn compare(tools: &Tools, name: &str, topology: &Topology, tuning: &Tuning) {
    let case = format!("{name}, {}", tuning.name);
    let theirs = tools.tables(&ibnet::write(topology), tuning);
    let fabric =
        Fabric::from_topology(topology, 0, &SyntheticView::default()).expect("a first node");
    let switches: BTreeSet<_> =
        fabric.switch_ids().map(|switch| fabric.switch(switch).guid()).collect();
    assert_eq!(switches, theirs.keys().copied().collect(), "{case}: not the same switches");
    let lids = lid_table(&fabric, &theirs);
    let ours = route(&fabric, &lids, tuning);
    for switch in fabric.switch_ids() {
        let guid = fabric.switch(switch).guid();
        for (&lid, &(port, out)) in &theirs[&guid] {
            let our_out = ours.lft(switch).out(lid);
            assert_eq!(our_out, out, "{case}: switch {guid} to port {port}, LID {lid}");
        }
        let entries = lids.iter().filter(|&(lid, _)| ours.lft(switch).out(lid).is_some()).count();
        let their_entries = theirs[&guid].values().filter(|(_, out)| out.is_some()).count();
        assert_eq!(entries, their_entries, "{case}: entries of switch {guid}");
    }
}

/// OpenSM's LIDs.
fn lid_table(fabric: &Fabric, tables: &Tables) -> LidTable {
    let entries = tables.values().flatten();
    let mut by_port = BTreeMap::<PortId, BTreeSet<Lid>>::new();
    for (&lid, (guid, _)) in entries {
        let port = fabric.port_by_guid(*guid).expect("a port of the fabric");
        by_port.entry(port).or_default().insert(lid);
    }
    let mut lids = LidTable::new(fabric.ports().len());
    for (port, own) in by_port {
        lids.assign(port, *own.first().expect("a LID"), own.len().ilog2() as u8);
    }
    lids
}

fn route(fabric: &Fabric, lids: &LidTable, tuning: &Tuning) -> Routing {
    let engine = MinHop::new(Arc::new(tuning.lists.clone()));
    let torus_config = &Err(Vec::new());
    let options = &tuning.options;
    engine
        .route(&RoutingInput {
            fabric,
            lids,
            options,
            torus_config,
            previous: None,
            previous_fabric: None,
        })
        .expect("Min Hop routes every fabric")
}

/// All tunable parameters of OpenSM, on this fabric.
fn tunings(topology: &Topology) -> Vec<Tuning> {
    let of_kind = |kind| topology.nodes.iter().filter(move |node| node.kind == kind);
    let switches: Vec<_> = of_kind(NodeKind::Switch).map(|node| node.guid.0).collect();
    let listed = |line: &dyn Fn(u64) -> String| -> String {
        switches.iter().step_by(2).map(|&guid| line(guid)).collect()
    };
    let with_file = |name, key, text: String, parse: &dyn Fn(&str, &mut GuidLists)| {
        let mut lists = GuidLists::default();
        parse(&text, &mut lists);
        Tuning { name, file: Some((key, text)), lists, ..Tuning::default() }
    };
    let file = Path::new("list");
    let hosts = of_kind(NodeKind::Ca).map(|node| format!("{:#x}\n", node.port_guid(PortNum(1)).0));
    let order: Vec<_> = hosts.step_by(3).collect();
    let order: String = order.into_iter().rev().collect();
    let weights = listed(&|guid| format!("{guid:#x} 1 3\n{guid:#x} 3 2 # slow\n"));
    let orders = listed(&|guid| format!("{guid:#x} 4 2 3\n"));
    let ignored = listed(&|guid| format!("{guid:#x} 1\n{guid:#x} 2\n"));
    let shifting = Options { port_shifting: true, ..Options::default() };
    vec![
        Tuning { name: "defaults", ..Tuning::default() },
        Tuning { name: "LMC 1", lmc: 1, ..Tuning::default() },
        Tuning { name: "LMC 3", lmc: 3, ..Tuning::default() },
        Tuning {
            name: "switches counted",
            conf: "port_profile_switch_nodes TRUE\n",
            options: Options { port_profile_switch_nodes: true, ..Options::default() },
            ..Tuning::default()
        },
        Tuning {
            name: "ports shifted",
            conf: "port_shifting TRUE\n",
            options: shifting.clone(),
            ..Tuning::default()
        },
        Tuning {
            name: "ports shifted, LMC 2",
            conf: "port_shifting TRUE\n",
            options: shifting,
            lmc: 2,
            ..Tuning::default()
        },
        Tuning {
            name: "ports scattered, LMC 1",
            conf: "scatter_ports 4242\n",
            options: Options { scatter_ports: 4242, ..Options::default() },
            lmc: 1,
            ..Tuning::default()
        },
        with_file("routing order", "guid_routing_order_file", order, &|text, lists| {
            lists.routing_order = guid_lists::guids(file, text).entries;
        }),
        with_file("hop weights", "hop_weights_file", weights, &|text, lists| {
            lists.hop_weights = guid_lists::hop_weights(file, text).entries;
        }),
        with_file("search order", "port_search_ordering_file", orders, &|text, lists| {
            lists.search_orders = guid_lists::search_orders(file, text).entries;
        }),
        with_file("ignored ports", "port_prof_ignore_file", ignored, &|text, lists| {
            lists.ignored_ports = guid_lists::ports(file, text).entries;
        }),
    ]
}

/// Irregular generated fabrics, and ibsim's examples.
fn fabrics() -> Vec<(String, Topology)> {
    let mut fabrics: Vec<_> =
        [(6, 1), (12, 2), (20, 3)].map(|(switches, seed)| irregular(switches, seed)).into();
    for example in ["net.2sw2path4hca", "net.2sw2path4hca2port"] {
        let path = Path::new(EXAMPLES).join(example);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        match ibnet::parse(&path, &text) {
            Ok(topology) => fabrics.push((example.to_owned(), topology)),
            Err(error) => panic!("{error}"),
        }
    }
    fabrics
}

/// A ring of switches with hosts, random chords and parallel links; some switches share a system.
/// GUIDs rise and fall in their low bytes, because OpenSM sorts by these.
fn irregular(switches: usize, seed: u64) -> (String, Topology) {
    const PORTS: u8 = 12;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut topology = Topology::default();
    for index in 0..switches {
        let guid = 0x20_0000 + (index as u64) * 0x10_00B3 % 0x00FF_FFFF;
        let system = if below(3) == 0 { 0x20_0000 } else { guid };
        topology.nodes.push(node(NodeKind::Switch, guid, system, PORTS));
    }
    let mut free = vec![(1..=PORTS).map(PortNum).collect::<Vec<_>>(); switches];
    let mut cable = |topology: &mut Topology, from: usize, to: usize, pick: usize| {
        let (true, false, false) = (from != to, free[from].is_empty(), free[to].is_empty()) else {
            return;
        };
        let port = pick % free[from].len();
        let ends = [(from, free[from].remove(port)), (to, free[to].remove(0))];
        topology.cables.push(ends);
    };
    for from in 0..switches {
        cable(&mut topology, from, (from + 1) % switches, below(12));
    }
    for _ in 0..switches * 3 {
        cable(&mut topology, below(switches), below(switches), below(12));
    }
    for index in 0..switches * 2 {
        let guid = 0x1000_0000 + (index as u64) * 0x0103_0700;
        let switch = below(switches);
        let Some(port) = free[switch].pop() else { continue };
        topology.nodes.push(node(NodeKind::Ca, guid, guid, 1));
        topology.cables.push([(topology.nodes.len() - 1, PortNum(1)), (switch, port)]);
    }
    (format!("irregular fabric of {switches}"), topology)
}

fn node(kind: NodeKind, guid: u64, system: u64, num_ports: u8) -> TopologyNode {
    TopologyNode {
        kind,
        guid: Guid(guid),
        system_guid: Guid(system),
        description: format!("{kind} {guid:x}"),
        num_ports,
        port_guids: Vec::new(),
        lids: Vec::new(),
    }
}

/// Paths of the programs.
struct Tools {
    ibsim: PathBuf,
    opensm: PathBuf,
    shim: PathBuf,
}

/// A child process that is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Tools {
    fn find() -> Option<Self> {
        let in_path = |program| {
            let path = std::env::var_os("PATH")?;
            let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
            folders.map(|folder| folder.join(program)).find(|file| file.is_file())
        };
        let libraries = fs::read_dir("/usr/lib").ok()?.flatten();
        let mut shims = libraries.map(|folder| folder.path().join("umad2sim/libumad2sim.so"));
        let shim = shims.find(|file| file.is_file())?;
        Some(Self { ibsim: in_path("ibsim")?, opensm: in_path("opensm")?, shim })
    }

    /// Routes a fabric by OpenSM.
    fn tables(&self, net: &str, tuning: &Tuning) -> Tables {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("fabric.net"), net).expect("a file");
        let mut conf = tuning.conf.to_owned();
        if let Some((key, text)) = &tuning.file {
            fs::write(path("list"), text).expect("a file");
            conf += &format!("{key} {}\n", path("list").display());
        }
        fs::write(path("opensm.conf"), conf).expect("a file");
        let socket = format!("minhop-{}", folder.path().file_name().unwrap().to_string_lossy());
        let _ibsim = self.start_ibsim(folder.path(), &socket);
        let output = Command::new(&self.opensm)
            .args(["-R", "minhop", "-D", "0x43", "-o", "-F", "opensm.conf", "-f", "opensm.log"])
            .arg("-l")
            .arg(tuning.lmc.to_string())
            .arg("--dump_files_dir")
            .arg(folder.path())
            .current_dir(folder.path())
            .env("LD_PRELOAD", &self.shim)
            .env("IBSIM_SOCKNAME", &socket)
            .env("OSM_TMP_DIR", folder.path())
            .env("OSM_CACHE_DIR", folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("opensm runs");
        let dump = fs::read_to_string(path("opensm-lfts.dump"))
            .unwrap_or_else(|error| panic!("no dump, {error}: {output:?}"));
        parse_dump(&dump)
    }

    fn start_ibsim(&self, folder: &Path, socket: &str) -> Running {
        let child = Command::new(&self.ibsim)
            .args(["-s", "fabric.net"])
            .current_dir(folder)
            .env("IBSIM_SOCKNAME", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let running = Running(child.expect("ibsim starts"));
        let deadline = Instant::now() + Duration::from_secs(30);
        let listens = || fs::read_to_string("/proc/net/unix").is_ok_and(|all| all.contains(socket));
        while !listens() {
            assert!(Instant::now() < deadline, "ibsim opens no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }
}

/// Reads opensm-lfts.dump: a header `Unicast lids … guid 0x… (…)` per switch, then lines
/// `0x0002 007 # Channel Adapter portguid 0x…: '…'`.
fn parse_dump(text: &str) -> Tables {
    let mut tables = Tables::new();
    let mut switch = None;
    let hex = |text: &str| {
        let digits = text.strip_prefix("0x")?.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let after = |line: &str, word| line.split_once(word).and_then(|(_, rest)| hex(rest)).map(Guid);
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            switch = after(line, " guid ");
            tables.entry(switch.expect("a switch")).or_default();
        } else if let (Some(lid), Some(port)) = (hex(line), after(line, "portguid ")) {
            let out = line.split_whitespace().nth(1).and_then(|port| port.parse().ok());
            let table = tables.get_mut(&switch.expect("a header")).expect("a switch");
            table.insert(Lid(lid as u16), (port, out));
        }
    }
    tables
}
