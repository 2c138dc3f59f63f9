//! `torus-sm check`: findings that a start would log.

use std::path::Path;
use std::process::{Command, Output};
use testkit::torus_sm;

fn check(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(torus_sm());
    command.arg("check").args(args).current_dir(folder).env("OSM_CACHE_DIR", folder);
    command.output().expect("torus-sm starts")
}

/// Exit code and standard output of a check of these files, the first of which is opensm.conf.
fn checked(files: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let output = check(folder.path(), &["-F", "opensm.conf"]);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn errors_in_the_list_of_expected_cables_are_found() {
    let options = ("opensm.conf", "topo_config_file cables\n");
    let (code, text) = checked(&[options, ("cables", "0x1,1,0x2,1\n0x1,0,0x2,2\n")]);
    assert!(text.contains("cables:2") && text.contains("a port is not a number"), "{text}");
    assert_eq!(code, Some(4), "{text}");
    let (code, text) = checked(&[options, ("cables", "0x1,1,0x2,1\n")]);
    assert!(text.contains("cables: no errors"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = checked(&[options, ("cables", "0x1,1,0x2,1,Any,Down\n")]);
    assert!(text.contains("lists no cable that should be ACTIVE"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = checked(&[options]);
    assert!(text.contains("cables: ") && text.contains("No such file"), "{text}");
    assert_eq!(code, Some(4), "{text}");
}

#[test]
fn errors_of_the_management_section_are_found() {
    for (text, problem) in [
        ("management_tcp 0.0.0.0:8080", "without TLS only a loopback address is served"),
        ("management_tcp nowhere", "management_tcp nowhere: not an address and port"),
        (
            "management_tcp 127.0.0.1:8080\nmanagement_token_file token",
            "management_token_file token: No such file",
        ),
        ("management_group no-such-group", "there is no group 'no-such-group'"),
        (
            "management_tcp 127.0.0.1:8080\nmanagement_tls_key key",
            "TLS needs management_tls_certificate and management_tls_key",
        ),
        (
            "management_tcp 127.0.0.1:1\nmanagement_tls_key key\nmanagement_tls_certificate cert",
            "cert: I/O error: No such file",
        ),
    ] {
        let (code, text) = checked(&[("opensm.conf", &format!("{text}\n"))]);
        assert!(text.contains(problem) && text.contains("error: "), "{problem}: {text}");
        assert_eq!(code, Some(4), "{text}");
    }
    let (_, text) = checked(&[("opensm.conf", "management FALSE\nmanagement_tcp nowhere\n")]);
    assert!(!text.contains("management_tcp"), "{text}");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let (_, text) = checked(&[
        ("opensm.conf", "\u{feff}qos TRUE\r\npartition_config_file partitions.conf\r\n"),
        ("partitions.conf", "\u{feff}Default=0x7fff: ALL=full;\r\n"),
    ]);
    assert!(text.contains("opensm.conf: no errors"), "{text}");
    assert!(text.contains("partitions.conf: no errors"), "{text}");
}

#[test]
fn a_cut_partitions_file_and_partitions_without_members_are_found() {
    let conf = ("opensm.conf", "partition_config_file partitions.conf\n");
    // (contents, position, severity): cut within a line, after a list item, at the end of a line.
    let other = "Default=0x7fff: ALL=full;\n";
    for (text, place, severity) in [
        (format!("{other}A=0x11: 0x1,\n 0x2"), "3:5", "error"),
        (format!("{other}A=0x11: 0x1,\n"), "2:13", "error"),
        (format!("{other}A=0x11:\n 0x1,\n 0x2\n"), "4:5", "warning"),
        (format!("{other}A=0x11: 0x1"), "2:12", "warning"),
        ("A=0x11: 0x1".to_owned(), "1:12", "warning"),
    ] {
        let (code, found) = checked(&[conf, ("partitions.conf", &text)]);
        let line = format!(
            "partitions.conf:{place}: {severity}: the file ends within the definition of `A`"
        );
        assert!(found.contains(&line), "{text}: {found}");
        assert_eq!(code == Some(4), severity == "error", "{text}: {found}");
    }
    for whole in [
        "A=0x11: 0x1\n",
        "Default=0x7fff: ALL=full;\nA=0x11: 0x1\n",
        "Default=0x7fff: ALL=full;\nA=0x11:\n 0x1,\n 0x2;",
    ] {
        let (_, found) = checked(&[conf, ("partitions.conf", whole)]);
        assert!(!found.contains("ends within"), "{whole}: {found}");
    }
    let (_, text) = checked(&[
        conf,
        ("partitions.conf", "Default=0x7fff: ALL=full;\nA=0x11:;\nB=0x12:;\nB=0x12: ALL;\n"),
    ]);
    assert!(
        text.contains("partitions.conf:2:1: warning: the partition `A` has no members"),
        "{text}"
    );
    assert!(!text.contains("partition `B`"), "{text}");
}

/// The policy files of routing chains have an effect only if `chain` is among the engines.
#[test]
fn policy_files_without_a_chain_are_reported() {
    for key in ["rch_policy_file", "topo_policy_file", "pgrp_policy_file"] {
        let conf = |engines: &str| format!("routing_engine {engines}\n{key} policy.conf\n");
        let warning =
            format!("warning: {key} has no effect, because routing_engine does not contain chain");
        let policy = ("policy.conf", "");
        let (_, found) = checked(&[("opensm.conf", &conf("updn,minhop")), policy]);
        assert!(found.contains(&warning), "{found}");
        let (_, found) = checked(&[("opensm.conf", &conf("chain")), policy]);
        assert!(!found.contains("has no effect"), "{found}");
    }
}

#[test]
fn misspelt_guids_of_a_torus_are_found() {
    let conf = "routing_engine torus-2QoS\nqos TRUE\ntorus_config torus.conf\n";
    let torus = "torus 3 3 3\nxp_link 0x20000O 0x200001\nyp_link 0002c90300000001 0x200002\n\
                 zp_link 0x200000 0x20000000000000000\n";
    let (_, text) = checked(&[("opensm.conf", conf), ("torus.conf", torus)]);
    for place in ["torus.conf:2:9", "torus.conf:3:9", "torus.conf:4:18"] {
        assert!(text.contains(&format!("{place}: warning: ")), "{place}: {text}");
    }
    assert!(text.contains("`0x20000O` is not a GUID such as 0x0002c90300000001"), "{text}");
}

/// The rate limits of `enhanced_qos_policy_file`: findings, and the effect on a port.
#[test]
fn rate_limits_are_checked_and_shown() {
    let policy = "BW_NAMES\nslow = 50\nfast = 60\nBW_RULES\ndefault = all:slow\n0x1 = 3:fast\n\
                  VPORT_BW_RULES\ndefault = 2:fast\n";
    let folder = tempfile::tempdir().expect("a folder");
    let write =
        |text: &str| std::fs::write(folder.path().join("rates.conf"), text).expect("a file");
    let conf = "qos TRUE\nenhanced_qos_policy_file rates.conf\n";
    std::fs::write(folder.path().join("opensm.conf"), conf).expect("a file");
    let arguments = ["-F", "opensm.conf", "--effective-rates", "0x1"];
    let output = || {
        let output = check(folder.path(), &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    write(policy);
    let (_, text) = output();
    assert!(text.contains("rates.conf: no errors"), "{text}");
    let line = |name: &str| -> Vec<u32> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
        line[22..].split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    let with = |others: u32, sl: usize, rate: u32| {
        let mut all = vec![others; 16];
        all[sl] = rate;
        all
    };
    assert_eq!(line("port "), with(50, 3, 60));
    assert_eq!(line("virtual port 0"), vec![0; 16]);
    assert_eq!(line("another virtual port"), with(0, 2, 60));
    write("BW_NAMES\nslow = fast\n");
    let (code, text) = output();
    assert!(text.contains("rates.conf:2:8: ") && text.contains("not `fast`"), "{text}");
    assert_eq!(code, Some(4));
}
