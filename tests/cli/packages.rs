//! The packages, the units in them, and the completions of the command line.

use std::fs;
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

/// A package with the names of the files of Debian's OpenSM.
fn opensm_package(dir: &Path) -> PathBuf {
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
        ("lib/systemd/system/opensm.service", "[Service]\nExecStart=/usr/sbin/opensm\n"),
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

#[test]
fn the_debian_package_replaces_opensm_and_is_removed_without_a_trace() {
    if !have(&["dpkg-shlibdeps", "logrotate", "strip"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let root = Root::new();
    root.dpkg("--install", &opensm_package(dir.path()));
    let package = package("deb", dir.path());
    root.dpkg("--install", &package);
    let status = fs::read_to_string(root.path("var/lib/dpkg/status")).expect("a text");
    let (_, ours) = status.split_once("Package: torus-sm\n").expect("torus-sm is installed");
    assert!(ours.starts_with("Status: install ok installed\n"), "{status}");
    let (_, theirs) = status.split_once("Package: opensm\n").expect("it left its files");
    let state = theirs.lines().next().unwrap_or_default();
    assert!(state.ends_with(" ok config-files"), "{status}");
    // The commands, units and manual page of OpenSM lead to those of torus-sm.
    let version = run(Command::new(root.path("usr/sbin/opensm")).arg("--version"));
    assert_eq!(version, run(Command::new(torus_sm()).arg("--version")));
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
fn the_rpm_has_the_files_and_relations_of_the_debian_package() {
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
        "/etc/opensm",
        "/usr/lib/torus-sm/libtorus_sm_preload.so",
        "/usr/share/man/man8/torus-sm.8.gz",
        "/usr/share/zsh/site-functions/_torus-sm",
    ] {
        assert!(files.lines().any(|line| line == file), "{file} is missing:\n{files}");
    }
    assert!(query("--provides").lines().any(|line| line.starts_with("opensm")));
    assert!(query("--conflicts").lines().any(|line| line == "opensm"));
    assert!(query("-c").contains("/etc/default/torus-sm\n"));
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
    let (whole, port) = (settings("torus-sm.service"), settings("torus-sm@.service"));
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
        for word in ["torus-config", "routing_engine", "what-if"] {
            assert!(script.contains(word), "{shell} completes no {word}");
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let script = dir.path().join("completions");
    fs::write(&script, completions("bash")).expect("a file");
    let complete = "source $0; set -- $(complete -p torus-sm); \
                    while [ $1 != -F ]; do shift; done; function=$2; \
                    COMP_WORDS=(torus-sm torus-c); COMP_CWORD=1; \
                    $function torus-sm torus-c torus-sm; echo ${COMPREPLY[@]}";
    let replies = run(Command::new("bash").arg("-c").arg(complete).arg(&script));
    assert_eq!(replies, "torus-config\n");
}
