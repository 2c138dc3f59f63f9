//! Configuration files, other input files, and the command line.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;
use torus_sm::cli;
use torus_sm::config::enhanced_qos as rates;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::config::qos_policy::QosPolicy;
use torus_sm::config::qos_policy::QosPortGroup;
use torus_sm::config::routing_chain::port_groups::{GroupRef, PortRule};
use torus_sm::config::routing_chain::{StepSettings, port_groups, steps, topologies};
use torus_sm::config::torus::TorusConfig;
use torus_sm::config::{Diagnostic, excerpt};
use torus_sm::config::{
    guid_lists as lists, guid2lid as cache, guid2mkey as keys, neighbors as cables,
    node_name_map as names, prefix_routes as routes, route_dumps as dumps,
};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::{Lid, Pkey};
use torus_sm::notes::Severity;
use torus_sm::plan::partitions as plan;
use torus_sm::plan::routing::pqft::Structure;
use torus_sm::sa::registry::Registry;
use torus_sm::sa::registry::dump::Timestamp;

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// opensm.conf: the options that are written are read back as the same options, settled ones too.
pub fn opensm_conf(data: &[u8]) {
    let file = Path::new("opensm.conf");
    let (mut options, _) = Options::parse(&text(data), file);
    for _ in 0..2 {
        let (back, diagnostics) = Options::parse(&options.to_text(), file);
        assert!(diagnostics.iter().all(is_doubt), "{diagnostics:?}");
        assert!(back == options, "{} became {}", options.to_text(), back.to_text());
        options.reconcile();
    }
    let settled = options.clone();
    options.reconcile();
    assert!(options == settled);
    options.unsupported();
    Options::default().reloaded(&options);
}

/// A nonsensical list of VLs is written unchanged.
fn is_doubt(found: &Diagnostic) -> bool {
    found.severity == Severity::Warning
}

/// torus-2QoS.conf.
pub fn torus_conf(data: &[u8]) {
    match TorusConfig::parse(Path::new("torus-2QoS.conf"), &text(data)) {
        Ok(config) => assert_eq!(config, config.clone()),
        Err(notes) => assert!(!notes.is_empty(), "a refusal without a reason"),
    }
}

/// guid2lid: the accepted ranges are disjoint, and are read back as written.
pub fn guid2lid(data: &[u8]) {
    let lmc = data.first().copied().unwrap_or(0) % 8;
    let file = Path::new("guid2lid");
    let (map, _) = cache::parse(file, &text(data.get(1..).unwrap_or(&[])), lmc);
    let mut ranges: Vec<_> = map.values().copied().collect();
    ranges.sort();
    assert!(ranges.iter().all(|(first, last)| first.0 > 0 && first <= last));
    assert!(ranges.windows(2).all(|pair| taken(&pair[0], lmc) < pair[1].0.0));
    let (back, findings) = cache::parse(file, &cache::emit(&map), lmc);
    assert!(findings.is_empty(), "{findings:?}");
    assert!(back == map);
}

fn taken(&(first, last): &(Lid, Lid), lmc: u8) -> u16 {
    last.0.min(first.0.saturating_add((1 << lmc) - 1))
}

/// guid2mkey: what is accepted is read back as written, and no finding shows a key.
pub fn guid2mkey(data: &[u8]) {
    let file = Path::new("guid2mkey");
    let (map, findings) = keys::parse(file, &text(data));
    for found in findings.iter().map(ToString::to_string) {
        // Keys of the seeds.
        assert!(!found.contains("5ec2e7"), "{found}");
    }
    let (back, findings) = keys::parse(file, &keys::emit(&map));
    assert!(findings.is_empty(), "{findings:?}");
    assert!(back == map);
}

/// neighbors: accepted cables have two different ends, which name each other, and are read back.
pub fn neighbors(data: &[u8]) {
    let file = Path::new("neighbors");
    let (map, _) = cables::parse(file, &text(data));
    assert!(map.iter().all(|(near, far)| near != far && map.get(far) == Some(near)));
    let (back, findings) = cables::parse(file, &cables::emit(&map));
    assert!(findings.is_empty(), "{findings:?}");
    assert!(back == map);
}

/// The GUID files that tune routing.
pub fn guid_lists(data: &[u8]) {
    let file = Path::new("guids");
    let text = text(data);
    let lines = text.lines().count();
    assert!(lists::guids(file, &text).entries.len() <= lines);
    assert!(lists::ports(file, &text).entries.len() <= lines);
    assert!(lists::ids(file, &text).entries.len() <= lines);
    let _ = (dumps::lfts(file, &text), dumps::lid_matrix(file, &text));
    let weights = lists::hop_weights(file, &text).entries;
    assert!(weights.iter().all(|weight| weight.weight > 0 && weight.port.0 > 0));
    let orders = lists::search_orders(file, &text).entries;
    assert!(orders.iter().all(|order| !order.ports.is_empty()));
}

/// The node name map, and names written with it.
pub fn node_name_map(data: &[u8]) {
    let text = text(data);
    let (names, found) = names::parse(Path::new("ib-node-name-map"), &text);
    let lines = text.lines().count();
    assert!(names.len() <= lines);
    for found in &found {
        assert!((1..=lines as u32).contains(&found.line), "{found}");
        assert!(!excerpt::render(found, &text).is_empty());
    }
    for (_, name) in names {
        assert!(!name.chars().any(|c| c.is_control() || c == '"' || c == '#'), "{name:?}");
    }
}

/// prefix-routes.conf: every line is a route, a diagnostic, or nothing; a wildcard route matches
/// every prefix.
pub fn prefix_routes(data: &[u8]) {
    let text = text(data);
    let parsed = routes::parse(Path::new("prefix-routes.conf"), &text);
    let lines = text.lines().count();
    assert!(parsed.entries.len() + parsed.diagnostics.len() <= lines);
    for found in &parsed.diagnostics {
        assert!((1..=lines as u32).contains(&found.line), "{found}");
        assert!(!excerpt::render(found, &text).is_empty());
    }
    for route in &parsed.entries {
        let prefix = route.prefix.unwrap_or(0xfec0_0000_0000_0001);
        assert!(routes::router(&parsed.entries, prefix).is_ok());
    }
}

/// partitions.conf: every diagnostic has a position in the file, and accepted text becomes
/// partitions and groups with unique names, which stay the same when it is read again.
pub fn partitions(data: &[u8]) {
    let text = text(data);
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    let lines = text.lines().count() as u32;
    for found in &findings {
        assert!((1..=lines).contains(&found.line), "{found}");
        assert!(excerpt::render(found, &text).lines().count() >= 3, "{found}");
    }
    let Some(config) = config else {
        assert!(findings.iter().any(|found| found.severity == Severity::Error));
        return;
    };
    let options = Options { qos: true, ..Options::default() };
    let (found, _) = plan::partitions(&config, &options, &[]);
    let keys: BTreeSet<_> = found.iter().map(|partition| partition.pkey).collect();
    assert_eq!(keys.len(), found.len(), "two partitions of one key");
    assert!(keys.contains(&Pkey::DEFAULT_LIMITED) && !keys.contains(&Pkey(0)));
    assert!(keys.iter().all(|key| !key.is_full()));
    let groups: Vec<_> = found.iter().flat_map(|partition| &partition.groups).collect();
    let names: BTreeSet<_> = groups.iter().map(|group| group.mgid).collect();
    assert_eq!(names.len(), groups.len(), "two groups of one name");
    assert!(groups.iter().all(|group| group.pkey.is_full() && group.mgid.is_multicast()));
    let named: Vec<_> = found.iter().map(|part| (&part.name, part.pkey)).collect();
    let (again, _) = plan::partitions(&config, &options, &found);
    for (name, pkey) in named.iter().filter(|(name, _)| !name.starts_with(char::is_numeric)) {
        let stays = again.iter().any(|part| part.name == **name && part.pkey == *pkey);
        assert!(stays, "{name} had {pkey}");
    }
}

/// qos-policy.conf: every diagnostic has a position in the file, and an accepted policy refers only
/// to groups and levels that it defines.
pub fn qos_policy(data: &[u8]) {
    let text = text(data);
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), &text);
    let lines = text.lines().count() as u32;
    for found in &findings {
        assert!(found.line <= lines, "{found}");
        assert!(!excerpt::render(found, &text).is_empty());
    }
    let Some(policy) = policy else {
        assert!(findings.iter().any(|found| found.severity == Severity::Error));
        return;
    };
    assert!(policy.default < policy.levels.len());
    assert!(policy.levels.iter().all(|level| level.sl.0 < 16));
    for scope in &policy.vl_arbitration {
        assert!(
            scope.at.line <= lines
                && exists(&policy.groups, &scope.groups)
                && exists(&policy.groups, &scope.across)
        );
        let tables = [&scope.high, &scope.low].into_iter().flatten();
        assert!(tables.flatten().all(|entry| entry.vl < 15 && entry.at.line <= lines));
    }
    for scope in &policy.sl_to_vl {
        let ends = [&scope.groups, &scope.across, &scope.across_from, &scope.across_to];
        assert!(ends.into_iter().all(|groups| exists(&policy.groups, groups)));
        assert!(scope.vls.iter().all(|&vl| vl < 16) && scope.written.len() <= 16);
    }
    for rule in &policy.rules {
        assert!(rule.level < policy.levels.len());
        let ends = [&rule.source, &rule.destination].into_iter().flatten();
        assert!(ends.flat_map(|ports| &ports.groups).all(|&group| group < policy.groups.len()));
    }
}

fn exists(policy_groups: &[QosPortGroup], groups: &[usize]) -> bool {
    groups.iter().all(|&group| group < policy_groups.len())
}

/// The policy files of routing chains, in one text: every diagnostic has a position in the file, and
/// accepted files refer only to groups, topologies and steps that they define.
pub fn routing_chain(data: &[u8]) {
    let text = text(data);
    let lines = text.lines().count() as u32;
    let (groups, findings) = port_groups::parse(Path::new("pgrp.conf"), &text);
    if is_clean(&findings, lines, &text) {
        for (index, group) in groups.iter().enumerate() {
            assert!(!group.name.is_empty() && !group.rules.is_empty());
            for to in group.rules.iter().flat_map(referred) {
                assert!(to < groups.len() && to != index, "{}", group.name);
            }
        }
    }
    let (topologies, findings) = topologies::parse(Path::new("topo.conf"), &text, &groups);
    if is_clean(&findings, lines, &text) {
        let ids: BTreeSet<_> = topologies.iter().map(|topology| topology.id).collect();
        assert!(ids.len() == topologies.len() && !ids.contains(&0));
    }
    let (steps, findings) = steps::parse(Path::new("rch.conf"), &text, &topologies, 0);
    if is_clean(&findings, lines, &text) {
        assert!(steps.windows(2).all(|pair| pair[0].id < pair[1].id));
        for step in &steps {
            assert!(step.topology.is_none_or(|index| index < topologies.len()));
            let main = step.fallback_to.map(|id| steps.iter().find(|other| other.id == id));
            assert!(main.is_none_or(|main| main.is_some_and(|main| main.fallback_to.is_none())));
        }
    }
    is_clean(&StepSettings::parse(Path::new("step.conf"), &text).1, lines, &text);
}

fn is_clean(findings: &[Diagnostic], lines: u32, text: &str) -> bool {
    for found in findings {
        assert!(found.line <= lines, "{found}");
        assert!(!excerpt::render(found, text).is_empty());
    }
    findings.iter().all(|found| found.severity != Severity::Error)
}

/// The groups of the file that a rule names.
fn referred(rule: &PortRule) -> Vec<usize> {
    let groups = match rule {
        PortRule::Union(pair) | PortRule::Subtract(pair) => pair.to_vec(),
        _ => Vec::new(),
    };
    groups
        .into_iter()
        .filter_map(|group| match group {
            GroupRef::Defined(index) => Some(index),
            _ => None,
        })
        .collect()
}

/// Output of ibnetdiscover: accepted text can be written, read again and made a snapshot.
pub fn ibnetdiscover(data: &[u8]) {
    let file = Path::new("fabric.net");
    let Ok(topology) = ibnet::parse(file, &text(data)) else { return };
    let written = ibnet::write(&topology);
    let again = ibnet::parse(file, &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again.nodes.len(), topology.nodes.len());
    assert_eq!(again.cables.len(), topology.cables.len());
    if let Some(fabric) = Fabric::from_topology(&topology, 0, &SyntheticView::default()) {
        assert!(fabric.nodes().len() <= topology.nodes.len());
    }
}

/// The command line, one argument per line.
pub fn argv(data: &[u8]) {
    if let Ok(cli::Command::Daemon(args)) = cli::parse(text(data).lines()) {
        let mut options = Options::default();
        args.apply(&mut options);
        options.reconcile();
    }
}

/// opensm-sa.dump: the accepted records are written and read back as the same.
pub fn sa_dump(data: &[u8]) {
    let file = Path::new("opensm-sa.dump");
    let moment = Timestamp { now: Instant::now(), epoch: 0x6560_0000 };
    let mut registry = Registry::default();
    registry.restore(file, &text(data), &[], moment);
    let written = registry.dump(0xfe80_0000_0000_0000, moment);
    let mut again = Registry::default();
    let restored = again.restore(file, &written, &[], moment);
    assert!(restored.findings.is_empty(), "{:?}\n{written}", restored.findings);
    assert_eq!(again.dump(0xfe80_0000_0000_0000, moment), written);
}

/// pqft_structure: an accepted one is written and read back as the same.
pub fn pqft_structure(data: &[u8]) {
    let text = text(data);
    let Ok(read) = text.parse::<Structure>() else { return };
    assert_eq!(read.to_string().parse(), Ok(read));
}

/// enhanced_qos_policy_file: findings are about lines of the text, and an accepted policy has only rates
/// that fit, each SL that of its rule or of the default.
pub fn enhanced_qos(data: &[u8]) {
    let text = text(data);
    let groups = "port-group name: group port-guid: 0x1 end-port-group";
    let (groups, _) = port_groups::parse(Path::new("groups.conf"), groups);
    let (policy, findings) = rates::parse(Path::new("rates.conf"), &text, &groups);
    let lines = text.lines().count() as u32;
    for found in &findings {
        assert!((1..=lines).contains(&found.line) && found.column > 0, "{found}");
        assert!(!excerpt::render(found, &text).is_empty());
    }
    let is_wrong = findings.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(policy.is_none(), is_wrong);
    let Some(policy) = policy else { return };
    for rules in [&policy.ports, &policy.vports] {
        let default = rates::default_rule(rules);
        for rule in rules {
            assert!((1..=lines).contains(&rule.line));
            let limits = rates::limits(Some(rule), default);
            for (sl, &limit) in limits.iter().enumerate() {
                assert!(limit <= rates::MAX_RATE);
                assert_eq!(limit, rule.limit(sl).or_else(|| fallback(&default, sl)).unwrap_or(0));
            }
        }
    }
    assert!(policy.vports.iter().all(no_group));
}

fn no_group(rule: &rates::RateRule) -> bool {
    !matches!(rule.subject, rates::RateSubject::Group(_))
}

fn fallback(default: &Option<&rates::RateRule>, sl: usize) -> Option<u32> {
    default.and_then(|default| default.limit(sl))
}
