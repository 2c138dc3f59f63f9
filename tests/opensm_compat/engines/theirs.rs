//! OpenSM's results on a fabric that ibsim simulates.

use super::EngineCase;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::dumps::{self, LidLfts, Mfts, SlToVls};
use testkit::{Ibsim, Running};
use torus_sm::plan::routing::sssp::DfSssp;

/// Time limit for a run, which usually takes half a second.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// The result of a run of OpenSM.
pub(crate) enum Theirs {
    Routed(Box<Tables>),
    /// No engine routes the fabric; the errors of its log.
    Refused(String),
    /// OpenSM ended by itself before the subnet was up.
    Crashed(String),
}

/// The tables that OpenSM wrote to the devices.
pub(crate) struct Tables {
    pub lfts: LidLfts,
    pub mfts: Mfts,
    /// Empty without QoS, unless the engine decides them.
    pub sl_to_vls: SlToVls,
    /// The lowest VL of each path by source and destination LID, of engines whose log has them.
    pub path_vls: BTreeMap<(u16, u16), u8>,
    /// The number of paths in each layer of lash before balancing; empty with other engines.
    pub layers: Vec<usize>,
    /// guid2lid.
    pub lids: String,
    /// Dump files of engines, by name, if OpenSM wrote them.
    pub dumps: BTreeMap<&'static str, String>,
}

/// The dump files that are compared as text.
const DUMPS: [&str; 2] = ["opensm-lid-matrix.dump", "opensm-updn-roots.dump"];

/// Routes a case by OpenSM, once.
pub(crate) fn run(case: &EngineCase) -> Theirs {
    let folder = tempfile::tempdir().expect("a folder");
    case.write(folder.path());
    let sim = Ibsim::start(&folder.path().join("fabric.net"));
    let log = sim.dir().join("opensm.log");
    let opensm = sim
        .command(&case.sm_host(), &testkit::tool("opensm").expect("checked before"))
        .args(["-o", "-D", log_flags(case), "-R", &format!("{},no_fallback", case.engine), "-F"])
        .arg(folder.path().join("opensm.conf"))
        .arg("--dump_files_dir")
        .arg(sim.dir())
        .arg("-f")
        .arg(&log)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("opensm starts");
    let mut process = Running(opensm);
    match wait_for_end(&mut process, &log) {
        End::Up => {
            let log = fs::read_to_string(&log).unwrap_or_default();
            Theirs::Routed(Box::new(tables(sim.dir(), &log)))
        }
        End::Refused => Theirs::Refused(errors(&log)),
        End::Crashed(status) => Theirs::Crashed(format!("{status}\n{}", errors(&log))),
    }
}

enum End {
    Up,
    Refused,
    Crashed(String),
}

fn wait_for_end(process: &mut Running, log: &Path) -> End {
    let start = Instant::now();
    let mut text = Vec::new();
    loop {
        let status = process.0.try_wait().expect("a child of ours");
        // A message may have been read in part.
        let before = text.len().saturating_sub(200);
        read_on(log, &mut text);
        let new = String::from_utf8_lossy(&text[before..]);
        if new.contains("SUBNET UP") {
            return End::Up;
        }
        if new.contains("No routing engine able") {
            return End::Refused;
        }
        if let Some(status) = status {
            return End::Crashed(status.to_string());
        }
        assert!(start.elapsed() < RUN_TIMEOUT, "OpenSM does not come to an end:\n{new}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Appends what a file has beyond the text that was read before.
fn read_on(file: &Path, text: &mut Vec<u8>) {
    let Ok(mut file) = fs::File::open(file) else { return };
    if file.seek(SeekFrom::Start(text.len() as u64)).is_ok() {
        let _ = file.read_to_end(text);
    }
}

fn errors(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter(|line| line.contains("ERR") || line.contains("no root"));
    lines.take(5).collect::<Vec<_>>().join("\n")
}

/// Errors, the routing log and dump files; messages for debugging, too, if they have the VLs.
fn log_flags(case: &EngineCase) -> &'static str {
    if case.engine == DfSssp::NAME { "0x4b" } else { "0x43" }
}

/// Reads the VLs of DFSSSP from its log.
fn path_vls(log: &str) -> BTreeMap<(u16, u16), u8> {
    let entry = |line: &str| {
        let (_, line) = line.split_once("route from src_lid=")?;
        let (source, line) = line.split_once(" to dest_lid=")?;
        let (destination, vl) = line.split_once(" on vl=")?;
        Some(((source.parse().ok()?, destination.parse().ok()?), vl.trim().parse().ok()?))
    };
    log.lines().filter_map(entry).collect()
}

/// Reads the layers of LASH from its log.
fn layers(log: &str) -> Vec<usize> {
    let before = log.split("Lanes needed").next().unwrap_or_default();
    let paths = |line: &str| line.split_once("Lanes in layer ")?.1.split(": ").nth(1)?.parse().ok();
    before.lines().filter_map(paths).collect()
}

/// The tables of a sweep, whose log is `log`.
pub(crate) fn tables(folder: &Path, log: &str) -> Tables {
    let path = |name: &str| -> PathBuf { folder.join(name) };
    let text = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    let sl_to_vls = path("opensm-sl2vl.dump");
    Tables {
        lfts: dumps::read_lid_lfts(&path("opensm-lfts.dump")),
        mfts: dumps::mfts(&text("opensm.mcfdbs")),
        sl_to_vls: if sl_to_vls.is_file() {
            dumps::read_sl_to_vls(&sl_to_vls)
        } else {
            SlToVls::new()
        },
        path_vls: path_vls(log),
        layers: layers(log),
        lids: text("guid2lid"),
        dumps: DUMPS
            .into_iter()
            .filter(|name| path(name).is_file())
            .map(|name| (name, text(name)))
            .collect(),
    }
}
