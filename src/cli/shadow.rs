//! Arguments of `torus-sm shadow`.

use super::DaemonArgs;
use super::number::natural;
use clap::{ArgGroup, Parser};
use std::path::PathBuf;

/// Watch the fabric of another subnet manager, and report what torus-sm would do in its place.
///
/// The fabric is read by Gets at a limited rate. Nothing is written: no Set is sent, IsSM is not set and no
/// query is answered. After each pass the report is stored in a file, which --report shows. All options of
/// the daemon are accepted; see torus-sm --help.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "shadow")]
#[command(group(ArgGroup::new("shown").args(["report", "dumps"])))]
pub struct ShadowArgs {
    /// Gets in a second, at most
    #[arg(long, value_name = "GETS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Time from the start of a pass over the fabric to the start of the next one, if it does not take
    /// longer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = natural::<u64>)]
    pub interval: u64,
    /// Settings of ports that are not compared, such as VLStallCount, as the report names them: for
    /// devices that store another value than they are sent
    #[arg(long, value_name = "SETTING,SETTING...", value_delimiter = ',', num_args = 1)]
    pub ignore: Vec<String>,
    /// End after this number of passes [default: pass until interrupted]
    #[arg(long, value_name = "N", value_parser = natural::<u64>)]
    pub passes: Option<u64>,
    /// The file of the report [default: torus-sm.shadow in $OSM_CACHE_DIR or /var/cache/opensm]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Print the report of a shadow, which may still run: safe to switch, or what would change
    #[arg(long, conflicts_with_all = ["passes", "interval", "rate"])]
    pub report: bool,
    /// Print the report about the files that OpenSM dumps to FOLDER, opensm-subnet.lst,
    /// opensm-lfts.dump, opensm-sl2vl.dump and opensm.mcfdbs, without a port
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["passes", "interval", "rate", "report", "state"])]
    pub dumps: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long, requires = "shown")]
    pub json: bool,
    /// Print the report as an HTML page
    #[arg(long, requires = "shown", conflicts_with = "json")]
    pub html: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
