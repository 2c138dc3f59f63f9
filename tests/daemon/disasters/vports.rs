//! Scenarios of virtual ports: hosts with up to 64 of them, which come, go, migrate, and gain and lose
//! LIDs of their own, while hosts and switches restart, cables are cut and MADs are lost.

use super::scenario::{Burst, Scenario};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::SimCluster;
use testkit::dice::Dice;
use testkit::sa_client::DEFAULT_PREFIX;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Gid, Guid, Lid, Pkey, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::sim::{DataPacket, VportSpec};
use torus_sm::wire::attr::PortState;

/// Seeds from this one on are those of this module.
pub(super) const FIRST_SEED: u64 = 2_000_000;

const SHAPES: [&str; 4] = ["3x3", "4x3", "3x2x2", "5mx1"];
const PORT: PortNum = PortNum(1);

pub(super) fn draw(seed: u64) -> Scenario {
    let dice = &mut Dice::new(seed);
    let mut shape: Shape = dice.pick(&SHAPES).parse().expect("a shape");
    shape.hosts = dice.pick(&[1, 2]);
    let mut scenario = Scenario {
        seed,
        shape,
        hardware: Hardware::default(),
        engine: dice.pick(&["torus-2QoS", "minhop"]),
        lmc: dice.pick(&[0, 0, 1]),
        qos: dice.below(2) == 0,
        strict_transitions: dice.below(3) == 0,
        bursts: Vec::new(),
    };
    let mut events = Events::new(&scenario);
    scenario.bursts = (0..2 + dice.below(2)).map(|_| events.burst(dice)).collect();
    scenario
}

/// The number of vports of a host.
fn count(host: usize) -> u16 {
    [64, 2, 9][host % 3]
}

/// Gives the hosts of a scenario their vports.
pub(super) fn equip(cluster: &SimCluster) {
    for (number, host) in cluster.hosts().enumerate() {
        let port = cluster.topology.nodes.iter().find(|node| node.guid == host);
        let guid = port.map_or(Guid(0), |node| node.port_guid(PORT));
        let mut vports = VportSpec::of_port(guid, count(number));
        for vport in vports.iter_mut().skip(1).step_by(3) {
            vport.lid_required = true;
        }
        assert!(cluster.fabric.set_virtual_ports(host, PORT, vports));
    }
}

struct Events {
    hosts: Vec<Guid>,
    switches: Vec<Guid>,
    /// Hosts whose cable is cut.
    cut: Vec<Guid>,
    /// GUIDs that were given to vports.
    given: u64,
}

impl Events {
    fn new(scenario: &Scenario) -> Self {
        let cluster = SimCluster::new(scenario.shape.clone(), Hardware::default(), scenario.seed);
        let home = scenario.shape.switch_guid([0; 3]);
        let topology = &cluster.topology;
        let switches = topology.nodes.iter().map(|node| node.guid);
        let hosts: Vec<Guid> = cluster.hosts().collect();
        let is_switch = |guid: &Guid| !hosts.contains(guid) && *guid != home;
        let switches = switches.filter(is_switch).collect();
        Self { hosts, switches, cut: Vec::new(), given: 0 }
    }

    fn burst(&mut self, dice: &mut Dice) -> Burst {
        let mut events = Vec::new();
        if dice.below(3) == 0 {
            events.push("loss 0.03".to_owned());
        }
        for _ in 0..6 + dice.below(12) {
            self.event(dice, &mut events);
            events.push(format!("wait {}", dice.pick(&["1ms", "50ms", "400ms", "2s", "20s"])));
        }
        Burst { events, quiet: Duration::from_secs(60 * (1 + dice.below(5))) }
    }

    /// A host and the index of a vport of it that is not the port itself.
    fn vport(&self, dice: &mut Dice) -> (Guid, u16) {
        let number = dice.below(self.hosts.len() as u64) as usize;
        (self.hosts[number], 1 + dice.below(u64::from(count(number)) - 1) as u16)
    }

    /// A GUID that no vport has.
    fn new_guid(&mut self) -> Guid {
        self.given += 1;
        Guid(0xAB00_0000_0000_0000 | self.given)
    }

    fn event(&mut self, dice: &mut Dice, events: &mut Vec<String>) {
        let (host, index) = self.vport(dice);
        let mut vport = |action: &str| events.push(format!("vport {host}[1] {index} {action}"));
        // The host of the subnet manager keeps its cable.
        let others = &self.hosts[1..];
        match dice.below(12) {
            0..=2 => vport("down"),
            3..=4 => vport("up"),
            5 => vport(dice.pick(&["own-lid", "shared-lid"])),
            6 => {
                // The GUID leaves its port, and appears elsewhere a moment before or after that.
                let (to, at) = self.vport(dice);
                let moved = self.new_guid();
                let fresh = self.new_guid();
                let leaves = format!("vport {host}[1] {index} guid {fresh}");
                let arrives = format!("vport {to}[1] {at} guid {moved}");
                events.push(format!("vport {host}[1] {index} guid {moved}"));
                events.push("wait 3s".to_owned());
                let early = dice.below(2) == 0;
                events.extend(if early { [arrives, leaves] } else { [leaves, arrives] });
            }
            7..=8 => events.push(format!("reboot {}", dice.pick(others))),
            9 if self.cut.len() < 2 => {
                let host = dice.pick(others);
                self.cut.push(host);
                events.push(format!("unlink {host}"));
            }
            10 if !self.cut.is_empty() => events.push(format!("relink {}", self.cut.remove(0))),
            11 => events.push(format!("reboot {}", dice.pick(&self.switches))),
            _ => events.push("hup".to_owned()),
        }
    }
}

/// Faults of the vports of hosts: those that are up must be ACTIVE, those that require a LID must have
/// one that no other has, and a packet from the first host must reach each.
pub(super) fn faults(cluster: &SimCluster, hosts: &[Guid]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut owners: BTreeMap<Lid, (Guid, u16)> = BTreeMap::new();
    let base = |host| cluster.fabric.port_info(host, PORT).map(|info| info.lid());
    for &host in hosts {
        for index in 0.. {
            let Some((vport, state)) = cluster.fabric.virtual_port(host, PORT, index) else {
                break;
            };
            if !vport.spec.is_up {
                continue;
            }
            let name = format!("vport {index} of {host}");
            if state != PortState::Active {
                faults.push(format!("{name} is {state}"));
                continue;
            }
            let gid = Some(Gid::new(DEFAULT_PREFIX, vport.spec.guid));
            let (to, gid) = if vport.spec.lid_required {
                if let Some(other) = owners.insert(vport.lid, (host, index)) {
                    faults.push(format!("{name} has the LID {} of {other:?}", vport.lid));
                }
                (Some(vport.lid), None)
            } else {
                (base(host), gid)
            };
            let packet = DataPacket { to: to.unwrap_or_default(), gid, pkey: Pkey::DEFAULT_FULL };
            let walked = cluster.fabric.walk_data(hosts[0], PORT, packet);
            let received = walked.and_then(Result::ok).map(|receiver| receiver.vport);
            let expected = if index == 0 { None } else { Some(index) };
            if received != Some(expected) {
                faults.push(format!("{name}: a packet gets {walked:?}"));
            }
        }
    }
    let ports = hosts.iter().filter_map(|&host| base(host));
    faults.extend(ports.filter_map(|lid| {
        owners.get(&lid).map(|owner| format!("{owner:?} has the LID {lid} of a port"))
    }));
    faults
}
