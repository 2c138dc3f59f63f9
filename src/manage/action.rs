//! Actions that a client may request of the daemon.

use crate::ids::{Guid, PortNum};
use crate::perfmgr::command::PerfCommand;
use serde::Deserialize;

/// A request of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperatorAction {
    /// Run a heavy sweep.
    Resweep,
    /// Run a light sweep.
    LightSweep,
    /// Allow or inhibit all sweeps and reconfigurations.
    Sweeping(bool),
    /// Write every log line at once, or buffer lines.
    LogFlush(bool),
    /// Plan again for the observed fabric and write the differences.
    Reroute,
    /// Read the configuration again, as SIGHUP does.
    Reload,
    /// Set the log flags until the next reload.
    LogLevel(u8),
    /// Set the priority of this SM until the next reload, 0 to 15.
    Priority(u8),
    /// Write the dump files, those of routes included.
    Dump,
    /// Hand over to the standby SM with this port GUID, or to the best one.
    Handover(Option<Guid>),
    /// Treat the link at this port as down until it is released; the port as of [`Self::Release`].
    Quarantine(Guid, PortNum),
    /// End the quarantine of the link at this port: node GUID (of a host also port GUID) and
    /// number.
    Release(Guid, PortNum),
    /// Plan the fabric without the link at this port, and write nothing; the port as of
    /// [`Self::Release`].
    WhatIf(Guid, PortNum),
    /// Write a recording of the flight recorder, as SIGUSR2 does.
    Record,
    /// A command to the performance manager.
    Perfmgr(PerfCommand),
    /// Accept what the incident with this identifier has lost: it does not count as missing any more.
    Accept(String),
    /// End the daemon, as SIGTERM does.
    Exit,
}

impl OperatorAction {
    /// Last part of the path under `/v1/actions/`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resweep => "resweep",
            Self::LightSweep => "lightsweep",
            Self::Sweeping(_) => "sweeping",
            Self::LogFlush(_) => "logflush",
            Self::Reroute => "reroute",
            Self::Reload => "reload",
            Self::LogLevel(_) => "loglevel",
            Self::Priority(_) => "priority",
            Self::Dump => "dump",
            Self::Handover(_) => "handover",
            Self::Quarantine(..) => "quarantine",
            Self::Release(..) => "release",
            Self::WhatIf(..) => "what-if",
            Self::Record => "record",
            Self::Perfmgr(_) => "perfmgr",
            Self::Accept(_) => "accept",
            Self::Exit => "exit",
        }
    }
}

/// Number of a started action, from 1: the events about its result have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestId(pub u64);

/// An incident whose losses an operator accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// Its identifier.
    pub incident: String,
    pub request: RequestId,
}

/// Carries out actions.
pub trait Control: Send + Sync {
    /// Starts an action; its result follows as events.
    ///
    /// # Errors
    /// The reason why the action is not possible now.
    fn start(&self, action: &OperatorAction) -> Result<RequestId, String>;

    /// Writes an event, which is a JSON object, to a log in JSON.
    fn log_event(&self, json: &str);

    /// What the flight recorder holds, as a recording. Takes some milliseconds.
    ///
    /// # Errors
    /// It is off.
    fn recording(&self) -> Result<Vec<u8>, String>;

    /// The enabled log flags; `None` if the log is not that of the daemon.
    fn log_flags(&self) -> Option<u8>;
}

/// Body of the action loglevel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogLevelBody {
    /// Log flags as in `log_flags`, 0 to 255.
    pub flags: u8,
}

/// Body of the action priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PriorityBody {
    /// Priority of this SM, 0 to 15.
    #[cfg_attr(test, schemars(range(max = 15)))]
    pub priority: u8,
}

/// Body of the action handover.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HandoverBody {
    /// Port GUID of a standby SM; the best one without it.
    #[cfg_attr(test, schemars(example = "0x0002c90300a1b2c3"))]
    pub to: Option<String>,
}

/// Body of the action accept.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IncidentBody {
    /// Identifier of an open incident about something that is missing.
    #[cfg_attr(test, schemars(example = "node-0x0002c90300a1b2c0"))]
    pub id: String,
}

/// Body of the actions quarantine, release and what-if.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkBody {
    /// GUID of the node at one end of the link, or of its port, in hexadecimal digits.
    #[cfg_attr(test, schemars(example = "0x0002c90300a1b2c0"))]
    pub guid: String,
    /// Number of its port, 1 to 254.
    #[cfg_attr(test, schemars(range(min = 1, max = 254)))]
    pub port: u8,
}

/// Body of the action perfmgr.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PerfmgrBody {
    /// A command of OpenSM's console without the word `perfmgr`, such as `sweep_time 30`.
    #[cfg_attr(test, schemars(example = "sweep_time 30"))]
    pub command: String,
}
