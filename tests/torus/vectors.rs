//! torus-2QoS against OpenSM 3.3.23: fifteen fabrics with OpenSM's results, compared by GUID.
//! `vectors/torus-2qos/README.md` describes the files.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::{Fabric, PortId, ibnet};
use torus_sm::ids::{Guid, Lid, Mlid, Sl};
use torus_sm::notes::Note;
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::torus::{Torus, Torus2Qos};
use torus_sm::plan::routing::{Engine, Routing, RoutingError, RoutingInput};
use torus_sm::wire::attr::NodeKind;

/// Number of differences that are printed; the others are only counted.
const SHOWN: usize = 20;

struct Vector {
    folder: PathBuf,
    topology: Topology,
    config: Result<TorusConfig, Vec<Note>>,
    options: Options,
}

/// A fabric with its LIDs and routes.
struct Routed {
    fabric: Fabric,
    lids: LidTable,
    routing: Result<Routing, RoutingError>,
}

impl Vector {
    fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/torus-2qos");
        let folder = root.join(name);
        let net = folder.join("fabric.net");
        let topology = ibnet::parse(&net, &std::fs::read_to_string(&net).unwrap()).unwrap();
        let file = folder.join("torus-2QoS.conf");
        let config = TorusConfig::parse(&file, &std::fs::read_to_string(&file).unwrap());
        let mut options = Options { qos: true, ..Options::default() };
        let vector = |options| Self { folder, topology, config, options };
        options.max_op_vls = 5;
        let mut vector = vector(options);
        if vector.json("meta.json")["data_vls"] == 4 {
            vector.options.max_op_vls = 3;
        }
        vector
    }

    fn json(&self, file: &str) -> Value {
        let text = std::fs::read_to_string(self.folder.join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Routes the fabric as seen from the n-th channel adapter that has a cable.
    fn route_from(&self, nth: usize) -> Routed {
        let is_cabled =
            |node: usize| self.topology.cables.iter().flatten().any(|end| end.0 == node);
        let local = (0..self.topology.nodes.len())
            .filter(|&node| self.topology.nodes[node].kind == NodeKind::Ca && is_cabled(node))
            .nth(nth)
            .unwrap();
        let fabric =
            Fabric::from_topology(&self.topology, local, &SyntheticView::default()).unwrap();
        let mut lids = LidTable::new(fabric.ports().len());
        for (index, port) in fabric.end_ports().enumerate() {
            lids.assign(port, Lid(index as u16 + 1), 0);
        }
        let input = RoutingInput {
            fabric: &fabric,
            lids: &lids,
            options: &self.options,
            torus_config: &self.config,
            previous: None,
            previous_fabric: None,
        };
        let routing = Torus2Qos.route(&input);
        Routed { fabric, lids, routing }
    }
}

type Table<V> = BTreeMap<String, V>;

/// All entries that differ, as text.
fn differences<V: PartialEq + Debug>(
    what: &str,
    ours: &Table<V>,
    theirs: &Table<V>,
) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = keys.into_iter().filter(|key| ours.get(*key) != theirs.get(*key));
    differing
        .map(|key| format!("{what} {key}: {:?}, OpenSM {:?}", ours.get(key), theirs.get(key)))
        .collect()
}

fn guid(value: &str) -> String {
    Guid(u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap()).to_string()
}

/// Flattens `{a: {b: v}}` to `{"a b": v}`.
fn flatten(value: &Value) -> Table<Value> {
    let inner = |(a, table): (&String, &Value)| -> Vec<(String, Value)> {
        let table = table.as_object().unwrap();
        table.iter().map(|(b, v)| (format!("{} {b}", guid(a)), v.clone())).collect()
    };
    value.as_object().unwrap().iter().flat_map(inner).collect()
}

impl Routed {
    fn routing(&self) -> &Routing {
        self.routing.as_ref().unwrap()
    }

    fn switch_guid(&self, switch: torus_sm::fabric::SwitchId) -> Guid {
        self.fabric.switch(switch).guid()
    }

    fn end_port_guid(&self, port: PortId) -> Guid {
        self.fabric.port(port).guid
    }

    fn coordinates(&self) -> Table<Value> {
        let torus = Torus::of(self.routing()).unwrap();
        let entry = |(coordinates, switch)| {
            let torus_sm::plan::routing::torus::Coordinates(xyz) = coordinates;
            (self.switch_guid(switch).to_string(), Value::from(xyz.to_vec()))
        };
        torus.switches().map(entry).collect()
    }

    fn lfts(&self) -> Table<Value> {
        let mut table = Table::new();
        for switch in self.fabric.switch_ids() {
            for (lid, port) in self.lids.iter() {
                if let Some(out) = self.routing().lft(switch).out(lid) {
                    let from = self.switch_guid(switch);
                    let to = self.end_port_guid(port);
                    table.insert(format!("{from} {to}"), out.into());
                }
            }
        }
        table
    }

    fn sls(&self) -> Table<Value> {
        let mut table = Table::new();
        for from in self.fabric.end_ports() {
            for to in self.fabric.end_ports() {
                let sl = self.routing().policy.path_sl(from, to, Sl(0));
                let from = self.end_port_guid(from);
                let to = self.end_port_guid(to);
                table.insert(format!("{from} {to}"), sl.0.into());
            }
        }
        table
    }

    /// The mappings of the (port, "in,out") pairs in `theirs`.
    fn sl_to_vl(&self, theirs: &Table<Value>) -> Table<Value> {
        let mut table = Table::new();
        for key in theirs.keys() {
            let (owner, pair) = key.split_once(' ').unwrap();
            let (input, output) = pair.split_once(',').unwrap();
            let owner = Guid(u64::from_str_radix(owner.trim_start_matches("0x"), 16).unwrap());
            let node =
                self.fabric.node_by_guid(owner).filter(|&id| self.fabric.node(id).is_switch());
            let port = |num: &str| match node {
                Some(node) => self.fabric.port_of(node, num.parse::<u8>().unwrap().into()),
                None => self.fabric.port_by_guid(owner),
            };
            let input = port(input).unwrap();
            let output = port(output).unwrap();
            if let Some(map) = self.routing().policy.sl_to_vl(input, output) {
                table.insert(key.clone(), format!("{map:?}").into());
            }
        }
        table
    }

    fn multicast(&self, groups: &Value) -> (Table<Value>, Table<Value>) {
        let mut ours = Table::new();
        let mut theirs = Table::new();
        for (mlid, group) in groups.as_object().unwrap() {
            let members: Vec<PortId> = group["members"]
                .as_array()
                .unwrap()
                .iter()
                .map(|member| guid(member.as_str().unwrap()))
                .map(|member| u64::from_str_radix(&member[2..], 16).unwrap())
                .map(|member| self.fabric.port_by_guid(Guid(member)).unwrap())
                .collect();
            let number = Mlid(u16::from_str_radix(&mlid[2..], 16).unwrap());
            let tree = self.routing().policy.multicast_tree(number, &members).unwrap();
            for (switch, mask) in &tree.switches {
                let ports: Vec<u8> = mask.iter().collect();
                ours.insert(format!("{mlid} {}", self.switch_guid(*switch)), ports.into());
            }
            for (switch, ports) in group["mft"].as_object().unwrap() {
                theirs.insert(format!("{mlid} {}", guid(switch)), ports.clone());
            }
        }
        (ours, theirs)
    }
}

fn normalized(value: &Value) -> Table<Value> {
    let entries = flatten(value);
    let key = |key: &String| {
        let (from, to) = key.split_once(' ').unwrap();
        format!("{from} {}", guid(to))
    };
    entries.iter().map(|(pair, value)| (key(pair), value.clone())).collect()
}

fn compare(name: &str) {
    let vector = Vector::read(name);
    let mut found = Vec::new();
    for local in [0, 2] {
        let routed = vector.route_from(local);
        if let Err(refusal) = &routed.routing {
            panic!("{name} is refused: {:#?}", refusal.notes);
        }
        let torus = vector.json("torus.json");
        let theirs: Table<Value> =
            torus.as_object().unwrap().iter().map(|(k, v)| (guid(k), v.clone())).collect();
        found.extend(differences("coordinates", &routed.coordinates(), &theirs));
        found.extend(differences("LFT", &routed.lfts(), &normalized(&vector.json("lft.json"))));
        found.extend(differences("SL", &routed.sls(), &normalized(&vector.json("sl.json"))));
        let theirs = flatten(&vector.json("sl2vl.json"));
        assert!(!theirs.is_empty());
        found.extend(differences("SL2VL", &routed.sl_to_vl(&theirs), &theirs));
        let (ours, theirs) = routed.multicast(&vector.json("mft.json"));
        found.extend(differences("MFT", &ours, &theirs));
    }
    if !found.is_empty() {
        let shown = found[..found.len().min(SHOWN)].join("\n");
        panic!("{name}: {} differences\n{shown}", found.len());
    }
}

/// The errors of a fabric that must be rejected.
fn refused(name: &str) -> Vec<Note> {
    let mut vector = Vector::read(name);
    assert!(vector.route_from(0).routing.is_ok(), "torus_repair routes {name}");
    vector.options.torus_repair = false;
    let refusal = vector.route_from(0).routing.unwrap_err();
    refusal.notes.into_iter().filter(|note| note.code.is_some()).collect()
}

testkit::vector_tests!(compare);

#[test]
fn v10_disjoint_ring_is_rejected() {
    let errors = refused("v10-refuse-disjoint");
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0].code, Some("4E33"));
    assert!(errors[0].text.starts_with("the x ring at y="), "{}", errors[0].text);
    assert_eq!(errors[0].text.matches("between switch").count(), 2, "{}", errors[0].text);
}

#[test]
fn v11_two_switches_of_a_ring_are_rejected() {
    let errors = refused("v11-refuse-two-switches");
    assert!(errors.iter().any(|note| note.code == Some("4E38")), "{errors:#?}");
}
