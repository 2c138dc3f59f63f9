//! Scenarios of tori with several dead switches and cut cables, which torus-2QoS refuses without
//! `torus_repair`. The damage stays from burst to burst, apart from parts that return; MADs are lost,
//! switches restart and files are read again meanwhile.

use super::scenario::{Burst, Scenario};
use std::time::Duration;
use testkit::dice::Dice;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

const SHAPES: [&str; 6] = ["6x6", "5x5", "6x5", "4x4x3", "4x3x3", "6mx6m"];
/// Maximum number of switches that are dead at the same time.
const MAX_DEAD: usize = 4;
/// Maximum number of cables that are cut at the same time.
const MAX_CUT: usize = 3;

pub(super) fn draw(seed: u64) -> Scenario {
    let dice = &mut Dice::new(seed);
    let mut shape: Shape = dice.pick(&SHAPES).parse().expect("a shape");
    shape.parallel = dice.pick(&[1, 1, 2]);
    let mut scenario = Scenario {
        seed,
        shape,
        hardware: Hardware::default(),
        engine: dice.pick(&["torus-2QoS", "torus-2QoS,no_fallback"]),
        lmc: dice.pick(&[0, 0, 1]),
        qos: true,
        strict_transitions: dice.below(3) == 0,
        bursts: Vec::new(),
    };
    let mut damage = Damage::new(&scenario);
    scenario.bursts = (0..2 + dice.below(2)).map(|_| damage.burst(dice)).collect();
    scenario
}

/// The parts that are dead at a point of a scenario.
struct Damage {
    /// All switches but that of the subnet manager.
    switches: Vec<Guid>,
    /// A port of each cable between switches, as the console writes it.
    cables: Vec<String>,
    dead: Vec<Guid>,
    cut: Vec<String>,
}

impl Damage {
    fn new(scenario: &Scenario) -> Self {
        let topology = scenario.shape.build().expect("a shape that can be built");
        let home = scenario.shape.switch_guid([0; 3]);
        let is_switch = |node: usize| topology.nodes[node].kind == NodeKind::Switch;
        let nodes = topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
        let cables = topology.cables.iter().filter(|ends| ends.iter().all(|end| is_switch(end.0)));
        let port = |&[(node, num), _]: &[(usize, PortNum); 2]| {
            format!("{}[{num}]", topology.nodes[node].guid)
        };
        Self {
            switches: nodes.map(|node| node.guid).filter(|&guid| guid != home).collect(),
            cables: cables.map(port).collect(),
            dead: Vec::new(),
            cut: Vec::new(),
        }
    }

    fn burst(&mut self, dice: &mut Dice) -> Burst {
        let mut events = Vec::new();
        if dice.below(3) == 0 {
            events.push("loss 0.03".to_owned());
        }
        for _ in 0..3 + dice.below(5) {
            events.push(self.event(dice));
            let pause = dice.pick(&["1ms", "100ms", "400ms", "2s", "20s"]);
            events.push(format!("wait {pause}"));
        }
        Burst { events, quiet: Duration::from_secs(60 * (1 + dice.below(5))) }
    }

    fn event(&mut self, dice: &mut Dice) -> String {
        match dice.below(10) {
            0..=3 if self.dead.len() < MAX_DEAD => {
                let switch = dice.pick(&self.switches);
                self.dead.push(switch);
                format!("unlink {switch}")
            }
            4..=5 if self.cut.len() < MAX_CUT => {
                let cable = self.cables[dice.below(self.cables.len() as u64) as usize].clone();
                self.cut.push(cable.clone());
                format!("link {cable} down")
            }
            6 if !self.cut.is_empty() => format!("link {} up", self.cut.remove(0)),
            7 => format!("reboot {}", dice.pick(&self.switches)),
            8 => "hup".to_owned(),
            _ if !self.dead.is_empty() => format!("relink {}", self.dead.remove(0)),
            _ => "hup".to_owned(),
        }
    }
}
