//! The switch or cable between switches whose loss would cut off most: articulation points and bridges
//! of the graph of switches, in linear time (Hopcroft and Tarjan, CACM 16(6), 1973).

use super::fact::Cable;
use super::switch_links::SwitchLinks;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::notes::counted;
use std::cmp::Reverse;

/// What a further loss cuts off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Weight {
    hosts: usize,
    switches: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Switch(SwitchId),
    Cable(PortId),
}

/// A switch on the path of the search.
struct VisitedSwitch {
    switch: SwitchId,
    /// The port by which the search came.
    from: Option<PortId>,
    /// The next of its cables to follow.
    next: usize,
    below: Weight,
    /// What is cut off without this switch.
    behind: Weight,
}

/// The sentence about the worst further failure; `None` if no single one cuts off a switch.
pub fn worst(fabric: &Fabric) -> Option<String> {
    let home = fabric.switch_behind(fabric.local())?;
    let (weight, part) = search(&CableGraph::of(fabric), home)?;
    let name = match part {
        Part::Switch(switch) => format!("the switch \"{}\"", fabric.switch(switch).name()),
        Part::Cable(port) => format!("the cable {}", Cable::of(fabric, port)?),
    };
    Some(format!(
        "the next failure: without {name}, {} and {} are cut off as well",
        counted(weight.switches, "switch", "switches"),
        counted(weight.hosts, "host", "hosts")
    ))
}

/// A cable of a switch to another one.
#[derive(Clone, Copy)]
struct CableEdge {
    /// The port of the switch.
    port: PortId,
    /// The port of the far switch.
    peer: PortId,
    far: SwitchId,
}

/// The cables between switches, and the hosts of each.
struct CableGraph {
    edges: Vec<CableEdge>,
    /// By switch: the index of its first edge, and one more for the end.
    first: Vec<usize>,
    hosts: Vec<usize>,
}

impl CableGraph {
    fn of(fabric: &Fabric) -> Self {
        let SwitchLinks { mut links, hosts } = SwitchLinks::of(fabric);
        links.retain(|link| link.ends[0] != link.ends[1]);
        let mut first = vec![0; hosts.len() + 1];
        for end in links.iter().flat_map(|link| link.ends) {
            first[end.index() + 1] += 1;
        }
        for switch in 1..first.len() {
            first[switch] += first[switch - 1];
        }
        let mut next = first.clone();
        let mut edges =
            vec![CableEdge { port: PortId(0), peer: PortId(0), far: SwitchId(0) }; 2 * links.len()];
        for link in &links {
            let [one, other] = link.ends;
            let [port, peer] = link.ports;
            edges[next[one.index()]] = CableEdge { port, peer, far: other };
            edges[next[other.index()]] = CableEdge { port: peer, peer: port, far: one };
            next[one.index()] += 1;
            next[other.index()] += 1;
        }
        Self { edges, first, hosts }
    }

    fn edge(&self, switch: usize, number: usize) -> Option<&CableEdge> {
        self.edges[self.first[switch]..self.first[switch + 1]].get(number)
    }
}

fn search(graph: &CableGraph, home: SwitchId) -> Option<(Weight, Part)> {
    let count = graph.hosts.len();
    let mut order: Vec<usize> = vec![usize::MAX; count];
    let mut low: Vec<usize> = vec![usize::MAX; count];
    let mut found: Vec<(Weight, Part)> = Vec::new();
    let mut reached = 1;
    (order[home.index()], low[home.index()]) = (0, 0);
    let mut path = vec![enter(&graph.hosts, home, None)];
    while let Some(step) = path.last_mut() {
        let at = step.switch.index();
        if let Some(&CableEdge { port, peer, far }) = graph.edge(at, step.next) {
            step.next += 1;
            // The cable by which the search came leads nowhere new; parallel ones do.
            if step.from == Some(port) {
                continue;
            }
            if order[far.index()] == usize::MAX {
                (order[far.index()], low[far.index()]) = (reached, reached);
                reached += 1;
                path.push(enter(&graph.hosts, far, Some(peer)));
            } else {
                low[at] = low[at].min(order[far.index()]);
            }
            continue;
        }
        let Some(done) = path.pop() else { break };
        let Some(parent) = path.last_mut() else { break };
        let up = parent.switch.index();
        let below = done.below;
        low[up] = low[up].min(low[at]);
        parent.below.hosts += below.hosts;
        parent.below.switches += below.switches;
        if low[at] > order[up] {
            found.extend(done.from.map(|port| (below, Part::Cable(port))));
        }
        // The switch of this SM is no part whose loss leaves a fabric.
        let is_home = path.len() == 1;
        if let Some(parent) = path.last_mut()
            && low[at] >= order[up]
            && !is_home
        {
            parent.behind.hosts += below.hosts;
            parent.behind.switches += below.switches;
            found.push((parent.behind, Part::Switch(parent.switch)));
        }
    }
    found.into_iter().filter(|(weight, _)| weight.switches > 0).max_by_key(|&(weight, part)| {
        // A cable precedes a device of equal loss: it is the simpler part.
        (weight, matches!(part, Part::Cable(_)), Reverse(part))
    })
}

fn enter(hosts: &[usize], switch: SwitchId, from: Option<PortId>) -> VisitedSwitch {
    VisitedSwitch {
        switch,
        from,
        next: 0,
        below: Weight { hosts: hosts[switch.index()], switches: 1 },
        behind: Weight::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use std::path::Path;

    fn fabric(text: &str) -> Fabric {
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let home = topology.nodes.iter().position(|node| node.description == "home");
        Fabric::from_topology(&topology, home.expect("a host"), &SyntheticView::default())
            .expect("a node")
    }

    /// A triangle a, b, c, and d behind c with two hosts.
    fn tail(links: &str) -> Fabric {
        fabric(&format!(
            "Switch 5 \"a\" # \"a\"\n[1] \"b\"[1]\n[2] \"c\"[1]\n[3] \"h\"[1]\n\n\
             Switch 5 \"b\" # \"b\"\n[1] \"a\"[1]\n[2] \"c\"[2]\n\n\
             Switch 5 \"c\" # \"c\"\n[1] \"a\"[2]\n[2] \"b\"[2]\n{links}\n\
             Hca 1 \"h\" # \"home\"\n[1] \"a\"[3]\n\nHca 1 \"i\" # \"i\"\n[1] \"d\"[3]\n\n\
             Hca 1 \"j\" # \"j\"\n[1] \"d\"[4]\n"
        ))
    }

    #[test]
    fn the_only_cable_to_a_switch_is_named() {
        let links =
            "[3] \"d\"[1]\n\nSwitch 5 \"d\" # \"d\"\n[1] \"c\"[3]\n[3] \"i\"[1]\n[4] \"j\"[1]\n";
        let sentence = worst(&tail(links)).expect("d is behind one cable");
        assert_eq!(
            sentence,
            "the next failure: without the cable \"c\"[3] – \"d\"[1], 1 switch and 2 hosts are cut off \
             as well"
        );
    }

    #[test]
    fn parallel_cables_are_no_bridge_but_their_switch_is() {
        let links = "[3] \"d\"[1]\n[4] \"d\"[2]\n\nSwitch 5 \"d\" # \"d\"\n[1] \"c\"[3]\n[2] \"c\"[4]\n\
                     [3] \"i\"[1]\n[4] \"j\"[1]\n";
        let sentence = worst(&tail(links)).expect("d is behind c");
        assert!(sentence.contains("without the switch \"c\", 1 switch and 2 hosts"), "{sentence}");
    }

    #[test]
    fn a_ring_has_no_such_part() {
        let ring = fabric(
            "Switch 4 \"a\" # \"a\"\n[1] \"b\"[1]\n[2] \"c\"[1]\n[3] \"h\"[1]\n\n\
             Switch 4 \"b\" # \"b\"\n[1] \"a\"[1]\n[2] \"c\"[2]\n\n\
             Switch 4 \"c\" # \"c\"\n[1] \"a\"[2]\n[2] \"b\"[2]\n\n\
             Hca 1 \"h\" # \"home\"\n[1] \"a\"[3]\n",
        );
        assert_eq!(worst(&ring), None);
    }
}
