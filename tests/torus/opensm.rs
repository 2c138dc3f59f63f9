//! OpenSM's results for a fabric that ibsim simulates.

use super::subnet::{Case, Subnet};
use crate::common::{self, Ibsim, Running};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use torus_sm::fabric::ibnet;

/// The programs it takes.
pub const PROGRAMS: [&str; 2] = ["ibsim", "opensm"];

/// How long OpenSM may take; usually it is half a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// OpenSM at work, or done.
pub struct OpenSm {
    pub sim: Ibsim,
    /// It left because it had routed the fabric; else it refused.
    pub routed: bool,
}

impl OpenSm {
    /// Lets OpenSM route a fabric once.
    pub fn once(case: &Case) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("fabric.net");
        fs::write(&net, ibnet::write(&case.topology)).expect("a file");
        let sim = Ibsim::start(&net);
        let path = |name: &str| sim.dir().join(name);
        fs::write(path("torus-2QoS.conf"), &case.config).expect("a file");
        let options = format!("max_op_vls {}\nlmc {}\n", case.max_op_vls, case.lmc);
        fs::write(path("opensm.conf"), options).expect("a file");
        let host = format!("H-{:016x}", case.topology.nodes[case.local].guid.0);
        let opensm = sim
            .command(&host, &common::tool("opensm").expect("checked before"))
            .args(["-R", "torus-2QoS,no_fallback", "-Q", "-D", "0x43", "-o"])
            .arg("-F")
            .arg(path("opensm.conf"))
            .arg("--torus_config")
            .arg(path("torus-2QoS.conf"))
            .arg("--dump_files_dir")
            .arg(sim.dir())
            .arg("-f")
            .arg(path("opensm.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("opensm starts");
        let routed = routes(Running(opensm), &path("opensm.log"));
        Self { sim, routed }
    }

    /// Coordinates by switch GUID, from `opensm-torus.dump`.
    pub fn coordinates(&self) -> BTreeMap<u64, String> {
        let file = self.sim.dir().join("opensm-torus.dump");
        let text = fs::read_to_string(file).expect("a dump of the torus");
        let line = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let at = words.next()?.to_owned();
            let guid = words.nth(1)?.strip_prefix("0x")?;
            Some((u64::from_str_radix(guid, 16).ok()?, at))
        };
        text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text}"))).collect()
    }
}

/// Waits for the verdict: true when it left after success, false when no engine would route. A
/// refusing OpenSM would try again for ever.
fn routes(mut opensm: Running, log: &Path) -> bool {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("No routing engine able") {
            return false;
        }
        if let Some(status) = opensm.0.try_wait().expect("a child of ours") {
            let text = fs::read_to_string(log).unwrap_or_default();
            let is_done = status.success() && text.contains("tables configured on all switches");
            assert!(is_done || text.contains("No routing engine able"), "{status}:\n{text}");
            return is_done;
        }
        assert!(start.elapsed() < PATIENCE, "OpenSM does not come to an end:\n{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Routes a case by both programs. Returns whether OpenSM routed it, and the differences.
pub fn compare(case: &Case) -> (bool, String) {
    let theirs = OpenSm::once(case);
    let subnet = Subnet::new(case);
    let ours = match (subnet.route(None), theirs.routed) {
        (Ok(ours), true) => ours,
        (Err(_), false) => return (false, String::new()),
        (Ok(_), false) => return (false, "OpenSM refuses, we route".to_owned()),
        (Err(refusal), true) => return (true, format!("OpenSM routes, {refusal:#?}")),
    };
    let dump = |name| theirs.sim.dir().join(name);
    let sl_to_vls = common::read_sl_to_vls(&dump("opensm-sl2vl.dump"));
    let places = common::differences(&subnet.coordinates(&ours), &theirs.coordinates());
    let lfts =
        common::differences(&subnet.lfts(&ours), &common::read_lfts(&dump("opensm-lfts.dump")));
    let vls = common::differences(&subnet.sl_to_vls(&ours, &sl_to_vls), &sl_to_vls);
    (true, format!("{places}{lfts}{vls}"))
}
