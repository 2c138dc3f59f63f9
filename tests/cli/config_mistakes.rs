//! Diagnostics of typical mistakes in opensm.conf (options of quality of service, partitions and
//! routers), in prefix-routes.conf and in the policy files of routing chains. Mistakes in partitions.conf are in partitions.rs, those in
//! qos-policy.conf with their parser.

use std::fs;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::routing_chain::port_groups::{ChainPortGroup, GroupRef};
use torus_sm::config::routing_chain::topologies::ChainTopology;
use torus_sm::config::routing_chain::{StepSettings, port_groups, steps, topologies};
use torus_sm::config::{Diagnostic, excerpt, prefix_routes};

/// Compares the diagnostics of each file in `KIND/mistakes.txt` with the expected ones.
fn explained(kind: &str, file: &str, read: fn(&Path, &str) -> Vec<String>) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(kind);
    let mistakes = fs::read_to_string(folder.join("mistakes.txt")).expect("the mistakes");
    let mut said = String::new();
    let mut count = 0;
    for (title, text) in mistakes.split("=== ").skip(1).filter_map(|part| part.split_once('\n')) {
        let findings = read(Path::new(file), text);
        assert!(!findings.is_empty(), "{title}: nothing is said");
        said += &format!("=== {title}\n");
        findings.iter().for_each(|found| said += &format!("{found}\n"));
        count += 1;
    }
    let golden = folder.join("mistakes.expected");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &said).expect("it is written");
    }
    let expected = fs::read_to_string(&golden).expect("what is expected");
    assert!(said == expected, "UPDATE_GOLDEN=1 rewrites {}\n{said}", golden.display());
    count
}

fn rendered(findings: &[Diagnostic], text: &str) -> Vec<String> {
    findings.iter().map(|found| excerpt::render(found, text)).collect()
}

#[test]
fn mistakes_in_options_are_explained() {
    let read = |file: &Path, text: &str| {
        let (mut options, findings) = Options::parse(text, file);
        let notes = options.reconcile().into_iter().map(|note| note.to_string());
        rendered(&findings, text).into_iter().chain(notes).collect()
    };
    assert!(explained("options", "opensm.conf", read) >= 15);
}

#[test]
fn mistakes_in_prefix_routes_are_explained() {
    let read =
        |file: &Path, text: &str| rendered(&prefix_routes::parse(file, text).diagnostics, text);
    assert!(explained("prefix-routes", "prefix-routes.conf", read) >= 9);
}

#[test]
fn mistakes_in_port_groups_are_explained() {
    let read = |file: &Path, text: &str| rendered(&port_groups::parse(file, text).1, text);
    assert!(explained("routing-chains/port-groups", "pgrp.conf", read) >= 17);
}

#[test]
fn mistakes_in_topologies_are_explained() {
    let read = |file: &Path, text: &str| {
        let groups: &[ChainPortGroup] = &[];
        rendered(&topologies::parse(file, text, groups).1, text)
    };
    assert!(explained("routing-chains/topologies", "topo.conf", read) >= 3);
}

#[test]
fn mistakes_in_unicast_steps_are_explained() {
    let read = |file: &Path, text: &str| {
        let all = ChainTopology { id: 1, switches: GroupRef::AllSwitches, hosts: GroupRef::AllCas };
        rendered(&steps::parse(file, text, &[all], 7).1, text)
    };
    assert!(explained("routing-chains/steps", "rch.conf", read) >= 8);
}

#[test]
fn mistakes_in_the_settings_of_steps_are_explained() {
    let read = |file: &Path, text: &str| rendered(&StepSettings::parse(file, text).1, text);
    assert!(explained("routing-chains/step-settings", "step.conf", read) >= 2);
}
