//! Arguments of `torus-sm plan`.

use super::DaemonArgs;
use super::number::natural;
use super::sim::fabric::FabricArgs;
use crate::offline::adaptive::RandomPattern;
use clap::Parser;
use std::path::PathBuf;

/// Route and verify a fabric offline, without an InfiniBand port, and print a report.
///
/// All options of the daemon are accepted; see torus-sm --help. A configuration file is read only
/// if -F names one. A generated torus is routed by torus-2QoS with the torus-2QoS.conf that
/// describes it, unless -R and --torus_config say otherwise; without -R, ftree routes a generated fat
/// tree, dor a hypercube, and nue a dragonfly or random fabric. For a fabric from a file, torus-2QoS
/// uses a torus derived from the cables if there is no torus-2QoS.conf. The exit code is 0 if one of
/// the configured engines routes the fabric and the routes pass verification, else 1.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "plan")]
pub struct PlanArgs {
    #[command(flatten)]
    pub fabric: FabricArgs,
    /// Route the fabric by each of these engines, without fallback, and print the results side by
    /// side: paths, loads, VLs, credit loops; with --what-if also the failures survived
    #[arg(long, value_name = "ENGINE,ENGINE...", value_delimiter = ',', num_args = 1,
          conflicts_with_all = ["path", "path_sl", "draw", "dump"])]
    pub compare: Vec<String>,
    /// List the coordinates of each switch of a torus
    #[arg(long)]
    pub placement: bool,
    /// Print the path from A to B hop by hop, with its SL and VLs; A and B are LIDs, GUIDs of
    /// ports or nodes, or node descriptions
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub path: Option<Vec<String>>,
    /// Print the service level of every path between hosts
    #[arg(long)]
    pub path_sl: bool,
    /// Remove every switch and every cable between switches in turn, and report the effect of
    /// each failure; with 2 also pairs of them
    #[arg(long, value_name = "FAILURES", num_args = 0..=1, default_missing_value = "1",
          value_parser = failures)]
    pub what_if: Option<u8>,
    /// As --what-if 2
    #[arg(long)]
    pub what_if_pairs: bool,
    /// Failures of each kind that --what-if tries, drawn from --seed if there are more; 0 tries all
    /// [default: all single failures, 1000 of each kind of pair]
    #[arg(long, value_name = "N", value_parser = natural::<usize>)]
    pub samples: Option<usize>,
    /// Compute the load of the busiest link if hosts send by this pattern: the median of 50 random
    /// ones, each flow counting 1; with adaptive routing also while groups share flows evenly. --draw
    /// shows the mean load of each link
    #[arg(long, value_name = "PATTERN")]
    pub traffic: Option<RandomPattern>,
    /// Seed of samples and of patterns of traffic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = natural::<u64>)]
    pub seed: u64,
    /// Draw the torus plane by plane, with missing switches and cables marked
    #[arg(long, value_name = "FILE.svg")]
    pub draw: Option<PathBuf>,
    /// Write OpenSM's dump files to this directory
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// Write the fabric in the format of ibnetdiscover, and its torus-2QoS.conf, to this directory
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// The number of components that fail together.
fn failures(text: &str) -> Result<u8, String> {
    match text {
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err("the number of failures is 1 or 2; write a SHAPE before --what-if".to_owned()),
    }
}
