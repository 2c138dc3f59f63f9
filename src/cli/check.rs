//! Arguments of `torus-sm check`.

use super::DaemonArgs;
use crate::ids::Guid;
use clap::Parser;
use std::path::PathBuf;

/// Check every configuration file that a start with the same options would read.
///
/// Every finding is printed with file, line and column. All options of the daemon are accepted,
/// such as -F, -P and --torus_config; see torus-sm --help.
///
/// With --file the report also shows the effect on that fabric: members, multicast groups and
/// P_Key tables of the partitions and, with QoS, the levels of the policy, the scopes that apply to
/// each port, and the resulting SL to VL and VL arbitration tables. A fabric that none of
/// the configured engines routes is an error, and so is torus-2QoS if it does not, or a plan that
/// fails verification; members of partitions that are not in the fabric are a warning, and so is all
/// that the plan warns of.
///
/// The exit code is 0 without errors, else 4.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "check")]
pub struct CheckArgs {
    /// Show the effect of partitions and QoS on this fabric, a file in the format of ibnetdiscover
    #[arg(long, value_name = "FABRIC")]
    pub file: Option<PathBuf>,
    /// Show the rate limits by enhanced_qos_policy_file of the port with this GUID, and of virtual ports
    /// with it; with --file, rules of port groups count, too
    #[arg(long, value_name = "GUID", value_parser = port_guid)]
    pub effective_rates: Option<Guid>,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Parses a GUID, with or without 0x.
fn port_guid(text: &str) -> Result<Guid, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let guid = is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    guid.map(Guid).ok_or_else(|| format!("'{text}' is no GUID such as 0x0002c90300001234"))
}
