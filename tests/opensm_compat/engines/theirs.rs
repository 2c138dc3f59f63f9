//! OpenSM's results on a fabric that ibsim simulates.

use super::EngineCase;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::dumps::{self, LidLfts, Mfts, SlToVls};
use testkit::{Ibsim, Running};

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
        .args(["-o", "-D", "0x43", "-R", &format!("{},no_fallback", case.engine), "-F"])
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
        End::Up => Theirs::Routed(Box::new(tables(sim.dir()))),
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
    loop {
        let status = process.0.try_wait().expect("a child of ours");
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("SUBNET UP") {
            return End::Up;
        }
        if text.contains("No routing engine able") {
            return End::Refused;
        }
        if let Some(status) = status {
            return End::Crashed(status.to_string());
        }
        assert!(start.elapsed() < RUN_TIMEOUT, "OpenSM does not come to an end:\n{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn errors(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().filter(|line| line.contains("ERR") || line.contains("no root"));
    lines.take(5).collect::<Vec<_>>().join("\n")
}

fn tables(folder: &Path) -> Tables {
    let path = |name: &str| -> PathBuf { folder.join(name) };
    let text = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    let sl_to_vls = path("opensm-sl2vl.dump");
    Tables {
        lfts: dumps::read_lid_lfts(&path("opensm-lfts.dump")),
        mfts: dumps::mfts(&text("opensm.mcfdbs")),
        sl_to_vls: match sl_to_vls.is_file() {
            true => dumps::read_sl_to_vls(&sl_to_vls),
            false => SlToVls::new(),
        },
        lids: text("guid2lid"),
        dumps: DUMPS
            .into_iter()
            .filter(|name| path(name).is_file())
            .map(|name| (name, text(name)))
            .collect(),
    }
}
