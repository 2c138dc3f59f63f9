//! Arguments of `torus-sm torus-config`.

use super::sim::fabric::FabricArgs;
use clap::Parser;
use std::path::PathBuf;

/// Detect the torus or mesh of a fabric and write its torus-2QoS.conf.
///
/// Missing switches and cables are reported on standard error and in comments of the file. The exit
/// code is 0 if torus-2QoS routes the fabric with this file.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "torus-config")]
pub struct TorusConfigArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}
