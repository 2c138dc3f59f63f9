//! The snapshot that the SM loop publishes after each pass: the only thing that readers see of it.

use super::offenders::Offenders;
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::fabric::quarantined::LinkDowns;
use crate::histogram::Histogram;
use crate::ids::Guid;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::replication::status::SharedStatus;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpMeter;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of sweeps, and of reconfigurations, that a status lists.
pub const MAX_RECORDS: usize = 32;

/// Number of phases of programming.
pub const MAX_PHASES: usize = 6;

/// The causes of a sweep or reconfiguration.
pub type Causes = std::collections::BTreeSet<Cause>;

/// Why the SM loop swept or reconfigured the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The start of the daemon.
    Start,
    /// A trap of a device.
    Trap,
    /// `sweep_interval` has passed, or a delay before a retry.
    Timer,
    /// An earlier sweep or reconfiguration failed, was interrupted or left something open.
    Unfinished,
    /// A light sweep found a change.
    LightSweep,
    /// The configuration was read again (SIGHUP or the action reload).
    Reload,
    /// The action resweep or reroute.
    Request,
    /// A change of the SM role, or another SM.
    Role,
    /// SA clients changed multicast groups or alias GUIDs.
    SaClients,
    /// Vports of adapter ports came, went or changed.
    VirtualPorts,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Trap => "trap",
            Self::Timer => "timer",
            Self::Unfinished => "unfinished",
            Self::LightSweep => "light_sweep",
            Self::Reload => "reload",
            Self::Request => "request",
            Self::Role => "role",
            Self::SaClients => "sa_clients",
            Self::VirtualPorts => "virtual_ports",
        }
    }
}

/// The kinds of sweeps (see the glossary of ARCHITECTURE.md).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SweepKind {
    Heavy,
    Focused,
    Light,
}

impl SweepKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Heavy => "heavy",
            Self::Focused => "focused",
            Self::Light => "light",
        }
    }
}

/// How a sweep ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SweepResult {
    Done,
    /// Changed links interrupted it; another sweep follows.
    Interrupted,
    Failed(String),
}

/// A sweep that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweepRecord {
    pub kind: SweepKind,
    pub causes: Causes,
    /// Time of the end.
    pub ended: DateTime<Utc>,
    pub duration: Duration,
    pub result: SweepResult,
}

/// How a reconfiguration ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReconfigureResult {
    /// All devices are configured as planned.
    Up,
    /// Changed links interrupted it; another one follows.
    Interrupted,
    /// Devices did not acknowledge Sets.
    Incomplete(String),
    /// Devices that failed before are tried again after a delay.
    Delayed(String),
    /// No valid plan: the devices keep their tables.
    Rejected(String),
}

impl ReconfigureResult {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Interrupted => "interrupted",
            Self::Incomplete(_) => "incomplete",
            Self::Delayed(_) => "delayed",
            Self::Rejected(_) => "rejected",
        }
    }

    /// The problem, if there was one.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Up | Self::Interrupted => None,
            Self::Incomplete(text) | Self::Delayed(text) | Self::Rejected(text) => Some(text),
        }
    }
}

/// Numbers of Sets by phase of programming: `tables`, `moved_pkeys`, `ports`, `switch_m_keys`,
/// `activation`, `moves`.
pub type SetsByPhase = BTreeMap<&'static str, usize>;

/// Figures of a reconfiguration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReconfigureFigures {
    /// Only the trees of changed multicast groups were planned.
    pub multicast_only: bool,
    /// Time for planning and verification.
    pub planning: Duration,
    /// Time for verification; part of `planning`.
    pub verifying: Duration,
    /// Time for planning, verification and programming.
    pub total: Duration,
    /// From the start of the reconfiguration to the last acknowledged block of a linear forwarding
    /// table; `None` if none was written.
    pub tables_written: Option<Duration>,
    /// Sets sent.
    pub sets: usize,
    /// Phases of programming, with the number of their Sets.
    pub phases: [(&'static str, usize); MAX_PHASES],
    /// Blocks of linear forwarding tables among them.
    pub lft_blocks: usize,
    /// Generation of the published subnet, if one was published.
    pub generation: u64,
}

impl ReconfigureFigures {
    /// The phases in which Sets were sent.
    pub fn sets_by_phase(&self) -> SetsByPhase {
        self.phases.into_iter().filter(|&(_, sets)| sets > 0).collect()
    }
}

/// A reconfiguration that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReconfigureRecord {
    pub causes: Causes,
    /// Time of the end.
    pub ended: DateTime<Utc>,
    pub result: ReconfigureResult,
    pub figures: ReconfigureFigures,
    /// From the first trap to the last acknowledged block of a linear forwarding table.
    pub trap_to_tables: Option<Duration>,
}

/// The work of the SM loop at the time of the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    Idle,
    Sweeping(SweepKind),
    Reconfiguring,
}

/// Counters and distributions since the start of the daemon.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LoopStatistics {
    /// Durations of completed sweeps. A sweep with several causes counts for the first one in the
    /// order of [`Cause`].
    pub sweeps: BTreeMap<(SweepKind, Cause), Histogram>,
    /// Sweeps that changed links interrupted.
    pub interrupted_sweeps: BTreeMap<SweepKind, u64>,
    pub failed_sweeps: BTreeMap<SweepKind, u64>,
    /// Durations of reconfigurations by result.
    pub reconfigurations: BTreeMap<&'static str, Histogram>,
    /// Durations of planning and verification.
    pub planning: Histogram,
    /// Durations of verification.
    pub verification: Histogram,
    /// Durations of programming.
    pub programming: Histogram,
    /// From a trap to the last acknowledged block of a linear forwarding table.
    pub trap_to_tables: Histogram,
    /// Traps by number, without those that repeat earlier ones or exceed the limits of their
    /// sender.
    pub traps: BTreeMap<u16, u64>,
}

/// Another subnet manager, as last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherSm {
    pub guid: Guid,
    /// 0 to 15.
    pub priority: u8,
    /// State as in SMInfo, such as `STANDBY`.
    pub state: crate::wire::attr::SmState,
}

/// A configuration file as it is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFile {
    /// The option that names the file; `config` for opensm.conf itself.
    pub option: &'static str,
    pub path: PathBuf,
    /// Time of the last modification; `None` if there is no such file.
    pub modified: Option<DateTime<Utc>>,
    /// SHA-256 of the contents in hexadecimal digits; `None` if the file could not be read.
    pub sha256: Option<String>,
    /// The last reload rejected later contents of the file, or found it missing.
    pub is_rejected: bool,
}

/// The configuration files, and the result of the last reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigStatus {
    pub files: Vec<ConfigFile>,
    /// Time at which the configuration in force was read.
    pub read: DateTime<Utc>,
    /// What the last reload rejected, and why; `None` if it accepted everything.
    pub error: Option<String>,
    /// What is wrong in the files that the daemon has started with, and is not used; `None` if they are
    /// right, and after a reload.
    pub start_error: Option<String>,
}

/// Work under way or due in the SM loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopWork {
    pub activity: Activity,
    /// False while an operator inhibits sweeps.
    pub is_sweeping_enabled: bool,
    /// Events that the loop has received and not handled.
    pub queued_events: usize,
}

/// This SM and the other ones of the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagersStatus {
    pub own: SmStatus,
    pub others: Vec<OtherSm>,
    /// The master because of which this SM stays in DISCOVERING.
    pub foreign_master: Option<ForeignMaster>,
}

/// Records and counts of the SM loop since the start of the daemon.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LoopHistory {
    /// The last sweeps, latest last.
    pub sweeps: VecDeque<SweepRecord>,
    /// The last reconfigurations, latest last.
    pub reconfigurations: VecDeque<ReconfigureRecord>,
    pub statistics: LoopStatistics,
}

/// Irregularities of the fabric that the sweeps found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FabricAnomalies {
    pub own_port: OwnPortChanges,
    pub unresponsive: UnresponsiveStatus,
    /// Links that went down within a minute, or are quarantined because they flap.
    pub link_downs: Arc<Vec<LinkDowns>>,
}

/// Handles of states that other tasks update: a reader gets the present ones, which may be later than the
/// rest of the snapshot.
#[derive(Clone, Debug)]
pub struct StatusHandles {
    /// Counters of subnet management.
    pub smps: SmpMeter,
    /// Connections with other instances.
    pub replication: SharedStatus,
    /// Counts of sources that send what only defective or hostile programs send.
    pub offenders: Arc<Offenders>,
    pub file_problems: Arc<FileProblem>,
}

/// The state of the SM loop.
#[derive(Clone, Debug)]
pub struct LoopStatus {
    /// Start of the daemon.
    pub started: DateTime<Utc>,
    pub work: LoopWork,
    pub managers: ManagersStatus,
    pub options: Arc<Options>,
    pub config: Arc<ConfigStatus>,
    /// The last observed fabric, with the states that devices acknowledged since.
    pub fabric: Option<Arc<Fabric>>,
    /// The published subnet; `None` while this SM is not master of a configured subnet.
    pub subnet: Option<Arc<Subnet>>,
    /// Why the last reconfiguration ended without a plan; `None` while a plan is in force.
    pub rejected: Option<Arc<PlanRejected>>,
    pub history: LoopHistory,
    pub anomalies: FabricAnomalies,
    pub handles: StatusHandles,
}

/// Why files cannot be written now.
#[derive(Debug, Default)]
pub struct FileProblem(Mutex<Option<String>>);

impl FileProblem {
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// A master with another SM_Key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignMaster {
    /// Port GUID.
    pub guid: Guid,
    /// Name of the node.
    pub node: String,
    /// 0 to 15.
    pub priority: u8,
}

/// The devices that do not answer although nothing shows that they are gone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnresponsiveStatus {
    /// Ordered by GUID.
    pub devices: Vec<UnresponsiveDevice>,
    /// They are more than `unresponsive_alarm` allows.
    pub is_alarm: bool,
}

/// A device that stays in the subnet although it does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnresponsiveDevice {
    /// Node GUID.
    pub guid: Guid,
    /// Kind, GUID and description.
    pub name: String,
    /// Time of the sweep that it did not answer first.
    pub since: DateTime<Utc>,
}

/// Changes of the port of this SM that others made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnPortChanges {
    /// Since the start of the daemon.
    pub count: u64,
    /// The last ones, such as `LID 7 instead of 3`.
    pub last: Option<String>,
}
