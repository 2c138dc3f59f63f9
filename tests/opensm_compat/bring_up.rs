//! The daemon on Debian's ibsim: compared with Debian's opensm on the same fabric, and checked by
//! infiniband-diags and ibdmchk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use testkit::dumps::{differences, lfts, read_lfts, read_sl_to_vls};
use testkit::{Ibsim, Running, have, tool, torus_sm, wait_for};
use torus_sm::fabric::ibnet;
use torus_sm::sim::generate::Shape;

/// A generated torus with its two files.
pub(super) struct Case {
    dir: TempDir,
    pub(super) shape: Shape,
}

impl Case {
    pub(super) fn new(radix: [u16; 3], hosts: u8) -> Self {
        let mut shape = Shape::torus(radix);
        shape.hosts = hosts;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let topology = shape.build().expect("a shape that can be built");
        fs::write(dir.path().join("fabric.net"), ibnet::write(&topology)).expect("a file");
        fs::write(dir.path().join("torus-2QoS.conf"), shape.torus_conf()).expect("a file");
        Self { dir, shape }
    }

    pub(super) fn fabric(&self) -> PathBuf {
        self.dir.path().join("fabric.net")
    }

    fn torus_conf(&self) -> PathBuf {
        self.dir.path().join("torus-2QoS.conf")
    }

    /// The GUID of a host, in the form SIM_HOST takes.
    pub(super) fn host(&self, at: [u16; 3]) -> String {
        format!("H-{:016x}", self.shape.host_guid(at, 0).0)
    }
}

const ARGS: [&str; 8] = ["-R", "torus-2QoS,no_fallback", "-Q", "-n", "64", "-D", "0x43", "-d2"];

/// Starts a subnet manager at the first host.
pub(super) fn start(sim: &Ibsim, case: &Case, program: &Path, extra: &[&str]) -> Running {
    let log = sim.dir().join("sm.log");
    let child = sim
        .command(&case.host([0, 0, 0]), program)
        .args(ARGS)
        .arg("--torus_config")
        .arg(case.torus_conf())
        .arg("-f")
        .arg(&log)
        .args(extra)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    Running(child.expect("the subnet manager starts"))
}

/// Runs a subnet manager with `-o` on a fabric of its own, whose folder has the dumps.
fn once(case: &Case, program: &Path) -> Ibsim {
    let sim = Ibsim::start(&case.fabric());
    let mut sm = start(&sim, case, program, &["-o"]);
    let status = sm.0.wait().expect("the subnet manager ends");
    let log = fs::read_to_string(sim.dir().join("sm.log")).unwrap_or_default();
    assert!(status.success(), "{} failed: {status}\n{log}", program.display());
    assert!(log.contains("SUBNET UP"), "{}: no SUBNET UP in\n{log}", program.display());
    sim
}

fn same_tables_as_opensm(radix: [u16; 3], hosts: u8) {
    if !have(&["ibsim", "opensm"]) {
        return;
    }
    let case = Case::new(radix, hosts);
    let theirs = once(&case, &tool("opensm").expect("checked"));
    let ours = once(&case, &torus_sm());
    for (what, difference) in [
        (
            "LFTs",
            differences(
                &read_lfts(&ours.dir().join("opensm-lfts.dump")),
                &read_lfts(&theirs.dir().join("opensm-lfts.dump")),
            ),
        ),
        (
            "SL to VL tables",
            differences(
                &read_sl_to_vls(&ours.dir().join("opensm-sl2vl.dump")),
                &read_sl_to_vls(&theirs.dir().join("opensm-sl2vl.dump")),
            ),
        ),
    ] {
        assert!(difference.is_empty(), "{what} of {radix:?} differ:\n{difference}");
    }
    devices_hold_what_is_dumped(&ours);
    ibdmchk_is_content(&ours, usize::from(hosts) * usize::from(radix.iter().product::<u16>()));
}

/// Checks that the switches hold the tables of our dump file.
fn devices_hold_what_is_dumped(sim: &Ibsim) {
    let difference = undumped(sim);
    assert!(difference.is_empty(), "the devices hold other tables:\n{difference}");
}

/// How the tables of the switches, as dump_fts reads them, differ from our dump file; empty if they
/// do not, or without dump_fts.
pub(super) fn undumped(sim: &Ibsim) -> String {
    if !have(&["dump_fts"]) {
        return String::new();
    }
    let output = sim.run("", "dump_fts", &[]);
    let held = lfts(&String::from_utf8_lossy(&output.stdout));
    let mut dumped = read_lfts(&sim.dir().join("opensm-lfts.dump"));
    let shown: BTreeSet<u64> = held.keys().map(|(_, destination)| *destination).collect();
    let all: BTreeSet<u64> = dumped.keys().map(|(_, destination)| *destination).collect();
    // dump_fts reads one block too few if the highest LID is a multiple of 64.
    let passed_over = usize::from(all.len().is_multiple_of(64));
    let without_entries: Vec<_> = all.difference(&shown).collect();
    if without_entries.len() != passed_over {
        return format!("destinations without entries: {without_entries:x?}");
    }
    dumped.retain(|(_, destination), _| shown.contains(destination));
    differences(&dumped, &held)
}

/// Checks that ibdmchk reads our dump files and finds all paths between `hosts` channel adapters
/// and, with path SLs and SL to VL tables taken into account, no credit loop.
fn ibdmchk_is_content(sim: &Ibsim, hosts: usize) {
    let Some(ibdmchk) = tool("ibdmchk") else { return };
    let output = Command::new(ibdmchk)
        .args(["-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs"])
        .args(["-c", "opensm.psl", "-d", "opensm-sl2vl.dump"])
        .current_dir(sim.dir())
        .output()
        .expect("ibdmchk starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = format!("Scanned:{} CA to CA paths", hosts * (hosts - 1));
    assert!(text.contains(&paths), "ibdmchk does not find all paths:\n{text}");
    assert!(text.contains("no credit loops found"), "ibdmchk finds a credit loop:\n{text}");
    assert!(!text.contains("-E-"), "ibdmchk complains:\n{text}");
}

#[test]
fn a_6x5_torus_has_opensms_tables() {
    same_tables_as_opensm([6, 5, 1], 1);
}

#[test]
fn a_3x3x3_torus_has_opensms_tables() {
    same_tables_as_opensm([3, 3, 3], 1);
}

#[test]
fn a_4x4x4_torus_has_opensms_tables() {
    same_tables_as_opensm([4, 4, 4], 1);
}

#[test]
fn an_8x8x8_torus_with_two_hosts_has_opensms_tables() {
    same_tables_as_opensm([8, 8, 8], 2);
}

#[test]
fn diagnostic_tools_agree() {
    let tools = ["ibsim", "saquery", "sminfo", "smpquery", "ibnetdiscover", "ibtracert"];
    if !have(&tools) {
        return;
    }
    let case = Case::new([3, 3, 3], 1);
    let sim = Ibsim::start(&case.fabric());
    let _sm = start(&sim, &case, &torus_sm(), &[]);
    wait_for(&sim.dir().join("sm.log"), "SUBNET UP", Duration::from_secs(20));
    let client = case.host([1, 0, 0]);
    let text = |program: &str, args: &[&str]| {
        let output = sim.run(&client, program, args);
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {args:?}: {out}{err}");
        out + &err
    };
    assert!(text("sminfo", &[]).contains("SMINFO_MASTER"));
    let found = text("ibnetdiscover", &[]);
    assert_eq!(found.matches("\nSwitch\t").count(), 27, "{found}");
    assert_eq!(found.matches("\nCa\t").count(), 27, "{found}");

    // From (1,0,0) to (0,2,0) the path crosses no dateline along x and one along y: SL 2.
    let lid = |at: [u16; 3]| {
        let guid = format!("0x{:x}", case.shape.host_guid(at, 0).0 + 1);
        let info = text("smpquery", &["-G", "portinfo", &guid, "1"]);
        let line = info.lines().find(|line| line.starts_with("Lid:")).expect("a LID");
        line.rsplit('.').next().expect("a number").to_owned()
    };
    let from = lid([1, 0, 0]);
    let to = lid([0, 2, 0]);
    let path = text("saquery", &["-p", "--src-to-dst", &format!("{from}:{to}")]);
    assert!(
        path.lines().any(|line| line.trim().starts_with("sl..") && line.ends_with("0x2")),
        "{path}"
    );
    let trace = text("ibtracert", &[&from, &to]);
    assert_eq!(trace.matches("] -> ").count(), 4, "{trace}");
}

#[test]
fn a_lost_cable_is_routed_around_and_its_return_restores_the_tables() {
    if !have(&["ibsim"]) {
        return;
    }
    let case = Case::new([4, 4, 1], 1);
    let mut sim = Ibsim::start(&case.fabric());
    let log = sim.dir().join("sm.log");
    let dump = sim.dir().join("opensm-lfts.dump");
    let _sm = start(&sim, &case, &torus_sm(), &["-s", "1"]);
    wait_for(&log, "SUBNET UP", Duration::from_secs(20));
    // The dump files are written after SUBNET UP; each is replaced as a whole.
    assert!(wait_until(Duration::from_secs(10), || dump.is_file()), "no dump files");
    let before = read_lfts(&dump);
    let switch = format!("S-{:016x}", case.shape.switch_guid([1, 1, 0]).0);

    sim.type_line(&format!("Unlink \"{switch}\"[1]"));
    let changed = wait_until(Duration::from_secs(10), || read_lfts(&dump) != before);
    assert!(
        changed,
        "the tables did not change:\n{}",
        fs::read_to_string(&log).unwrap_or_default()
    );

    sim.type_line(&format!("ReLink \"{switch}\"[1]"));
    let restored = wait_until(Duration::from_secs(10), || read_lfts(&dump) == before);
    assert!(
        restored,
        "the first tables did not come back:\n{}",
        fs::read_to_string(&log).unwrap_or_default()
    );
}

/// ibsim stores other values than it is sent in some fields of PortInfo: the daemon does not send
/// them again.
#[test]
fn a_second_sweep_sends_no_set() {
    if !have(&["ibsim"]) {
        return;
    }
    let case = Case::new([3, 3, 3], 1);
    let sim = Ibsim::start(&case.fabric());
    let log = sim.dir().join("sm.log");
    let sm = start(&sim, &case, &torus_sm(), &["-s", "300"]);
    wait_for(&log, "SUBNET UP", Duration::from_secs(20));
    let process = nix::unistd::Pid::from_raw(sm.0.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::SIGHUP).expect("it runs");
    wait_for(&log, "programmed 0 Sets", Duration::from_secs(20));
}

pub(super) fn wait_until(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = std::time::Instant::now();
    while start.elapsed() < limit {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
