//! The packages, the units in them, and the completions of the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::simulator::library;
use testkit::{have, torus_sm};

const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

fn text(output: &Output) -> String {
    let streams = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&streams).into_owned()
}

/// Runs a program that must succeed; returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packages the programs under test in `output`; returns the path of the package.
pub(super) fn package(format: &str, output: &Path) -> PathBuf {
    let library = library();
    let mut command = Command::new(Path::new(SOURCES).join("scripts/package"));
    command.arg("--fast").arg("--binaries").arg(library.parent().expect("a folder"));
    command.arg("--output").arg(output).arg(format);
    command.env("MAINTAINER", "Packagers <packagers@torus-sm.org>");
    PathBuf::from(run(&mut command).trim())
}

/// A root of dpkg without any package.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(dir.path().join("var/lib/dpkg").join(folder)).expect("a folder");
        }
        fs::write(dir.path().join("var/lib/dpkg/status"), "").expect("a file");
        fs::write(dir.path().join("var/lib/dpkg/available"), "").expect("a file");
        Self(dir)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Runs dpkg. The root has no C library, and no shell for the scripts of packages.
    fn dpkg(&self, action: &str, what: &Path) -> String {
        let mut command = Command::new("dpkg");
        command.args(["--force-not-root", "--force-script-chrootless", "--force-depends"]);
        command.arg(format!("--root={}", self.0.path().display())).arg(action).arg(what);
        run(command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    /// The files that packages have left, without dpkg's own.
    fn files(&self) -> Vec<String> {
        let mut command = Command::new("find");
        command.arg(self.0.path()).args(["-not", "-type", "d", "-not", "-path", "*/var/lib/*"]);
        run(&mut command).lines().map(str::to_owned).collect()
    }
}

/// A package with the names of the files of Debian's OpenSM, which has its units in the folder `units`.
fn opensm_package(dir: &Path, units: &str) -> PathBuf {
    let tree = dir.join("opensm");
    for (file, content) in [
        (
            "DEBIAN/control",
            "Package: opensm\nVersion: 3.3.23-2\nArchitecture: all\nMaintainer: A <a@b.org>\n\
             Description: OpenSM\n",
        ),
        ("DEBIAN/conffiles", "/etc/logrotate.d/opensm\n/etc/default/opensm\n"),
        ("etc/logrotate.d/opensm", "/var/log/opensm*.log {\n    weekly\n}\n"),
        ("etc/default/opensm", "PORTS=ALL\n"),
        (&format!("{units}/opensm.service"), "[Service]\nExecStart=/usr/sbin/opensm\n"),
        (&format!("{units}/opensm@.service"), "[Service]\nExecStart=/usr/sbin/opensm\n"),
        ("usr/sbin/opensm", "#!/bin/sh\necho OpenSM\n"),
    ] {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    let package = dir.join("opensm.deb");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Znone", "-b"])
        .args([&tree, &package]));
    package
}

/// The messages of logrotate about all files in `etc/logrotate.d` of `root`, with logs of the test.
fn logrotate(root: &Root) -> String {
    let folder = root.path("etc/logrotate.d");
    let logs = root.path("var/log");
    fs::create_dir_all(&logs).expect("a folder");
    for log in ["opensm.log", "opensm.0x0002c9030002fce9.log"] {
        fs::write(logs.join(log), "a line\n").expect("a file");
    }
    let copies = root.path("logrotate.d");
    fs::create_dir(&copies).expect("a folder");
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let content = fs::read_to_string(&path).expect("a text");
        let content = content.replace("/var/log", logs.to_str().expect("a path"));
        fs::write(copies.join(path.file_name().expect("a name")), content).expect("a file");
    }
    let config = root.path("logrotate.conf");
    fs::write(&config, format!("include {}\n", copies.display())).expect("a file");
    let mut command = Command::new("/usr/sbin/logrotate");
    command.arg("-d").arg("-s").arg(root.path("state")).arg(&config);
    let output = command.output().expect("logrotate");
    assert!(output.status.success(), "{}", text(&output));
    for file in [copies, logs] {
        fs::remove_dir_all(file).expect("a folder of the test");
    }
    fs::remove_file(config).expect("a file of the test");
    text(&output)
}

/// Debian 13 has OpenSM's units in /usr/lib, to which /lib is a link: dpkg takes them for other files
/// than those of `package`, and removes them after it has unpacked these.
fn units_survive_the_removal_of_opensm(dir: &Path, package: &Path) {
    let root = Root::new();
    fs::create_dir_all(root.path("usr/lib")).expect("a folder");
    std::os::unix::fs::symlink("usr/lib", root.path("lib")).expect("a link");
    root.dpkg("--install", &opensm_package(dir, "usr/lib/systemd/system"));
    root.dpkg("--install", package);
    for (link, target) in
        [("opensm.service", "torus-sm-ports.service"), ("opensm@.service", "torus-sm@.service")]
    {
        let link = root.path("lib/systemd/system").join(link);
        assert_eq!(fs::read_link(&link).expect("a link"), Path::new(target));
        assert!(link.exists(), "{}", link.display());
    }
    root.dpkg("--purge", Path::new("torus-sm"));
    assert!(!root.path("lib/systemd/system/opensm.service").is_symlink());
}

#[test]
fn the_debian_package_replaces_opensm_and_is_removed_without_a_trace() {
    if !have(&["dpkg-shlibdeps", "logrotate", "strip"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let root = Root::new();
    root.dpkg("--install", &opensm_package(dir.path(), "lib/systemd/system"));
    let package = package("deb", dir.path());
    let other = dir.path().join("other");
    root.dpkg("--install", &package);
    let status = fs::read_to_string(root.path("var/lib/dpkg/status")).expect("a text");
    let (_, ours) = status.split_once("Package: torus-sm\n").expect("torus-sm is installed");
    assert!(ours.starts_with("Status: install ok installed\n"), "{status}");
    let (_, theirs) = status.split_once("Package: opensm\n").expect("it left its files");
    let state = theirs.lines().next().unwrap_or_default();
    assert!(state.ends_with(" ok config-files"), "{status}");
    // The commands, units and manual page of OpenSM lead to those of torus-sm.
    let version = run(Command::new(root.path("usr/sbin/opensm")).arg("--version"));
    let ours = run(Command::new(torus_sm()).arg("--version"));
    assert!(version.contains(&format!("({})", ours.trim())), "{version}: {ours}");
    for (link, target) in [
        ("lib/systemd/system/opensm.service", "torus-sm-ports.service"),
        ("lib/systemd/system/opensm@.service", "torus-sm@.service"),
        ("usr/share/man/man8/opensm.8.gz", "torus-sm.8.gz"),
    ] {
        assert_eq!(fs::read_link(root.path(link)).expect("a link"), Path::new(target));
        assert!(root.path(link).exists(), "{link}");
    }
    // The file that OpenSM left for logrotate does no harm.
    let rotation = logrotate(&root);
    assert!(rotation.contains("ignore duplicate log entry"), "{rotation}");
    // Programs on the simulated fabric find the library.
    assert!(root.path("usr/lib/torus-sm/libtorus_sm_preload.so").is_file());

    // The ports that OpenSM's package managed stay managed.
    let ports = fs::read_to_string(root.path("etc/default/torus-sm-ports")).expect("a text");
    assert!(ports.ends_with("\nPORTS=ALL\n"), "{ports}");

    fs::write(root.path("etc/default/torus-sm"), "OPTIONS=\"-Q\"\n").expect("a file");
    root.dpkg("--install", &package);
    let kept = fs::read_to_string(root.path("etc/default/torus-sm")).expect("a text");
    assert_eq!(kept, "OPTIONS=\"-Q\"\n", "an upgrade keeps the administrator's file");
    root.dpkg("--purge", Path::new("torus-sm"));
    root.dpkg("--purge", Path::new("opensm"));
    assert_eq!(root.files(), Vec::<String>::new());
    units_survive_the_removal_of_opensm(&other, &package);
}

#[test]
fn lintian_finds_no_error_in_the_debian_package() {
    if !have(&["dpkg-shlibdeps", "lintian", "strip"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let package = package("deb", dir.path());
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let found = run(lintian.arg(package));
    assert!(!found.contains("E: "), "{found}");
}

#[test]
fn the_rpm_takes_the_place_of_red_hats_opensm() {
    if !have(&["rpmbuild", "rpm", "strip"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let package = package("rpm", dir.path());
    let query = |what: &str| {
        let mut command = Command::new("rpm");
        run(command.env("HOME", dir.path()).args(["-qp", what]).arg(&package))
    };
    let files = query("-l");
    for file in [
        "/usr/sbin/torus-sm",
        "/usr/sbin/opensm",
        "/usr/lib/systemd/system/torus-sm@.service",
        "/usr/lib/systemd/system/torus-sm-ports.service",
        "/usr/lib/systemd/system/opensm.service",
        "/usr/lib/torus-sm/start-ports",
        "/etc/logrotate.d/opensm",
        "/usr/lib/torus-sm/libtorus_sm_preload.so",
        "/usr/share/man/man8/torus-sm.8.gz",
        "/usr/share/zsh/site-functions/_torus-sm",
    ] {
        assert!(files.lines().any(|line| line == file), "{file} is missing:\n{files}");
    }
    let provides = query("--provides");
    assert!(provides.lines().any(|line| line == "opensm = 3.3.23"), "{provides}");
    assert!(!provides.contains(".so"), "programs could depend on the library: {provides}");
    assert!(query("--obsoletes").lines().any(|line| line == "opensm < 4"));
    assert!(query("--conflicts").lines().any(|line| line == "opensm"));
    let configured = ["rdma/opensm.conf", "rdma/partitions.conf", "sysconfig/opensm"];
    let mut expected: Vec<String> = configured.iter().map(|file| format!("/etc/{file}")).collect();
    expected.insert(0, "/etc/logrotate.d/opensm".into());
    assert_eq!(query("-c").lines().collect::<Vec<_>>(), expected);

    // The scripts of the package need a shell, which this root lacks.
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a folder");
    let mut install = Command::new("rpm");
    install.args(["--install", "--nodeps", "--noscripts", "--root"]).arg(&root).arg(&package);
    run(&mut install);
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("a file of the package");
    for unit in ["torus-sm.service", "torus-sm@.service", "torus-sm-ports.service"] {
        let unit = read(&format!("usr/lib/systemd/system/{unit}"));
        assert!(!unit.contains("/etc/default"), "{unit}");
        assert!(unit.contains("\nEnvironmentFile=-/etc/sysconfig/opensm\n"), "{unit}");
    }
    let link = fs::read_link(root.join("usr/sbin/opensm")).expect("a link");
    assert_eq!(link, Path::new("torus-sm"));
    let unit = read("usr/lib/systemd/system/torus-sm@.service");
    let (_, start) = unit.split_once("ExecStart=/bin/sh -c '").expect("a shell");
    let (command, _) = start.split_once("'\n").expect("a command");
    let command = command.replace("$$", "$");
    let command = command.replace("exec /usr/sbin/torus-sm", "echo").replace("%I", "0x1");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).env("OPTIONS", "-R torus-2QoS -Q").env("PRIORITY", "15");
    shell.env_remove("SUBNET_PREFIX");
    let expected = "--guid 0x1 --log_file /var/log/opensm.0x1.log -p 15 -R torus-2QoS -Q\n";
    assert_eq!(run(&mut shell), expected);
}

/// Runs start-ports on a copy of sysfs, with a program in place of systemctl. Returns its exit code
/// and what it would start.
fn start_ports(dir: &Path, setting: (&str, &str)) -> (Option<i32>, String) {
    let systemctl = dir.join("bin/systemctl");
    fs::create_dir_all(dir.join("bin")).expect("a folder");
    fs::write(&systemctl, "#!/bin/sh\necho systemctl \"$@\"\n").expect("a file");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = Command::new("/bin/sh");
    command.arg(Path::new(SOURCES).join("etc/package/start-ports"));
    command.env("PATH", format!("{}:/usr/bin:/bin", dir.join("bin").display()));
    command.env("TORUS_SM_SYSFS", dir.join("infiniband")).env("TORUS_SM_WAIT", "20");
    command.env("RUNTIME_DIRECTORY", dir).env(setting.0, setting.1);
    let output = command.output().expect("it starts");
    let started = String::from_utf8_lossy(&output.stdout);
    let started = started.lines().find_map(|line| line.strip_prefix("systemctl start "));
    (output.status.code(), started.unwrap_or_default().to_owned())
}

#[test]
fn all_ports_are_those_that_may_have_a_subnet_manager() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = |device: &str, number: u8, node_type: &str, layer: &str, mask: &str| {
        let device = dir.path().join("infiniband").join(device);
        let port = device.join(format!("ports/{number}"));
        fs::create_dir_all(port.join("gids")).expect("a folder");
        fs::write(device.join("node_type"), format!("{node_type}\n")).expect("a file");
        fs::write(port.join("link_layer"), format!("{layer}\n")).expect("a file");
        fs::write(port.join("cap_mask"), format!("{mask}\n")).expect("a file");
        let gid = format!("fe80:0000:0000:0000:0002:c903:0000:00{}{number}\n", node_type.len());
        fs::write(port.join("gids/0"), gid).expect("a file");
    };
    port("roce", 1, "1: CA", "Ethernet", "0x02510868");
    port("iwarp", 1, "4: RNIC", "InfiniBand", "0x00000000");
    port("vpi", 2, "1: CA", "InfiniBand", "0x02510c68");
    let path = dir.path().to_owned();
    // The port that remains comes later.
    let waiting = std::thread::spawn(move || start_ports(&path, ("PORTS", "ALL")));
    std::thread::sleep(std::time::Duration::from_millis(300));
    port("hca", 1, "1: CA", "InfiniBand", "0x02510868");
    let unit = "torus-sm@0x0002c90300000051.service";
    assert_eq!(waiting.join().expect("no panic"), (Some(0), unit.into()));

    let none = tempfile::tempdir().expect("a folder");
    assert_eq!(start_ports(none.path(), ("PORTS", "NONE")), (Some(0), String::new()));
    let listed = start_ports(none.path(), ("GUIDS", "0x1 0x2"));
    assert_eq!(listed, (Some(0), "torus-sm@0x1.service torus-sm@0x2.service".into()));
    let prefix = fs::read_to_string(none.path().join("0x2")).expect("a file");
    assert_eq!(prefix, "SUBNET_PREFIX=0xfe80000000000001\n");
}

#[test]
fn units_start_after_the_module_of_the_port() {
    for unit in ["torus-sm.service", "torus-sm@.service", "torus-sm-ports.service"] {
        let settings = settings(unit);
        assert!(!settings.iter().any(|line| line.starts_with("Condition")), "{unit}");
        let after = settings.iter().find(|line| line.starts_with("After=")).expect("an order");
        assert!(after.contains("rdma-hw.target") && after.contains("modprobe@ib_umad.service"));
        assert!(settings.iter().any(|line| line == "WantedBy=multi-user.target rdma-hw.target"));
    }
}

/// The settings of a unit, in order.
fn settings(unit: &str) -> Vec<String> {
    let path = Path::new(SOURCES).join("etc").join(unit);
    let text = fs::read_to_string(path).expect("a unit");
    let lines = text.lines().filter(|line| line.contains('=') && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_unit_of_a_port_differs_in_its_command_and_cache_only() {
    let whole = settings("torus-sm.service");
    let port = settings("torus-sm@.service");
    let only = |own: &[String], other: &[String]| -> Vec<String> {
        own.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    assert_eq!(
        only(&port, &whole),
        [
            "Description=InfiniBand subnet manager for torus fabrics on port %I",
            "EnvironmentFile=-/etc/default/torus-sm.%I",
            "ExecStart=/usr/sbin/torus-sm --guid %I --log_file /var/log/opensm.%I.log $OPTIONS",
            "Environment=OSM_CACHE_DIR=/var/cache/opensm/%I",
            "CacheDirectory=opensm/%I",
        ]
    );
    assert_eq!(only(&whole, &port).len(), 4);
}

#[test]
fn the_units_are_notified_and_do_not_repeat_configuration_errors() {
    let unit = settings("torus-sm.service");
    for setting in ["Type=notify", "RestartPreventExitStatus=2 4", "Restart=on-failure"] {
        assert!(unit.iter().any(|line| line == setting), "{setting}");
    }
    assert!(unit.iter().any(|line| line.starts_with("WatchdogSec=")));
}

#[test]
fn systemd_finds_the_units_valid_and_well_protected() {
    if !have(&["systemd-analyze"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    for unit in ["torus-sm.service", "torus-sm@.service", "torus-sm-ports.service"] {
        let path = Path::new(SOURCES).join("etc").join(unit);
        let content = fs::read_to_string(&path).expect("a unit");
        // The programs and manual pages of the unit are not installed here.
        let content = content.replace("/usr/sbin/torus-sm", "/bin/true");
        let content = content.replace("/usr/lib/torus-sm/start-ports", "/bin/true");
        let content = content.replace("Documentation=man:torus-sm(8)\n", "");
        let copy = dir.path().join(unit.replace("@.", "@0x0002c9030002fce9."));
        fs::write(&copy, content).expect("a file");
        let output = Command::new("systemd-analyze").arg("verify").arg(&copy).output();
        let output = output.expect("systemd-analyze");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
        let mut security = Command::new("systemd-analyze");
        // The unit of the threshold is a tenth.
        security.args(["security", "--offline=true", "--threshold=25", "--no-pager"]).arg(&copy);
        run(&mut security);
    }
}

#[test]
fn shells_have_completions_for_commands_and_options() {
    let completions = |shell: &str| run(Command::new(torus_sm()).args(["completions", shell]));
    for shell in ["bash", "zsh", "fish"] {
        let script = completions(shell);
        assert!(script.contains("TORUS_SM_COMPLETE"), "{shell} asks for no completions: {script}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let script = dir.path().join("completions");
    fs::write(&script, completions("bash")).expect("a file");
    let complete = "source $0; set -- $(complete -p torus-sm) -- $*; \
                    while [ $1 != -F ]; do shift; done; function=$2; \
                    while [ $1 != -- ]; do shift; done; shift; \
                    COMP_WORDS=($*); COMP_CWORD=$(($# - 1)); \
                    $function torus-sm ${COMP_WORDS[$COMP_CWORD]} x; echo ${COMPREPLY[@]}";
    let program = torus_sm();
    let folder = program.parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    for (line, expected) in [
        ("torus-sm torus-c", "torus-config"),
        ("torus-sm plan --what-if-", "--what-if-pairs"),
        ("torus-sm plan 4x4 -R ftree,tor", "ftree,torus-2QoS"),
        ("torus-sm sim ctl swap", "swap"),
        ("torus-sm completions f", "fish"),
    ] {
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(complete).arg(&script).args(line.split(' ')).env("PATH", &path);
        assert_eq!(run(&mut bash), format!("{expected}\n"), "{line}");
    }
}
