//! The examples of the manual.

use super::port_groups::{self, ChainPortGroup, GroupRef, GuidPorts, HostPorts, PortRule};
use super::topologies::{self, ChainTopology};
use super::{StepSettings, steps};
use crate::config::Diagnostic;
use crate::config::options::Options;
use crate::ids::Guid;
use crate::notes::Severity;
use std::path::{Path, PathBuf};

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/routing-chains");
    std::fs::read_to_string(folder.join(name)).expect("the example")
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|found| found.severity == Severity::Error)
}

fn groups(name: &str) -> Vec<ChainPortGroup> {
    let (groups, diagnostics) = port_groups::parse(Path::new(name), &example(name));
    assert!(!has_errors(&diagnostics), "{diagnostics:?}");
    groups
}

#[test]
fn the_example_of_port_groups_is_read() {
    let groups = groups("port-groups.conf");
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["grp3", "grp1", "grp2", "grp4", "grp3"]);
    assert_eq!(groups[0].usage, "Subtract of groups grp1 and grp2");
    assert_eq!(groups[0].rules, [PortRule::Subtract([GroupRef::Defined(1), GroupRef::Defined(2)])]);
    // The last definition extends the first one.
    assert_eq!(groups[4].rules, [PortRule::Union([GroupRef::Defined(0), GroupRef::Defined(3)])]);
    assert_eq!(port_groups::find(&groups, "grp3"), Some(GroupRef::Defined(4)));
    assert_eq!(
        groups[2].rules,
        [PortRule::GuidRange(Guid(0x282), Guid(0x286)), host("server1", None)]
    );
    assert_eq!(groups[3].rules, [host("kika", Some(1))]);
}

fn host(hostname: &str, hca_index: Option<u8>) -> PortRule {
    PortRule::Names(vec![HostPorts { hostname: hostname.into(), port: Some(1), hca_index }])
}

#[test]
fn the_examples_of_qualifiers_are_read() {
    let groups = groups("qualifiers.conf");
    assert_eq!(groups[0].rules, [guids(&[(0x283, &[]), (0x286, &[]), (0x289, &[])])]);
    assert_eq!(
        groups[1].rules,
        [
            guids(&[(0x283, &[(3, 3)])]),
            guids(&[(0x286, &[(1, 1), (5, 5), (7, 7)])]),
            guids(&[(0x289, &[(2, 5)])])
        ]
    );
    assert_eq!(groups[2].rules, [guids(&[(0x289, &[(2, 5), (7, 7), (9, 13), (18, 18)])])]);
    let complex: &[(u64, &[(u8, u8)])] = &[
        (0x283, &[(5, 8), (12, 12), (14, 14)]),
        (0x286, &[]),
        (0x289, &[(6, 6), (8, 8), (12, 12)]),
    ];
    assert_eq!(groups[3].rules, [guids(complex)]);
    let host =
        |hostname: &str, port, hca_index| HostPorts { hostname: hostname.into(), port, hca_index };
    let kuku = host("kuku", Some(2), Some(1));
    assert_eq!(groups[5].rules, [PortRule::Names(vec![kuku.clone()])]);
    let others = [host("host1", Some(3), None), host("host2", None, None)];
    assert_eq!(groups[6].rules, [PortRule::Names([vec![kuku], others.to_vec()].concat())]);
    assert_eq!(matches(&groups[7], "SW-17"), (true, None));
    assert_eq!(matches(&groups[7], "a SW"), (false, None));
    assert_eq!(matches(&groups[8], "SW"), (true, Some(3)));
}

fn matches(group: &ChainPortGroup, description: &str) -> (bool, Option<u8>) {
    match &group.rules[..] {
        [PortRule::Pattern(pattern, port)] => (pattern.matches(description), *port),
        other => panic!("{other:?}"),
    }
}

fn guids(list: &[(u64, &[(u8, u8)])]) -> PortRule {
    PortRule::Guids(
        list.iter()
            .map(|&(guid, ports)| GuidPorts { guid: Guid(guid), ports: ports.to_vec() })
            .collect(),
    )
}

#[test]
fn the_examples_of_topologies_and_steps_are_read() {
    let groups = [group("ys_switches"), group("ys_hosts")];
    let file = Path::new("policy.conf");
    let (topologies, found) = topologies::parse(file, &example("topologies.conf"), &groups);
    assert!(found.is_empty(), "{found:?}");
    let [switches, hosts] = [GroupRef::Defined(0), GroupRef::Defined(1)];
    assert_eq!(topologies, [ChainTopology { id: 1, switches, hosts }]);
    let (steps, found) = steps::parse(file, &example("steps.conf"), &topologies, 1);
    assert!(found.is_empty(), "{found:?}");
    let shown = steps
        .iter()
        .map(|step| (step.id, &*step.engine, step.topology, step.fallback_to, step.path_bit));
    let shown: Vec<_> = shown.collect();
    let expected = [
        (1, "minhop", None, None, 0),
        (2, "ftree", Some(0), None, 1),
        (3, "minhop", Some(0), Some(2), 1),
    ];
    assert_eq!(shown, expected);
    assert_eq!(steps[1].usage, "ftree routing for for yellow stone nodes");
    assert_eq!(steps[1].config.as_deref(), Some("/etc/config/opensm2.cfg"));
}

fn group(name: &str) -> ChainPortGroup {
    ChainPortGroup { name: name.into(), usage: String::new(), line: 1, rules: Vec::new() }
}

#[test]
fn path_bits_beyond_the_lids_of_a_port_are_reported() {
    let text = "unicast-step id: 1 engine: minhop end-unicast-step\n\
                unicast-step id: 2 engine: updn path-bit: 3 end-unicast-step\n";
    let beyond_none = "rch.conf:2:43: path bit 3 is beyond lmc 0: step 2 routes all LIDs, as \
                       without path-bit; set lmc in opensm.conf";
    assert_eq!(found(0, text), [beyond_none]);
    let beyond_one = "rch.conf:2:43: path bit 3 is beyond lmc 1: step 2 routes no LID of a host; use \
                      a path bit from 0 to 1";
    assert_eq!(found(1, text), [beyond_one]);
    assert!(found(2, text).is_empty());
}

fn found(lmc: u8, text: &str) -> Vec<String> {
    let (_, found) = steps::parse(Path::new("rch.conf"), text, &[], lmc);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn settings_of_a_step_replace_and_inherit() {
    let file = PathBuf::from("step.conf");
    let text = "connect_roots TRUE\nlmc 3 # of the subnet\nmax_reverse_hops 0\n";
    let (settings, found) = StepSettings::parse(&file, text);
    assert_eq!(found.len(), 1);
    let main = Options { lmc: 1, max_reverse_hops: 5, port_shifting: true, ..Options::default() };
    let options = settings.over(&main);
    assert!(options.connect_roots && options.port_shifting);
    // A default value that the file names replaces another one.
    assert_eq!((options.lmc, options.max_reverse_hops), (1, 0));
    assert!(!settings.has_torus_config());
}
