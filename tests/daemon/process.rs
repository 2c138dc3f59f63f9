//! The daemon as a process on Debian's ibsim: exit codes, signals, the log, background operation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::{Ibsim, Running, have, torus_sm, wait_for};
use torus_sm::fabric::ibnet;
use torus_sm::ids::{Gid, Guid};
use torus_sm::sim::generate::Shape;

pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A ring of three switches with a host each.
pub(super) fn ring() -> Option<Ibsim> {
    if !have(&["ibsim"]) {
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let fabric = dir.path().join("fabric.net");
    let topology = Shape::torus([3, 1, 1]).build().expect("a shape that can be built");
    fs::write(&fabric, ibnet::write(&topology)).expect("a file");
    Some(Ibsim::start(&fabric))
}

/// The daemon at the first host, with `opensm.conf` and `opensm.log` in the fabric's folder.
pub(super) fn command(sim: &Ibsim, args: &[&str]) -> Command {
    command_of(sim, &torus_sm(), args)
}

fn command_of(sim: &Ibsim, program: &Path, args: &[&str]) -> Command {
    let host = format!("H-{:016x}", Shape::torus([3, 1, 1]).host_guid([0, 0, 0], 0).0);
    let mut command = sim.command(&host, program);
    command.arg("-F").arg(sim.dir().join("opensm.conf")).arg("-f").arg(log(sim));
    command.args(["-n", "64", "-d2"]).args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

pub(super) fn log(sim: &Ibsim) -> PathBuf {
    sim.dir().join("opensm.log")
}

pub(super) fn configure(sim: &Ibsim, text: &str) {
    fs::write(sim.dir().join("opensm.conf"), text).expect("a file");
}

pub(super) fn start(sim: &Ibsim, args: &[&str]) -> Running {
    let running = Running(command(sim, args).spawn().expect("the daemon starts"));
    wait_for(&log(sim), "SUBNET UP", LIMIT);
    running
}

pub(super) fn signal(id: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status();
    assert!(status.expect("kill(1) is there").success(), "{name} to {id}");
}

/// Waits for the end; the exit code, and the time it took.
pub(super) fn ended(mut running: Running) -> (Option<i32>, Duration) {
    let start = Instant::now();
    let status = running.0.wait().expect("the daemon ends");
    (status.code(), start.elapsed())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn hup_reloads_the_configuration_unless_it_is_wrong() {
    let Some(sim) = ring() else { return };
    configure(&sim, "sweep_interval 100\n");
    let daemon = start(&sim, &[]);
    let id = daemon.0.id();
    let again = |text: &str, answer: &str| {
        configure(&sim, text);
        signal(id, "HUP");
        wait_for(&log(&sim), answer, LIMIT);
    };
    again("sweep_interval 99\nlmc 1\nno_such_key 1\n", "configuration read again");
    wait_for(&log(&sim), "opensm.conf:3:1: unknown key 'no_such_key' is ignored", LIMIT);
    wait_for(&log(&sim), "lmc has changed in the configuration file", LIMIT);
    wait_for(&log(&sim), "these keys took effect: sweep_interval 99", LIMIT);
    again(
        "sweep_interval often\nsm_priority 16\n",
        "opensm.conf:1:16: sweep_interval: 'often' is not a number",
    );
    wait_for(&log(&sim), "0 to 15; the value in force stays", LIMIT);
    again(
        "routing_engine minihop\n",
        "unknown routing engine \"minihop\"; valid are none, minhop, ",
    );
    // The daemon continues, and has swept the fabric again.
    again("sweep_interval 98\nlog_flags 0x07\n", "heavy sweep: ");
    let text = fs::read_to_string(log(&sim)).expect("a log");
    // A sweep under way may have seen a change of the file before its signal.
    assert!(text.matches("configuration read again").count() >= 4, "{text}");
    let warnings = text.matches("sm_key has its published default").count();
    assert_eq!(warnings, 1, "{text}");
}

#[test]
fn changed_files_are_read_before_a_heavy_sweep() {
    let Some(sim) = ring() else { return };
    let partitions = sim.dir().join("partitions.conf");
    let every_second = "force_heavy_sweep TRUE\nsweep_interval 1\n";
    configure(&sim, every_second);
    let _daemon = start(&sim, &["-P", partitions.to_str().expect("text")]);
    configure(&sim, &format!("{every_second}sm_priority 3\n"));
    wait_for(&log(&sim), "these keys took effect: sm_priority 3", LIMIT);
    fs::write(&partitions, "A=0x10, mtu=9000: ALL;\n").expect("a file");
    wait_for(&log(&sim), "the configuration stays as it was", LIMIT);
    configure(&sim, &format!("{every_second}sm_priority 4\n"));
    std::thread::sleep(Duration::from_secs(3));
    let text = fs::read_to_string(log(&sim)).expect("a log");
    // Once for each change of a file.
    assert_eq!(text.matches("the configuration stays as it was").count(), 2, "{text}");
    fs::write(&partitions, "A=0x10: ALL;\n").expect("a file");
    wait_for(&log(&sim), "these keys took effect: sm_priority 4", LIMIT);
}

#[test]
fn nodes_have_the_names_of_the_node_name_map() {
    let Some(sim) = ring() else { return };
    let names = sim.dir().join("names");
    let host = Shape::torus([3, 1, 1]).host_guid([0, 0, 0], 0);
    fs::write(&names, format!("{host} \"rack 1\" # the first host\n")).expect("a file");
    let folder = sim.dir().display();
    configure(&sim, &format!("dump_files_dir {folder}\nnode_name_map_name {folder}/names\n"));
    let daemon = start(&sim, &[]);
    let subnet = sim.dir().join("opensm-subnet.lst");
    wait_for(&subnet, "{rack 1}", LIMIT);
    fs::write(&names, format!("{host} rack 2\n")).expect("a file");
    signal(daemon.0.id(), "HUP");
    wait_for(&subnet, "{rack 2}", LIMIT);
    fs::write(&names, format!("{host} rack 3\nhost\n")).expect("a file");
    signal(daemon.0.id(), "HUP");
    let place = format!("{}:2:1: `host` is not a node GUID", names.display());
    wait_for(&log(&sim), &place, LIMIT);
    wait_for(&log(&sim), "the configuration stays as it was: ", LIMIT);
    let text = fs::read_to_string(&subnet).expect("the dump");
    assert!(text.contains("{rack 2}") && !text.contains("{rack 3}"), "{text}");
}

#[test]
fn the_log_shows_frames_and_modules_as_asked() {
    let Some(sim) = ring() else { return };
    let modules = sim.dir().join("modules");
    fs::write(&modules, "osm_vl15intf.c 0x20\nosm_nowhere.c 1\n").expect("a file");
    configure(&sim, &format!("per_module_logging_file {}\n", modules.display()));
    let daemon = start(&sim, &[]);
    let text = fs::read_to_string(log(&sim)).expect("a log");
    assert!(text.contains("0x20 -> SMP dump:\n\t\t\t\tbase_ver................0x1\n"), "{text}");
    assert!(text.contains("(SubnGet)") && !text.contains("(SubnGetResp)"), "only what is sent");
    let place = format!("{}:2:1: Module name osm_nowhere.c not found", modules.display());
    assert!(text.contains(&place), "{text}");
    configure(&sim, "log_flags 0x23\nper_module_logging_file (null)\n");
    signal(daemon.0.id(), "HUP");
    wait_for(&log(&sim), "(SubnGetResp)", LIMIT);
}

#[test]
fn ports_that_leave_and_return_are_logged() {
    let Some(mut sim) = ring() else { return };
    configure(&sim, "sweep_interval 1\n");
    let _daemon = start(&sim, &[]);
    let host = Shape::torus([3, 1, 1]).host_guid([1, 0, 0], 0);
    let port = Guid(host.0 + 1);
    sim.type_line(&format!("Unlink \"H-{:016x}\"[1]", host.0));
    wait_for(
        &log(&sim),
        &format!("drop_mgr_remove_port: Removed port with GUID:{port} LID"),
        LIMIT,
    );
    sim.type_line(&format!("ReLink \"H-{:016x}\"[1]", host.0));
    let found =
        format!("state_mgr_report_new_ports: Discovered new port with GUID:{port} LID range [");
    wait_for(&log(&sim), &found, LIMIT);
    let text = fs::read_to_string(log(&sim)).expect("a log");
    let gid = Gid::new(0xfe80_0000_0000_0000, port);
    for event in ["out of service", "in service"] {
        let line = format!("Reporting Informational Notice \"GID {event}\", GID:{gid}\n");
        assert_eq!(text.matches(&line).count(), 1, "{line}{text}");
    }
}

#[test]
fn usr1_reopens_the_log() {
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let daemon = start(&sim, &[]);
    let aside = sim.dir().join("opensm.log.1");
    fs::rename(log(&sim), &aside).expect("the log is there");
    signal(daemon.0.id(), "USR1");
    let deadline = Instant::now() + LIMIT;
    while !log(&sim).exists() {
        assert!(Instant::now() < deadline, "the log was not reopened");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(daemon.0.id(), "HUP");
    wait_for(&log(&sim), "configuration read again", LIMIT);
    let old = fs::read_to_string(aside).expect("the old log");
    assert!(old.contains("SUBNET UP") && !old.contains("configuration read again"), "{old}");
}

#[test]
fn term_and_int_end_it_with_code_0_at_once() {
    for name in ["TERM", "INT"] {
        let Some(sim) = ring() else { return };
        configure(&sim, "sm_key 0x5ec2e7\n");
        let daemon = start(&sim, &[]);
        signal(daemon.0.id(), name);
        let (code, took) = ended(daemon);
        assert_eq!(code, Some(0), "{name}");
        assert!(took < Duration::from_secs(1), "{name}: it took {took:?}");
        wait_for(&log(&sim), "Exiting SM", Duration::ZERO);
        let text = fs::read_to_string(log(&sim)).expect("a log");
        assert!(!text.contains("published default"), "{text}");
        assert!(!text.to_lowercase().contains("5ec2e7"), "the SM_Key is in the log");
    }
}

#[test]
fn in_the_background_it_has_a_log_and_a_pidfile() {
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let pidfile = sim.dir().join("torus-sm.pid");
    let path = pidfile.to_str().expect("a path in UTF-8").to_owned();
    let output = command(&sim, &["-B", "--pidfile", &path]).output().expect("the daemon starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    wait_for(&log(&sim), "SUBNET UP", LIMIT);
    let id: u32 = fs::read_to_string(&pidfile).expect("a pidfile").trim().parse().expect("an id");
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("the daemon is running");
    // After the name in parentheses: state, parent, process group, session, terminal.
    let rest = stat.rsplit_once(") ").expect("a name").1;
    let fields: Vec<&str> = rest.split(' ').collect();
    assert_eq!(fields[3], id.to_string(), "it has no session of its own: {stat}");
    signal(id, "TERM");
    wait_for(&log(&sim), "Exiting SM", LIMIT);
    let deadline = Instant::now() + LIMIT;
    while pidfile.exists() {
        assert!(Instant::now() < deadline, "the pidfile stayed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As `pkill -x opensm`, `killall opensm` and `pgrep -f` of scripts for OpenSM find it.
#[test]
fn in_the_background_it_keeps_the_name_of_the_command() {
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let program = sim.dir().join("opensm");
    let pidfile = sim.dir().join("opensm.pid");
    std::os::unix::fs::symlink(torus_sm(), &program).expect("a link");
    let path = pidfile.to_str().expect("a path in UTF-8").to_owned();
    let args = ["-B", "--pidfile", &path];
    let output = command_of(&sim, &program, &args).output().expect("the daemon starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let id: u32 = fs::read_to_string(&pidfile).expect("a pidfile").trim().parse().expect("an id");
    let of = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).expect("it is running");
    assert_eq!(of("comm"), "opensm\n");
    assert_eq!(of("cmdline").split('\0').next(), program.to_str());
    wait_for(&log(&sim), "SUBNET UP", LIMIT);
    let text = fs::read_to_string(log(&sim)).expect("a log");
    let first = text.lines().next().unwrap_or_default();
    let version = concat!("OpenSM 3.3.23 (torus-sm ", env!("CARGO_PKG_VERSION"), ")");
    assert!(first.ends_with(&format!("] 0x80 -> {version}")), "{first}");
    let output = Command::new(&program).arg("--version").output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), version);
    signal(id, "TERM");
    wait_for(&log(&sim), "Exiting SM", LIMIT);
}

#[test]
fn in_the_background_it_fails_like_in_the_foreground() {
    let Some(sim) = ring() else { return };
    configure(&sim, "daemon TRUE\n");
    let output = command(&sim, &["-g", "0x123"]).output().expect("the daemon starts");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("0x0000000000000123"), "{}", said(&output));
}

#[test]
fn torus_errors_are_logged_and_minhop_is_used() {
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let torus = sim.dir().join("torus-2QoS.conf");
    fs::write(&torus, "torus 3 1 1\nxp_lnk 0x1 0x2\n").expect("a file");
    let path = torus.to_str().expect("a path in UTF-8").to_owned();
    let args = ["-R", "torus-2QoS", "-Q", "--torus_config", &path, "-o"];
    let output = command(&sim, &args).output().expect("the daemon starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = fs::read_to_string(log(&sim)).expect("a log");
    assert!(text.contains("torus-2QoS.conf:2"), "{text}");
    let warning = "plan::routing::chain: WARNING: torus-2QoS cannot route this fabric";
    assert!(text.contains(warning), "{text}");
}

/// Runs the program without InfiniBand.
fn without_fabric(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(torus_sm());
    command.env_remove("LD_PRELOAD").env("OSM_TMP_DIR", dir).env("OSM_CACHE_DIR", dir);
    command.current_dir(dir).args(args).output().expect("the program starts")
}

#[test]
fn exit_codes_distinguish_causes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dir = dir.path();
    fs::write(dir.join("wrong.conf"), "lmc 1\nlmc 8\nqos maybe\n").expect("a file");
    fs::write(dir.join("right.conf"), "lmc 1\n").expect("a file");
    for (args, code, text) in [
        (&["--nonsense"][..], 2, "unexpected argument '--nonsense' found"),
        (&["-n", "many"], 2, "'many' is not a number"),
        (&["-F", "/"], 4, "/: Is a directory"),
        // OpenSM continues with these: the port is the first thing that is missing.
        (&["-F", "missing.conf"], 3, "missing.conf: No such file"),
        (&["-F", "wrong.conf"], 3, "wrong.conf:2:5: lmc: 8 is out of range"),
        (&["-F", "wrong.conf"], 3, "wrong.conf:3:5: qos: 'maybe' is neither TRUE nor FALSE"),
        (&["-F", "right.conf", "-R", "minihop"], 3, "unknown routing engine \"minihop\""),
        (&["-F", "right.conf", "-c", "right.conf"], 5, "--force replaces it"),
        (&["-F", "right.conf", "-c", "missing/x"], 5, "missing/x: No such file"),
        (&["--version"], 0, ""),
        (&["--help"], 0, ""),
        (&["-F", "right.conf", "-c", "written.conf"], 0, ""),
    ] {
        let output = without_fabric(dir, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{args:?}: {}", said(&output));
    }
    let written = fs::read_to_string(dir.join("written.conf")).expect("a file");
    assert!(written.contains("\nlmc 1\n"), "{written}");
}

#[test]
fn without_a_port_the_exit_code_is_3() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("empty.conf"), "").expect("a file");
    let output = without_fabric(dir.path(), &["-F", "empty.conf", "-g", "0x123"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let output = command(&sim, &["-g", "0x123"]).output().expect("the daemon starts");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("0x0000000000000123"), "{}", said(&output));
}

#[test]
fn usr2_writes_a_recording_that_replays() {
    let Some(sim) = ring() else { return };
    let dumps = sim.dir().display().to_string();
    configure(&sim, &format!("m_key 0x1122334455667788\ndump_files_dir {dumps}\n"));
    let daemon = start(&sim, &[]);
    signal(daemon.0.id(), "USR2");
    wait_for(&log(&sim), "wrote a recording to ", LIMIT);
    let text = fs::read_to_string(log(&sim)).expect("a log");
    let (_, path) = text.split_once("wrote a recording to ").expect("the line");
    let path = path.split_once(" (").expect("the reason").0;
    let bytes = fs::read(path).expect("the recording");
    let mut keys =
        bytes.windows(8).filter(|bytes| *bytes == 0x1122_3344_5566_7788u64.to_be_bytes());
    assert!(keys.next().is_none(), "the M_Key is in the recording");
    assert!(!String::from_utf8_lossy(&bytes).contains("1122334455667788"));
    let replay = || Command::new(torus_sm()).arg("replay").arg(path).output().expect("torus-sm");
    let output = replay();
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.contains("reason:      SIGUSR2"), "{report}");
    assert!(report.contains("swept         6 nodes, 0 faults"), "{report}");
    assert!(report.ends_with("repeated, the same as recorded\n"), "{report}");
    let place = bytes.len() / 2;
    let damaged: Vec<u8> =
        bytes.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == place)).collect();
    fs::write(path, damaged).expect("a file");
    let output = replay();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 0));
    let problem = said(&output);
    assert!(problem.contains(": byte ") && problem.contains(" is damaged: "), "{problem}");
}
