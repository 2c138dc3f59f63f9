//! Arguments of `torus-sm sim`: the fabric to simulate, and the daemon's options.

use super::fabric::FabricArgs;
use crate::cli::DaemonArgs;
use crate::sim::VendorProfile;
use crate::sim::console;
use clap::Parser;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Simulate a fabric, run the subnet manager on it, and print a short report.
///
/// The subnet manager and the fabric stay up until interrupted (Ctrl-C), or until the first sweep
/// with -o. All options of the daemon are accepted; see torus-sm --help.
///
/// While they are up, torus-sm sim exec and torus-sm sim shell run InfiniBand programs on the
/// simulated fabric, and torus-sm sim ctl injects faults.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "sim")]
pub struct SimArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// Simulate the fabric without a subnet manager; start one with torus-sm sim exec
    #[arg(long)]
    pub no_sm: bool,
    /// Unix socket that torus-sm sim exec, shell and ctl connect to [default:
    /// torus-sm/sim.sock in $XDG_RUNTIME_DIR; /run/torus-sm/sim.sock for root;
    /// /tmp/torus-sm-UID/sim.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Run the console commands in this file once the subnet is up; torus-sm sim ctl help lists
    /// the commands
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Time that each subnet management agent needs for an SMP, such as 50us; it serves one at a
    /// time [default: none]
    #[arg(long, value_name = "TIME", value_parser = console::parse_duration)]
    pub sma_time: Option<Duration>,
    /// SMPs at an agent at a time, the one in service included; it drops further ones [default: no
    /// limit]
    #[arg(long, value_name = "SMPS", requires = "sma_time",
          value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub sma_queue: Option<u32>,
    /// Time that an SMP and its response are on their way, in all [default: none]
    #[arg(long, value_name = "TIME", value_parser = console::parse_duration)]
    pub round_trip: Option<Duration>,
    /// Give nodes vendor-specific attributes: all nodes, or one; CAPS are capabilities by name or
    /// number, separated by commas, as in mlnx:rate-limit; may be repeated
    #[arg(long, value_name = "[NODE=]mlnx:CAPS")]
    pub vendor: Vec<NodeVendor>,
    /// Give each port of a channel adapter this number of virtual ports, the first of which is the
    /// port itself, 1 to 256; virt_enabled 2 makes them ACTIVE [default: none]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub vports: Option<u16>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// A profile with vendor-specific attributes, of one node or of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeVendor {
    /// A GUID, a position or a node description; `None`: all nodes.
    pub node: Option<String>,
    pub profile: VendorProfile,
}

impl FromStr for NodeVendor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, profile) = match text.rsplit_once('=') {
            Some((node, profile)) => (Some(node.to_owned()), profile),
            None => (None, text),
        };
        Ok(Self { node, profile: profile.parse()? })
    }
}
