//! A fabric with its configuration, drawn from a seed.

use super::{Options, SEEDS};
use std::fs;
use std::path::Path;
use testkit::fabrics::{self, Family, RandomFabric};
use testkit::torus::random::Random;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// The first MLID of the groups of a case.
const FIRST_MLID: u16 = 0xc010;

/// A fabric, the options of both programs and multicast groups.
#[derive(Clone)]
pub(crate) struct EngineCase {
    pub seed: u64,
    pub family: Family,
    pub engine: &'static str,
    pub topology: Topology,
    /// The node at which the SM runs.
    pub local: usize,
    /// Lines of opensm.conf without the keys of `files`.
    pub conf: String,
    /// Keys of opensm.conf and the contents of their files.
    pub files: Vec<(&'static str, String)>,
    /// The members of each multicast group, as port GUIDs.
    pub groups: Vec<Vec<Guid>>,
}

impl EngineCase {
    /// The case of a seed, in which half of the fabrics have aggregation nodes.
    pub(crate) fn random(
        engine: &'static str,
        families: &[Family],
        seed: u64,
        options: Options,
    ) -> Self {
        Self::draw(engine, families, seed, options, &[0, 0, 40, 100])
    }

    /// The case of a seed. `shares`: of switches with an aggregation node, in percent.
    pub(crate) fn draw(
        engine: &'static str,
        families: &[Family],
        seed: u64,
        options: Options,
        shares: &[usize],
    ) -> Self {
        let family = families[seed as usize % families.len()];
        let mut random = Random::new(seed);
        let RandomFabric { mut topology, local } = fabrics::random(family, &mut random);
        let share = shares[random.below(shares.len())];
        fabrics::attach_aggregation_nodes(&mut topology, &mut random, share);
        let lmc = [0, 0, 0, 0, 1, 1, 2, 3][random.below(8)];
        let mut case = Self {
            seed,
            family,
            engine,
            topology,
            local,
            conf: format!("lmc {lmc}\n"),
            files: Vec::new(),
            groups: Vec::new(),
        };
        case.add_groups(&mut random);
        options(&mut case, &mut random);
        case
    }

    /// Four groups of random end ports; the first of all hosts.
    pub(crate) fn add_groups(&mut self, random: &mut Random) {
        let mut ports = self.end_ports();
        let hosts = ports.iter().filter(|(kind, _)| *kind == NodeKind::Ca);
        self.groups.push(hosts.map(|&(_, guid)| guid).collect());
        for share in [10, 30, 60] {
            random.shuffle(&mut ports);
            let count = 2 + ports.len() * share / 100;
            self.groups.push(ports.iter().take(count).map(|&(_, guid)| guid).collect());
        }
    }

    /// The end ports, with the kind of their nodes.
    pub(crate) fn end_ports(&self) -> Vec<(NodeKind, Guid)> {
        let ports = self.topology.nodes.iter().flat_map(|node| {
            let nums = if node.kind == NodeKind::Switch { 0..=0 } else { 1..=node.num_ports };
            nums.map(|num| (node.kind, node.port_guid(PortNum(num))))
        });
        ports.collect()
    }

    /// The MLIDs of the groups.
    pub(crate) fn mlids(&self) -> impl Iterator<Item = u16> {
        FIRST_MLID..FIRST_MLID + self.groups.len() as u16
    }

    /// Adds a key of opensm.conf.
    pub(crate) fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.conf += &format!("{key} {value}\n");
    }

    /// Adds a key of opensm.conf whose value is a file.
    pub(crate) fn add_file(&mut self, key: &'static str, text: String) {
        self.files.push((key, text));
    }

    /// The switches of the fabric.
    pub(crate) fn switches(&self) -> Vec<(Guid, u8)> {
        let nodes = self.topology.nodes.iter();
        let switches = nodes.filter(|node| node.kind == NodeKind::Switch);
        switches.map(|node| (node.guid, node.num_ports)).collect()
    }

    /// The port GUIDs of the hosts.
    pub(crate) fn host_ports(&self) -> Vec<Guid> {
        self.groups[0].clone()
    }

    /// The node at which the SM runs, as ibsim names it.
    pub(crate) fn sm_host(&self) -> String {
        format!("H-{:016x}", self.topology.nodes[self.local].guid.0)
    }

    /// The command that runs this case alone.
    pub(crate) fn replay(&self) -> String {
        format!(
            "seed {} ({}, {}): {SEEDS}={} cargo test --test opensm_compat engines::{}",
            self.seed,
            self.engine,
            self.family,
            self.seed,
            self.engine.to_lowercase().replace('-', "_")
        )
    }

    /// Writes `fabric.net`, `opensm.conf`, the SA database with the groups, and the files that
    /// opensm.conf names.
    pub(crate) fn write(&self, folder: &Path) {
        let mut conf = self.conf.clone();
        let groups = ("sa_db_file", self.sa_database());
        for (key, text) in self.files.iter().chain([&groups]) {
            let path = folder.join(key);
            conf += &format!("{key} {}\n", path.display());
            fs::write(path, text).expect("a file");
        }
        fs::write(folder.join("opensm.conf"), conf).expect("a file");
        fs::write(folder.join("fabric.net"), ibnet::write(&self.topology)).expect("a file");
    }

    /// The groups in the format of opensm-sa.dump.
    fn sa_database(&self) -> String {
        let mut text = String::new();
        for (mlid, members) in self.mlids().zip(&self.groups) {
            text += &format!(
                "MC Group 0x{mlid:04x} : mgid=0xff12a01cfe800000:0x{mlid:016x} \
                 port_gid=0xfe80000000000000:0x{:016x} qkey=0x00000b1b mlid=0x{mlid:04x} mtu=0x84 \
                 tclass=0x00 pkey=0xffff rate=0x83 pkt_life=0x92 sl_flow_hop=0x00000000 \
                 scope_state=0x21 proxy_join=0x0\n\n",
                members[0].0
            );
            for member in members {
                text += &format!(
                    "mcm_port: port_gid=0xfe80000000000000:0x{:016x} scope_state=0x21 \
                     proxy_join=0x0\n\n",
                    member.0
                );
            }
        }
        text
    }
}
