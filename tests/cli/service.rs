//! The package under systemd: installed over Debian's real opensm, with all protections of the units in
//! force, on a simulated host with two ports; then upgraded and removed.
//!
//! systemd runs as process 1 of namespaces of its own, on a copy of this machine's files. Where root, an
//! overlay file system or a cgroup tree is missing, the notifications of the daemon are tested without
//! systemd only, by `service_manager` of the daemon's tests.

use crate::packages::package;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::simulator::library;
use testkit::{have, torus_sm};

/// Time after which the machine is switched off, in seconds.
const LIMIT: &str = "180";

/// A cgroup for the machine, removed when this is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let tree = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        })?;
        let path = tree.join(format!("torus-sm-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// A command that runs a program in new namespaces, in this cgroup.
    fn command(&self, program: &str, argument: &Path) -> Command {
        let script = format!(
            "echo $$ >{}/cgroup.procs && exec timeout --signal KILL {LIMIT} unshare --mount --pid \
             --fork --uts --ipc --net --cgroup --kill-child \"$@\"",
            self.0.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", program]).arg(argument).stdin(Stdio::null());
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // systemd leaves the groups of its units.
        let script = format!("find {} -depth -type d -exec rmdir {{}} +", self.0.display());
        let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    }
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/service").join(file)
}

/// The cgroup of a machine that can be started here; else the reason why it cannot.
fn machine(folder: &Path) -> Result<Cgroup, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("this user is not root".to_owned());
    }
    let group = Cgroup::new().ok_or("there is no cgroup tree to write to")?;
    let output = group.command(source("probe.sh").to_str().expect("UTF-8"), folder).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(group)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn the_package_replaces_opensm_under_systemd() {
    if !have(&["opensm", "dpkg-shlibdeps", "logrotate", "strip", "systemctl", "unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let probed = dir.path().join("probed");
    fs::create_dir(&probed).expect("a folder");
    let group = match machine(&probed) {
        Ok(group) => group,
        Err(reason) => {
            println!("torus-sm is not started under systemd here: {reason}");
            return;
        }
    };
    let folder = dir.path().join("machine");
    let check = folder.join("check");
    fs::create_dir_all(&check).expect("a folder");
    fs::rename(package("deb", dir.path()), check.join("torus-sm.deb")).expect("a package");
    for file in [torus_sm(), library().to_owned()] {
        fs::copy(&file, check.join(file.file_name().expect("a name"))).expect("a program");
    }
    for file in ["check.sh", "fabric.net"] {
        fs::copy(source(file), check.join(file)).expect("a file");
    }
    let output = group.command(source("boot.sh").to_str().expect("UTF-8"), &folder).output();
    let console = String::from_utf8_lossy(&output.expect("unshare").stdout).into_owned();
    let read = |name: &str| fs::read_to_string(check.join(name)).unwrap_or_default();
    let text = read("output");
    let code = read("code");
    assert_eq!(code.trim(), "0", "{text}\n{console}");
    assert!(text.ends_with("all checks passed\n"), "{text}");
}
