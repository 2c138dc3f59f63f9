//! Sets that devices refused, and devices that do not acknowledge Sets. Such Sets are not sent
//! again at each reconfiguration but after growing delays; at once if the plan has other data for
//! the table, or if the device has restarted.
//!
//! A refusal is *essential* if packets between other ports, or all packets of a port, depend on the
//! Set: forwarding tables, SwitchInfo, SL to VL mappings of switches (which keep routes free of
//! credit loops), and PortInfo of ports that are not ACTIVE with their LID. Other refusals (VL
//! arbitration, P_Keys, GUIDs, mappings of end ports, settings of an ACTIVE port) affect the one
//! port only; the subnet is up without them.

use super::set_id::SetId;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::observe::backoff::Backoff;
use crate::plan::{Plan, links};
use crate::wire::attr::{AttrId, PortInfo, PortState, SwitchInfo};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Node GUID, attribute ID and attribute modifier.
type SetKey = (Guid, u16, u32);

/// Delay before a refused Set is sent again; it doubles with each refusal.
pub const REFUSED_DELAY: Duration = Duration::from_secs(10);
/// Longest delay before a refused Set is sent again.
pub const MAX_REFUSED_DELAY: Duration = Duration::from_secs(3600);
/// Reconfigurations in a row that send Sets to a device that acknowledges none, before delays
/// begin.
const TOLERATED_SILENCES: u32 = 2;
/// Delay before Sets are sent again to a device that acknowledges none; it doubles each time.
const SILENT_DELAY: Duration = Duration::from_secs(2);
/// Longest delay before Sets are sent again to such a device.
const MAX_SILENT_DELAY: Duration = Duration::from_secs(300);

/// A Set that a device refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedSet {
    pub node: Guid,
    /// The port that the Set is about.
    pub port: PortNum,
    pub attr_id: u16,
    pub attr_mod: u32,
    /// MAD status of the response.
    pub status: u16,
    /// The subnet is not up without it.
    pub is_essential: bool,
}

#[derive(Clone, Debug)]
struct Refusal {
    set: RefusedSet,
    data: [u8; 64],
    /// The port was in INIT, or the switch without tables, after the refusal. A device that comes
    /// to be so later has restarted.
    was_reset: bool,
}

/// The Sets that are not sent again at once.
#[derive(Clone, Debug)]
pub struct SetFailures {
    refused: HashMap<SetKey, Refusal>,
    delays: Backoff<SetKey>,
    silent: Backoff<Guid>,
}

impl Default for SetFailures {
    fn default() -> Self {
        Self {
            refused: HashMap::new(),
            delays: Backoff::new(0, REFUSED_DELAY, MAX_REFUSED_DELAY),
            silent: Backoff::new(TOLERATED_SILENCES, SILENT_DELAY, MAX_SILENT_DELAY),
        }
    }
}

/// A Set that a device refused in this reconfiguration.
pub(super) struct RefusedAnswer {
    pub set: SetId,
    pub data: [u8; 64],
    /// Status of the response.
    pub status: u16,
}

/// The failures of a reconfiguration.
#[derive(Default)]
pub(super) struct NewFailures<'a> {
    pub refused: &'a [RefusedAnswer],
    /// Sets that were not sent because of earlier failures.
    pub delayed: &'a [SetId],
    /// Devices that acknowledged no Set.
    pub silent: &'a [NodeId],
}

impl SetFailures {
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.silent.is_empty()
    }

    /// The refused Sets, ordered by node.
    pub fn refused(&self) -> Vec<RefusedSet> {
        let mut sets: Vec<RefusedSet> =
            self.refused.values().map(|refusal| refusal.set.clone()).collect();
        sets.sort_by_key(|set| (set.node, set.port, set.attr_id, set.attr_mod));
        sets
    }

    /// The devices that do not acknowledge Sets, ascending.
    pub fn silent(&self) -> Vec<Guid> {
        let mut nodes: Vec<Guid> = self.silent.keys().copied().collect();
        nodes.sort_unstable();
        nodes
    }

    /// Time at which the next Set or device may be tried again.
    pub fn next_try(&self, now: Instant) -> Option<Instant> {
        [self.delays.next_try(now), self.silent.next_try(now)].into_iter().flatten().min()
    }

    /// True if a Set or device need no longer wait.
    pub fn has_due(&self, now: Instant) -> bool {
        self.delays.has_due(now) || self.silent.has_due(now)
    }

    /// False if the device refused this Set, or acknowledges none.
    pub fn takes_set(&self, node: Guid, attr_id: u16, attr_mod: u32) -> bool {
        !self.refused.contains_key(&(node, attr_id, attr_mod)) && self.silences(node) == 0
    }

    /// True if the Set must wait.
    pub fn is_delayed(&self, fabric: &Fabric, set: SetId, data: &[u8; 64], now: Instant) -> bool {
        if self.is_empty() {
            return false;
        }
        let key = set.key(fabric);
        self.silent.is_delayed(&key.0, now)
            || self.delays.is_delayed(&key, now)
                && self.refused.get(&key).is_some_and(|held| is_same(set.attr_id, &held.data, data))
    }

    /// Number of reconfigurations in a row in which the device acknowledged no Set.
    pub(super) fn silences(&self, guid: Guid) -> u32 {
        self.silent.failures(&guid)
    }

    /// Forgets devices that left the fabric or have restarted, and the silence of unresponsive ones:
    /// their Sets are sent once they answer a sweep.
    pub(super) fn forget_restarted(&mut self, fabric: &Fabric) {
        if self.is_empty() {
            return;
        }
        self.refused.retain(|key, refusal| {
            let node = fabric.node_by_guid(key.0);
            node.is_some_and(|node| {
                let is_reset = is_reset(fabric, node, refusal.set.port);
                let is_restarted = is_reset && !refusal.was_reset;
                refusal.was_reset = is_reset;
                !is_restarted
            })
        });
        self.delays.retain(|key| self.refused.contains_key(key));
        let unresponsive: HashSet<NodeId> = fabric.unresponsive().collect();
        self.silent.retain(|&guid| {
            fabric.node_by_guid(guid).is_some_and(|node| !unresponsive.contains(&node))
        });
    }

    /// Records the failures of a complete reconfiguration: those that neither happened again nor
    /// were delayed are over.
    pub(super) fn replace(
        &mut self,
        fabric: &Fabric,
        plan: &Plan,
        new: &NewFailures<'_>,
        now: Instant,
    ) {
        if self.is_empty() && new.refused.is_empty() && new.silent.is_empty() {
            return;
        }
        self.add(fabric, plan, new, now);
        let sets = new.refused.iter().map(|refused| &refused.set).chain(new.delayed);
        let current: HashSet<SetKey> = sets.map(|set| set.key(fabric)).collect();
        let waiting: HashSet<Guid> = current.iter().map(|key| key.0).collect();
        let silent: HashSet<Guid> = new.silent.iter().map(|&id| fabric.node(id).guid()).collect();
        self.refused.retain(|key, _| current.contains(key));
        self.delays.retain(|key| current.contains(key));
        self.silent.retain(|guid| silent.contains(guid) || waiting.contains(guid));
    }

    /// Records further failures.
    pub(super) fn add(
        &mut self,
        fabric: &Fabric,
        plan: &Plan,
        new: &NewFailures<'_>,
        now: Instant,
    ) {
        for &RefusedAnswer { set, data, status } in new.refused {
            let key = set.key(fabric);
            let port = port_of(set, fabric.node(set.node).is_switch());
            let refused = RefusedSet {
                node: key.0,
                port,
                attr_id: set.attr_id,
                attr_mod: set.attr_mod,
                status,
                is_essential: is_essential(fabric, plan, set),
            };
            let is_new =
                self.refused.get(&key).is_none_or(|held| !is_same(set.attr_id, &held.data, &data));
            if is_new {
                self.delays.succeeded(&key);
            }
            self.delays.failed(key, now);
            let was_reset = is_reset(fabric, set.node, port);
            self.refused.insert(key, Refusal { set: refused, data, was_reset });
        }
        for &node in new.silent {
            self.silent.failed(fabric.node(node).guid(), now);
        }
    }
}

/// True if two versions of an attribute request the same. Counters of PortInfo and the
/// acknowledgement of PortStateChange are ignored.
fn is_same(attr_id: u16, one: &[u8; 64], two: &[u8; 64]) -> bool {
    match attr_id {
        AttrId::PORT_INFO => {
            let [one, two] = [one, two].map(|data| PortInfo::read(data));
            let request =
                |info: &PortInfo| (info.port_state(), info.phys_state(), info.client_reregister());
            links::settable(&one) == links::settable(&two) && request(&one) == request(&two)
        }
        AttrId::SWITCH_INFO => {
            let [one, two] = [one, two].map(|data| settled(SwitchInfo::read(data)));
            one == two
        }
        _ => one == two,
    }
}

/// The SwitchInfo of a device after a Set of `sent`: PortStateChange is cleared.
pub(super) fn settled(mut sent: SwitchInfo) -> SwitchInfo {
    sent.set_port_state_change(false);
    sent
}

/// True if the port is in INIT, or the switch has no LID.
fn is_reset(fabric: &Fabric, node: NodeId, port: PortNum) -> bool {
    let first = fabric.node(node).first_port;
    if fabric.node(node).is_switch() && fabric.observed_lid(first).is_none() {
        return true;
    }
    fabric.port_of(node, port).is_some_and(|slot| fabric.port(slot).state() == PortState::Init)
}

/// The port that a Set is about; 0 for the whole node.
fn port_of(set: SetId, is_switch: bool) -> PortNum {
    match set.attr_id {
        AttrId::SL_TO_VL if is_switch => PortNum(set.attr_mod as u8),
        _ => set.port,
    }
}

/// True if the subnet is not up without this Set.
pub(super) fn is_essential(fabric: &Fabric, plan: &Plan, set: SetId) -> bool {
    match set.attr_id {
        AttrId::LINEAR_FT | AttrId::MULTICAST_FT | AttrId::SWITCH_INFO => true,
        AttrId::SL_TO_VL => fabric.node(set.node).is_switch(),
        AttrId::PORT_INFO => !is_operational(fabric, plan, set.slot(fabric)),
        _ => false,
    }
}

/// True if a port carries data with the planned LID.
fn is_operational(fabric: &Fabric, plan: &Plan, slot: PortId) -> bool {
    let port = fabric.port(slot);
    let is_switch = fabric.node(port.node).is_switch();
    let Some(info) = port.info() else { return false };
    let is_external = is_switch && port.num != PortNum::ZERO;
    let has_lid = is_external || plan.lids.base(slot).is_none_or(|lid| info.lid() == lid);
    let is_port_0 = is_switch && port.num == PortNum::ZERO;
    has_lid && (is_port_0 || info.port_state() == PortState::Active)
}
