//! Single failures of three tori against OpenSM, which must route and reject the same ones with the
//! same tables: a sample, or all if TORUS_ALL_FAILURES is 1. Prints SKIPPED where ibsim or opensm
//! is not installed.

use crate::opensm;
use testkit::torus::failures::{all_failures, case, name};
use testkit::{in_parallel, setting};
use torus_sm::sim::generate::Shape;

#[test]
fn single_failures_equal_opensm() {
    if !testkit::have(&opensm::PROGRAMS) {
        return;
    }
    let all = all_failures();
    assert_eq!(all.len(), 30 * 3 + 64 * 4 + 60 * 4);
    let step = if setting("TORUS_ALL_FAILURES", 0) == 1 { 1 } else { 17 };
    let chosen: Vec<&Shape> = all.iter().step_by(step).collect();
    let results = in_parallel(chosen.len(), |index| opensm::compare(&case(chosen[index])));
    let mut differing = Vec::new();
    for (shape, result) in chosen.iter().zip(&results) {
        if !result.differences.is_empty() {
            differing.push(format!("{}:\n{}", name(shape), result.differences));
        }
    }
    let routed = results.iter().filter(|result| result.routed).count();
    let paths: usize = results.iter().map(|result| result.paths).sum();
    let trees: usize = results.iter().map(|result| result.trees).sum();
    println!(
        "{} failures compared, OpenSM routes {routed}; {paths} path SLs, {trees} multicast trees",
        chosen.len()
    );
    assert!(differing.is_empty(), "{} differ\n{}", differing.len(), differing.join("\n"));
}
