//! Arguments of `torus-sm replay`.

use clap::Parser;
use std::path::PathBuf;

/// Show a recording of the flight recorder, and repeat its sweeps and plans offline.
///
/// The report has the circumstances of the recording, the time line of its events, and for each of
/// the last plans whether discovery and planning, repeated from the recorded MADs and
/// configuration, come to the result that the daemon had. The exit code is 0 if they do, 1 if a
/// result differs, and 5 if the recording cannot be read or is damaged.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "replay")]
pub struct ReplayArgs {
    /// The recording, such as /var/log/torus-sm-20260102T030405.678901Z.recording; - reads it from standard
    /// input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Include the MADs in the time line
    #[arg(long)]
    pub mads: bool,
    /// Leave out the time line
    #[arg(long, conflicts_with = "mads")]
    pub no_time_line: bool,
    /// Write a document for browsers that plays the recording with a time slider, without a daemon
    #[arg(long, conflicts_with_all = ["mads", "no_time_line"])]
    pub page: bool,
    /// Write the moments of the recording as JSON, as /v1/replay of the management interface does
    #[arg(long, conflicts_with_all = ["mads", "no_time_line", "page"])]
    pub json: bool,
    /// Leave moments out after this number of seconds, with --page or --json
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub time_limit: u32,
}
