//! The dump files, in OpenSM's formats, for `ibdmchk`, `ibdiagnet` and operators' scripts.
//!
//! Dumps show the planned tables, which are the programmed ones once all SubnSet requests are
//! acknowledged. Nodes appear in the order of OpenSM's maps on little-endian machines: by GUID with
//! its bytes reversed. For routing engines that keep no hop counts, OpenSM writes "HOPS UNKNOWN";
//! these dumps contain the hop counts of the planned paths instead.

mod lid_matrix;
mod routes;
mod service_levels;
mod topology;

pub use lid_matrix::{lid_matrix, lid_matrix_count};
pub use routes::{fdbs, lfts, mcfdbs};
pub use service_levels::{path_sl_count, path_sls, sl2vl};
pub use topology::subnet;

use super::atomic_file::FileWriteError;
use super::dump_file::{self, StopWriting};
use crate::fabric::{Fabric, SwitchId};
use crate::plan::Plan;
use crate::plan::routing::{RoutedPart, Routing};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Writes one dump. Dumps of large fabrics reach gigabytes and are therefore streamed.
pub type DumpWriter = fn(&mut dyn fmt::Write, &Fabric, &Plan);

/// Names and writers of the routing dumps. All names are OpenSM's except `opensm.psl`, which has
/// the format of `ibdiagnet.psl`.
const ROUTING_DUMPS: [(&str, DumpWriter); 6] = [
    ("opensm-lfts.dump", lfts),
    (LID_MATRIX_FILE, lid_matrix),
    ("opensm.fdbs", fdbs),
    ("opensm.mcfdbs", mcfdbs),
    (SL2VL_FILE, sl2vl),
    (PATH_SL_FILE, path_sls),
];
/// Names and writers of the dumps of each step of a routing chain.
const PART_DUMPS: [(&str, DumpWriter); 4] = [
    (SUBNET_FILE, subnet),
    ("opensm-lfts.dump", lfts),
    (LID_MATRIX_FILE, lid_matrix),
    ("opensm.fdbs", fdbs),
];
const LID_MATRIX_FILE: &str = "opensm-lid-matrix.dump";
const SL2VL_FILE: &str = "opensm-sl2vl.dump";
const PATH_SL_FILE: &str = "opensm.psl";
const SUBNET_FILE: &str = "opensm-subnet.lst";

/// Maximum number of lines of `opensm.psl`. The number grows with the square of the hosts: 1024
/// hosts with one LID each reach this limit with a file of 25 MB.
pub const MAX_PATH_SLS: usize = 1 << 20;

/// Returns a dump as text.
pub fn render(dump: DumpWriter, fabric: &Fabric, plan: &Plan) -> String {
    let mut out = String::new();
    dump(&mut out, fabric, plan);
    out
}

/// Maximum number of lines of `opensm-lid-matrix.dump`. The number is the square of that of the
/// switches, or the product of switches and LIDs: 1024 switches with 36 ports reach this limit with a
/// file of 150 MB.
pub const MAX_LID_MATRIX_LINES: usize = 1 << 20;

/// Writes the routing dumps to `dir`, which readers find whole at any time ([`dump_file`]). `opensm-sl2vl.dump` is
/// omitted if the plan has no SL to VL tables, `opensm.psl` above [`MAX_PATH_SLS`] lines, and
/// `opensm-lid-matrix.dump` above [`MAX_LID_MATRIX_LINES`].
///
/// # Errors
/// The first file that could not be written; the remaining files are written nevertheless. After `stop` is
/// requested none is.
pub fn write_routing(
    dir: &Path,
    fabric: &Fabric,
    plan: &Plan,
    stop: &StopWriting,
) -> Result<(), FileWriteError> {
    let mut result = Ok(());
    for (name, dump) in ROUTING_DUMPS {
        let is_wanted = match name {
            SL2VL_FILE => !plan.qos.sl_to_vl.is_empty(),
            LID_MATRIX_FILE => lid_matrix_count(fabric, plan) <= MAX_LID_MATRIX_LINES,
            PATH_SL_FILE => path_sl_count(fabric, plan) <= MAX_PATH_SLS,
            _ => true,
        };
        if is_wanted {
            result = result.and(write(&dir.join(name), fabric, plan, dump, stop));
        }
    }
    let parts = plan.routing.policy.parts(fabric, &plan.lids);
    parts.iter().fold(result, |result, part| result.and(write_part(dir, plan, part, stop)))
}

/// Writes the tables and the topology of a step of a routing chain. The tables of an engine that
/// failed are empty, and its hops those of shortest paths.
fn write_part(
    dir: &Path,
    plan: &Plan,
    part: &RoutedPart<'_>,
    stop: &StopWriting,
) -> Result<(), FileWriteError> {
    let routing = part.routing.cloned().unwrap_or_else(|| {
        Routing::without_routes(part.engine, part.fabric.switches().len(), part.lids.max())
    });
    let lids = Arc::new(part.lids.clone());
    let plan = Plan { lids, routing: Arc::new(routing), ..plan.clone() };
    let mut written = Ok(());
    for (name, dump) in PART_DUMPS {
        let is_wanted =
            name != LID_MATRIX_FILE || lid_matrix_count(part.fabric, &plan) <= MAX_LID_MATRIX_LINES;
        if is_wanted {
            let path = dir.join(part.file(name));
            written = written.and(write(&path, part.fabric, &plan, dump, stop));
        }
    }
    written
}

/// Writes the topology dump, `opensm-subnet.lst`, to `dir`.
///
/// # Errors
/// The file system's error, with the path of the file.
pub fn write_subnet(dir: &Path, fabric: &Fabric, plan: &Plan) -> Result<(), FileWriteError> {
    write(&dir.join(SUBNET_FILE), fabric, plan, subnet, &StopWriting::default())
}

fn write(
    path: &Path,
    fabric: &Fabric,
    plan: &Plan,
    dump: DumpWriter,
    stop: &StopWriting,
) -> Result<(), FileWriteError> {
    dump_file::write_by(path, |file| {
        let mut sink = FileSink { file, stop, result: stop.check() };
        dump(&mut sink, fabric, plan);
        sink.result
    })
}

/// Adapts a file to [`fmt::Write`]. Keeps the first I/O error and writes nothing after it.
struct FileSink<'a> {
    file: &'a mut dyn io::Write,
    stop: &'a StopWriting,
    result: io::Result<()>,
}

impl fmt::Write for FileSink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.result.is_ok() {
            self.result = self.stop.check().and_then(|()| self.file.write_all(text.as_bytes()));
        }
        if self.result.is_ok() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Appends formatted text. Writing to a `String` cannot fail, and a [`FileSink`] keeps its error.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = write!($out, $($part)*);
    }};
}
use put;

/// All switches in OpenSM's order.
fn switches(fabric: &Fabric) -> Vec<SwitchId> {
    let mut switches: Vec<SwitchId> = fabric.switch_ids().collect();
    switches.sort_by_key(|&id| fabric.switch(id).guid().opensm_order());
    switches
}
