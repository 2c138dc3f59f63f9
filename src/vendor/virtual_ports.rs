//! The vports of each physical port: what their devices hold, and which requests are due.

use crate::fabric::virtual_ports::{VirtualPort, VirtualPorts, VirtualizedPort};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid};
use crate::wire::attr::tables::GuidBlock;
use crate::wire::attr::{AttrId, NodeDescription, NodeKind, PortState};
use crate::wire::mad::Status;
use crate::wire::vendor::virtual_ports::{VirtualizationInfo, VportInfo};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// VirtualizationInfo of ports without virtualization, by port GUID.
pub type DisabledPorts = FxHashMap<Guid, VirtualizationInfo>;

/// The vports of ports, by port GUID.
pub type MadeSnapshots = BTreeMap<Guid, Arc<VirtualizedPort>>;

/// The vports of all ports, and the places of those whose GUIDs are in use, as port GUID and index.
pub type Snapshot = (VirtualPorts, Vec<(Guid, u16)>);

/// Why a port or vport cannot be managed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum VirtualFailure {
    /// The device does not answer this attribute.
    Unanswered(u16),
    /// The device refused this attribute with this status.
    Refused(u16, u16),
    /// The device has another revision of virtualization than 0.
    Revision(u8),
    /// The device did not enable virtualization although it acknowledged that.
    NotEnabled,
    /// The device acknowledged a Set of this attribute, but holds something else.
    Altered(u16),
    /// The GUID of the vport is 0, or that of another port or vport.
    DuplicateGuid(Guid),
    /// The GUID of the vport changed after it was read.
    GuidChanged,
    /// The vport requires a LID of its own, and none is left.
    NoLidLeft,
}

impl VirtualFailure {
    /// True if the next sweep may succeed.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::DuplicateGuid(_) | Self::GuidChanged)
    }
}

impl fmt::Display for VirtualFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unanswered(id) => write!(f, "{} is not answered", AttrId::name(id)),
            Self::Refused(id, status) => {
                let attribute = AttrId::name(id);
                let name = Status::name(status);
                write!(f, "{attribute} is refused with status 0x{status:04x} ({name})")
            }
            Self::Revision(revision) => write!(f, "revision {revision} is not supported"),
            Self::NotEnabled => f.write_str("virtualization stays disabled"),
            Self::Altered(id) => write!(f, "{} does not keep what is set", AttrId::name(id)),
            Self::DuplicateGuid(guid) => write!(f, "GUID {guid} is 0 or in use elsewhere"),
            Self::GuidChanged => f.write_str("its GUID changed meanwhile"),
            Self::NoLidLeft => f.write_str("a LID of its own is required, and none is left"),
        }
    }
}

/// A vport as the device holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedVport {
    /// The vport, with the P_Keys that the device has acknowledged.
    pub vport: VirtualPort,
    /// VPortInfo as it was read or acknowledged.
    pub info: VportInfo,
    /// Blocks of the GUID table as they were acknowledged; others were not written.
    pub guids: BTreeMap<u8, GuidBlock>,
    /// This subnet manager has activated the vport, or found it so while it was master.
    pub is_known: bool,
    /// The description of the vnode was read.
    pub is_described: bool,
    pub failure: Option<VirtualFailure>,
}

impl ManagedVport {
    /// Leaves the vport as it is: the rest of the subnet manager does not see it.
    pub fn reject(&mut self, failure: VirtualFailure) {
        self.failure = Some(failure);
        self.vport.partition_cap = 0;
    }

    fn is_rejected(&self) -> bool {
        self.vport.partition_cap == 0
    }
}

/// The extent of the next discovery of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DiscoveryScope {
    /// Ask whether the state of a vport has changed.
    Poll,
    /// Read the vports that are not known as ACTIVE.
    Changes,
    /// Read everything.
    Full,
}

/// A physical port with virtualization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedPort {
    /// Generation of the last subnet in which its node was new or had restarted; `None` before the first
    /// subnet.
    pub restarted: Option<u64>,
    /// `None` if nothing is to be read.
    pub due: Option<DiscoveryScope>,
    pub top_index: u16,
    /// By index.
    pub vports: BTreeMap<u16, ManagedVport>,
    pub failure: Option<VirtualFailure>,
    /// A discovery has ended, with or without success.
    pub was_tried: bool,
}

impl ManagedPort {
    fn new() -> Self {
        let due = Some(DiscoveryScope::Full);
        let vports = BTreeMap::new();
        Self { restarted: None, due, top_index: 0, vports, failure: None, was_tried: false }
    }

    fn request(&mut self, scope: DiscoveryScope) {
        self.due = self.due.max(Some(scope));
    }

    fn snapshot(&self) -> VirtualizedPort {
        VirtualizedPort {
            is_discovered: !self.failure.is_some_and(VirtualFailure::is_transient),
            ..snapshot(self.top_index, &self.vports)
        }
    }
}

/// The vports of a discovered port for the rest of the subnet manager.
pub fn snapshot(top_index: u16, vports: &BTreeMap<u16, ManagedVport>) -> VirtualizedPort {
    let managed = vports.values().filter(|vport| !vport.is_rejected());
    VirtualizedPort {
        is_discovered: true,
        top_index,
        vports: managed.map(|vport| vport.vport.clone()).collect(),
    }
}

/// The physical ports with virtualization, by port GUID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ManagedPorts(pub BTreeMap<Guid, ManagedPort>);

impl ManagedPorts {
    /// Takes over the ports of a published subnet. Those that are gone are forgotten with their
    /// vports; new ones, and those whose node has restarted, are discovered in full. True if a port is gone.
    pub fn observe(&mut self, fabric: &Fabric, restarted: impl Fn(Guid) -> u64) -> bool {
        let mut before = std::mem::take(&mut self.0);
        for id in virtualized(fabric) {
            let guid = fabric.port(id).guid;
            let restarted = restarted(fabric.node_of(id).guid());
            // What was discovered before the first subnet belongs to that subnet.
            let known = before
                .remove(&guid)
                .filter(|known| known.restarted.is_none_or(|last| last == restarted));
            let mut port = known.unwrap_or_else(ManagedPort::new);
            port.restarted = Some(restarted);
            self.0.insert(guid, port);
        }
        !before.is_empty()
    }

    /// Adds the ports of the fabric before its first subnet that can be discovered while it is planned: those in
    /// INIT. Virtualization may not be enabled on a port that carries data before its vports have a plan.
    pub fn observe_first(&mut self, fabric: &Fabric) {
        for id in virtualized(fabric).filter(|id| carries_no_data(fabric, id)) {
            let guid = fabric.port(id).guid;
            self.0.entry(guid).or_insert_with(ManagedPort::new);
        }
    }

    /// Requests a discovery of a port.
    pub fn request(&mut self, guid: Guid, scope: DiscoveryScope) {
        if let Some(port) = self.0.get_mut(&guid) {
            port.request(scope);
        }
    }

    /// Requests what a sweep does: ports that failed are taken up again, others are polled.
    pub fn request_polls(&mut self) {
        for port in self.0.values_mut() {
            let has_failed = port.failure.is_some_and(VirtualFailure::is_transient);
            let scope = match port.failure {
                Some(_) if has_failed => DiscoveryScope::Full,
                Some(_) => continue,
                None => DiscoveryScope::Poll,
            };
            port.request(scope);
        }
    }

    /// Requests a discovery of the ports that failed for a lasting reason, and of those with such vports.
    pub fn request_retries(&mut self) {
        for port in self.0.values_mut() {
            let mut of_vports = port.vports.values().filter_map(|vport| vport.failure);
            if port.failure.is_some_and(is_lasting) || of_vports.any(is_lasting) {
                port.request(DiscoveryScope::Full);
            }
        }
    }

    /// Forgets that vports had the GUID of another vport.
    pub fn clear_duplicates(&mut self) {
        let vports = self.0.values_mut().flat_map(|port| port.vports.values_mut());
        for vport in vports.filter(|vport| !vport.is_rejected()) {
            if matches!(vport.failure, Some(VirtualFailure::DuplicateGuid(_))) {
                vport.failure = None;
            }
        }
    }

    /// The ports that are to be read.
    pub fn due(&self) -> Vec<(Guid, DiscoveryScope)> {
        self.0.iter().filter_map(|(&guid, port)| Some((guid, port.due?))).collect()
    }

    /// The vports for the rest of the subnet manager, and those whose GUIDs are in use. `made`: the
    /// vports of some ports, as they are.
    pub fn snapshot(&self, before: &VirtualPorts, made: &MadeSnapshots) -> Snapshot {
        let discovered = self.0.iter().filter(|(_, port)| port.was_tried);
        VirtualPorts::new(
            &discovered
                .map(|(&guid, port)| {
                    if let Some(snapshot) = made.get(&guid) {
                        debug_assert!(**snapshot == port.snapshot(), "a port has changed since");
                        return (guid, snapshot.clone());
                    }
                    let snapshot = port.snapshot();
                    let known = before.of_port(guid).filter(|known| ***known == snapshot);
                    (guid, known.cloned().unwrap_or_else(|| Arc::new(snapshot)))
                })
                .collect(),
            before,
        )
    }
}

fn is_lasting(failure: VirtualFailure) -> bool {
    !failure.is_transient() && failure != VirtualFailure::NoLidLeft
}

fn carries_no_data(fabric: &Fabric, id: &PortId) -> bool {
    fabric.port(*id).info().is_some_and(|info| info.port_state() == PortState::Init)
}

/// The adapter ports that announce virtualization.
fn virtualized(fabric: &Fabric) -> impl Iterator<Item = PortId> {
    fabric.end_ports().filter(|&id| {
        let is_adapter = fabric.node_of(id).kind() == NodeKind::Ca;
        is_adapter && fabric.port(id).info().is_some_and(|info| info.has_virtual_ports())
    })
}

/// A vport in the status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VportStatus {
    pub index: u16,
    pub guid: Guid,
    pub vnode: Guid,
    pub description: NodeDescription,
    pub state: PortState,
    pub lid_required: bool,
    /// The LID of its own that the vport holds; 0 if it shares one.
    pub lid: Lid,
    pub failure: Option<VirtualFailure>,
}

/// A physical port with virtualization in the status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualizedPortStatus {
    pub top_index: u16,
    pub vports: Vec<VportStatus>,
    pub failure: Option<VirtualFailure>,
}

/// The state of virtualization.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualStatus {
    /// This SM is master and manages vports.
    pub is_enabled: bool,
    /// By the GUID of the physical port.
    pub ports: BTreeMap<Guid, VirtualizedPortStatus>,
    /// Requests since the start of the daemon.
    pub requests: u64,
    /// Vports that became ACTIVE since the start of the daemon.
    pub activations: u64,
}

/// How many vports are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VportCounts {
    pub active: usize,
    /// In INIT, to be activated.
    pub init: usize,
    /// Not as planned.
    pub failed: usize,
    /// Ports whose vports cannot be managed.
    pub failed_ports: usize,
}

impl VirtualStatus {
    pub fn counts(&self) -> VportCounts {
        let mut counts = VportCounts::default();
        for port in self.ports.values() {
            counts.failed_ports += usize::from(port.failure.is_some());
            for vport in &port.vports {
                if vport.failure.is_some() {
                    counts.failed += 1;
                } else if vport.state == PortState::Active {
                    counts.active += 1;
                } else if vport.state == PortState::Init {
                    counts.init += 1;
                }
            }
        }
        counts
    }
}

impl ManagedPorts {
    /// The ports for the status.
    pub fn status(&self) -> BTreeMap<Guid, VirtualizedPortStatus> {
        self.0
            .iter()
            .map(|(&guid, port)| {
                let vports = port.vports.values().map(vport_status).collect();
                let top_index = port.top_index;
                let failure = port.failure;
                (guid, VirtualizedPortStatus { top_index, vports, failure })
            })
            .collect()
    }
}

fn vport_status(managed: &ManagedVport) -> VportStatus {
    VportStatus {
        index: managed.vport.index,
        guid: managed.vport.guid,
        vnode: managed.vport.vnode.guid,
        description: managed.vport.vnode.description,
        state: managed.info.state(),
        lid_required: managed.vport.lid_required,
        lid: if managed.vport.lid_required { managed.vport.lid } else { Lid(0) },
        failure: managed.failure,
    }
}
