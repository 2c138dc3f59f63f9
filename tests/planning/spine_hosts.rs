//! Fat trees with channel adapters at all switches, such as the aggregation nodes of switches or I/O
//! nodes at spines, between which no path goes up first and then down.

use std::fmt::Write as _;
use std::path::Path;
use testkit::planning::{PlanSetup, options};
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::{Fabric, PortId, ibnet};
use torus_sm::plan::Plan;
use torus_sm::verify::walk::{WalkEnd, walk};

/// A tree with two levels, two hosts at each leaf and a channel adapter at each spine.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub leaves: u64,
    pub spines: u64,
    /// Leaf and spine between which the cable is missing.
    pub cut: Option<(u64, u64)>,
}

impl Tree {
    pub(crate) fn topology(self) -> Topology {
        let leaf = |n: u64| format!("S-{:016x}", 0xaa0000 + n);
        let spine = |n: u64| format!("S-{:016x}", 0xbb0000 + n);
        let host = |at: u64, n: u64| format!("H-{:016x}", 0xcc0000 + at * 0x100 + n * 0x10);
        let adapter = |n: u64| format!("H-{:016x}", 0xdd0000 + n * 0x10);
        let is_cabled = |at: u64, to: u64| self.cut != Some((at, to));
        let mut text = String::new();
        for at in 0..self.leaves {
            let _ = writeln!(text, "Switch 41 \"{}\"", leaf(at));
            (0..2).for_each(|n| text += &format!("[{}] \"{}\"[1]\n", n + 1, host(at, n)));
            for to in (0..self.spines).filter(|&to| is_cabled(at, to)) {
                let _ = writeln!(text, "[{}] \"{}\"[{}]", 25 + to, spine(to), at + 1);
            }
            text.push('\n');
        }
        for at in 0..self.spines {
            let _ = writeln!(text, "Switch 41 \"{}\"\n[41] \"{}\"[1]", spine(at), adapter(at));
            for to in (0..self.leaves).filter(|&to| is_cabled(to, at)) {
                let _ = writeln!(text, "[{}] \"{}\"[{}]", to + 1, leaf(to), 25 + at);
            }
            let _ = writeln!(text, "\nCa 1 \"{}\"\n[1] \"{}\"[41]\n", adapter(at), spine(at));
        }
        for at in 0..self.leaves {
            for n in 0..2 {
                let _ =
                    writeln!(text, "Ca 1 \"{}\"\n[1] \"{}\"[{}]\n", host(at, n), leaf(at), n + 1);
            }
        }
        ibnet::parse(Path::new("tree"), &text).expect("a fabric")
    }
}

/// The numbers of pairs of hosts, and of those with a route.
pub(crate) fn connected(fabric: &Fabric, plan: &Plan) -> (usize, usize) {
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    let hosts: Vec<PortId> = hosts.collect();
    let pairs = hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    let arrives = |&&(from, to): &&(PortId, PortId)| {
        let lid = plan.lids.base(to).expect("a LID");
        walk(fabric, plan, from, lid).end == WalkEnd::Delivered
    };
    (pairs.iter().filter(arrives).count(), pairs.len())
}

/// The numbers of routes are those of OpenSM.
#[test]
fn reverse_hops_connect_io_nodes() {
    let topology = Tree { leaves: 3, spines: 3, cut: None }.topology();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        Some(path.display().to_string())
    };
    let roots = file("roots", "0xbb0000\n0xbb0001\n0xbb0002\n");
    let io_nodes = file("io", "0xdd0001\n0xdd0011\n0xdd0021\n");
    let host = topology.nodes.len() - 1;
    for (reverse_hops, routes) in [(0, 66), (1, 72), (2, 72)] {
        let mut options = options("ftree,no_fallback", false);
        options.root_guid_file = roots.clone();
        options.io_guid_file = io_nodes.clone();
        options.max_reverse_hops = reverse_hops;
        let setup = PlanSetup::new(&topology, host, options, String::new());
        let verdict = setup.verdict().expect("a plan").verdict;
        let verified = verdict.unwrap_or_else(|failure| panic!("{reverse_hops}: {failure}"));
        assert_eq!(connected(&setup.fabric, verified.plan()), (routes, 72), "{reverse_hops}");
    }
}
