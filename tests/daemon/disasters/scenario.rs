//! The scenario of a seed: a fabric, options, and events in bursts, as lines of text.

use super::{damage, disk, vports};
use std::time::Duration;
use testkit::SimCluster;
use testkit::dice::Dice;
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::PortNum;
use torus_sm::sim::console;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Console commands that are left out of random scripts. With `jitter`, a copy of a Set may arrive
/// after a newer Set of the same table.
const LEFT_OUT: [&str; 1] = ["jitter"];

/// Faults of nodes that may leave them with other tables than they acknowledged or reported. Such a
/// node is rebooted in the end.
const LIES: [&str; 3] = ["ignore-sets", "garbage", "numports"];

/// Seeds from this one on are those of [`damage`].
pub(super) const FIRST_DAMAGE_SEED: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) shape: Shape,
    pub(super) hardware: Hardware,
    pub(super) engine: &'static str,
    pub(super) lmc: u8,
    pub(super) qos: bool,
    pub(super) strict_transitions: bool,
    pub(super) bursts: Vec<Burst>,
}

/// Events, and the quiet period after them.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    /// Console commands, `wait DURATION`, `hup`, `hup bad`, and those of [`disk`].
    pub(super) events: Vec<String>,
    pub(super) quiet: Duration,
}

impl Burst {
    /// Commands that end the faults, and what only an administrator can repair.
    pub(super) fn end(&self, cluster: &SimCluster) -> Vec<String> {
        let mut end = vec![disk::REPAIRED.to_owned(), "calm".to_owned()];
        for event in &self.events {
            let mut words = event.split(' ');
            let command = words.next().unwrap_or_default();
            let node = words.next();
            if LIES.contains(&command) {
                end.extend(node.map(|node| format!("reboot {node}")));
            }
            if command == "guid" {
                end.extend(node.and_then(|node| own_guid(cluster, node)));
                end.extend(node.map(|node| format!("reboot {}", node_name(node))));
            }
            if command == "corrupt" {
                end.push("hup".to_owned());
            }
        }
        end
    }
}

impl Scenario {
    pub(super) fn draw(seed: u64) -> Self {
        if seed >= vports::FIRST_SEED {
            return vports::draw(seed);
        }
        if seed >= FIRST_DAMAGE_SEED {
            return damage::draw(seed);
        }
        let dice = &mut Dice::new(seed);
        let mut scenario = Self {
            seed,
            shape: shape(dice),
            hardware: Hardware {
                enhanced_port0: dice.below(4) == 0,
                optimized_sl_to_vl: dice.below(4) == 0,
                ..Hardware::default()
            },
            engine: dice.pick(&["torus-2QoS", "torus-2QoS", "torus-2QoS,no_fallback", "minhop"]),
            lmc: dice.pick(&[0, 0, 1, 2]),
            qos: dice.below(4) > 0,
            strict_transitions: false,
            bursts: Vec::new(),
        };
        let cluster = scenario.cluster();
        scenario.bursts = (0..1 + dice.below(3)).map(|_| burst(&cluster, dice)).collect();
        for burst in &mut scenario.bursts {
            insert_duplicate_guid(&cluster, burst, dice);
            insert_disk_errors(burst, dice);
        }
        scenario
    }

    pub(super) fn cluster(&self) -> SimCluster {
        let cluster = SimCluster::new(self.shape.clone(), self.hardware.clone(), self.seed);
        if self.has_vports() {
            vports::equip(&cluster);
        }
        cluster
    }

    pub(super) fn options(&self, cluster: &SimCluster) -> Options {
        Options {
            routing_engine: Some(self.engine.into()),
            lmc: self.lmc,
            qos: self.qos,
            exit_on_fatal: false,
            strict_transitions: self.strict_transitions,
            transition_drain_time: 300,
            virt_enabled: if self.has_vports() { 2 } else { 0 },
            ..cluster.options()
        }
    }

    /// True for a torus with several dead switches and cut cables.
    pub(super) fn is_damaged_torus(&self) -> bool {
        (FIRST_DAMAGE_SEED..vports::FIRST_SEED).contains(&self.seed)
    }

    /// True for a fabric whose hosts have virtual ports.
    pub(super) fn has_vports(&self) -> bool {
        self.seed >= vports::FIRST_SEED
    }

    pub(super) fn has_disk_errors(&self) -> bool {
        let mut events = self.bursts.iter().flat_map(|burst| &burst.events);
        events.any(|event| event.starts_with("disk "))
    }

    /// The scenario without the events for which `keep` is false, by their number.
    pub(super) fn filtered(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut other = self.clone();
        let mut number = 0;
        for burst in &mut other.bursts {
            burst.events.retain(|_| {
                number += 1;
                keep(number - 1)
            });
        }
        other
    }

    pub(super) fn events(&self) -> usize {
        self.bursts.iter().map(|burst| burst.events.len()).sum()
    }

    /// All events, one per line.
    pub(super) fn text(&self) -> String {
        let quiet = |burst: &Burst| format!("  quiet for {:?}\n", burst.quiet);
        let lines = |burst: &Burst| {
            burst.events.iter().map(|event| format!("  {event}\n")).collect::<String>()
        };
        self.bursts.iter().map(|burst| lines(burst) + &quiet(burst)).collect()
    }
}

/// Reads bursts as [`Scenario::text`] writes them.
pub(super) fn bursts(text: &str) -> Vec<Burst> {
    let mut bursts = vec![Burst { events: Vec::new(), quiet: Duration::ZERO }];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let burst = bursts.last_mut().expect("one at least");
        match line.strip_prefix("quiet for ") {
            Some(quiet) => {
                let seconds = quiet.trim_end_matches('s').parse().expect("seconds");
                burst.quiet = Duration::from_secs(seconds);
                bursts.push(Burst { events: Vec::new(), quiet: Duration::ZERO });
            }
            None => burst.events.push(line.to_owned()),
        }
    }
    bursts.retain(|burst| !burst.quiet.is_zero());
    bursts
}

/// A ring, torus or mesh of 3 to 60 switches, of 1 to 3 dimensions.
fn shape(dice: &mut Dice) -> Shape {
    let most = dice.pick(&[6, 9, 12, 16, 24, 60]);
    loop {
        let dimensions = 1 + dice.below(3) as usize;
        let radix: [u16; 3] = std::array::from_fn(|dimension| {
            if dimension < dimensions { dice.pick(&[1, 2, 3, 4, 5, 6, 8, 12, 20]) } else { 1 }
        });
        let looped = std::array::from_fn(|_| dice.below(4) > 0);
        if (3..=most).contains(&radix.iter().product::<u16>()) {
            let (hosts, parallel) = dice.pick(&[(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (3, 2)]);
            return Shape { looped, hosts, parallel, ..Shape::torus(radix) };
        }
    }
}

fn burst(cluster: &SimCluster, dice: &mut Dice) -> Burst {
    let count = 1 + dice.below(12);
    let command = format!("random {} {count}", dice.below(u64::MAX));
    let script = console::run_line(&cluster.fabric, &command).expect("a script");
    let is_left_out =
        |line: &&str| LEFT_OUT.iter().any(|command| line.split(' ').next() == Some(command));
    let lines = script.lines().filter(|line| !is_left_out(line));
    let mut events: Vec<String> = lines.map(str::to_owned).collect();
    if dice.below(3) == 0 {
        let at = dice.below(events.len() as u64 + 1) as usize;
        events.insert(at, dice.pick(&["hup", "hup", "hup bad"]).to_owned());
    }
    if dice.below(2) == 0 {
        events.push("repair".to_owned());
    }
    Burst { events, quiet: Duration::from_secs(60 * (1 + dice.below(20))) }
}

/// The node of an argument NODE or PORT of the console.
fn node_name(target: &str) -> &str {
    target.split_once('[').map_or(target, |(node, _)| node)
}

/// The command that gives a node or port its own GUID back.
fn own_guid(cluster: &SimCluster, target: &str) -> Option<String> {
    let name = node_name(target);
    let node = cluster.topology.nodes.iter().find(|node| node.guid.to_string() == name)?;
    let own = if name == target { node.guid } else { node.port_guid(PortNum(1)) };
    Some(format!("guid {target} {own}"))
}

/// In some bursts a node or adapter port restarts with the GUID of another one. The host of the
/// subnet manager keeps its own.
fn insert_duplicate_guid(cluster: &SimCluster, burst: &mut Burst, dice: &mut Dice) {
    let own = cluster.shape.host_guid([0; 3], 0);
    let nodes = &cluster.topology.nodes;
    let node = dice.below(nodes.len() as u64);
    let other = dice.below(nodes.len() as u64);
    let node = &nodes[node as usize];
    let other = &nodes[other as usize];
    if dice.below(4) > 0 || node.guid == own {
        return;
    }
    let is_port = dice.below(2) == 0 && node.kind == NodeKind::Ca && other.kind == NodeKind::Ca;
    let line = if is_port {
        format!("guid {}[1] {}", node.guid, other.port_guid(PortNum(1)))
    } else {
        format!("guid {} {}", node.guid, other.guid)
    };
    let at = dice.below(burst.events.len() as u64 + 1) as usize;
    let restart = format!("reboot {}", node.guid);
    burst.events.splice(at..at, [line, restart]);
}

/// In some bursts the cache folder has errors.
fn insert_disk_errors(burst: &mut Burst, dice: &mut Dice) {
    if dice.below(4) > 0 {
        return;
    }
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(burst.events.len() as u64 + 1) as usize;
        burst.events.insert(at, format!("disk {}", dice.pick(&disk::ERRORS)));
    }
}
