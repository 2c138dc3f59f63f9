//! Scenarios of incidents of the whole daemon: the files of `incident_scenarios`. Each is played three
//! times: as it is, with a restart of the daemon after each step, and with a takeover by a standby that
//! shares its state. Blocks are separated by empty lines; each has steps, a line `----`, and the open
//! incidents that follow, with the line of `torus-sm status --check`. UPDATE_GOLDEN=1 rewrites these.
//!
//! The first block describes the fabric and starts the daemon:
//!
//! | line | meaning |
//! |---|---|
//! | `fabric SHAPE HOSTS` | the fabric, with so many hosts at each switch |
//! | `hardware NAME VALUE` | a limit of the devices |
//! | `option KEY VALUE` | a line of opensm.conf; `DIR` is the folder of the daemon's files |
//! | `file NAME` | a file in that folder: the indented lines that follow |
//! | `certificate NAME DAYS` | a file with a certificate that ends after so many days |
//! | `before COMMAND` | a console command before the start |
//! | `manager NODE KEY VALUE` | another subnet manager, with an option of its own, starts before |
//! | `faulty` | there are incidents from the start on |
//! | `once` | neither restarts nor takeovers are played |
//!
//! In the others, `option`, `file` and `certificate` change the configuration, which is read again, and
//! all other lines are steps of [`steps`] or console commands.

mod format;
mod player;
mod steps;

use format::Scenario;
use player::{Mode, Player};
use std::path::{Path, PathBuf};

/// The folder of the scenarios below the root of the repository.
const FOLDER: &str = "tests/daemon/incident_scenarios";
/// Scenarios that there must be.
const MIN_SCENARIOS: usize = 30;
/// One of so many scenarios is played with takeovers in each run of the tests.
const SAMPLE: usize = 6;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let entries = std::fs::read_dir(folder).expect("the folder of scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    files.sort();
    files
}

/// TORUS_SM_INCIDENTS=NAME plays one scenario.
fn is_chosen(path: &Path) -> bool {
    let name = std::env::var("TORUS_SM_INCIDENTS");
    name.map_or(true, |name| path.file_stem().is_some_and(|stem| stem == name.as_str()))
}

async fn play_all(mode: Mode, sample: usize) {
    let files = files();
    assert!(files.len() >= MIN_SCENARIOS, "{} scenarios", files.len());
    let mut failed = Vec::new();
    for path in files.iter().step_by(sample).filter(|path| is_chosen(path)) {
        let recorded = std::fs::read_to_string(path).expect("a scenario");
        let scenario = Scenario::parse(&recorded, path);
        if mode != Mode::Plain && scenario.is_once {
            continue;
        }
        // All scenarios are played, whichever fails.
        let local = tokio::task::LocalSet::new();
        let task = local.spawn_local(Player::play(scenario, mode));
        let Ok(played) = local.run_until(task).await else {
            failed.push(path.display().to_string());
            continue;
        };
        if mode == Mode::Plain && std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, played).expect("a writable file");
        } else {
            compare(&played, &recorded, path, &mut failed);
        }
    }
    assert_eq!(failed, [""; 0], "{mode:?}; UPDATE_GOLDEN=1 rewrites the recorded incidents");
}

/// Notes a scenario whose incidents are not as recorded.
fn compare(played: &str, recorded: &str, path: &Path, failed: &mut Vec<String>) {
    if played != recorded {
        println!("{}:\n{played}", path.display());
        failed.push(path.display().to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn scenarios_give_exactly_the_expected_incidents() {
    play_all(Mode::Plain, 1).await;
}

#[tokio::test(start_paused = true)]
async fn scenarios_give_the_same_incidents_over_restarts() {
    play_all(Mode::Restarts, 1).await;
}

#[tokio::test(start_paused = true)]
async fn some_scenarios_give_the_same_incidents_over_takeovers() {
    play_all(Mode::Takeovers, SAMPLE).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes without optimization"]
async fn all_scenarios_give_the_same_incidents_over_takeovers() {
    play_all(Mode::Takeovers, 1).await;
}
