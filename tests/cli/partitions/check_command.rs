//! `torus-sm check` on partitions.conf and qos options.

use super::*;

/// Exit code and output of `torus-sm check` with these arguments in a folder.
fn check(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(torus_sm());
    let command = command.arg("check").args(words).current_dir(folder);
    let output = command.env("OSM_CACHE_DIR", folder).output().expect("it starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn check_reports_all_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write(
        "opensm.conf",
        "qos TRUE\nrouting_engine torus-2QoS,nonsense\nlmc nine\nhop_weights_file weights\n\
         port_prof_ignore_file nowhere\npartition_config_file p.conf\ntorus_config torus.conf\n\
         rtr_pr_sl 16\nmax_smps_timeout 600000\nmax_smps_timeout 7\nm_key_protection_level 2\n\
         m_key_lease_period=5\nsweep_interval 60\nnode_name_map_name names\n\
         per_module_logging_file modules\n",
    );
    write("names", "0x1 \"one\"\ntwo\n");
    write("modules", "osm_sa.c\n");
    write("torus.conf", "torus 3 3 1\nxp_linc 1 2\n");
    write("weights", "0x12 1 0\n");
    write("p.conf", "A=0x10, mtu=9000: ALL\n");
    write("guid2lid", "0x12 nonsense\n");
    let (code, text) = check(folder.path(), &["-F", "opensm.conf"]);
    assert_eq!(code, Some(4), "{text}");
    for expected in [
        "opensm.conf:3:5: error: lmc: ",
        "    lmc nine\n        ^^^^\n",
        "opensm.conf:2:1: error: routing_engine: unknown routing engine \"nonsense\"",
        "opensm.conf:8:11: error: rtr_pr_sl: 16 is out of range",
        "opensm.conf:10:1: warning: max_smps_timeout 7 has no effect: SMPs are overdue after 40 ms, and after 15 ms if later ones are answered\n    max_smps_timeout 7\n    ^^^^^^^^^^^^^^^^\n",
        "opensm.conf:12:1: warning: m_key_lease_period must be longer than sweep_interval 60",
        "torus.conf:2:1: error: unknown keyword `xp_linc`",
        "    xp_linc 1 2\n    ^^^^^^^\n",
        "weights:1:8: warning: ",
        "nowhere: error: No such file",
        "p.conf:1:13: error: `9000` is not an MTU",
        "    A=0x10, mtu=9000: ALL\n                ^^^^",
        "guid2lid:1:",
        "names:2:1: error: `two` is not a node GUID",
        "modules:1:9: warning: the log flags are missing here",
        "7 errors, ",
    ] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
}

#[test]
fn check_fails_where_the_engines_do_not_route() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let shape = Shape { hosts: 1, ..Shape::torus([4, 4, 1]) };
    write("fabric.net", &ibnet::write(&shape.build().expect("a torus")));
    write("opensm.conf", "routing_engine torus-2QoS\nqos TRUE\ntorus_config torus.conf\n");
    let words = ["-F", "opensm.conf", "--file", "fabric.net", "--json", "-P", "(null)"];
    let report = |expected: i32| {
        let (code, text) = check(folder.path(), &words);
        assert_eq!(code, Some(expected), "{text}");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        report
    };
    write("torus.conf", &shape.torus_conf());
    assert_eq!(report(0)["errors"], 0);
    // The description of another torus.
    write("torus.conf", &Shape::torus([5, 3, 1]).torus_conf());
    let found = report(4);
    let findings = found["findings"].as_array().expect("findings");
    let is_refusal = |finding: &&serde_json::Value| {
        let message = finding["message"].as_str().unwrap_or_default();
        message.starts_with("torus-2QoS does not route the fabric")
            && finding["severity"] == "error"
    };
    assert_eq!(findings.iter().filter(is_refusal).count(), 1, "{found:#}");
    write("torus.conf", &shape.torus_conf());
    write("opensm.conf", "routing_engine torus-2QoS\ntorus_config torus.conf\n");
    assert_eq!(report(4)["errors"], 2);
    // An engine that leaves a torus to the next one of the list, or to the fallback.
    write("opensm.conf", "routing_engine ftree,dor\n");
    let found = report(0);
    // The second one is about the credit loop of dor.
    assert_eq!((&found["errors"], &found["warnings"]), (&0.into(), &2.into()), "{found:#}");
    for engines in ["ftree", "ftree,no_fallback"] {
        write("opensm.conf", &format!("routing_engine {engines}\n"));
        let found = report(4);
        assert_eq!(found["errors"], 1, "{found:#}");
        let text = found["findings"].to_string();
        assert!(text.contains("every switch is a root"), "the reason is missing: {text}");
    }
}

#[test]
fn check_warns_of_members_that_are_not_in_the_fabric() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let shape = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) };
    write("fabric.net", &ibnet::write(&shape.build().expect("a ring")));
    let host = Guid(shape.host_guid([1, 0, 0], 0).0 + 1);
    write("p.conf", &format!("Default=0x7fff: ALL=full;\nA=0x10: {host}, 0xdead=full, SELF;\n"));
    write("opensm.conf", "");
    let words = ["-F", "opensm.conf", "-P", "p.conf", "--file", "fabric.net"];
    let (code, text) = check(folder.path(), &words);
    assert_eq!(code, Some(0), "{text}");
    let warning = "the member 0x000000000000dead of partition \"A\" is not in the fabric";
    assert_eq!(text.matches(&format!("p.conf:2: warning: {warning}")).count(), 1, "{text}");
    assert!(text.ends_with("no errors, 1 warning\n"), "{text}");
    assert_eq!(check(folder.path(), &[&words[..], &["--strict"]].concat()).0, Some(4));
    let (_, text) = check(folder.path(), &[&words[..], &["--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let files = report["files"].as_array().expect("files");
    let file = files.iter().find(|file| file["path"] == "p.conf").expect("p.conf");
    let finding = &file["findings"][0];
    assert_eq!((&finding["line"], &finding["message"]), (&2.into(), &warning.into()), "{text}");
}

#[test]
fn check_shows_the_resulting_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) };
    let topology = shape.build().expect("a ring");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("fabric.net", &ibnet::write(&topology));
    write("p.conf", "Default=0x7fff: SELF=full;\nA=0x10, ipoib, mtu=4096: ALL_CAS=ful;\n");
    write("opensm.conf", "");
    let words = ["-F", "opensm.conf", "-P", "p.conf", "--file", "fabric.net"];
    let (code, text) = check(folder.path(), &words);
    assert_eq!(code, Some(0), "{text}");
    let host = shape.host_guid([1, 0, 0], 0);
    let line = text.lines().find(|line| line.contains(&format!("port Channel Adapter {host}")));
    assert!(line.is_some_and(|line| line.ends_with("[1]: 0:0x7fff 1:0x8010")), "{text}");
    for expected in [
        "p.conf:2:34: warning: `ful` is read as `full`",
        "partition 0x7fff Default: 1 full and 5 limited members, SL 0",
        "partition 0x0010 A: 3 full and 0 limited members, SL 0",
        "  group ff12:401b:8010::ffff:ffff: 4096 bytes, 10Gbps, SL 0, Q_Key 0xb1b",
        "enforced on arriving and leaving packets",
        "no errors, 1 warning\n",
    ] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
    let strict = [&words[..], &["--strict"]].concat();
    assert_eq!(check(folder.path(), &strict).0, Some(4));
    write("p.conf", "A: ALL;\nB=1 ALL;\n");
    let (code, text) = check(folder.path(), &words);
    assert_eq!(code, Some(4));
    assert!(text.contains("partitions are not shown"), "{text}");
}

#[test]
fn check_shows_the_resulting_qos() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("fabric.net", &ibnet::write(&topology));
    write("torus.conf", &shape.torus_conf());
    write("opensm.conf", "qos TRUE\ntorus_config torus.conf\n");
    let column = [0, 1, 2].map(|y| (shape.host_guid([0, y, 0], 0).0 + 1).to_string()).join(", ");
    let policy = format!(
        "port-groups
    port-group
        name: Storage
        port-guid: {column}
    end-port-group
    port-group
        name: Switches
        node-type: SWITCH
    end-port-group
    port-group
        name: Routers
        node-type: ROUTER
    end-port-group
end-port-groups
qos-setup
    vlarb-tables
        vlarb-scope
            group: Storage
            across: Storage
            vlarb-high: 0:255,4:127
            vl-high-limit: 10
        end-vlarb-scope
        vlarb-scope
            group: Routers
            vlarb-low: 0:1
        end-vlarb-scope
    end-vlarb-tables
    sl2vl-tables
        sl2vl-scope
            across-to: Storage
            from: 1-4
            to: 7, 40
            sl2vl-table: 0,1,2,3,4,5,6,7,8
        end-sl2vl-scope
        sl2vl-scope
            group: Switches
            sl2vl-table: 1,1
        end-sl2vl-scope
    end-sl2vl-tables
end-qos-setup
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: Bulk
        sl: 9
        mtu-limit: 2048
        rate-limit: 40Gbps
        path-bits: 1-3
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        destination: Storage
        qos-level-name: Bulk
    end-qos-match-rule
end-qos-match-rules
"
    );
    write("q.conf", &policy);
    let words = ["-F", "opensm.conf", "-Q", "-Y", "q.conf", "--file", "fabric.net", "-R"];
    let run = |engine| check(folder.path(), &[&words[..], &[engine]].concat());
    let (code, text) = run("minhop");
    assert_eq!(code, Some(4), "a port and a VL are not there");
    for expected in [
        "q.conf: note: no port group contains Channel Adapter 0x00000000100000c0 \"h1-0-0-0 HCA-1\", and 5 \
         more nodes\n",
        "q.conf:23:9: warning: this vlarb-scope matches no port of the fabric\n",
        "q.conf:32:20: error: port 40 does not exist on 3 devices, such as Switch",
        "                to: 7, 40\n                       ^^\n",
        "q.conf:33:42: error: the sl2vl-table uses VL 8, not operational at 3 ports, such as Switch",
        "(VLs 0-7); the lowest bits of the VL are used there",
        "\nQoS with the routes of minhop:\n  vlarb-scope of line 17: 6 ports (Storage 3, across \
         Storage 3)\n    vlarb-high 0:255,4:127; vl-high-limit 10\n  vlarb-scope of line 23: 0 \
         ports (Routers 0)\n    vlarb-low 0:1\n  VL arbitration by the options: 48 ports\n  sl2vl-scope of \
         line 29: 12 mappings to 3 ports (across-to Storage 3)\n    sl2vl-table \
         0,1,2,3,4,5,6,7,8,0,0,0,0,0,0,0\n  sl2vl-scope of line 35: 348 mappings to 45 ports \
         (Switches 45)\n    sl2vl-table 1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n  SL to VL by the options: \
         9 mappings\n  qos-level DEFAULT: SL 0; by default\n  qos-level Bulk: SL 9, at most 2048 \
         bytes, at most 40Gbps, path bits 0x1-0x3; by the rule of line 55\n",
        "VL arbitration, number of ports:\n  channel adapter 6: 8 VLs, high limit 0, high 0:4, low \
         1:4,2:4,3:4,4:4,5:4,6:4,7:4\n",
        "  channel adapter 3: 8 VLs, high limit 10, high 0:255,4:127, low 1:4,",
        "SL to VL, number of mappings:\n  channel adapter 9: 0,1,2,3,4,5,6,7,0,",
        "  switch 12: 0,1,2,3,4,5,6,7,0,0,0,0,0,0,0,0\n",
        // Of the scope without ports and of the credit loop of minhop.
        "2 errors, 2 warnings\n",
    ] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
    let (_, text) = run("torus-2QoS");
    for expected in [
        "q.conf:29:9: error: all sl2vl-scopes are rejected: torus-2QoS computes all SL to VL tables",
        "  sl2vl-scope of line 29: rejected\n  sl2vl-scope of line 35: rejected\n  SL to VL by \
         torus-2QoS: 369 mappings\n",
        "  torus-2QoS uses only bit 3 of these SLs, the QoS level\n",
    ] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
    let (code, text) =
        check(folder.path(), &["-F", "opensm.conf", "-Y", "q.conf", "-R", "torus-2QoS"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(
        text.contains("q.conf:29:9: error: all sl2vl-scopes are rejected: torus-2QoS"),
        "{text}"
    );
    write("q.conf", &policy.replace("sl: 9", "sl: 90"));
    let (code, text) = run("minhop");
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("because the policy file has errors"), "{text}");
}
