use super::*;
use crate::config::excerpt;
use crate::ids::Sl;

/// The advanced example of the MLNX OFED manual.
const ADVANCED: &str = include_str!("../../../tests/vectors/qos-policy/advanced.conf");
/// The simple example of the MLNX OFED manual.
const SIMPLE: &str = include_str!("../../../tests/vectors/qos-policy/simple.conf");
/// The example of the 2007 proposal.
const PROPOSAL: &str = include_str!("../../../tests/vectors/qos-policy/proposal.conf");

fn good(text: &str) -> QosPolicy {
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
    policy.unwrap_or_else(|| panic!("{findings:#?}"))
}

fn ranges(set: &Ranges) -> Vec<(u64, u64)> {
    set.iter().collect()
}

#[test]
fn parses_the_advanced_example_of_the_manual() {
    let policy = good(ADVANCED);
    let [storage, servers, partitions, cas] = &policy.groups[..] else { panic!() };
    assert_eq!(storage.name, "Storage");
    assert_eq!(storage.purpose.as_deref(), Some("SRP Targets"));
    assert_eq!(
        ranges(&storage.guids),
        [
            (0x10_0000_0000_0001, 0x10_0000_0000_0001),
            (0x10_0000_0000_0005, 0x10_0000_0000_FFFA),
            (0x10_0000_0000_FFFF, 0x10_0000_0000_FFFF),
        ]
    );
    assert_eq!(servers.names, [name("vs1 HCA-1"), name("vs2 HCA-1")]);
    assert_eq!(partitions.partitions, ["Part1"]);
    assert_eq!(ranges(&partitions.pkeys), [(0x1234, 0x1234)]);
    assert_eq!(cas.kinds, NodeKinds { ca: true, own: true, ..NodeKinds::default() });
    let whole = &policy.levels[1];
    assert_eq!((whole.sl, whole.mtu_limit, whole.rate_limit), (Sl(1), Some(4), Some(5)));
    assert_eq!((whole.packet_life, ranges(&whole.pkeys)), (Some(8), vec![(0x1234, 0x1234)]));
    assert_eq!(policy.default, 0);
    let [by_class, to_storage, from_storage, by_all] = &policy.rules[..] else { panic!() };
    assert_eq!(ranges(&by_class.qos_classes), [(7, 9), (11, 11)]);
    assert_eq!(by_class.level, 1);
    assert_eq!(groups(&to_storage.destination), Some(vec![0]));
    assert_eq!(to_storage.service_ids.iter().count(), 2);
    assert_eq!((groups(&from_storage.source), from_storage.level), (Some(vec![0]), 0));
    assert_eq!(
        (groups(&by_all.source), groups(&by_all.destination)),
        (Some(vec![1]), Some(vec![0]))
    );
    assert_eq!(ranges(&by_all.pkeys), [(0xF00, 0xFFF)]);
}

fn groups(ports: &Option<PortFilter>) -> Option<Vec<usize>> {
    ports.as_ref().map(|ports| ports.groups.clone())
}

fn name(node: &str) -> PortName {
    PortName { node: node.to_owned(), port: Some(1) }
}

#[test]
fn parses_the_simple_example_of_the_manual() {
    let policy = good(SIMPLE);
    assert_eq!(policy.levels[policy.default].sl, Sl(0));
    let seen: Vec<_> = policy
        .rules
        .iter()
        .map(|rule| {
            let guids = rule.destination.as_ref().map_or(vec![], |ports| ranges(&ports.guids));
            let sl = policy.levels[rule.level].sl.0;
            (ranges(&rule.service_ids), ranges(&rule.pkeys), guids, sl)
        })
        .collect();
    let none = Vec::new;
    let wanted = [
        (single(0x1_7530), none(), none(), 0),
        (vec![(0x1_2710, 0x1_4E20)], none(), none(), 0),
        (vec![(0x1_0000, 0x1_FFFF)], none(), none(), 1),
        (single(0x106_48CA), none(), none(), 2),
        (none(), single(1), none(), 0),
        (none(), single(0x7FFF), none(), 4),
        (single(0x6234), none(), none(), 6),
        (none(), single(0xABC), none(), 6),
        (none(), none(), single(0x1234), 5),
        (none(), none(), vec![(0xABC, 0xF_FFFF)], 6),
    ];
    assert_eq!(seen, wanted);
}

fn single(number: u64) -> Vec<(u64, u64)> {
    vec![(number, number)]
}

#[test]
fn parses_the_example_of_the_proposal() {
    let policy = good(PROPOSAL);
    assert_eq!(policy.default, 0, "levels go by number");
    assert_eq!(policy.rules.iter().map(|rule| rule.level).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(policy.groups[1].names[2], port("vs3/HCA-2", Some(2)));
    let [arbitration] = &policy.vl_arbitration[..] else { panic!() };
    assert_eq!((&arbitration.groups[..], &arbitration.across[..]), (&[0][..], &[0][..]));
    assert_eq!(
        arbitration.high.as_ref().map(|high| (high.len(), high[1].vl, high[1].weight)),
        Some((8, 1, 127))
    );
    assert_eq!(arbitration.high_limit, Some(10));
    let [all, across] = &policy.sl_to_vl[..] else { panic!() };
    assert_eq!((&all.from, &all.to, all.vls[15]), (&PortChoice::All, &PortChoice::All, 7));
    assert_eq!((&across.across_to[..], &across.across_from[..]), (&[6][..], &[5][..]));
    assert_eq!((across.vls[1], across.vls[15]), (1, 0));
    assert_eq!(ranges(&policy.levels[2].path_bits), [(2, 2), (4, 4), (8, 32)]);
}

fn port(node: &str, port: Option<u8>) -> PortName {
    PortName { node: node.to_owned(), port }
}

#[test]
fn parses_minimal_files() {
    let shortest = "qos-levels qos-level name: DEFAULT sl: 0 end-qos-level end-qos-levels";
    assert_eq!(good(shortest).levels.len(), 1);
    let simple = good("qos-ulps\n default : 3 # default SL\nend-qos-ulps\n");
    assert_eq!(simple.levels[simple.default].sl, Sl(3));
    let wildcards = good(&format!(
        "port-groups port-group name: a port-name: vs1/*/*, vs1, \"x, y/P3\" end-port-group \
         end-port-groups {shortest}"
    ));
    let names: Vec<_> =
        wildcards.groups[0].names.iter().map(|name| (&*name.node, name.port)).collect();
    assert_eq!(names, [("vs1/*", None), ("vs1", None), ("x, y", Some(3))]);
}

#[test]
fn comparison_of_names_ignores_case_and_blanks() {
    let policy = good(
        "port-groups\nport-group\nname: Virtual Servers\nend-port-group\nend-port-groups\n\
         qos-levels\nqos-level\nname: DEFAULT\nsl: 1\nend-qos-level\nend-qos-levels\n\
         qos-match-rules\nqos-match-rule\nsource: virtualservers\nqos-level-name: default\n\
         end-qos-match-rule\nend-qos-match-rules\n",
    );
    assert_eq!(policy.rules[0].source.as_ref().unwrap().groups, [0]);
}

/// Typical mistakes, and their diagnostics.
#[test]
fn mistakes_have_the_expected_diagnostics() {
    let mistakes = include_str!("../../../tests/vectors/qos-policy/mistakes.txt");
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors/qos-policy/mistakes.expected");
    let mut seen = String::new();
    for (title, text) in mistakes.split("=== ").skip(1).filter_map(|part| part.split_once('\n')) {
        let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
        assert!(!findings.is_empty(), "{title}");
        let verdict = if policy.is_some() { "used" } else { "not used" };
        seen += &format!("=== {title}: {verdict}\n");
        for found in &findings {
            seen += &excerpt::render(found, text);
            seen.push('\n');
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &seen).unwrap();
    }
    assert_eq!(seen, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn a_missing_colon_is_asked_for() {
    let text =
        "qos-levels\nqos-level\nname: DEFAULT\nsl 0\nmtu_limit 4\nend-qos-level\nend-qos-levels\n";
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
    assert!(policy.is_none());
    let found: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(found[1], "qos-policy.conf:4:1: a colon is missing after `sl`: write `sl: 0`");
    let second = "qos-policy.conf:5:1: a colon is missing after `mtu_limit`: write `mtu-limit: 4`";
    assert_eq!(found[2], second);
}

/// OpenSM's numbers for the same errors, which the log shows.
#[test]
fn errors_have_the_codes_of_opensm() {
    let level = "qos-levels\nqos-level\nname: DEFAULT\nsl: 0\nend-qos-level\nend-qos-levels\n";
    assert_eq!(codes(&level.replace("sl: 0", "sl: 16")), [Some("AC05")]);
    assert_eq!(codes(&level.replace("DEFAULT", "other")), [Some("AC10")]);
    assert_eq!(codes(&rule(level, "qos-level-name: gold")), [Some("AC11")]);
    assert_eq!(codes(&rule(level, "qos-level-sn: 7")), [Some("AC11")]);
    assert_eq!(codes(&rule(level, "qos-level-name: default\nsource: x")), [Some("AC12")]);
    assert_eq!(codes(&rule(level, "qos-level-name: default\ndestination: x")), [Some("AC13")]);
    // OpenSM does not look into qos-setup.
    let setup = "qos-setup\n vlarb-tables\n  vlarb-scope\n   group: x\n  end-vlarb-scope\n \
                 end-vlarb-tables\nend-qos-setup\n";
    assert_eq!(
        codes(&format!("{setup}qos-ulps\ndefault : 1\nsdp : 16\nend-qos-ulps\n")),
        [None, Some("AC05")]
    );
}

fn rule(level: &str, field: &str) -> String {
    format!(
        "{level}qos-match-rules\nqos-match-rule\n{field}\nend-qos-match-rule\nend-qos-match-rules\n"
    )
}

fn codes(text: &str) -> Vec<Option<&'static str>> {
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
    assert!(policy.is_none(), "{text}");
    findings.iter().map(|found| found.code).collect()
}

#[test]
fn errors_in_qos_setup_cost_that_section_only() {
    let text = "qos-setup\n sl2vl-tables\n  sl2vl-scope\n   group: nowhere\n   sl2vl-table: 0,1,99\n  \
                end-sl2vl-scope\n end-sl2vl-tables\nend-qos-setup\nqos-ulps\n default : 3\nend-qos-ulps\n";
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
    let lines: Vec<u32> = findings.iter().map(|found| found.line).collect();
    assert!(lines.contains(&4) && lines.contains(&5), "{findings:?}");
    let policy = policy.expect("the rest is valid");
    assert_eq!((policy.sl_to_vl.len(), policy.levels[policy.default].sl), (0, Sl(3)));
    let (policy, _) =
        QosPolicy::parse(Path::new("f"), &text.replace("default : 3", "default : 99"));
    assert_eq!(policy, None);
    let (policy, _) = QosPolicy::parse(Path::new("f"), &text.replace('\n', " "));
    assert_eq!(policy, None, "one line");
}

#[test]
fn a_range_may_be_broken_over_a_line_end() {
    assert_eq!(group("0x1-\n 0x5, 0x9"), [(1, 5), (9, 9)]);
    assert_eq!(group("0x1\n-0x5,\n0x9"), [(1, 5), (9, 9)]);
    assert_eq!(group("0x1,\n0x3-0x5"), [(1, 1), (3, 5)]);
}

fn group(guids: &str) -> Vec<(u64, u64)> {
    let policy = good(&format!(
        "port-groups\nport-group\nname: g\nport-guid: {guids}\nend-port-group\nend-port-groups\n\
             qos-ulps\ndefault : 0\nend-qos-ulps\n"
    ));
    ranges(&policy.groups[0].guids)
}
