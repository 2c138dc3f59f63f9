//! Events of the daemon, as `/v1/events` and `torus-sm events` show them.
//!
//! Names and fields are part of the interface: they are added, not changed. torus-sm-manage(8) maps
//! OpenSM's plug-in events to them.

use super::loop_status::{Causes, SetsByPhase, SweepKind};
use crate::ids::{Guid, PortNum};
use serde::Serialize;
use std::collections::BTreeMap;

/// An end of a link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkEnd {
    /// Node GUID, as `0x` and 16 hexadecimal digits.
    pub guid: String,
    pub port: u8,
    /// NodeDescription.
    pub description: String,
}

impl LinkEnd {
    pub fn new(guid: Guid, port: PortNum, description: String) -> Self {
        Self { guid: guid.to_string(), port: port.0, description }
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "NodeName"))]
pub struct EventNode {
    /// Node GUID.
    pub guid: String,
    /// `switch`, `ca` or `router`.
    pub kind: String,
    /// NodeDescription.
    pub description: String,
}

/// Routes of torus-2QoS around damage, in ordered pairs of switches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RepairNotice {
    /// The missing parts and what they do to the routes, in words.
    pub summary: String,
    /// Pairs whose path differs from that of the undamaged torus.
    pub detours: usize,
    /// Pairs without a route.
    pub unrouted: usize,
    /// These pairs, each with the repair that restores it; at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored_by: Vec<String>,
}

/// An event of the daemon.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The SM state changed.
    RoleChanged {
        /// `DISCOVERING`, `STANDBY`, `MASTER` or `NOTACTIVE`.
        state: String,
    },
    /// Another subnet manager appeared, or its priority or state changed.
    SmFound {
        /// Port GUID.
        guid: String,
        priority: u8,
        state: String,
    },
    /// Another subnet manager is no longer seen.
    SmLost {
        guid: String,
    },
    /// A device sent a trap, or several alike.
    Trap {
        number: u16,
        /// LID of the issuer.
        issuer: u16,
        /// LID that the trap is about.
        subject: u16,
        /// Port of traps 129 to 131; 0 for others.
        port: u8,
        /// Number of such traps of this source without a pause.
        count: u32,
    },
    SweepStarted {
        sweep: SweepKind,
        causes: Causes,
    },
    SweepFinished {
        sweep: SweepKind,
        causes: Causes,
        /// `done`, `interrupted` or `failed`.
        result: String,
        duration_seconds: f64,
        /// Why the sweep failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    NodeFound(EventNode),
    NodeLost(EventNode),
    LinkFound {
        ends: [LinkEnd; 2],
    },
    LinkLost {
        ends: [LinkEnd; 2],
    },
    /// A link is treated as down, because it flaps, its ports report errors or an operator requests
    /// it.
    LinkQuarantined {
        ends: [LinkEnd; 2],
        reason: String,
        /// Time without a change after which it is used again; null if an operator has to release
        /// it.
        calm_seconds: Option<u64>,
    },
    /// A link is used although it should be quarantined: nodes would be cut off without it.
    LinkNeeded {
        ends: [LinkEnd; 2],
        /// Why it should be quarantined.
        reason: String,
    },
    /// A quarantined link is used again.
    LinkReleased {
        ends: [LinkEnd; 2],
    },
    /// A device does not answer, and no neighbour reports its link down: its LIDs and routes stay.
    NodeUnresponsive(EventNode),
    /// An unresponsive device answers again.
    NodeResponsive {
        #[serde(flatten)]
        node: EventNode,
        /// Duration of its silence.
        silent_seconds: f64,
    },
    /// More devices are unresponsive than unresponsive_alarm allows: SMPs are lost, or management
    /// agents hang. The tables in force stay.
    MassSilence {
        unresponsive: usize,
        /// Known devices.
        nodes: usize,
    },
    /// Most devices answer again.
    MassSilenceEnded {
        unresponsive: usize,
        nodes: usize,
    },
    /// More nodes and links changed than have events of their own.
    MoreChanges {
        nodes: usize,
        links: usize,
    },
    /// Routes and tables were planned and written.
    Reconfigured {
        causes: Causes,
        /// `up`, `interrupted`, `incomplete` or `delayed`.
        result: String,
        /// Generation of the published subnet.
        generation: u64,
        /// Only the trees of changed multicast groups were planned.
        multicast_only: bool,
        /// Time for planning and verification.
        planning_seconds: f64,
        /// Time for verification; part of `planning_seconds`. A plan for multicast groups alone has 0.
        verification_seconds: f64,
        /// Time for planning, verification and programming.
        total_seconds: f64,
        /// SubnSet requests.
        sets: usize,
        /// SubnSet requests by phase: `tables`, `moved_pkeys`, `ports`, `switch_m_keys`,
        /// `activation`, `moves`.
        sets_by_phase: SetsByPhase,
        /// Blocks of linear forwarding tables among them.
        lft_blocks: usize,
        /// From the first trap to the last acknowledged block of a linear forwarding table.
        #[serde(skip_serializing_if = "Option::is_none")]
        trap_to_tables_seconds: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// No valid plan was found: the devices keep their tables.
    PlanRejected {
        causes: Causes,
        /// The last error.
        problem: String,
        /// Warnings and errors in order, repairs included.
        messages: Vec<String>,
    },
    /// torus-2QoS routes around damage that its rules exclude (`torus_repair`).
    RepairBegan(RepairNotice),
    /// The damage has changed, and the routes around it.
    RepairChanged(RepairNotice),
    /// The rules of torus-2QoS hold again, or another engine routes.
    RepairEnded,
    /// The subnet is configured for the first time as master.
    SubnetUp {
        generation: u64,
    },
    /// A cause of trouble was found.
    IncidentOpened {
        /// The same for each incident of this cause.
        id: String,
        /// As in `/v1/incidents`.
        kind: String,
        /// `warning` or `critical`.
        severity: String,
        headline: String,
        /// What to repair first.
        repair: String,
    },
    /// More is known about the cause: the incident has another kind.
    IncidentChanged {
        id: String,
        kind: String,
        /// `warning` or `critical`.
        severity: String,
        headline: String,
        /// What to repair first.
        repair: String,
    },
    /// The cause is gone, or part of that of another incident.
    IncidentClosed {
        id: String,
        kind: String,
        headline: String,
        open_seconds: f64,
        /// Identifier of the other incident.
        #[serde(skip_serializing_if = "Option::is_none")]
        part_of: Option<String>,
    },
    ConfigReloaded {
        /// Lines of opensm.conf with errors, whose values in force stay.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// The configuration stays as it was.
    ConfigRejected {
        problem: String,
    },
    /// An operator requested an action.
    ActionRequested {
        action: String,
        /// User ID of the client; null for a client of the TCP address.
        uid: Option<u32>,
        /// Number of the action.
        request: u64,
    },
    /// The action dump, handover, loglevel, perfmgr or priority is done.
    ActionDone {
        action: String,
        /// Number of the action, as in the reply to the request.
        request: u64,
        /// What was done.
        text: String,
    },
    /// One of these actions had no effect.
    ActionFailed {
        action: String,
        /// Number of the action, as in the reply to the request.
        request: u64,
        /// The reason and the remedy.
        problem: String,
    },
    /// The SA answers requests of a port with BUSY, because its queue is full.
    SaOverload {
        lid: u16,
        description: String,
        /// BUSY replies to this port so far.
        count: u64,
    },
    /// The subscriptions of a queue pair that responds to no report ended.
    SubscriptionsEnded {
        /// Port GUID.
        guid: String,
        lid: u16,
        /// NodeDescription.
        description: String,
        qpn: u32,
        /// Number of subscriptions.
        subscriptions: u64,
    },
    /// The performance manager has read the port counters.
    CountersRead {
        duration_seconds: f64,
        /// Ports read.
        ports: usize,
        /// Requests sent.
        queries: usize,
        /// Requests without an answer, or with an error status.
        failed: usize,
    },
    /// Requests of congestion control were sent to all devices that needed some.
    CongestionConfigured {
        duration_seconds: f64,
        /// Switches and ports of channel adapters that got requests.
        devices: usize,
        gets: u64,
        sets: u64,
        /// Devices that did not answer, refused a request or do not support congestion control.
        failed: usize,
    },
    /// The subnet manager did something of which `activity_report_subjects` wants a report.
    Activity {
        /// Number of the activity in NVIDIA's manual.
        id: u8,
        /// Its name there, such as `mcm_member`.
        activity: String,
        /// Its fields there, in snake_case.
        fields: BTreeMap<String, String>,
    },
    /// The registry of the SA was written to opensm-sa.dump.
    SaDatabaseWritten,
    /// A recording of the flight recorder was written.
    RecordingWritten {
        path: String,
        /// The command, or what went wrong in the daemon.
        reason: String,
    },
    /// A requested recording could not be written.
    RecordingFailed {
        problem: String,
    },
    /// Events were lost because they came too fast.
    EventsLost {
        count: u64,
    },
    /// The daemon ends.
    Exiting,
}

impl Event {
    /// Value of the field `event`, and of `event:` in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RoleChanged { .. } => "role_changed",
            Self::SmFound { .. } => "sm_found",
            Self::SmLost { .. } => "sm_lost",
            Self::Trap { .. } => "trap",
            Self::SweepStarted { .. } => "sweep_started",
            Self::SweepFinished { .. } => "sweep_finished",
            Self::NodeFound(_) => "node_found",
            Self::NodeLost(_) => "node_lost",
            Self::LinkFound { .. } => "link_found",
            Self::LinkLost { .. } => "link_lost",
            Self::LinkQuarantined { .. } => "link_quarantined",
            Self::LinkNeeded { .. } => "link_needed",
            Self::LinkReleased { .. } => "link_released",
            Self::NodeUnresponsive(_) => "node_unresponsive",
            Self::NodeResponsive { .. } => "node_responsive",
            Self::MassSilence { .. } => "mass_silence",
            Self::MassSilenceEnded { .. } => "mass_silence_ended",
            Self::MoreChanges { .. } => "more_changes",
            Self::Reconfigured { .. } => "reconfigured",
            Self::PlanRejected { .. } => "plan_rejected",
            Self::RepairBegan(_) => "repair_began",
            Self::RepairChanged(_) => "repair_changed",
            Self::RepairEnded => "repair_ended",
            Self::SubnetUp { .. } => "subnet_up",
            Self::IncidentOpened { .. } => "incident_opened",
            Self::IncidentChanged { .. } => "incident_changed",
            Self::IncidentClosed { .. } => "incident_closed",
            Self::ConfigReloaded { .. } => "config_reloaded",
            Self::ConfigRejected { .. } => "config_rejected",
            Self::ActionRequested { .. } => "action_requested",
            Self::ActionDone { .. } => "action_done",
            Self::ActionFailed { .. } => "action_failed",
            Self::SaOverload { .. } => "sa_overload",
            Self::SubscriptionsEnded { .. } => "subscriptions_ended",
            Self::CountersRead { .. } => "counters_read",
            Self::CongestionConfigured { .. } => "congestion_configured",
            Self::Activity { .. } => "activity",
            Self::SaDatabaseWritten => "sa_database_written",
            Self::RecordingWritten { .. } => "recording_written",
            Self::RecordingFailed { .. } => "recording_failed",
            Self::EventsLost { .. } => "events_lost",
            Self::Exiting => "exiting",
        }
    }
}
