//! One switch with adaptive routing: the requests that lead from what it holds to its target.
//!
//! ```text
//! ARInfo ─ off ──────────────► entries ► groups ─────────────────────────► ARInfo
//!        └ on ► read tables ─► groups added ► top ► entries ► groups freed ► ARInfo
//! ```
//!
//! On a running switch, groups that change have the ports of both sets in common until all entries are
//! written. If there are none, adaptive routing is switched off first.

use super::AdaptiveSwitchState;
use super::failure::AdaptiveFailure;
use super::group_sets::{common, is_empty, merged};
use super::reply::is_as_set;
use super::target::{SwitchTarget, group_block, group_blocks};
use crate::transport::transactions::{SmpError, SmpResult};
use crate::wire::attr::AttrId;
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::adaptive::{AR_GROUP_BLOCK, ArGroupBlock, ArInfo, GroupPorts};
use crate::wire::vendor::facts::AR_INFO_MODIFIER;
use std::collections::VecDeque;

/// The largest number of sub-groups with which each group has one set of ports.
const MAX_SUB_GROUPS: u8 = 1;

/// Tables of which a switch may have entries, before they count as unknown. More than two remain only if the
/// subnet changes again and again before a switch is written.
const MAX_HELD_TABLES: usize = 4;

/// A request to a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveRequest {
    pub attr_id: u16,
    pub modifier: u32,
    /// The contents of a Set; `None` is a Get.
    pub set: Option<[u8; DATA_SIZE]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ArStep {
    ReadInfo,
    ReadGroups(u32),
    ReadEntries(u32),
    /// Groups that entries need now or later.
    AddGroups(u32),
    WriteEntries(u32),
    WriteGroups(u32),
    /// The highest group, before entries name it.
    RaiseTop,
    WriteInfo,
    SwitchOff,
    /// Static entries, on a switch that cannot be switched off.
    WriteStatic(u32),
}

/// The forwarding table of a switch.
#[derive(Clone, Debug)]
enum HeldEntries {
    Unknown,
    As(SwitchTarget),
}

/// What a switch is to have.
#[derive(Clone, Debug)]
enum ArGoal {
    /// Not planned yet.
    Undecided,
    Static,
    /// Static entries in the forwarding table of adaptive routing.
    StaticEntries(SwitchTarget),
    Tables(SwitchTarget),
}

#[derive(Clone, Debug)]
pub struct AdaptiveSwitch {
    restarted: u64,
    /// `None` if it is not known.
    info: Option<ArInfo>,
    /// `None` if they are not known.
    groups: Option<Vec<GroupPorts>>,
    entries: HeldEntries,
    /// The tables of which it may have entries while it is on; none if another subnet manager wrote them.
    may_hold: Vec<SwitchTarget>,
    /// A Set that switches it on was not answered.
    is_in_doubt: bool,
    /// It did not acknowledge that it is switched off.
    is_stuck: bool,
    wanted: ArGoal,
    steps: VecDeque<ArStep>,
    failure: Option<AdaptiveFailure>,
    /// It has been switched off after a failure, or is to be.
    is_given_up: bool,
}

impl AdaptiveSwitch {
    pub(super) fn new(restarted: u64) -> Self {
        Self {
            restarted,
            info: None,
            groups: None,
            entries: HeldEntries::Unknown,
            may_hold: Vec::new(),
            is_in_doubt: false,
            is_stuck: false,
            wanted: ArGoal::Undecided,
            steps: VecDeque::new(),
            failure: None,
            is_given_up: false,
        }
    }

    pub(super) fn restarted(&self) -> u64 {
        self.restarted
    }

    pub fn failure(&self) -> Option<AdaptiveFailure> {
        self.failure
    }

    /// The groups that it holds, by number; none if they are not known.
    pub fn held_groups(&self) -> &[GroupPorts] {
        self.groups.as_deref().unwrap_or(&[])
    }

    /// The number of groups of its table, group 0 included; 0 while it is not known or cannot be used.
    pub fn group_cap(&self) -> u16 {
        match self.info {
            Some(info) if !self.is_given_up => info.group_cap(),
            _ => 0,
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.held_groups().iter().filter(|ports| ports.iter().any(|&word| word != 0)).count()
    }

    /// True unless it is known to forward by its plain table. A switch that has not told its ARInfo has no
    /// tables of this subnet manager.
    pub(super) fn may_be_on(&self) -> bool {
        self.is_in_doubt || self.info.is_some_and(is_on)
    }

    /// The tables of which it may have entries while it is on; none if they are not known.
    pub(super) fn may_hold(&self) -> &[SwitchTarget] {
        &self.may_hold
    }

    /// Sends nothing until it is observed again.
    pub(super) fn hold(&mut self) {
        self.wanted = ArGoal::Undecided;
        self.steps.clear();
    }

    /// Forwards by the plain table until it gets a target.
    pub(super) fn switch_off(&mut self) {
        self.hold();
        if self.may_be_on() {
            self.steps.push_back(ArStep::SwitchOff);
        }
    }

    /// True if it has what it is to have, and that is more than static forwarding.
    pub fn is_configured(&self) -> bool {
        let is_done = self.failure.is_none() && self.steps.is_empty();
        is_done && matches!(self.wanted, ArGoal::Tables(_)) && self.info.is_some_and(is_on)
    }

    pub(super) fn state(&self) -> AdaptiveSwitchState {
        match self.failure {
            Some(failure) => AdaptiveSwitchState::Failed(failure),
            None if self.is_configured() => AdaptiveSwitchState::On,
            None if self.steps.is_empty() => AdaptiveSwitchState::Static,
            None => AdaptiveSwitchState::Busy,
        }
    }

    /// Reads ARInfo again. A switch that did not answer gets another chance, one that refused does not.
    pub(super) fn begin(&mut self) {
        if matches!(self.failure, Some(AdaptiveFailure::Unanswered(_))) {
            self.failure = None;
            self.is_given_up = false;
        }
        self.wanted = ArGoal::Undecided;
        self.steps.clear();
        // A switch that refused ARInfo has nothing to read.
        if !self.is_given_up || self.info.is_some() {
            self.steps.push_back(ArStep::ReadInfo);
        }
    }

    /// Plans the steps to a target. `routes` has the static routes, also without a target.
    pub(super) fn set_target(
        &mut self,
        target: Option<SwitchTarget>,
        routes: Option<SwitchTarget>,
    ) {
        self.wanted = match (target, routes) {
            (Some(target), _) if !self.is_given_up => ArGoal::Tables(target),
            (_, Some(routes)) if self.is_stuck && self.may_be_on() => ArGoal::StaticEntries(routes),
            _ => ArGoal::Static,
        };
        self.steps.clear();
        let Some(info) = self.info else { return };
        match &self.wanted {
            ArGoal::Tables(target) if is_on(info) => {
                let target = target.clone();
                self.steps = self.running(&target, info);
                self.add_held(target);
            }
            ArGoal::Tables(target) => {
                self.may_hold = vec![target.clone()];
                let known =
                    if let HeldEntries::As(known) = &self.entries { Some(known) } else { None };
                let mut steps = entry_steps(target, known);
                let groups = target.groups();
                steps.extend(
                    (0..group_blocks(&groups))
                        .filter(|block| self.differs(&groups, *block))
                        .map(ArStep::WriteGroups),
                );
                steps.push_back(ArStep::WriteInfo);
                self.steps = steps;
            }
            ArGoal::StaticEntries(routes) => {
                self.steps = (0..routes.entry_blocks()).map(ArStep::WriteStatic).collect();
            }
            ArGoal::Static if self.may_be_on() => self.steps = [ArStep::SwitchOff].into(),
            ArGoal::Static | ArGoal::Undecided => {}
        }
        self.settle();
    }

    /// Adds tables that are written to those of which there may be entries already. Tables that are not known
    /// stay so.
    fn add_held(&mut self, target: SwitchTarget) {
        if self.may_hold.len() >= MAX_HELD_TABLES {
            self.may_hold.clear();
        } else if !self.may_hold.is_empty() {
            self.may_hold.push(target);
        }
    }

    /// Forgets earlier tables once the last difference is written.
    fn settle(&mut self) {
        if let ArGoal::Tables(target) = &self.wanted
            && self.steps.is_empty()
            && self.failure.is_none()
        {
            self.may_hold = vec![target.clone()];
        }
    }

    /// The steps of a switch whose adaptive routing is on.
    fn running(&self, target: &SwitchTarget, info: ArInfo) -> VecDeque<ArStep> {
        let groups = target.groups();
        let held = self.held_groups();
        let leads_elsewhere = held.iter().zip(&groups).any(|(held, wanted)| {
            !is_empty(held) && !is_empty(wanted) && is_empty(&common(held, wanted))
        });
        let mut steps = VecDeque::new();
        if leads_elsewhere {
            steps.push_back(ArStep::SwitchOff);
        }
        let blocks = group_blocks(&groups).max(group_blocks(held));
        let added = merged(held, &groups);
        let differing = (0..blocks).filter(|&block| self.differs(&added, block));
        steps.extend(differing.map(ArStep::AddGroups));
        let wanted = target.info(info);
        if wanted.group_top() > info.group_top() {
            steps.push_back(ArStep::RaiseTop);
        }
        match &self.entries {
            HeldEntries::As(known) => steps.append(&mut entry_steps(target, Some(known))),
            HeldEntries::Unknown => {
                let own = target.own_block();
                let others = (0..target.entry_blocks()).filter(|&block| block != own);
                steps.extend(others.chain([own]).map(ArStep::ReadEntries));
            }
        }
        let unfinished =
            (0..blocks).filter(|&block| group_block(&added, block) != group_block(&groups, block));
        steps.extend(unfinished.map(ArStep::WriteGroups));
        steps.push_back(ArStep::WriteInfo);
        steps
    }

    /// True if a block of the group table is not known to have these groups.
    fn differs(&self, groups: &[GroupPorts], block: u32) -> bool {
        let held = self.groups.as_deref();
        held.is_none_or(|held| group_block(held, block) != group_block(groups, block))
    }

    /// The next request; steps that have nothing to write are skipped.
    pub(super) fn request(&mut self) -> Option<AdaptiveRequest> {
        while let Some(&step) = self.steps.front() {
            if let Some(request) = self.request_of(step) {
                return Some(request);
            }
            self.steps.pop_front();
        }
        self.settle();
        None
    }

    fn request_of(&self, step: ArStep) -> Option<AdaptiveRequest> {
        let request = |attr_id, modifier, set| Some(AdaptiveRequest { attr_id, modifier, set });
        let modifier = AR_INFO_MODIFIER.value;
        match step {
            ArStep::ReadInfo => return request(AttrId::AR_INFO, modifier, None),
            ArStep::ReadGroups(block) => return request(AttrId::AR_GROUP_TABLE, block, None),
            ArStep::ReadEntries(block) => return request(AttrId::AR_LFT, block, None),
            ArStep::SwitchOff => {
                let off = off(self.info.unwrap_or_default());
                return request(AttrId::AR_INFO, modifier, Some(off.0));
            }
            ArStep::WriteStatic(block) => {
                let ArGoal::StaticEntries(routes) = &self.wanted else { return None };
                return request(AttrId::AR_LFT, block, Some(routes.static_entries(block).0));
            }
            _ => {}
        }
        let ArGoal::Tables(target) = &self.wanted else { return None };
        let info = self.info?;
        match step {
            ArStep::AddGroups(block) => {
                let added = merged(self.held_groups(), &target.groups());
                request(AttrId::AR_GROUP_TABLE, block, Some(group_block(&added, block).0))
            }
            ArStep::WriteGroups(block) => {
                let block_data = group_block(&target.groups(), block).0;
                request(AttrId::AR_GROUP_TABLE, block, Some(block_data))
            }
            ArStep::WriteEntries(block) => {
                request(AttrId::AR_LFT, block, Some(target.entries(block).0))
            }
            ArStep::RaiseTop => {
                let mut raised = info;
                raised.set_group_top(target.info(info).group_top());
                request(AttrId::AR_INFO, modifier, Some(raised.0))
            }
            _ => {
                let wanted = target.info(info);
                if wanted == info {
                    None
                } else {
                    request(AttrId::AR_INFO, modifier, Some(wanted.0))
                }
            }
        }
    }

    /// Takes over the answer to the last request. Returns the failure, if it is a new one.
    pub(super) fn answered(&mut self, result: &SmpResult) -> Option<AdaptiveFailure> {
        let request = self.request()?;
        let step = self.steps.pop_front()?;
        let failure = match result {
            Ok(reply) => match request.set {
                Some(set) if !is_as_set(request.attr_id, &set, &reply.data) => {
                    AdaptiveFailure::Altered(request.attr_id)
                }
                _ => {
                    self.done(step, &reply.data);
                    return self.too_new();
                }
            },
            Err(SmpError::Status(status)) => AdaptiveFailure::Refused(request.attr_id, *status),
            Err(SmpError::Unanswered | SmpError::Malformed(_) | SmpError::Send(_)) => {
                AdaptiveFailure::Unanswered(request.attr_id)
            }
        };
        let is_known = self.failure == Some(failure);
        let is_unanswered = matches!(failure, AdaptiveFailure::Unanswered(_));
        self.is_in_doubt |= is_unanswered && matches!(step, ArStep::WriteInfo | ArStep::RaiseTop);
        self.fail(failure, step);
        (!is_known).then_some(failure)
    }

    /// Gives a switch up whose tables have another form.
    fn too_new(&mut self) -> Option<AdaptiveFailure> {
        let is_known = self.info.is_none_or(|info| info.sub_groups() <= MAX_SUB_GROUPS);
        if is_known || self.is_given_up {
            return None;
        }
        self.fail(AdaptiveFailure::SubGroups, ArStep::ReadInfo);
        Some(AdaptiveFailure::SubGroups)
    }

    /// Gives the switch up: it forwards statically.
    fn fail(&mut self, failure: AdaptiveFailure, step: ArStep) {
        self.failure = Some(failure);
        self.is_given_up = true;
        self.is_stuck |= step == ArStep::SwitchOff;
        self.groups = None;
        self.entries = HeldEntries::Unknown;
        self.steps.clear();
        let may_be_on = match step {
            ArStep::SwitchOff | ArStep::WriteStatic(_) => false,
            ArStep::WriteInfo | ArStep::RaiseTop => true,
            _ => self.info.is_some_and(is_on),
        };
        if may_be_on {
            self.steps.push_back(ArStep::SwitchOff);
        } else if step == ArStep::ReadInfo {
            self.info = None;
        }
    }

    fn take_info(&mut self, info: ArInfo) {
        self.info = Some(info);
        self.is_in_doubt = false;
        self.is_stuck &= is_on(info);
        let is_switched_on = matches!(self.wanted, ArGoal::Tables(_));
        if !is_on(info) && !is_switched_on {
            self.may_hold.clear();
        }
    }

    fn done(&mut self, step: ArStep, data: &[u8; DATA_SIZE]) {
        match step {
            ArStep::ReadInfo => {
                let info = ArInfo(*data);
                self.take_info(info);
                let is_unknown = is_on(info) && self.groups.is_none();
                if is_unknown && !self.is_given_up {
                    let groups = usize::from(info.group_top()) + 1;
                    self.groups = Some(vec![GroupPorts::default(); groups]);
                    let blocks = groups.div_ceil(AR_GROUP_BLOCK) as u32;
                    self.steps.extend((0..blocks).map(ArStep::ReadGroups));
                }
            }
            ArStep::WriteInfo | ArStep::RaiseTop | ArStep::SwitchOff => {
                self.take_info(ArInfo(*data))
            }
            ArStep::ReadGroups(block) | ArStep::AddGroups(block) | ArStep::WriteGroups(block) => {
                let groups = self.groups.get_or_insert_default();
                let first = block as usize * AR_GROUP_BLOCK;
                groups.resize(groups.len().max(first + AR_GROUP_BLOCK), GroupPorts::default());
                let read = ArGroupBlock(*data).groups();
                groups[first..first + AR_GROUP_BLOCK].copy_from_slice(&read);
            }
            ArStep::ReadEntries(block) => {
                if let ArGoal::Tables(target) = &self.wanted
                    && target.entries(block).0 != *data
                {
                    self.steps.push_front(ArStep::WriteEntries(block));
                }
            }
            ArStep::WriteEntries(_) | ArStep::WriteStatic(_) => {}
        }
        let was_entries = writes_entries(&step);
        if was_entries {
            // Between the first and the last block, nothing is known of the whole.
            self.entries = match &self.wanted {
                ArGoal::Tables(target) if !self.steps.iter().any(writes_entries) => {
                    HeldEntries::As(target.clone())
                }
                _ => HeldEntries::Unknown,
            };
        }
    }
}

fn writes_entries(step: &ArStep) -> bool {
    matches!(step, ArStep::WriteEntries(_) | ArStep::ReadEntries(_))
}

/// The writes of blocks that differ from what is held, that with the subnet manager's LID last.
fn entry_steps(target: &SwitchTarget, held: Option<&SwitchTarget>) -> VecDeque<ArStep> {
    let own = target.own_block();
    let others = (0..target.entry_blocks()).filter(|&block| block != own);
    others
        .chain([own])
        .filter(|block| held.is_none_or(|held| held.entries(*block) != target.entries(*block)))
        .map(ArStep::WriteEntries)
        .collect()
}

/// True while the forwarding table of adaptive routing is in force.
fn is_on(info: ArInfo) -> bool {
    info.adaptive_routing() || info.fast_recovery()
}

/// The same with static forwarding.
fn off(info: ArInfo) -> ArInfo {
    let mut off = info;
    off.set_adaptive_routing(false);
    off.set_fast_recovery(false);
    off.set_notifications(false);
    off
}
