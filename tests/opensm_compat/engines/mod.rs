//! The routing engines against those of OpenSM on random fabrics: routed or refused, forwarding
//! tables, multicast trees and, for engines that decide them, SL to VL tables and path SLs, by
//! GUID. Each of our plans is verified, too. Every difference is either a failure or one of
//! [`differences::KNOWN`], which says why OpenSM is wrong there.
//!
//! | file | contents |
//! |---|---|
//! | `case` | a fabric with its configuration, drawn from a seed |
//! | `theirs` | OpenSM's results over ibsim |
//! | `ours` | the plan of the same fabric with the same LIDs and files, and its verification |
//! | `members` | the members of multicast groups that packets reach |
//! | `differences` | comparison, and the known differences |
//! | `daemons` | both programs as they run, with cables cut meanwhile |
//! | `strict` | the effect of `refuse_faulty_routes` |
//! | one file per engine | its fabrics and random options |
//!
//! An engine's test calls [`compare`] with the families that suit it and a function that adds
//! options. TORUS_SM_ENGINE_SEEDS=a..b sets the seeds; TORUS_SM_ENGINE_KEEP is a folder for the
//! files of cases that differ.

mod case;
mod daemons;
mod dfsssp;
mod differences;
mod dnup;
mod dor;
mod file;
mod ftree;
mod lash;
mod members;
mod minhop;
mod nue;
mod ours;
mod sssp;
mod strict;
mod theirs;
mod torus_2qos;
mod updn;

pub(crate) use case::EngineCase;
use differences::Verdict;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use testkit::fabrics::Family;
use testkit::torus::random::Random;

/// Threads of a comparison. OpenSM and ibsim mostly wait for each other.
const THREADS: usize = 4;

/// The environment variable with the seeds.
const SEEDS: &str = "TORUS_SM_ENGINE_SEEDS";

/// Number of seeds of each engine by default.
const DEFAULT_SEEDS: u64 = 14;

/// Adds random options and files of an engine to a case.
pub(crate) type Options = fn(&mut EngineCase, &mut Random);

/// Compares an engine on random fabrics of these families. At least `routed` percent of the
/// fabrics must be routed by both programs, so that the comparison is not empty.
pub(crate) fn compare(engine: &'static str, families: &[Family], options: Options, routed: usize) {
    if !testkit::have(&["ibsim", "opensm"]) {
        return;
    }
    let seeds = testkit::seeds(SEEDS, 0..DEFAULT_SEEDS);
    let count = (seeds.end - seeds.start) as usize;
    let verdicts = testkit::on_threads(THREADS, count, |index| {
        let seed = seeds.start + index as u64;
        let case = EngineCase::random(engine, families, seed, options);
        let verdict = differences::compare(&case);
        if let Verdict::Differs(text) = &verdict {
            keep(&case, text);
        }
        (case, verdict)
    });
    let equal = report(engine, &seeds, &verdicts);
    assert!(
        count < DEFAULT_SEEDS as usize || equal * 100 >= count * routed,
        "only {equal} of {count} fabrics are routed by both programs"
    );
}

/// Prints how many cases have each verdict, and returns how many are equal.
///
/// # Panics
/// A case differs.
fn report(title: &str, seeds: &Range<u64>, verdicts: &[(EngineCase, Verdict)]) -> usize {
    let mut tally = BTreeMap::<&str, Vec<u64>>::new();
    for (case, verdict) in verdicts {
        tally.entry(verdict.name()).or_default().push(case.seed);
    }
    println!("{title}, seeds {}..{}:", seeds.start, seeds.end);
    for (verdict, seeds) in &tally {
        println!("{:5} {verdict}, seeds {:?}", seeds.len(), &seeds[..seeds.len().min(5)]);
    }
    let differing: Vec<String> = verdicts
        .iter()
        .filter_map(|(case, verdict)| match verdict {
            Verdict::Differs(text) => Some(format!("{}\n{text}", case.replay())),
            _ => None,
        })
        .collect();
    assert!(
        differing.is_empty(),
        "{} of {} differ\n{}",
        differing.len(),
        verdicts.len(),
        differing.join("\n")
    );
    tally.get(Verdict::Equal.name()).map_or(0, Vec::len)
}

/// Writes the files of a case to a folder of TORUS_SM_ENGINE_KEEP.
fn keep(case: &EngineCase, text: &str) {
    let Some(folder) = std::env::var_os("TORUS_SM_ENGINE_KEEP").map(PathBuf::from) else { return };
    let folder = folder.join(format!("{}-{}", case.engine, case.seed));
    std::fs::create_dir_all(&folder).expect("a folder");
    case.write(&folder);
    std::fs::write(folder.join("differences"), text).expect("a file");
}
