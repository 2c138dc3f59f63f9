//! M_Keys of torus-sm and Debian's opensm on devices that check them: each takes over a fabric that
//! the other one has protected, by the files guid2mkey and neighbors that the other one has
//! written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::{Running, Simulator, directed_route, have, tool, torus_sm, wait_for};
use torus_sm::config::{guid2mkey, neighbors};
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, MKey};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

const OLD: &str = "0x00005ec2e7000001";
const NEW: &str = "0x00005ec2e7000002";

/// Time limit of a start and of a change of all keys.
const LIMIT: Duration = Duration::from_secs(20);

/// A ring of four switches with a host each, and the cache folder of its managers.
struct Site {
    sim: Simulator,
    topology: Topology,
    host: Guid,
}

impl Site {
    fn new() -> Option<Self> {
        if !have(&["opensm", "smpquery"]) {
            return None;
        }
        let shape = Shape::torus([4, 1, 1]);
        let topology = shape.build().expect("a shape that can be built");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let fabric = dir.path().join("fabric.net");
        fs::write(&fabric, ibnet::write(&topology)).expect("a file");
        let file = fabric.to_str().expect("a path in UTF-8");
        let sim = Simulator::start(&["--no-sm", "--file", file]);
        Some(Self { sim, topology, host: shape.host_guid([0; 3], 0) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sim.dir.path().join(name)
    }

    /// Starts a manager that gives all ports this key, with protection level 2 and no lease.
    fn start(&self, program: &Path, m_key: &str, log: &str) -> Running {
        let conf = self.path(&format!("{log}.conf"));
        let text = format!("m_key {m_key}\nm_key_protection_level 2\nsweep_interval 1\n");
        fs::write(&conf, text).expect("a file");
        let mut command = self.sim.command(&self.host.to_string(), program);
        command.arg("-F").arg(conf).arg("-f").arg(self.path(log)).args(["-d2", "-n", "64"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let manager = Running(child.expect("the manager starts"));
        wait_for(&self.path(log), "SUBNET UP", LIMIT);
        manager
    }

    /// The M_Keys of all end ports as they show them to a requester with `m_key`; `None` for those
    /// that do not answer.
    fn shown(&self, m_key: &str) -> BTreeMap<Guid, Option<String>> {
        let nodes = self.topology.nodes.iter();
        let keys = nodes.map(|node| {
            let route = directed_route(&self.topology, self.host, node.guid).to_string();
            let port = if node.kind == NodeKind::Switch { "0" } else { "1" };
            let args = ["-t", "20", "-K", "-y", m_key, "-D", "portinfo", &route, port];
            let output = self.sim.run(&self.host.to_string(), "smpquery", &args);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find(|line| line.starts_with("Mkey:"));
            (node.guid, line.map(|line| line.trim_start_matches("Mkey:").replace('.', "")))
        });
        keys.collect()
    }

    /// Waits until all end ports hold this key, and guid2mkey has it for all of them.
    #[track_caller]
    fn expect(&self, m_key: &str) {
        let start = Instant::now();
        loop {
            let shown = self.shown(m_key);
            let held = shown.values().all(|shown| shown.as_deref() == Some(m_key));
            let stored = self.stored();
            let is_stored = stored.len() == shown.len() && stored.values().all(|key| key == m_key);
            if held && is_stored {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{shown:?}\nguid2mkey: {stored:?}");
        }
    }

    /// The contents of guid2mkey.
    fn stored(&self) -> BTreeMap<Guid, String> {
        let path = self.path("guid2mkey");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let (keys, diagnostics) = guid2mkey::parse(&path, &text);
        assert_eq!(diagnostics, [], "{text}");
        let text = |MKey(key)| format!("0x{key:016x}");
        keys.into_iter().map(|(guid, key)| (guid, text(key))).collect()
    }

    fn cables(&self) -> neighbors::Neighbors {
        let path = self.path("neighbors");
        let text = fs::read_to_string(&path).expect("the file is written");
        let (cables, diagnostics) = neighbors::parse(&path, &text);
        assert_eq!(diagnostics, [], "{text}");
        cables
    }
}

#[test]
fn keys_are_taken_over_from_opensm_and_by_opensm() {
    let ours = torus_sm();
    let opensm = tool("opensm");
    let Some(opensm) = opensm else { return };
    for (first, second) in [(&opensm, &ours), (&ours, &opensm)] {
        let Some(site) = Site::new() else { return };
        let manager = site.start(first, OLD, "first.log");
        site.expect(OLD);
        let cables = site.cables();
        assert_eq!(cables.len(), 2 * site.topology.cables.len(), "{first:?}");
        drop(manager);
        let strangers = site.shown(NEW);
        assert!(strangers.values().all(Option::is_none), "{first:?}: {strangers:?}");
        let manager = site.start(second, NEW, "second.log");
        site.expect(NEW);
        assert_eq!(site.cables(), cables, "{second:?}");
        drop(manager);
        // No log of ours contains a key.
        let log = if *first == ours { "first.log" } else { "second.log" };
        let log = fs::read_to_string(site.path(log)).expect("a log");
        assert!(!log.contains("5ec2e7") && !log.contains("5EC2E7"), "{log}");
    }
}

#[test]
fn refused_requests_are_logged_with_their_sender_and_without_keys() {
    let Some(site) = Site::new() else { return };
    let _manager = site.start(&torus_sm(), OLD, "log");
    site.expect(OLD);
    let stranger = site.topology.nodes.iter().rfind(|node| node.kind == NodeKind::Ca);
    let stranger = stranger.expect("a host").guid;
    let victim = site.topology.nodes.iter().find(|node| node.kind == NodeKind::Switch);
    let victim = victim.expect("a switch").guid;
    let route = directed_route(&site.topology, stranger, victim).to_string();
    let args = ["-t", "20", "-y", "0x5ec2e7ff", "-D", "portinfo", &route, "0"];
    let output = site.sim.run(&stranger.to_string(), "smpquery", &args);
    assert!(!output.status.success(), "{output:?}");
    let refusal = "refused Get(PortInfo, modifier 0x0) from Channel Adapter";
    wait_for(&site.path("log"), refusal, LIMIT);
    let log = fs::read_to_string(site.path("log")).expect("a log");
    let line = log.lines().find(|line| line.contains(refusal)).expect("the line");
    for name in [victim, stranger].map(|guid| guid.to_string()) {
        assert!(line.contains(&name), "{line}");
    }
    assert!(!log.contains("5ec2e7"), "{log}");
}
