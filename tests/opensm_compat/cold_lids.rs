//! The LIDs of a fabric that has none, without a cache: equal to those of Debian's opensm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use testkit::fabrics::{self, Family};
use testkit::torus::random::Random;
use testkit::{Ibsim, Running, have, tool, torus_sm};
use torus_sm::config::guid2lid::{self, Guid2Lid};
use torus_sm::fabric::ibnet;

/// `TORUS_SM_LID_SEEDS=a..b` sets the seeds of the fabrics.
const SEEDS: &str = "TORUS_SM_LID_SEEDS";

/// Runs a subnet manager once and returns its guid2lid.
fn lids(program: &Path, net: &Path, host: &str, lmc: u8) -> Guid2Lid {
    let sim = Ibsim::start(net);
    let conf = sim.dir().join("opensm.conf");
    fs::write(&conf, format!("lmc {lmc}\nmax_wire_smps 32\n")).expect("a file");
    let mut sm = Running(
        sim.command(host, program)
            .args(["-o", "-d2", "-F"])
            .arg(&conf)
            .arg("-f")
            .arg(sim.dir().join("sm.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the subnet manager starts"),
    );
    sm.0.wait().expect("the subnet manager ends");
    let file = sim.dir().join("guid2lid");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| {
        let log = fs::read_to_string(sim.dir().join("sm.log")).unwrap_or_default();
        panic!("{}: {error}\n{log}", program.display())
    });
    let (lids, findings) = guid2lid::parse(&file, &text, lmc);
    assert!(findings.is_empty(), "{findings:?}");
    lids
}

#[test]
fn a_cold_fabric_gets_the_lids_of_opensm() {
    if !have(&["ibsim", "opensm"]) {
        return;
    }
    let opensm = tool("opensm").expect("checked");
    for seed in testkit::seeds(SEEDS, 0..40) {
        let mut random = Random::new(seed);
        let family = Family::ALL[seed as usize % Family::ALL.len()];
        let fabric = fabrics::random(family, &mut random);
        let folder = tempfile::tempdir().expect("a folder");
        let net: PathBuf = folder.path().join("fabric.net");
        fs::write(&net, ibnet::write(&fabric.topology)).expect("a file");
        let host = format!("H-{:016x}", fabric.topology.nodes[fabric.local].guid.0);
        let lmc = (seed / 2 % 4) as u8;
        let theirs = lids(&opensm, &net, &host, lmc);
        let ours = lids(&torus_sm(), &net, &host, lmc);
        assert!(theirs.len() > 2, "seed {seed}: {} ports", theirs.len());
        assert!(ours == theirs, "seed {seed}, {family}, LMC {lmc}:\n{ours:?}\n{theirs:?}");
    }
}
