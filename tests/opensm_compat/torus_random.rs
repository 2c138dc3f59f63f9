//! torus-2QoS against OpenSM on random fabrics: routed or rejected, coordinates, forwarding tables,
//! SL to VL tables, path SLs, and the trees of four multicast groups each, by GUID.
//! TORUS_RANDOM_FABRICS is the number of fabrics, TORUS_RANDOM_SEED the first seed, and
//! TORUS_RANDOM_KEEP a folder for the files of fabrics that differ. Prints SKIPPED where ibsim or
//! opensm is not installed.

use crate::opensm;
use std::path::PathBuf;
use testkit::torus::random;
use testkit::torus::subnet::{Case, Subnet};
use testkit::{in_parallel, setting};
use torus_sm::fabric::ibnet;

#[test]
fn random_fabrics_equal_opensm() {
    if !testkit::have(&opensm::PROGRAMS) {
        return;
    }
    let count = setting("TORUS_RANDOM_FABRICS", 300);
    let first = setting("TORUS_RANDOM_SEED", 1);
    let results = in_parallel(count, |index| {
        let seed = (first + index) as u64;
        let case = random::case(seed);
        let result = opensm::compare(&case);
        if !result.differences.is_empty() {
            keep(seed, &case);
        }
        (seed, result)
    });
    let routed = results.iter().filter(|(_, result)| result.routed).count();
    let paths: usize = results.iter().map(|(_, result)| result.paths).sum();
    let trees: usize = results.iter().map(|(_, result)| result.trees).sum();
    let asked = results.iter().filter(|(_, result)| result.paths > 0).count();
    println!(
        "{count} fabrics compared, OpenSM routes {routed}; {asked} of them have a second host, there \
         {paths} path SLs and {trees} multicast trees were compared"
    );
    let differing: Vec<String> = results
        .iter()
        .filter(|(_, result)| !result.differences.is_empty())
        .map(|(seed, result)| format!("seed {seed}:\n{}", result.differences))
        .collect();
    assert!(differing.is_empty(), "{} differ\n{}", differing.len(), differing.join("\n"));
    assert!(routed * 4 >= count, "only {routed} of {count} fabrics were routed");
    assert!(count < 40 || routed < count, "every fabric was routed");
    assert!(asked * 4 >= routed * 3, "only {asked} of {routed} could be asked");
}

fn keep(seed: u64, case: &Case) {
    let Some(folder) = std::env::var_os("TORUS_RANDOM_KEEP").map(PathBuf::from) else { return };
    let folder = folder.join(seed.to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let notes = match Subnet::new(case).route(None) {
        Ok(routing) => format!("routed\n{:#?}", routing.notes),
        Err(refusal) => format!("{refusal:#?}"),
    };
    for (name, text) in [
        ("fabric.net", ibnet::write(&case.topology)),
        ("torus-2QoS.conf", case.config.clone()),
        ("notes", notes),
    ] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
}

/// With all VLs that torus-2QoS needs, no routing has a credit loop.
#[test]
fn random_fabrics_verify_clean() {
    let mut routed = 0;
    for seed in 0..200 {
        let case = Case { max_op_vls: 5, ..random::case(seed) };
        let subnet = Subnet::new(&case);
        if subnet.route(None).is_ok() {
            routed += 1;
            if let Err(fault) = subnet.verified() {
                keep(seed, &case);
                panic!("seed {seed}: {fault}");
            }
        }
    }
    assert!(routed >= 50, "only {routed} were routed");
}
