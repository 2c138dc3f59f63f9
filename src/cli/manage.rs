//! The commands that talk to a running daemon: `torus-sm status` and so on.

#![allow(rustdoc::broken_intra_doc_links, reason = "help texts have brackets that are no links")]

use super::number::{natural, positive, within};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Selects the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default, Args)]
pub struct SelectArgs {
    /// Socket of the daemon [default: that of the only one that is running]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Port GUID of the daemon, if several are running
    #[arg(short, long, value_name = "GUID")]
    pub guid: Option<String>,
}

/// Arguments of the commands that show something.
#[derive(Clone, PartialEq, Eq, Debug, Default, Args)]
pub struct ClientArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Repeat until interrupted, every SECONDS [2 without a number]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = positive)]
    pub watch: Option<u32>,
}

/// Arguments of the actions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Args)]
pub struct ActionArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Do not wait for the result
    #[arg(long)]
    pub no_wait: bool,
}

/// A command for a running daemon.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ManageCommand {
    /// Show open incidents, role, routing, verification, the last sweeps and the configuration
    Status {
        /// Print one line, and exit with the codes of monitoring plug-ins: 0 without incidents, 1 for
        /// warnings, 2 for critical ones, 3 if the state is unknown
        #[arg(long, conflicts_with_all = ["json", "watch"])]
        check: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List what is wrong, the part to repair first first
    Incidents {
        /// Show all about the incident with this identifier [default: list the open ones]
        id: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Accept what an incident has lost: it does not count as missing any more
    Accept {
        /// Identifier of an incident, as torus-sm incidents lists it
        id: String,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// Show rates of the subnet administrator, the busiest links and ports with errors, repeatedly
    Top {
        /// Time between refreshes
        #[arg(long, value_name = "SECONDS", default_value_t = 2,
              value_parser = positive)]
        interval: u32,
        /// End after COUNT refreshes
        #[arg(long, value_name = "COUNT", value_parser = positive)]
        count: Option<u32>,
        #[command(flatten)]
        select: SelectArgs,
    },
    /// List the nodes of the fabric
    Nodes(ClientArgs),
    /// List the links of the fabric with their load
    Links {
        /// Only links that are missing, quarantined or not ACTIVE
        #[arg(long)]
        down: bool,
        /// Only links that run at less than both ends enable
        #[arg(long)]
        degraded: bool,
        /// Only the links of this node: its GUID or description
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the ports of the fabric, or of a node
    Ports {
        /// GUID or description of the node, or a port as "node"[3]
        node: Option<String>,
        /// Only ports with error counters above 0, which the performance manager reads
        #[arg(long)]
        errors: bool,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show the path between two ports, with its SL and VLs
    Path {
        /// LID, GUID, description or port of the source
        from: String,
        /// LID, GUID, description or port of the destination
        to: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Plan the fabric without a link, and show the effect; nothing is written to devices
    WhatIf {
        /// A port of the link, as "node"[3]; a node with one port needs no number
        port: String,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// List the multicast groups with their members
    Groups(ClientArgs),
    /// List the switches with adaptive routing and their groups of ports, or one switch
    Adaptive {
        /// GUID or description of the switch
        switch: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the partitions with their members
    Partitions(ClientArgs),
    /// Show missing switches and cables, and broken rings of the torus
    Torus(ClientArgs),
    /// Show the counters of the subnet administrator
    Sa(ClientArgs),
    /// List the quarantined links, or treat a link as down until it is released
    Quarantine {
        /// A port of the link, as "node"[3]; a node with one port needs no number [default: list the
        /// links]
        #[arg(conflicts_with_all = ["json", "watch"])]
        port: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
        /// Do not wait for the result
        #[arg(long, requires = "port")]
        no_wait: bool,
    },
    /// Show or command the performance manager, as the command of OpenSM's console of the same name
    Perfmgr {
        /// enable, disable, sweep, sweep_time SECONDS, print_counters [NODE[:PORT]],
        /// print_errors [NODE], dump_counters [mach], clear_counters, clear_inactive, set_rm_nodes,
        /// clear_rm_nodes, set_query_cpi, clear_query_cpi, dump_redir, clear_redir [NODE] [default:
        /// show the state]
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// Print metrics in the text format of Prometheus
    Metrics(SelectArgs),
    /// Print events as they happen, each on a line
    Events {
        /// Begin after this event number; 0 is the earliest that the daemon keeps [default: new
        /// events]
        #[arg(long, value_name = "NUMBER", value_parser = natural::<u64>)]
        after: Option<u64>,
        /// End after the events that exist already
        #[arg(long)]
        no_follow: bool,
        /// Print lines of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        select: SelectArgs,
    },
    /// Run a heavy sweep
    Resweep(ActionArgs),
    /// Plan again for the observed fabric
    Reroute(ActionArgs),
    /// Read the configuration again, as SIGHUP does
    Reload(ActionArgs),
    /// Set the log flags until the next reload
    Loglevel {
        /// Flags as of -D: a number, hexadecimal with 0x
        #[arg(value_parser = log_flags)]
        flags: u8,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// Set the priority of the SM until the next reload
    Priority {
        /// 0 to 15
        #[arg(value_parser = |text: &str| within(text, &(0..=15_u8)))]
        priority: u8,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// Write the dump files, those of routes included
    Dump(ActionArgs),
    /// Write a recording of the flight recorder, for torus-sm replay
    Record(ActionArgs),
    /// Hand over to a standby SM
    Handover {
        /// Port GUID of the standby SM [default: the best one]
        #[arg(value_name = "GUID")]
        to: Option<String>,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// End the quarantine of a link
    Release {
        /// A port of the link, as "node"[3]; a node with one port needs no number
        port: String,
        #[command(flatten)]
        action: ActionArgs,
    },
    /// End the daemon, as SIGTERM does
    Stop(ActionArgs),
}

impl ManageCommand {
    /// The arguments that select the daemon.
    pub fn select(&self) -> &SelectArgs {
        match self {
            Self::Status { client, .. }
            | Self::Incidents { client, .. }
            | Self::Nodes(client)
            | Self::Links { client, .. }
            | Self::Groups(client)
            | Self::Partitions(client)
            | Self::Torus(client)
            | Self::Sa(client)
            | Self::Quarantine { client, .. }
            | Self::Adaptive { client, .. }
            | Self::Ports { client, .. }
            | Self::Path { client, .. } => &client.select,
            Self::Events { select, .. } | Self::Top { select, .. } | Self::Metrics(select) => {
                select
            }
            Self::Accept { action, .. }
            | Self::Resweep(action)
            | Self::Reroute(action)
            | Self::Reload(action)
            | Self::Dump(action)
            | Self::Record(action)
            | Self::Stop(action)
            | Self::Loglevel { action, .. }
            | Self::Perfmgr { action, .. }
            | Self::Priority { action, .. }
            | Self::WhatIf { action, .. }
            | Self::Handover { action, .. }
            | Self::Release { action, .. } => &action.select,
        }
    }
}

fn log_flags(text: &str) -> Result<u8, String> {
    let number = crate::config::options::value::number(text)?;
    u8::try_from(number).map_err(|_| format!("'{text}' is not 0 to 0xff"))
}
