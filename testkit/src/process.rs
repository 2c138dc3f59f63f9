//! Programs that tests run: installed tools and torus-sm itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time limit for the start of any program.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The full path of an installed program; prints SKIPPED if there is none.
pub fn tool(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"];
    let found = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed");
    }
    found
}

/// A child process that is killed when the value is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The torus-sm program, which cargo builds into the folder above that of the test binaries.
pub fn torus_sm() -> PathBuf {
    let own = own_program();
    let profile = own.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    profile.join("torus-sm")
}

/// Waits until a file contains `text`; returns the time it took.
///
/// # Panics
/// The text is missing after `limit`.
pub fn wait_for(file: &Path, text: &str, limit: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let content = fs::read_to_string(file).unwrap_or_default();
        if content.contains(text) {
            return start.elapsed();
        }
        assert!(
            start.elapsed() < limit,
            "{} does not say '{text}' after {limit:?}; it says:\n{content}",
            file.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the log of a subnet manager says SUBNET UP and has not grown for two seconds: links
/// that became active make switches send traps, and each of them a further sweep, which may reach a
/// switch through another of its ports (PortInfo:LocalPortNum).
pub fn wait_until_settled(log: &Path) {
    const QUIET: Duration = Duration::from_secs(2);
    wait_for(log, "SUBNET UP", START_TIMEOUT);
    let start = Instant::now();
    let mut grown = start;
    let mut size = 0;
    while grown.elapsed() < QUIET {
        assert!(start.elapsed() < START_TIMEOUT, "{} grows without end", log.display());
        std::thread::sleep(Duration::from_millis(50));
        let now = fs::metadata(log).map_or(0, |file| file.len());
        if now != size {
            size = now;
            grown = Instant::now();
        }
    }
}

/// The running test binary.
pub fn own_program() -> PathBuf {
    std::env::current_exe().expect("the path of the running program")
}

/// The full name of the test `name` in the module `module` (`module_path!()`), for `--exact`.
pub fn test_name(module: &str, name: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    }
}
