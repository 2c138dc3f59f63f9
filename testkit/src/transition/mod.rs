//! Devices whose tables are rewritten Set by Set, and the fate of packets meanwhile.

pub mod draw;
pub mod mixture;
pub mod torus;

use crate::dice::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use torus_sm::apply::Acknowledged;
use torus_sm::apply::delta::Delta;
use torus_sm::apply::delta::scope::Scope;
use torus_sm::apply::set_id::SetId;
use torus_sm::apply::transition::{Steps, TransitionStep, order, strict};
use torus_sm::fabric::{Fabric, PortId, SwitchId};
use torus_sm::ids::{Lid, Mlid, PortNum};
use torus_sm::observe::m_keys::MKeys;
use torus_sm::plan::Plan;
use torus_sm::plan::routing::PortMask;
use torus_sm::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH, MFT_BLOCK, MftBlock};
use torus_sm::wire::attr::{AttrId, PortState, SwitchInfo};

/// A fabric that changes from one plan to another.
pub struct Scene {
    /// The snapshot for which the old plan was applied.
    pub before: Arc<Fabric>,
    pub old: Arc<Plan>,
    /// The current snapshot: failed links are absent, new ones in INIT, rebooted switches blank.
    pub fabric: Fabric,
    pub new: Plan,
}

/// The M_Keys of a fabric without any.
static NO_KEYS: LazyLock<MKeys> = LazyLock::new(MKeys::default);

impl Scene {
    pub fn acknowledged(&self) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        acknowledged.replace(&self.before, &self.old, &[]);
        acknowledged
    }

    pub fn steps(&self) -> Steps {
        self.steps_from(&self.acknowledged())
    }

    /// The steps from the tables that devices have acknowledged.
    pub fn steps_from(&self, acknowledged: &Acknowledged) -> Steps {
        order(&self.delta(acknowledged))
    }

    /// The steps of a strict transition.
    pub fn strict_steps(&self) -> Steps {
        strict::order(&self.delta(&self.acknowledged()))
    }

    fn delta<'a>(&'a self, acknowledged: &'a Acknowledged) -> Delta<'a> {
        Delta {
            fabric: &self.fabric,
            pkeys: &[],
            plan: &self.new,
            acknowledged,
            keys: &NO_KEYS,
            optimized_sl_to_vl: false,
            fdr10: 0,
            scope: Scope::All,
        }
    }
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Arrives,
    Lost,
    Circles,
}

type Masks = BTreeMap<Mlid, PortMask>;

/// The tables that the devices hold.
#[derive(Clone)]
pub struct Devices<'a> {
    scene: &'a Scene,
    lfts: Vec<Vec<u8>>,
    tops: Vec<u16>,
    mfts: Vec<Masks>,
    /// True once the links in INIT have become ACTIVE.
    ports_are_up: bool,
}

impl<'a> Devices<'a> {
    /// The devices as the old plan left them.
    pub fn new(scene: &'a Scene) -> Self {
        let fabric = &scene.fabric;
        let mut devices = Self {
            scene,
            lfts: vec![vec![LFT_NO_PATH; 0x400]; fabric.switches().len()],
            tops: Vec::new(),
            mfts: vec![Masks::new(); fabric.switches().len()],
            ports_are_up: false,
        };
        for switch in fabric.switch_ids() {
            let node = fabric.switch(switch);
            let top = node.switch_info.linear_fdb_top();
            devices.tops.push(top);
            let held = scene.before.node_by_guid(node.guid());
            let held = held.and_then(|node| scene.before.node(node).switch).filter(|_| top > 0);
            if let Some(held) = held {
                devices.hold(switch, held);
            }
        }
        devices
    }

    /// Gives a switch the old plan's tables of `there`, its index in the old snapshot.
    pub fn hold(&mut self, switch: SwitchId, there: SwitchId) {
        let scene = self.scene;
        let table: Vec<u8> = scene.old.routing.lft(there).entries().collect();
        self.tops[switch.index()] = scene.old.switch_infos[there.index()].linear_fdb_top();
        self.lfts[switch.index()][..table.len()].copy_from_slice(&table);
        self.mfts[switch.index()] =
            scene.old.multicast.by_switch[there.index()].iter().copied().collect();
    }

    fn mask(&self, mlid: Mlid, switch: SwitchId) -> PortMask {
        self.mfts[switch.index()].get(&mlid).copied().unwrap_or_default()
    }

    /// The ports that forward a group.
    pub fn ports(&self, mlid: Mlid, switch: SwitchId) -> Vec<u8> {
        self.mask(mlid, switch).iter().collect()
    }

    /// The devices as the new plan wants them.
    pub fn planned(scene: &'a Scene) -> Self {
        let mut devices = Self::new(scene);
        devices.ports_are_up = true;
        for switch in scene.fabric.switch_ids() {
            let table: Vec<u8> = scene.new.routing.lft(switch).entries().collect();
            devices.lfts[switch.index()][..table.len()].copy_from_slice(&table);
            devices.tops[switch.index()] = scene.new.switch_infos[switch.index()].linear_fdb_top();
            devices.mfts[switch.index()] =
                scene.new.multicast.by_switch[switch.index()].iter().copied().collect();
        }
        devices
    }

    pub fn raise_ports(&mut self) {
        self.ports_are_up = true;
    }

    pub fn equals(&self, other: &Self) -> bool {
        self.tables() == other.tables() && self.mfts == other.mfts && self.tops == other.tops
    }

    /// The entries of the tables up to LinearFDBTop.
    fn tables(&self) -> Vec<Vec<u8>> {
        let tables = self.lfts.iter().zip(&self.tops);
        tables.map(|(lft, &top)| lft[..=usize::from(top)].to_vec()).collect()
    }

    /// True if each entry that is in effect here is in effect in `whole`, too.
    pub fn is_part_of(&self, whole: &Self) -> bool {
        let switches = (0..self.lfts.len() as u32).map(SwitchId);
        let mut lids = switches.flat_map(|switch| self.lids().map(move |lid| (switch, lid)));
        let mut masks = self.mfts.iter().zip(&whole.mfts);
        let no_ports = PortMask::default();
        lids.all(|(switch, lid)| self.holds(whole, switch, lid))
            && masks.all(|(part, whole)| {
                part.iter().all(|(mlid, ports)| {
                    let whole = whole.get(mlid).unwrap_or(&no_ports);
                    ports.iter().all(|port| whole.contains(port))
                })
            })
    }

    /// Applies a Set; returns the LIDs that it may concern.
    pub fn carry_out(&mut self, step: &TransitionStep) -> Vec<Lid> {
        let Some(item) = step.set else { return Vec::new() };
        let Some(switch) = self.scene.fabric.node(item.node).switch else { return Vec::new() };
        match item.attr_id {
            AttrId::LINEAR_FT => {
                let start = item.attr_mod as usize * LFT_BLOCK;
                let data = match &step.data {
                    Some(data) => &data[..],
                    None => self.scene.new.routing.lft(switch).block(item.attr_mod),
                };
                self.lfts[switch.index()][start..start + LFT_BLOCK].copy_from_slice(data);
                (start..start + LFT_BLOCK).map(|lid| Lid(lid as u16)).collect()
            }
            AttrId::SWITCH_INFO => {
                let data = step.data.as_ref().expect("data");
                self.tops[switch.index()] = SwitchInfo::read(&data[..]).linear_fdb_top();
                self.lids().collect()
            }
            AttrId::MULTICAST_FT => {
                self.write_mft(switch, item, step.data.as_ref().expect("data"));
                Vec::new()
            }
            // No mapping drops packets here.
            AttrId::SL_TO_VL => Vec::new(),
            other => panic!("attribute {other:#x}"),
        }
    }

    fn write_mft(&mut self, switch: SwitchId, item: SetId, data: &[u8; 64]) {
        let block = item.attr_mod as u16 & 0x1FF;
        let position = item.attr_mod >> 28;
        for (index, ports) in MftBlock::read(data).0.into_iter().enumerate() {
            let mlid = Mlid(0xC000 + block * MFT_BLOCK as u16 + index as u16);
            let mask = self.mfts[switch.index()].entry(mlid).or_default();
            let word = position as usize / 4;
            let shift = position % 4 * 16;
            mask.0[word] = mask.0[word] & !(0xFFFF << shift) | u64::from(ports) << shift;
            if mask.is_empty() {
                self.mfts[switch.index()].remove(&mlid);
            }
        }
    }

    /// All LIDs of the new plan.
    pub fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        (1..=self.scene.new.lids.max().0).map(Lid)
    }

    /// The two ends of the link at a switch port, if it is up.
    fn behind(&self, switch: SwitchId, num: u8) -> Option<(PortId, PortId)> {
        let fabric = &self.scene.fabric;
        let slot = fabric.switch_port(switch, PortNum(num))?;
        let peer = fabric.port(slot).peer?;
        (is_up(fabric, &self.ports_are_up, slot) && is_up(fabric, &self.ports_are_up, peer))
            .then_some((slot, peer))
    }

    pub fn out(&self, switch: SwitchId, lid: Lid) -> Option<u8> {
        let port = self.lfts[switch.index()].get(lid.index()).copied()?;
        (port != LFT_NO_PATH && lid.0 <= self.tops[switch.index()]).then_some(port)
    }

    /// The fate of packets for `lid` from each switch.
    pub fn fates(&self, lid: Lid) -> Vec<Fate> {
        let owner = self.scene.new.lids.port(lid);
        self.scene.fabric.switch_ids().map(|switch| self.fate(switch, lid, owner)).collect()
    }

    fn fate(&self, from: SwitchId, lid: Lid, owner: Option<PortId>) -> Fate {
        let fabric = &self.scene.fabric;
        let mut switch = from;
        for _ in 0..=fabric.switches().len() {
            let Some(num) = self.out(switch, lid) else { return Fate::Lost };
            let end = if num == 0 {
                fabric.switch_port(switch, PortNum(0))
            } else {
                let Some((_, peer)) = self.behind(switch, num) else { return Fate::Lost };
                if let Some(next) = fabric.node_of(peer).switch {
                    switch = next;
                    continue;
                }
                Some(peer)
            };
            return if end == owner { Fate::Arrives } else { Fate::Lost };
        }
        Fate::Circles
    }

    /// The channels (sending port and its peer) on which a switch copies a multicast packet that
    /// came in at `came_to`.
    fn copies(
        &self,
        mlid: Mlid,
        switch: SwitchId,
        came_to: Option<PortId>,
    ) -> Vec<(PortId, PortId)> {
        let mask = self.mask(mlid, switch);
        let ports = mask.iter().filter(|&num| num != 0);
        let ways = ports.filter_map(|num| self.behind(switch, num));
        ways.filter(|&(slot, _)| Some(slot) != came_to).collect()
    }

    /// The end ports that a multicast packet from one switch reaches; `None` if it is copied
    /// endlessly.
    pub fn spread(&self, mlid: Mlid, from: SwitchId) -> Option<BTreeSet<PortId>> {
        let fabric = &self.scene.fabric;
        let mut reached = BTreeSet::new();
        let mut under_way = self.copies(mlid, from, None);
        for _ in 0..=2 * fabric.ports().len() {
            let Some((_, peer)) = under_way.pop() else { return Some(reached) };
            match fabric.node_of(peer).switch {
                Some(next) => under_way.extend(self.copies(mlid, next, Some(peer))),
                None => {
                    reached.insert(peer);
                }
            }
        }
        None
    }

    pub fn mlids(&self) -> BTreeSet<Mlid> {
        self.mfts.iter().flat_map(|masks| masks.keys().copied()).collect()
    }

    /// True if the links of both states' trees together contain a ring.
    pub fn has_ring_with(&self, other: &Self, mlid: Mlid) -> bool {
        let fabric = &self.scene.fabric;
        let mut cables = BTreeSet::new();
        for devices in [self, other] {
            for switch in fabric.switch_ids() {
                for num in devices.mask(mlid, switch).iter() {
                    let slot = fabric.switch_port(switch, PortNum(num));
                    let peer = slot.and_then(|slot| fabric.port(slot).peer);
                    let (Some(slot), Some(peer)) = (slot, peer) else { continue };
                    if let Some(to) = fabric.node_of(peer).switch {
                        let ends = (switch.min(to).index(), switch.max(to).index());
                        cables.insert((ends, slot.min(peer)));
                    }
                }
            }
        }
        // A forest loses all its links, leaf by leaf.
        let mut left: Vec<(usize, usize)> = cables.into_iter().map(|(ends, _)| ends).collect();
        loop {
            let kept: Vec<_> = left
                .iter()
                .copied()
                .filter(|&(a, b)| degree(&left, a) > 1 && degree(&left, b) > 1)
                .collect();
            if kept.len() == left.len() {
                return !left.is_empty();
            }
            left = kept;
        }
    }

    fn holds(&self, whole: &Devices<'a>, switch: SwitchId, lid: Lid) -> bool {
        let port = self.out(switch, lid);
        port.is_none() || port == whole.out(switch, lid)
    }
}

fn degree(left: &[(usize, usize)], at: usize) -> usize {
    left.iter().filter(|&&(a, b)| a == at || b == at).count()
}

fn is_up(fabric: &Fabric, ports_are_up: &bool, port: PortId) -> bool {
    fabric.port(port).state() == PortState::Active || *ports_are_up
}

/// Applies all steps in a random order that their dependencies allow, or in any order if `in_order`
/// is false; returns the faults.
pub fn transit(scene: &Scene, steps: &Steps, in_order: bool, dice: &mut Dice) -> Vec<String> {
    let steps: Vec<TransitionStep> = if in_order {
        steps.iter().cloned().collect()
    } else {
        let last = steps.iter().filter(|step| step.is_last).cloned();
        last.map(|step| TransitionStep { after: Vec::new(), ..step }).collect()
    };
    let mut watch = Invariants::new(scene);
    let mut devices = Devices::new(scene);
    let mut faults = Vec::new();
    let mut done = vec![false; steps.len()];
    let mut is_up = false;
    loop {
        let ready: Vec<usize> = (0..steps.len())
            .filter(|index| {
                let step = &steps[*index];
                let after = step.after.iter().all(|&before| done[before as usize]);
                !done[*index] && after && (!in_order || is_up || !step.is_deferred)
            })
            .collect();
        if ready.is_empty() {
            if is_up {
                break;
            }
            is_up = true;
            devices.raise_ports();
            watch.check(&devices, devices.lids(), "ports are ACTIVE", &mut faults);
            continue;
        }
        let index = ready[dice.index(ready.len())];
        done[index] = true;
        let lids = devices.carry_out(&steps[index]);
        let what = format!("{:?}", steps[index].set);
        if steps[index].set.is_none_or(|item| item.attr_id == AttrId::SL_TO_VL) {
            continue;
        }
        watch.check(&devices, lids.into_iter(), &what, &mut faults);
    }
    if done.contains(&false) {
        faults.push("steps are left that wait for each other".into());
    }
    if !devices.equals(&Devices::planned(scene)) {
        faults.push("the devices do not hold the plan".into());
    }
    faults
}

/// The properties that must hold after every Set.
struct Invariants {
    /// By LID and switch: packets arrive before and after the transition, hence must always arrive.
    safe: BTreeMap<Lid, Vec<bool>>,
    /// By group and switch: the end ports that are reached both before and after.
    reached: BTreeMap<(Mlid, SwitchId), BTreeSet<PortId>>,
}

impl Invariants {
    fn new(scene: &Scene) -> Self {
        let old = Devices::new(scene);
        let new = Devices::planned(scene);
        let mut reached = BTreeMap::new();
        let mlids: BTreeSet<Mlid> = old.mlids().union(&new.mlids()).copied().collect();
        for mlid in mlids {
            let parts = old.has_ring_with(&new, mlid);
            for switch in scene.fabric.switch_ids() {
                let always = match (old.spread(mlid, switch), new.spread(mlid, switch)) {
                    (Some(before), Some(after)) if !parts => &before & &after,
                    _ => BTreeSet::new(),
                };
                reached.insert((mlid, switch), always);
            }
        }
        Self {
            safe: old
                .lids()
                .map(|lid| {
                    let fates = old.fates(lid).into_iter().zip(new.fates(lid));
                    (lid, fates.map(|pair| pair == (Fate::Arrives, Fate::Arrives)).collect())
                })
                .collect(),
            reached,
        }
    }

    fn check(
        &mut self,
        devices: &Devices<'_>,
        lids: impl Iterator<Item = Lid>,
        after: &str,
        faults: &mut Vec<String>,
    ) {
        for lid in lids {
            let Some(safe) = self.safe.get(&lid) else { continue };
            for (switch, (fate, safe)) in devices.fates(lid).into_iter().zip(safe).enumerate() {
                if fate == Fate::Circles || *safe && fate != Fate::Arrives {
                    faults.push(format!("after {after}: LID {lid} from switch {switch}: {fate:?}"));
                }
            }
        }
        for (&(mlid, switch), needed) in &self.reached {
            match devices.spread(mlid, switch) {
                None => faults.push(format!("after {after}: {mlid} from {switch:?} circles")),
                Some(reached) if !needed.is_subset(&reached) => {
                    faults.push(format!("after {after}: {mlid} from {switch:?} misses members"));
                }
                Some(_) => {}
            }
        }
    }
}
