//! Programs that tests run: installed tools, torus-sm itself, and waiting for a line of their output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// The time limit for the start of any program.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The full path of a program, or a line that says why the test is skipped.
pub fn tool(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"];
    let found = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed");
    }
    found
}

/// A program that runs beside the test and is killed with it.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program under test, which cargo builds into the folder above that of the tests and benchmarks.
pub fn torus_sm() -> PathBuf {
    let own = own_program();
    let profile = own.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    profile.join("torus-sm")
}

/// Waits until a file contains `text`; returns how long that took.
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

/// The program that is running: the test binary itself.
pub fn own_program() -> PathBuf {
    std::env::current_exe().expect("the path of the running program")
}

/// The full name of the test `name` in the module `module`, which is `module_path!()` there: the name
/// by which a test program started once more runs this test and no other.
pub fn test_name(module: &str, name: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    }
}
