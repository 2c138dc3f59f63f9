//! The names of the OpenSM chapter in the MLNX_OFED manual (5.3) that OpenSM 3.3.24 does not have:
//! each is accepted and acts, or stands in the manual's table of differences with the reason.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use torus_sm::config::enhanced_qos::{self, LimitedVport};
use torus_sm::config::options::Support;
use torus_sm::config::options::parse::find;
use torus_sm::config::partitions::{PartitionsConfig, PortSelector};
use torus_sm::config::routing_chain::{ENGINE, port_groups, steps, topologies};
use torus_sm::ids::Guid;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};

/// Heading of the table of differences.
const SECTION: &str = ".SH DIFFERENCES FROM NVIDIA'S OPENSM";

/// How a name is accepted.
enum Accepted {
    /// A key of opensm.conf that acts.
    Key,
    /// Another spelling of this key, which acts.
    SpellingOf(&'static str),
    /// A value of `routing_engine`.
    Engine,
    /// A qualifier of pgrp_policy_file: the group has a rule.
    GroupRule(&'static str),
    /// A name of a group that needs no definition.
    PredefinedGroup,
    /// A keyword of partitions.conf that selects ports.
    PartitionKeyword,
    /// A qualifier of topo_policy_file and rch_policy_file, in this step.
    ChainStep(&'static str),
    /// A word of enhanced_qos_policy_file, in this policy.
    RatePolicy,
    /// Not accepted, or without effect: the manual says why.
    Documented,
}

use Accepted::{
    ChainStep, Documented, Engine, GroupRule, Key, PartitionKeyword, PredefinedGroup, RatePolicy,
    SpellingOf,
};

const STEP: &str = "unicast-step id: 1 engine: minhop end-unicast-step \
                    unicast-step id: 2 use: text engine: ftree config: /etc/opensm2.cfg \
                    topology: 1 path-bit: 1 end-unicast-step \
                    unicast-step id: 3 engine: updn topology: 1 fallback-to: 2 end-unicast-step";

const RATES: &str = "BW_NAMES\nslow = 50\nfast = 60\nBW_RULES\ndefault = all:slow\n0x1 = 3:fast\n\
                     VPORT_BW_RULES\n0x2 = all:slow,SL4:fast\n";

const NAMES: &[(&str, Accepted)] = &[
    ("ALL_VCAS", PartitionKeyword),
    ("chain", Engine),
    ("pqft", Engine),
    ("pgrp_policy_file", Key),
    ("port-guid", GroupRule("port-guid: 0x281, 0x289@2-5/7")),
    ("port-guid-range", GroupRule("port-guid-range: 0x283-0x289")),
    ("port-name", GroupRule("port-name: hostname=kuku; port=2; hca_idx=1")),
    ("port-regexp", GroupRule("port-regexp: SW:3")),
    ("union-rule", GroupRule("union-rule: ALL_CAS, ALL_SWITCHES")),
    ("subtract-rule", GroupRule("subtract-rule: ALL, ALL_SWITCHES")),
    ("ALL", PredefinedGroup),
    ("ALL_SWITCHES", PredefinedGroup),
    ("ALL_CAS", PredefinedGroup),
    ("ALL_ROUTERS", PredefinedGroup),
    ("topo_policy_file", Key),
    ("sw-grp", ChainStep(STEP)),
    ("hca-grp", ChainStep(STEP)),
    ("rch_policy_file", Key),
    ("engine", ChainStep(STEP)),
    ("use", ChainStep(STEP)),
    ("config", ChainStep(STEP)),
    ("topology", ChainStep(STEP)),
    ("fallback-to", ChainStep(STEP)),
    ("path-bit", ChainStep(STEP)),
    ("enhanced_qos_policy_file", Key),
    ("BW_NAMES", RatePolicy),
    ("BW_RULES", RatePolicy),
    ("VPORT_BW_RULES", RatePolicy),
    ("all", RatePolicy),
    ("default", RatePolicy),
    ("enhanced_qos_vport0_unlimit_default_rl", Key),
    ("Adaptive Routing Manager", Documented),
    ("SHIELD", Documented),
    ("enable_rx_threshold", Documented),
    ("umad_update_threshold", Documented),
    ("umad_rx_threshold", Documented),
    ("rtr_aguid_enable", Documented),
    ("rtr_pr_flow_label", Key),
    ("rtr_pr_tclass", Key),
    ("rtr_pr_sl", Key),
    ("rtr_pr_mtu", Key),
    ("rtr_p_mtu", SpellingOf("rtr_pr_mtu")),
    ("rtr_pr_rate", Key),
    ("activity_report_subjects", Key),
    ("virt_enabled", Key),
    ("virt_max_ports_in_process", Key),
    ("virt_default_hop_limit", Key),
    ("enable_virt_rec_ext", Key),
    ("virt_dump_file", Key),
    ("rereg_on_guid_migr", Key),
    ("pqft_structure", Key),
    ("offsweep_balancing_enabled", Key),
    ("offsweep_balancing_window", Key),
];

/// The entries of the manual's table: a name in bold or several, and what follows.
fn table_of_differences() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/torus-sm.8");
    let text = fs::read_to_string(path).expect("the manual").replace("\\-", "-");
    let (_, section) = text.split_once(SECTION).expect("the section");
    let section = section.split("\n.SH ").next().unwrap_or_default();
    let entries = section.split("\n.TP\n").skip(1);
    let parts = entries.filter_map(|entry| entry.split_once('\n'));
    parts.map(|(names, reason)| (names.to_owned(), reason.to_owned())).collect()
}

fn is_documented(name: &str, table: &[(String, String)]) -> bool {
    table.iter().any(|(names, reason)| {
        let words = names.split(['"', ',']).map(|word| word.trim().trim_start_matches(".BR "));
        let has_name =
            words.map(|word| word.trim_start_matches(".B ").trim()).any(|word| word == name);
        has_name && reason.split_whitespace().count() >= 5
    })
}

fn is_implemented(key: &str) -> bool {
    find(key).is_some_and(|key| key.support == Support::Implemented)
}

fn acts(name: &str, how: &Accepted, table: &[(String, String)]) -> bool {
    let file = Path::new("policy.conf");
    match how {
        Key => find(name).is_some_and(|key| key.name == name) && is_implemented(name),
        SpellingOf(key) => {
            find(name).is_some_and(|found| found.name == *key) && is_implemented(key)
        }
        Engine => {
            let engines = EngineRegistry::standard(Arc::default());
            name == ENGINE || Chain::parse(name, &engines).is_ok()
        }
        GroupRule(rule) => {
            let text = format!("port-group name: group {rule} end-port-group");
            let (groups, found) = port_groups::parse(file, &text);
            rule.starts_with(name) && found.is_empty() && groups[0].rules.len() == 1
        }
        PartitionKeyword => {
            let text = format!("vms=0x10: {name}=full;");
            let (partitions, found) = PartitionsConfig::parse(file, &text);
            let Some(partitions) = partitions.filter(|_| found.is_empty()) else { return false };
            partitions.definitions[0].members[0].ports == PortSelector::Virtual
        }
        PredefinedGroup => port_groups::find(&[], name).is_some(),
        ChainStep(text) => {
            let topology = "topology id: 1 sw-grp: ALL_SWITCHES hca-grp: ALL_CAS end-topology";
            let (topologies, of_topology) = topologies::parse(file, topology, &[]);
            let (steps, of_steps) = steps::parse(file, text, &topologies, 1);
            let [_, second, third] = &steps[..] else { return false };
            (text.contains(&format!("{name}:")) || topology.contains(&format!("{name}:")))
                && of_topology.is_empty()
                && of_steps.is_empty()
                && (second.topology, second.path_bit, third.fallback_to) == (Some(0), 1, Some(2))
                && second.usage == "text"
                && second.config.is_some()
        }
        RatePolicy => {
            let (policy, found) = enhanced_qos::parse(file, RATES, &[]);
            let Some(policy) = policy.filter(|_| found.is_empty()) else { return false };
            let default = enhanced_qos::default_rule(&policy.ports);
            let port = enhanced_qos::limits(policy.ports.get(1), default);
            let vport = LimitedVport { guid: Guid(2), is_first: false };
            let vport = policy.vport_limits(vport, true);
            RATES.contains(name) && (port[3], port[4], vport[3], vport[4]) == (60, 50, 50, 60)
        }
        Documented => is_documented(name, table),
    }
}

#[test]
fn each_name_of_the_chapter_acts_or_is_a_documented_difference() {
    let table = table_of_differences();
    let missing: Vec<&str> = NAMES
        .iter()
        .filter(|(name, how)| !acts(name, how, &table))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// A name that acts must not stay in the table.
#[test]
fn the_table_of_differences_has_no_name_that_acts() {
    let table = table_of_differences();
    assert!(table.len() >= 3, "{table:?}");
    let is_both =
        |(name, how): &&(&str, Accepted)| !matches!(how, Documented) && is_documented(name, &table);
    let both: Vec<&str> = NAMES.iter().filter(is_both).map(|(name, _)| *name).collect();
    assert_eq!(both, [""; 0]);
}
