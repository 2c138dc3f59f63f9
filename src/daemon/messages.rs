//! Messages between the daemon's tasks.
//!
//! ```text
//! signals, SMP server, SA server, management interface ── SmEvent ──► manager
//! manager, management interface, shared state ── SaCommand ──► SA server
//! SMP server ── DeviceNotice ──► SA server
//! ```

use crate::config::options::Options;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::Fabric;
use crate::ids::{Lid, Mlid};
use crate::manage::action::{OperatorAction, RequestId};
use crate::manage::sa_query::SaQuery;
use crate::observe::m_keys::MKeys;
use crate::observe::traps::TrapEvent;
use crate::plan::aliases::AliasBlock;
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use crate::sa::registry::GroupSpec;
use crate::sa::registry::replica::ReplicaRequest;
use crate::sm::peer::Peer;
use crate::sm::role::RoleEvent;
use crate::vendor::virtual_ports::DisabledPorts;
use crate::wire::attr::{Notice, SmInfo};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// An event that the SM loop handles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SmEvent {
    /// A trap that does not repeat an earlier one.
    Trap(TrapEvent),
    /// Another SM requests a change of role (SubnSet(SMInfo)).
    Role(RoleEvent, Peer),
    /// Multicast groups in the registry changed.
    MembershipChanged,
    /// Alias GUIDs in the registry changed.
    AliasesChanged,
    /// Vports of adapter ports came, went or changed.
    VirtualPortsChanged,
    /// SIGHUP: reload the configuration and start a heavy sweep.
    Reload,
    /// A request of an operator. Links are named by the GUID of a node at their end.
    Operator(RequestId, OperatorAction),
    /// The port was closed, for this reason.
    PortClosed(String),
}

/// A command from the SM loop to the SA server, which executes commands in the order sent.
pub enum SaCommand {
    /// Returns all multicast groups, which the SM loop is about to plan.
    GetGroups {
        /// Members are returned as ports of this fabric.
        fabric: Arc<Fabric>,
        /// Receives the generation of the registry and its groups.
        reply: oneshot::Sender<(u64, Vec<GroupMembers>)>,
    },
    /// Returns the groups that changed, which the SM loop is about to plan.
    GetGroupChanges {
        /// The generation of the registry that is planned already.
        since: u64,
        /// Members are returned as ports of this fabric.
        fabric: Arc<Fabric>,
        /// Receives the present generation of the registry and the changes.
        reply: oneshot::Sender<(u64, MulticastDelta)>,
    },
    /// Returns all alias GUIDs, which the SM loop is about to plan.
    GetAliases {
        /// Alias GUIDs are returned as blocks of the ports of this fabric.
        fabric: Arc<Fabric>,
        reply: oneshot::Sender<Vec<AliasBlock>>,
    },
    /// Replaces the multicast groups that partitions.conf defines.
    SetPermanentGroups {
        specs: Vec<GroupSpec>,
        /// The highest MLID that all switches support.
        last: Mlid,
    },
    /// Replaces the routes to other subnets (prefix-routes.conf).
    SetPrefixRoutes(Vec<PrefixRoute>),
    /// The groups of the last query are programmed and published, so that held replies to joins
    /// may be sent.
    GroupsProgrammed,
    /// A query of the management interface.
    Query(SaQuery),
    /// A request of the shared state.
    Replica(ReplicaRequest),
    /// A sweep has finished.
    SweepFinished {
        /// The other subnet managers in the fabric.
        managers: Vec<SmInfo>,
        /// The fabric after a heavy sweep: ports absent from it have left the subnet. `None`
        /// after a focused sweep, which reads only some switches.
        whole: Option<Arc<Fabric>>,
        /// Ends the subscriptions of ports that left (`drop_event_subscriptions`).
        drop_subscriptions: bool,
    },
}

/// The fabric before the first plan of a new master, whose vports are discovered before it is planned and,
/// if that takes long, meanwhile.
#[derive(Debug)]
pub struct FirstSweep {
    pub fabric: Arc<Fabric>,
    pub options: Arc<Options>,
    pub m_keys: Arc<MKeys>,
    /// VirtualizationInfo of adapter ports that has just been read.
    pub disabled_ports: DisabledPorts,
    /// Ends the wait for the discovery; `None` once it has ended.
    discovered: Mutex<Option<oneshot::Sender<()>>>,
}

impl FirstSweep {
    /// The receiver becomes ready when the discovery has ended.
    pub fn new(
        fabric: Arc<Fabric>,
        options: Arc<Options>,
        m_keys: Arc<MKeys>,
        disabled_ports: DisabledPorts,
    ) -> (Self, oneshot::Receiver<()>) {
        let (discovered, awaited) = oneshot::channel();
        let discovered = Mutex::new(Some(discovered));
        (Self { fabric, options, m_keys, disabled_ports, discovered }, awaited)
    }

    /// Ends the wait for the discovery. False if nothing waits for it any more.
    pub fn discovery_ended(&self) -> bool {
        let discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner).take();
        discovered.is_some_and(|discovered| discovered.send(()).is_ok())
    }
}

/// A trap about a vport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VportTrap {
    /// LID of the physical port.
    pub lid: Lid,
    /// Vendor-specific trap number.
    pub number: u16,
}

/// A notice that a device sent to the subnet manager in a trap.
#[derive(Clone, Copy, Debug)]
pub struct DeviceNotice {
    /// LID of the device.
    pub from: Lid,
    pub notice: Notice,
}
