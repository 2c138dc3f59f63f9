//! The state that the devices acknowledged.
//!
//! A copy of every table of every device would double the memory of the daemon. The devices hold
//! the plan that was applied last, except for Sets that were not acknowledged. The state is
//! therefore stored as that plan, its fabric, and the exceptions.

use super::delta::scope::{Scope, Settled};
use super::set_failures::SetFailures;
use super::set_id::SetId;
use crate::fabric::{End, Fabric, NodeId, PortId};
use crate::ids::{Guid, Mlid, PortNum};
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::plan::routing::{Lft, PortMask};
use crate::wire::attr::tables::{GuidBlock, LFT_BLOCK, SlToVl, VlArbBlock};
use crate::wire::attr::{AttrId, PortInfo, PortState};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time within which a restarted switch is noticed by its links in INIT.
const RESTART_NOTICED: Duration = Duration::from_secs(60);

/// Identifies a Set across snapshots: node GUID, attribute ID and attribute modifier.
type SetKey = (Guid, u16, u32);

/// The last applied plan and the exceptions from it.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    last: Option<(Arc<Fabric>, Arc<Plan>)>,
    exceptions: PlanExceptions,
    /// Sets of the last reconfigurations without an answer, so that either version may be in effect.
    unanswered: HashSet<SetKey>,

    /// Nodes that have lost their tables since, for example by a reboot.
    tables_lost: HashSet<Guid>,
    /// Channel adapters and routers that had lost their tables when the last reconfiguration began.
    restarted: HashSet<Guid>,
    /// Ports of switches that reconfigurations brought up, with the time.
    raised: HashMap<End, Instant>,
    failures: SetFailures,
    /// The time when a strict transition removed entries and was ended before packets had drained.
    undrained_since: Option<Instant>,
    settled: Option<Settled>,
    /// The last plan was compared with what the devices hold, but never applied.
    is_adopted: bool,
}

/// The differences between the last plan and what the devices hold.
#[derive(Clone, Debug, Default)]
struct PlanExceptions {
    /// Sets that are not acknowledged.
    pending: HashSet<SetKey>,
    /// Withheld linear forwarding table blocks, by node GUID and block number, with the entries that
    /// the device holds.
    withheld_blocks: HashMap<(Guid, u32), Box<[u8; LFT_BLOCK]>>,
    /// All nodes with exceptions, and some that had one since the last plan.
    nodes: HashSet<Guid>,
}

impl PlanExceptions {
    fn pend(&mut self, set: SetKey) {
        self.nodes.insert(set.0);
        self.pending.insert(set);
    }

    fn withhold(&mut self, guid: Guid, block: u32, data: Box<[u8; LFT_BLOCK]>) {
        self.nodes.insert(guid);
        self.withheld_blocks.insert((guid, block), data);
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.withheld_blocks.clear();
        self.nodes.clear();
    }
}

/// The tables of one node.
#[derive(Clone, Copy)]
pub struct NodeTables<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    node: NodeId,
    is_adopted: bool,
}

impl<'a> NodeTables<'a> {
    /// The linear forwarding table of a switch; `None` for other nodes.
    pub fn lft(&self) -> Option<&'a Lft> {
        Some(self.plan.routing.lft(self.fabric.node(self.node).switch?))
    }

    /// The multicast forwarding entries of a switch.
    pub fn mft(&self) -> &'a [(Mlid, PortMask)] {
        let switch = self.fabric.node(self.node).switch;
        let tables: &MulticastTables = &self.plan.multicast;
        switch.and_then(|switch| tables.by_switch.get(switch.index())).map_or(&[], Vec::as_slice)
    }

    pub fn sl_to_vl(&self) -> &'a [(u8, u8, SlToVl)] {
        self.plan.qos.sl_to_vl_of(self.node)
    }

    /// The PortInfo last sent to port `num`, and the PortInfo that it answered; `None` if none was
    /// sent.
    pub fn port_info(&self, num: PortNum) -> Option<(PortInfo, PortInfo)> {
        if self.is_adopted {
            return None;
        }
        let slot = self.fabric.port_of(self.node, num)?;
        let sent = self.plan.ports.of(slot)?;
        Some((sent, self.fabric.port(slot).info()?))
    }

    /// A block of the GUID table of end port `num`; `None` if it was never written.
    pub fn guids(&self, num: PortNum, block: u8) -> Option<&'a GuidBlock> {
        let slot = self.fabric.port_of(self.node, num)?;
        let blocks = &self.plan.aliases;
        debug_assert!(blocks.is_sorted_by_key(|held| (held.port, held.block)));
        let place = blocks.binary_search_by_key(&(slot, block), |held| (held.port, held.block));
        Some(&blocks.get(place.ok()?)?.guids)
    }

    pub fn vl_arbitration(&self, num: u8) -> &'a [(u8, VlArbBlock)] {
        let slot = self.fabric.node(self.node).first_port.index() + usize::from(num);
        self.plan.qos.vl_arbitration.get(slot).map_or(&[], AsRef::as_ref)
    }
}

impl Acknowledged {
    /// The tables of a node; `None` if nothing is known about them.
    pub fn node(&self, guid: Guid) -> Option<NodeTables<'_>> {
        if self.tables_lost.contains(&guid) {
            return None;
        }
        self.last_tables(guid)
    }

    /// The tables of a node in the last applied plan, even if the node has lost them since.
    pub fn last_tables(&self, guid: Guid) -> Option<NodeTables<'_>> {
        let (fabric, plan) = self.last.as_ref()?;
        let node = fabric.node_by_guid(guid)?;
        Some(NodeTables { fabric, plan, node, is_adopted: self.is_adopted })
    }

    /// What was true after the last reconfiguration; `None` if an exception is known.
    pub(super) fn settled(&self) -> Option<&Settled> {
        let is_clean = self.is_exact()
            && self.unanswered.is_empty()
            && self.tables_lost.is_empty()
            && self.failures.is_empty()
            && !self.is_adopted;
        self.settled.as_ref().filter(|_| is_clean)
    }

    /// Records what is true after a complete reconfiguration.
    pub(super) fn settle(&mut self, settled: Settled) {
        self.settled = Some(settled);
    }

    /// Sets that devices refused, and devices that acknowledge none.
    pub fn failures(&self) -> &SetFailures {
        &self.failures
    }

    pub(super) fn failures_mut(&mut self) -> &mut SetFailures {
        &mut self.failures
    }

    /// The time when entries were removed whose packets may not have drained. Tables that another
    /// program wrote may have changed just now.
    pub(super) fn undrained_since(&self) -> Option<Instant> {
        if self.is_adopted { Some(Instant::now()) } else { self.undrained_since }
    }

    pub(super) fn record_undrained(&mut self, since: Option<Instant>) {
        self.undrained_since = since;
    }

    /// True if nothing is known of any device.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The last applied plan and its fabric.
    pub fn last(&self) -> Option<&(Arc<Fabric>, Arc<Plan>)> {
        self.last.as_ref()
    }

    /// True if a Set was sent and not acknowledged.
    pub fn is_pending(&self, guid: Guid, attr_id: u16, attr_mod: u32) -> bool {
        let pending = &self.exceptions.pending;
        !pending.is_empty() && pending.contains(&(guid, attr_id, attr_mod))
    }

    /// True if a Set was sent and has no answer: what was read of the device may be from before it.
    pub(super) fn is_unanswered(&self, guid: Guid, attr_id: u16, attr_mod: u32) -> bool {
        !self.unanswered.is_empty() && self.unanswered.contains(&(guid, attr_id, attr_mod))
    }

    /// Records the Sets of a reconfiguration that were not answered. Earlier ones of those that were
    /// `not_sent` remain.
    pub(super) fn record_unanswered(
        &mut self,
        fabric: &Fabric,
        unanswered: impl Iterator<Item = SetId>,
        not_sent: impl Iterator<Item = SetId>,
    ) {
        let before = std::mem::take(&mut self.unanswered);
        let not_sent = not_sent.map(|set| set.key(fabric)).filter(|key| before.contains(key));
        self.unanswered = unanswered.map(|set| set.key(fabric)).chain(not_sent).collect();
    }

    /// True if the local port is cabled to another port than in the last plan. Sets of that time may
    /// have reached, by the same directed routes, other devices than those that were meant.
    pub fn is_local_port_moved(&self, fabric: &Fabric) -> bool {
        let peer =
            |fabric: &Fabric| fabric.port(fabric.local()).peer.map(|peer| fabric.end_of(peer));
        let last = self.last.as_ref().and_then(|(last, _)| peer(last));
        last.zip(peer(fabric)).is_some_and(|(last, now)| last != now)
    }

    /// Forgets the tables of nodes that may not be the devices that were configured, or that may
    /// have restarted in between:
    /// * nodes without any of their links of the last plan: two devices may have had the same GUID;
    /// * devices that were configured after a restart by the last reconfiguration, and whose switch
    ///   is one of `changed_switches`: if they restarted again during it, their ports may be past
    ///   INIT by now.
    pub(super) fn forget_doubtful(
        &mut self,
        fabric: &Fabric,
        scope: Scope<'_>,
        changed_switches: &[Guid],
    ) {
        let Some((last, _)) = self.last.clone() else { return };
        let restarted = self.restarted.iter().filter_map(|&guid| fabric.node_by_guid(guid));
        let moved = scope.nodes(fabric).filter(|&node| has_other_links(&last, fabric, node));
        let doubtful = restarted
            .filter(|node| links(fabric, *node).any(|(_, to)| changed_switches.contains(&to.0)))
            .chain(moved);
        let doubtful: Vec<Guid> = doubtful.map(|node| fabric.node(node).guid()).collect();
        self.tables_lost.extend(doubtful);
    }

    /// Records the channel adapters and routers that have lost their tables as a reconfiguration
    /// begins.
    pub(super) fn record_restarted(&mut self, restarted: HashSet<Guid>) {
        self.restarted = restarted;
    }

    /// The channel adapters and routers that had lost their tables when the last reconfiguration
    /// began.
    pub fn restarted(&self) -> &HashSet<Guid> {
        &self.restarted
    }

    /// Records which of the ports that were `inactive` when a reconfiguration began are up after it.
    pub(super) fn record_raised(&mut self, fabric: &Fabric, inactive: &[PortId]) {
        let now = Instant::now();
        self.raised.retain(|_, &mut time| now - time < RESTART_NOTICED);
        let is_up = inactive.iter().filter(|&&port| fabric.port(port).state() >= PortState::Armed);
        self.raised.extend(is_up.map(|&port| (fabric.end_of(port), now)));
    }

    /// The time when a reconfiguration brought the port up, maybe after a restart of its switch that
    /// was not noticed yet; `None` if that is long ago or unknown.
    pub(super) fn raised_at(&self, end: End) -> Option<Instant> {
        self.raised.get(&end).copied()
    }

    /// True if [`Self::raised_at`] tells of any port.
    pub(super) fn remembers_raised(&self) -> bool {
        !self.raised.is_empty()
    }

    /// Discards all knowledge, so that everything is sent again.
    pub fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Discards what the devices hold, but not which of them refuse Sets.
    pub(super) fn forget_tables(&mut self) {
        let failures = std::mem::take(&mut self.failures);
        *self = Self { failures, ..Self::default() };
    }

    /// Records that the devices hold `plan`, except for the `differing` blocks, of which the
    /// devices hold other versions, for `unread` ones, and for the devices whose tables are
    /// `unknown`.
    pub(super) fn adopt(
        &mut self,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        differing: Vec<(SetId, [u8; 64])>,
        unread: &[SetId],
        unknown: HashSet<Guid>,
    ) {
        self.replace(fabric, plan, unread);
        for (set, data) in differing {
            let (guid, attr_id, attr_mod) = set.key(fabric);
            match attr_id {
                AttrId::LINEAR_FT => self.withhold(guid, attr_mod, Box::new(data)),
                _ => self.pend((guid, attr_id, attr_mod)),
            }
        }
        self.tables_lost.extend(unknown);
        self.is_adopted = true;
    }

    /// Records that a device may not hold a block as planned.
    pub(super) fn doubt(&mut self, fabric: &Fabric, set: SetId) {
        self.pend(set.key(fabric));
    }

    fn pend(&mut self, set: SetKey) {
        debug_assert!(self.last.is_some(), "a block differs from a plan that was applied");
        self.exceptions.pend(set);
    }

    /// Records that the devices hold `plan`, except for the `failed` Sets.
    pub fn replace(&mut self, fabric: &Arc<Fabric>, plan: &Arc<Plan>, failed: &[SetId]) {
        debug_assert_eq!(plan.ports.len(), fabric.ports().len(), "a plan for another fabric");
        self.last = Some((fabric.clone(), plan.clone()));
        self.exceptions.clear();
        failed.iter().for_each(|set| self.pend(set.key(fabric)));
        self.tables_lost = unread_switches(fabric).collect();
        self.settled = None;
        self.is_adopted = false;
    }

    /// Records that the devices hold `plan`, which differs from the last one only in the Sets that
    /// `arrived` and `failed`. Earlier exceptions remain.
    pub fn advance(
        &mut self,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        arrived: impl Iterator<Item = SetId>,
        failed: &[SetId],
    ) {
        debug_assert!(self.last.is_some(), "groups change after a plan was applied");
        for set in arrived {
            self.exceptions.pending.remove(&set.key(fabric));
        }
        failed.iter().for_each(|set| self.pend(set.key(fabric)));
        self.last = Some((fabric.clone(), plan.clone()));
    }

    /// Records a linear forwarding table block that was withheld, with the entries that the device
    /// holds.
    pub fn withhold(&mut self, guid: Guid, block: u32, data: Box<[u8; LFT_BLOCK]>) {
        self.exceptions.withhold(guid, block, data);
    }

    /// The entries of a withheld linear forwarding table block.
    pub fn withheld_block(&self, guid: Guid, block: u32) -> Option<&[u8]> {
        let withheld_blocks = &self.exceptions.withheld_blocks;
        if withheld_blocks.is_empty() {
            return None;
        }
        withheld_blocks.get(&(guid, block)).map(|data| &data[..])
    }

    /// True if a device may not hold the last plan exactly. May stay true until the next plan after
    /// its exceptions are gone.
    pub(super) fn may_have_exceptions(&self, guid: Guid) -> bool {
        let nodes = &self.exceptions.nodes;
        !nodes.is_empty() && nodes.contains(&guid)
    }

    /// True if all known devices hold the last plan without exception.
    pub fn is_exact(&self) -> bool {
        self.exceptions.pending.is_empty() && self.exceptions.withheld_blocks.is_empty()
    }

    /// Number of unacknowledged Sets.
    pub fn pending(&self) -> usize {
        self.exceptions.pending.len()
    }

    /// Number of unacknowledged Sets by node, for reports.
    pub fn pending_by_node(&self) -> Vec<(Guid, usize)> {
        let mut counts: HashMap<Guid, usize> = HashMap::new();
        for (guid, ..) in &self.exceptions.pending {
            *counts.entry(*guid).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable();
        counts
    }
}

/// Switches that did not answer SwitchInfo. The size of their tables is unknown, so that none is
/// written, and they may hold anything.
fn unread_switches(fabric: &Fabric) -> impl Iterator<Item = Guid> + '_ {
    let nodes = fabric.switches().iter().map(|&node| fabric.node(node));
    nodes.filter(|node| node.lacks_switch_info()).map(|node| node.guid())
}

/// The links of a node: its port, and the far end.
fn links(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = (PortNum, End)> {
    let ports = fabric.ports_of(node);
    ports.filter_map(|port| Some((port.num, fabric.end_of(port.peer?))))
}

/// True if a node of `fabric` has links, and none of those that it had in `last`.
fn has_other_links(last: &Fabric, fabric: &Fabric, node: NodeId) -> bool {
    let Some(before) = last.node_by_guid(fabric.node(node).guid()) else { return false };
    let has_links = links(fabric, node).next().is_some();
    has_links
        && links(fabric, node).all(|(num, to)| {
            let peer = last.port_of(before, num).and_then(|port| last.port(port).peer);
            peer.is_none_or(|peer| last.end_of(peer) != to)
        })
}
