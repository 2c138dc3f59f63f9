//! The order in which groups and entries are written to running switches: after each Set, every packet
//! goes where the tables before or the tables after would let it go.

use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::planning::{PlanSetup, options};
use testkit::torus::random::Random;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid};
use torus_sm::plan::adaptive::GroupsInput;
use torus_sm::plan::routing::PortMask;
use torus_sm::sim::generate::{FabricShape, Shape};
use torus_sm::transport::transactions::SmpReply;
use torus_sm::vendor::adaptive::AdaptiveSwitches;
use torus_sm::vendor::adaptive::target::{AdaptiveSettings, AdaptiveTarget};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::vendor::adaptive::{
    AR_GROUP_BLOCK, AR_LFT_BLOCK, ArEntry, ArGroupBlock, ArInfo, ArLftBlock, ArState, GroupPorts,
};

const SETTINGS: AdaptiveSettings =
    AdaptiveSettings { routing: true, healing: true, sl_mask: 0xFFFF, excluded_transports: 5 };

/// A switch that holds what was set.
#[derive(Default)]
struct Device {
    info: ArInfo,
    groups: BTreeMap<u32, [GroupPorts; AR_GROUP_BLOCK]>,
    entries: BTreeMap<u32, [ArEntry; AR_LFT_BLOCK]>,
}

impl Device {
    fn new() -> Self {
        let mut device = Self::default();
        device.info.set_group_cap(1_024);
        device.info.set_fast_recovery_supported(true);
        device
    }

    fn group(&self, number: u16) -> PortMask {
        let number = usize::from(number);
        let block = self.groups.get(&((number / AR_GROUP_BLOCK) as u32));
        PortMask(block.map_or([0; 4], |block| block[number % AR_GROUP_BLOCK]))
    }

    /// The ports that the switch may choose for a LID; `None` while the plain table is in force.
    fn ports(&self, lid: Lid) -> Option<PortMask> {
        if !self.info.adaptive_routing() {
            return None;
        }
        let block = self.entries.get(&ArLftBlock::block(lid)).expect("an entry");
        let entry = block[lid.index() % AR_LFT_BLOCK];
        let is_static = entry.group == 0 || entry.state == ArState::Static;
        assert!(is_static || entry.group <= self.info.group_top(), "group {}", entry.group);
        Some(if is_static { PortMask::only(entry.port) } else { self.group(entry.group) })
    }
}

/// A fabric whose cables fail and return.
struct Rehearsal {
    whole: Topology,
    conf: String,
    engine: &'static str,
    devices: BTreeMap<Guid, Device>,
    switches: AdaptiveSwitches,
}

impl Rehearsal {
    fn new(whole: Topology, conf: String, engine: &'static str) -> Self {
        let switches = AdaptiveSwitches::default();
        Self { whole, conf, engine, devices: BTreeMap::new(), switches }
    }

    /// The tables for the fabric without some cables.
    fn target(&self, lost: &[usize]) -> Option<AdaptiveTarget> {
        let mut topology = self.whole.clone();
        let cables = topology.cables.iter().enumerate();
        let left = cables.filter(|(index, _)| !lost.contains(index)).map(|(_, cable)| *cable);
        topology.cables = left.collect();
        let setup = PlanSetup::new(&topology, 0, options(self.engine, true), self.conf.clone());
        let plan = setup.verdict().ok()?.verdict.ok()?.plan().clone();
        let guid = |switch| setup.fabric.switch(switch).guid();
        let held = |guid: Guid| {
            let switch = self.switches.get(guid);
            switch.map_or(Vec::new(), |switch| {
                switch.held_groups().iter().map(|&ports| PortMask(ports)).collect()
            })
        };
        let before: BTreeMap<Guid, Vec<PortMask>> =
            self.devices.keys().map(|&guid| (guid, held(guid))).collect();
        let input = GroupsInput {
            before: &|switch| before.get(&guid(switch)).cloned().unwrap_or_default(),
            ..GroupsInput::new(&setup.fabric, &plan)
        };
        let groups = input.groups();
        Some(AdaptiveTarget::new(Arc::new(setup.fabric), plan, groups, SETTINGS, |_| true))
    }

    /// Brings all switches to a target. Calls `check` with the switch after each request.
    fn program(&mut self, target: &AdaptiveTarget, mut check: impl FnMut(Guid, &Device)) -> usize {
        let guids: Vec<Guid> = self.devices.keys().copied().collect();
        let mut sets = 0;
        self.switches.observe(guids.iter().map(|&guid| (guid, 0)));
        for is_planned in [false, true] {
            if is_planned {
                self.switches.set_target(Some(target));
            }
            for &guid in &guids {
                while let Some(request) = self.switches.request(guid) {
                    let device = self.devices.get_mut(&guid).expect("a device");
                    sets += usize::from(request.set.is_some());
                    let data = serve(device, request.attr_id, request.modifier, request.set);
                    let reply = SmpReply { data, status: 0 };
                    assert_eq!(self.switches.answered(guid, &Ok(reply)), None);
                    check(guid, device);
                }
            }
        }
        sets
    }
}

fn serve(device: &mut Device, attr_id: u16, modifier: u32, set: Option<[u8; 64]>) -> [u8; 64] {
    match (attr_id, set) {
        (AttrId::AR_INFO, Some(data)) => device.info = ArInfo(data),
        (AttrId::AR_GROUP_TABLE, Some(data)) => {
            device.groups.insert(modifier, ArGroupBlock(data).groups());
        }
        (AttrId::AR_LFT, Some(data)) => {
            device.entries.insert(modifier, ArLftBlock(data).entries());
        }
        (AttrId::AR_INFO, None) => return device.info.0,
        other => panic!("{other:?}"),
    }
    set.expect("a Set")
}

fn is_within(ports: &PortMask, allowed: [PortMask; 2]) -> bool {
    !ports.is_empty() && ports.iter().all(|port| allowed.iter().any(|mask| mask.contains(port)))
}

fn rehearse(mut rehearsal: Rehearsal, steps: usize, seed: u64) {
    let mut random = Random::new(seed);
    let mut target = rehearsal.target(&[]).expect("a plan");
    let guids: Vec<Guid> = rehearsal.whole.nodes.iter().map(|node| node.guid).collect();
    for guid in guids.into_iter().filter(|&guid| target.groups_of(guid).is_some()) {
        rehearsal.devices.insert(guid, Device::new());
    }
    rehearsal.program(&target, |_, device| {
        assert!(!device.info.adaptive_routing() || !device.entries.is_empty());
    });
    // The switches at the top of a tree have one port to each destination.
    assert!(rehearsal.devices.values().any(|device| device.info.adaptive_routing()));
    let mut written = 0;
    for _ in 0..steps {
        let count = random.below(3);
        let lost: Vec<usize> =
            (0..count).map(|_| random.below(rehearsal.whole.cables.len())).collect();
        let Some(next) = rehearsal.target(&lost) else { continue };
        let lids = next.lids().min(target.lids());
        written += rehearsal.program(&next, |guid, device| {
            for lid in 1..=lids {
                let lid = Lid(lid);
                let Some(ports) = device.ports(lid) else { continue };
                let allowed = [&target, &next].map(|tables| tables.choices(guid, lid));
                assert!(is_within(&ports, allowed), "{guid} LID {lid}: {ports:?} {allowed:?}");
            }
        });
        for (&guid, device) in &rehearsal.devices {
            for lid in (1..=lids).map(Lid).filter(|_| device.info.adaptive_routing()) {
                assert_eq!(device.ports(lid), Some(next.choices(guid, lid)), "{guid} LID {lid}");
            }
        }
        target = next;
    }
    assert!(written > 0);
}

#[test]
fn groups_of_parallel_cables_change_safely() {
    let shape = Shape { hosts: 1, parallel: 3, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a fabric");
    rehearse(Rehearsal::new(topology, shape.torus_conf(), "torus-2QoS,no_fallback"), 12, 1);
}

#[test]
fn groups_of_trees_change_safely() {
    let shape: FabricShape = "fattree:2x4x3x2".parse().expect("a shape");
    let topology = shape.build().expect("a fabric");
    for engine in ["updn,no_fallback", "minhop"] {
        rehearse(Rehearsal::new(topology.clone(), String::new(), engine), 12, 2);
    }
}
