//! Random tori and meshes with realistic damage, wrong cabling and configuration mistakes, and
//! their torus-2QoS.conf. A seed gives the same fabric on every machine.

use super::subnet::Case;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// Pseudo-random numbers (xorshift, Marsaglia 2003).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.next()
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 20) % limit as u64) as usize
    }

    /// True with a probability of `chance` percent.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// The fabric of a seed.
pub fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let (radix, looped) = size(&mut random);
    let mut draft = Draft::new(&mut random, radix, looped);
    draft.damage(&mut random);
    draft.add_hosts(&mut random);
    draft.add_strays(&mut random);
    let ports = draft.number_of_ports(&mut random);
    let (topology, local) = draft.build(&mut random, &ports);
    let config = draft.configuration(&mut random, &ports);
    let max_op_vls = [5, 5, 5, 5, 5, 5, 5, 3, 3, 2][random.below(10)];
    let lmc = [0, 0, 0, 0, 0, 0, 1, 2][random.below(8)];
    Case { topology, local, config, max_op_vls, lmc }
}

/// Three radices of 1 to 7 with 3 to 60 switches in all, and whether each dimension is a ring.
fn size(random: &mut Random) -> ([usize; 3], [bool; 3]) {
    let radix = loop {
        let mut radix = [(); 3].map(|()| 1 + random.below(7));
        if random.percent(35) {
            radix[random.below(3)] = 1;
        }
        if (3..=60).contains(&radix.iter().product::<usize>()) {
            break radix;
        }
    };
    let looped = match random.below(10) {
        0..=5 => [true; 3],
        6 => [false; 3],
        _ => [(); 3].map(|()| random.percent(60)),
    };
    (radix, std::array::from_fn(|d| looped[d] && radix[d] > 2))
}

/// A fabric without node names and port numbers. Nodes are the positions of the torus, x running
/// fastest, then stray switches, then channel adapters and routers.
struct Draft {
    radix: [usize; 3],
    looped: [bool; 3],
    kinds: Vec<NodeKind>,
    missing: BTreeSet<usize>,
    cables: Vec<[usize; 2]>,
    guids: Vec<u64>,
}

impl Draft {
    fn new(random: &mut Random, radix: [usize; 3], looped: [bool; 3]) -> Self {
        let places = radix.iter().product();
        let mut draft = Self {
            radix,
            looped,
            kinds: vec![NodeKind::Switch; places],
            missing: BTreeSet::new(),
            cables: Vec::new(),
            guids: Vec::new(),
        };
        let most = 1 + random.below(3);
        let varies = random.percent(25);
        for place in 0..places {
            for axis in 0..3 {
                let Some(up) = draft.step(place, axis, true) else { continue };
                let cables = if varies { 1 + random.below(most) } else { most };
                draft.cables.extend(vec![[place, up]; cables]);
            }
        }
        draft
    }

    fn at(&self, place: usize) -> [usize; 3] {
        let [x, y, z] = self.radix;
        [place % x, place / x % y, place / x / y % z]
    }

    fn place(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * self.radix[1] + y) * self.radix[0] + x
    }

    fn places(&self) -> usize {
        self.radix.iter().product()
    }

    /// The neighbour of a position; `None` beyond the edge of a mesh.
    fn step(&self, place: usize, axis: usize, up: bool) -> Option<usize> {
        let mut at = self.at(place);
        let radix = self.radix[axis];
        let is_edge = at[axis] == if up { radix - 1 } else { 0 };
        if radix == 1 || (is_edge && !self.looped[axis]) {
            return None;
        }
        at[axis] = (at[axis] + if up { 1 } else { radix - 1 }) % radix;
        Some(self.place(at))
    }

    fn damage(&mut self, random: &mut Random) {
        let switches = [0, 0, 0, 0, 1, 1, 1, 2, 2][random.below(9)];
        for _ in 0..switches {
            let above = self.missing.first().and_then(|&first| self.step(first, 2, true));
            let any = random.below(self.places());
            self.missing.insert(above.filter(|_| random.percent(60)).unwrap_or(any));
        }
        let cables = [0, 0, 0, 1, 1, 2, 3][random.below(7)];
        for _ in 0..cables.min(self.cables.len()) {
            let cable = self.cables.swap_remove(random.below(self.cables.len()));
            if random.percent(60) {
                self.cables.retain(|other| *other != cable);
            }
        }
    }

    fn add_hosts(&mut self, random: &mut Random) {
        let usual = random.below(4);
        let varies = random.percent(50);
        for place in 0..self.places() {
            let hosts = if varies { random.below(5) } else { usual };
            for _ in 0..hosts {
                self.attach(NodeKind::Ca, place);
            }
        }
        let home = (0..self.places()).find(|place| !self.missing.contains(place));
        let home = home.expect("at most two of three are missing");
        if !self.cables.iter().any(|&[a, b]| !self.missing.contains(&a) && b >= self.places()) {
            self.attach(NodeKind::Ca, home);
        }
        if random.percent(15) {
            let place = random.below(self.places());
            self.attach(NodeKind::Router, place);
        }
        if random.percent(15) {
            // A channel adapter with a second port elsewhere.
            let place = random.below(self.places());
            let adapter = self.kinds.len() - 1;
            self.cables.push([place, adapter]);
        }
    }

    fn attach(&mut self, kind: NodeKind, switch: usize) -> usize {
        self.kinds.push(kind);
        self.cables.push([switch, self.kinds.len() - 1]);
        self.kinds.len() - 1
    }

    fn add_strays(&mut self, random: &mut Random) {
        if random.percent(15) {
            let place = random.below(self.places());
            let stray = self.attach(NodeKind::Switch, place);
            if random.percent(50) {
                self.cables.push([random.below(self.places()), stray]);
            }
            if random.percent(70) {
                self.attach(NodeKind::Ca, stray);
            }
        }
        if random.percent(20) {
            for _ in 0..1 + random.below(2) {
                let ends = [random.below(self.places()), random.below(self.places())];
                self.cables.push(ends);
            }
        }
        self.cables.retain(|ends| !ends.iter().any(|end| self.missing.contains(end)));
    }

    /// Number of external ports by node: the same for all switches, or slightly more than each
    /// needs.
    fn number_of_ports(&self, random: &mut Random) -> Vec<usize> {
        let degrees: Vec<usize> = (0..self.kinds.len())
            .map(|node| self.cables.iter().flatten().filter(|&&end| end == node).count())
            .collect();
        let is_switch = |node: usize| self.kinds[node] == NodeKind::Switch;
        let most = (0..degrees.len()).filter(|&n| is_switch(n)).map(|n| degrees[n]).max();
        let alike = random.percent(50).then(|| most.unwrap_or(0) + random.below(4));
        degrees
            .iter()
            .enumerate()
            .map(|(node, degree)| match alike {
                Some(ports) if is_switch(node) => ports.max(1),
                _ if is_switch(node) => degree + 1 + random.below(3),
                _ => (*degree).max(1),
            })
            .collect()
    }

    /// Assigns names and port numbers. Also returns the index of the adapter on which the SM runs.
    fn build(&mut self, random: &mut Random, ports: &[usize]) -> (Topology, usize) {
        let mut used = BTreeSet::new();
        for &kind in &self.kinds {
            let guid = loop {
                let low = random.below(1 << 20) as u64;
                let guid = match kind {
                    NodeKind::Switch => 0x20_0000 + low,
                    _ => 0x1000_0000 + low * 16,
                };
                if used.insert(guid) {
                    break guid;
                }
            };
            self.guids.push(guid);
        }
        let mut free: Vec<Vec<u8>> =
            ports.iter().map(|&ports| (1..=ports as u8).collect()).collect();
        free.iter_mut().for_each(|free| random.shuffle(free));
        random.shuffle(&mut self.cables);
        let mut order: Vec<usize> =
            (0..self.kinds.len()).filter(|node| !self.missing.contains(node)).collect();
        random.shuffle(&mut order);
        let mut index = vec![usize::MAX; self.kinds.len()];
        order.iter().enumerate().for_each(|(new, &old)| index[old] = new);
        let nodes = order.iter().map(|&node| self.node(node, ports[node])).collect();
        let mut end = |node: usize| (index[node], PortNum(free[node].pop().expect("a port")));
        let cables = self.cables.iter().map(|&[a, b]| [end(a), end(b)]).collect();
        let topology = Topology { nodes, cables, ..Topology::default() };
        let [_, home] = self
            .cables
            .iter()
            .find(|&&[switch, host]| switch < self.places() && self.kinds[host] == NodeKind::Ca)
            .expect("a channel adapter");
        (topology, index[*home])
    }

    fn node(&self, node: usize, ports: usize) -> TopologyNode {
        let guid = Guid(self.guids[node]);
        let [x, y, z] = self.at(node);
        let description = match self.kinds[node] {
            NodeKind::Switch if node < self.places() => format!("sw {x},{y},{z}"),
            kind => format!("{kind} {node}"),
        };
        TopologyNode::new(self.kinds[node], guid, ports as u8).described(description)
    }

    fn configuration(&self, random: &mut Random, ports: &[usize]) -> String {
        let mut text = String::new();
        let mixed: String = (0..3)
            .map(|d| format!(" {}{}", self.radix[d], if self.looped[d] { 'T' } else { 'm' }))
            .collect();
        let _ = writeln!(text, "# seeds and sizes\n{}{mixed}", ["torus", "mesh"][random.below(2)]);
        let frame = Frame::random(random, self);
        let seeds = 1 + random.below(3);
        for seed in 0..seeds {
            if seed > 0 {
                text += "next_seed\n";
            }
            self.seed(random, &frame, &mut text);
        }
        if random.percent(35) {
            let present = (0..ports.len()).filter(|node| !self.missing.contains(node));
            let least = present
                .filter(|&node| self.kinds[node] == NodeKind::Switch)
                .map(|node| ports[node])
                .min()
                .unwrap_or(0);
            let mut order: Vec<usize> = (0..=least).collect();
            random.shuffle(&mut order);
            order.truncate(1 + random.below(order.len()));
            let order: Vec<String> = order.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "port_order {}", order.join(" "));
        }
        if random.percent(15) {
            let _ = writeln!(text, "portgroup_max_ports {}", 1 + random.below(5));
        }
        text
    }

    fn seed(&self, random: &mut Random, frame: &Frame, text: &mut String) {
        let origin = random.below(self.places());
        for (axis, letter) in ['x', 'y', 'z'].into_iter().enumerate() {
            let radix = self.radix[axis];
            let both = radix == 4 && self.looped[axis];
            let ways = ['p', 'm'].into_iter().zip([true, false]);
            let mut links: Vec<(char, usize)> = ways
                .filter_map(|(sign, up)| {
                    let next = self.step(origin, axis, up != frame.mirrored[axis]);
                    Some((sign, next?))
                })
                .collect();
            if links.len() == 2 && !both && random.percent(70) {
                links.remove(random.below(2));
            }
            for (sign, next) in links {
                let next = self.seed_name(random, next);
                let _ = writeln!(text, "{letter}{sign}_link {:#x} {next}", self.guids[origin]);
            }
            let mut dateline = -(frame.coordinate(self.at(origin)[axis], axis, self) as i64);
            if dateline < 0 && random.percent(40) {
                dateline += radix as i64;
            }
            if random.percent(4) {
                dateline = random.below(radix) as i64;
            }
            if dateline != 0 || random.percent(30) {
                let _ = writeln!(text, "{letter}_dateline {dateline}");
            }
        }
    }

    /// The GUID of a switch in a seed, sometimes a wrong one.
    fn seed_name(&self, random: &mut Random, place: usize) -> u64 {
        match random.below(40) {
            0 => 0x77,
            1 => self.guids[random.below(self.places())],
            _ => self.guids[place],
        }
    }
}

/// The relation between coordinates of the configuration and positions: rings start anywhere, and
/// axes run either way.
struct Frame {
    mirrored: [bool; 3],
    shift: [usize; 3],
}

impl Frame {
    fn random(random: &mut Random, draft: &Draft) -> Self {
        let is_plain = random.percent(30);
        let mirrored = [(); 3].map(|()| !is_plain && random.percent(40));
        let shift = draft.radix.map(|radix| if is_plain { 0 } else { random.below(radix) });
        Self { mirrored, shift }
    }

    fn coordinate(&self, at: usize, axis: usize, draft: &Draft) -> usize {
        let radix = draft.radix[axis];
        let at = if self.mirrored[axis] { radix - 1 - at } else { at };
        if draft.looped[axis] { (at + self.shift[axis]) % radix } else { at }
    }
}
