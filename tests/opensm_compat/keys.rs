//! Each key of opensm.conf with another value than the default: the devices and the answers of the
//! subnet administrator are the same as with OpenSM. The values are those of
//! `tests/vectors/options/opensm-keys.txt`.
//!
//! Most runs compare [`USUAL`] keys; with TORUS_KEYS=all all keys are compared, with a list those of
//! the list. Prints SKIPPED where opensm is not installed.

use super::policy::questions::Question;
use super::policy::random_case::{Case, end_ports};
use super::policy::site::{Answer, Lids, Maker, Site, TableKey};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use testkit::in_parallel;
use torus_sm::fabric::topology::DeviceModel;
use torus_sm::ids::Guid;
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::PathRecord;

/// The keys that most runs compare: those that change devices in ways of their own.
const USUAL: [&str; 34] = [
    "subnet_prefix",
    "m_key",
    "m_key_protection_level",
    "lmc",
    "max_op_vls",
    "force_link_speed",
    "force_link_speed_ext",
    "force_link_width",
    "fdr10",
    "disable_multicast",
    "subnet_timeout",
    "packet_life_time",
    "vl_stall_count",
    "leaf_vl_stall_count",
    "head_of_queue_lifetime",
    "leaf_head_of_queue_lifetime",
    "local_phy_errors_threshold",
    "overrun_errors_threshold",
    "use_mfttop",
    "routing_engine",
    "root_guid_file",
    "hop_weights_file",
    "guid_routing_order_file",
    "part_enforce",
    "qos",
    "qos_max_vls",
    "qos_swe_sl2vl",
    "qos_ca_vlarb_high",
    "sm_sl",
    "max_rate_enum",
    "enable_quirks",
    "single_thread",
    "long_transaction_timeout",
    "keep_pkey_indexes",
];

/// Keys of the process, of files that other tests compare, and of plug-ins, which change no device.
const NOT_COMPARED: [&str; 20] = [
    "guid",
    "daemon",
    "sm_inactive",
    "console",
    "console_port",
    "log_file",
    "log_prefix",
    "log_max_size",
    "dump_files_dir",
    "partition_config_file",
    "qos_policy_file",
    "prefix_routes_file",
    "torus_config",
    "lid_matrix_dump_file",
    "lfts_file",
    "cn_guid_file",
    "io_guid_file",
    "event_plugin_name",
    "event_plugin_options",
    "sweep_interval",
];

/// Keys whose devices or answers differ, with the reason.
const DIFFERENT: [(&str, &str); 5] = [
    (
        "disable_multicast",
        "There are no groups to join without multicast; OpenSM creates and lists groups that it \
         does not program.",
    ),
    (
        "allow_both_pkeys",
        "A full member sees the groups of its partition; OpenSM finds only the limited P_Key of a \
         port.",
    ),
    (
        "keep_pkey_indexes",
        "Paths have the P_Key that both ends share; OpenSM finds no shared P_Key with FALSE, and \
         answers without paths (ERR 1F1B).",
    ),
    (
        "lash_start_vl",
        "The SLs of lash are those of OpenSM's first sweep; OpenSM draws others in each sweep.",
    ),
    (
        "nue_max_num_vls",
        "Routes to switches have no credit loop; those of OpenSM ignore the dependencies of others \
         without nue_include_switches.",
    ),
];

/// VendorID of Mellanox, and DeviceIDs of SwitchX, ConnectX-3 and Tavor.
const MELLANOX: u32 = 0x2c9;
const SWITCH_X: u16 = 0xc738;
const CONNECT_X3: u16 = 0x1003;
const TAVOR: u16 = 23108;

/// The keys of OpenSM with their values, without those of congestion control.
fn keys() -> Vec<(String, String)> {
    let file = "tests/vectors/options/opensm-keys.txt";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    let text = text.expect("the table");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let key = words.next()?;
        let _ = words.next()?;
        Some((key.to_owned(), words.collect::<Vec<_>>().join(" ")))
    };
    let is_wanted = |(key, _): &(String, String)| {
        let is_congestion = key.starts_with("cc_") || key == "congestion_control";
        !is_congestion && !NOT_COMPARED.contains(&key.as_str())
    };
    lines.filter_map(row).filter(is_wanted).collect()
}

/// The fabric of all keys, and a case without a key.
fn base() -> Case {
    let mut case = Case {
        lmc: 0,
        both_keys: false,
        options: String::new(),
        partitions: None,
        policy: None,
        prefix_routes: String::new(),
        ..Case::new(3)
    };
    let mut is_first_host = true;
    for node in &mut case.topology.nodes {
        let device_id = match node.kind {
            NodeKind::Switch => SWITCH_X,
            _ if std::mem::take(&mut is_first_host) => TAVOR,
            _ => CONNECT_X3,
        };
        node.model = DeviceModel { vendor_id: MELLANOX, device_id, ..Default::default() };
    }
    case
}

/// Contents of the file that a key names, and other keys that it needs to have an effect.
fn needs(case: &Case, key: &str) -> (Option<String>, &'static str) {
    let switch = |index: usize| {
        let mut switches = case.topology.nodes.iter().filter(|n| n.kind == NodeKind::Switch);
        switches.nth(index).expect("a switch").guid
    };
    let hosts = || {
        let ends = end_ports(&case.topology).into_iter();
        ends.filter(|(kind, _)| *kind == NodeKind::Ca).map(|(_, guid)| guid)
    };
    let updn = "routing_engine updn\n";
    match key {
        "root_guid_file" => (Some(format!("{}\n", switch(1))), updn),
        "ids_guid_file" => (Some(format!("{} 5\n", switch(1))), updn),
        "connect_roots" | "routing_engine" => (None, ""),
        "guid_routing_order_file" => {
            let mut order: Vec<String> = hosts().map(|guid| format!("{guid}\n")).collect();
            order.reverse();
            (Some(order.concat()), "")
        }
        "hop_weights_file" => (Some(format!("{} 1 5\n", switch(0))), ""),
        "port_prof_ignore_file" => (Some(format!("{} 1\n", switch(0))), ""),
        "dimn_ports_file" | "port_search_ordering_file" => {
            (Some(format!("{} 2 1 3\n", switch(0))), "routing_engine dor\n")
        }
        "node_name_map_name" => (Some(format!("{} \"first\"\n", switch(0))), ""),
        "per_module_logging_file" => (Some("osm_trap_rcv.c 0x0f\n".to_owned()), ""),
        "lash_start_vl" => (None, "routing_engine lash\nqos TRUE\n"),
        "do_mesh_analysis" => (None, "routing_engine lash\n"),
        _ if key.starts_with("nue_") => (None, "routing_engine nue\nqos TRUE\n"),
        _ if key.starts_with("qos_") || key == "sm_sl" => (None, "qos TRUE\n"),
        _ => (None, ""),
    }
}

/// The case of a key, with the files that it names in `folder`.
fn case_of(key: &str, value: &str, folder: &Path) -> Case {
    let mut case = base();
    let (text, others) = needs(&case, key);
    let file = folder.join(key);
    let value = match &text {
        Some(text) => {
            fs::write(&file, text).expect("a file");
            file.display().to_string()
        }
        None => value.replace("/tmp/", &format!("{}/absent-", folder.display())),
    };
    case.options = format!("sweep_interval 0\n{others}{key} {value}\n");
    case
}

/// What a subnet manager made of a case.
struct Result {
    settings: BTreeMap<TableKey, Vec<u8>>,
    answers: Vec<Answer>,
}

impl Result {
    fn of(maker: Maker, case: &Case) -> std::result::Result<Self, String> {
        let site = Site::start(maker, case)?;
        let settings = site.settings(&case.topology);
        let mut answers = site.ask(&questions(case), 4);
        answers.extend(site.groups());
        Ok(Self { settings, answers })
    }
}

/// Queries for all paths from each end port.
fn questions(case: &Case) -> Vec<Question> {
    let ports = end_ports(&case.topology).into_iter();
    let question = |guid: Guid| {
        let mut wanted = PathRecord::default();
        wanted.set_slid(Lids::ideal(&case.topology, guid, 0));
        Question::Path { method: Method::GET_TABLE, mask: PathRecord::SLID, wanted }
    };
    ports.map(|(_, guid)| question(guid)).collect()
}

/// The differences between the results of both for a key.
fn differences(key: &str, value: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let case = case_of(key, value, folder.path());
    let [ours, theirs] = [Maker::TorusSm, Maker::OpenSm].map(|maker| Result::of(maker, &case));
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return Vec::new(),
        (Err(text), _) => return vec![format!("ours does not come up: {text}")],
        (_, Err(text)) => return vec![format!("OpenSM does not come up: {text}")],
    };
    assert_eq!(ours.settings.len(), theirs.settings.len());
    let mut found = Vec::new();
    for (key, our) in &ours.settings {
        let their = &theirs.settings[key];
        if our != their {
            let (guid, port, name, modifier) = key;
            found.push(format!("{guid} port {port} {name} {modifier:#x}: {our:02x?} {their:02x?}"));
        }
    }
    for (index, (our, their)) in ours.answers.iter().zip(&theirs.answers).enumerate() {
        if our != their {
            found.push(format!("answer {index}:\n  {our:02x?}\n  {their:02x?}"));
        }
    }
    found
}

#[test]
fn each_key_gives_the_devices_and_answers_of_opensm() {
    if testkit::tool("opensm").is_none() {
        return;
    }
    testkit::simulator::library();
    let asked = std::env::var("TORUS_KEYS").unwrap_or_default();
    let listed: Vec<&str> = asked.split(',').collect();
    let is_asked = |key: &str| match asked.as_str() {
        "" => USUAL.contains(&key),
        "all" => true,
        _ => listed.contains(&key),
    };
    let keys: Vec<_> = keys().into_iter().filter(|(key, _)| is_asked(key)).collect();
    assert!(!keys.is_empty(), "no key is {asked}");
    let found = in_parallel(keys.len(), |index| differences(&keys[index].0, &keys[index].1));
    let mut unexpected = Vec::new();
    for ((key, value), found) in keys.iter().zip(&found) {
        let is_known = DIFFERENT.iter().any(|(known, _)| known == key);
        assert!(!is_known || !found.is_empty(), "{key} is no difference any more");
        if !is_known && !found.is_empty() {
            let shown = found.iter().take(4).cloned().collect::<Vec<_>>().join("\n");
            unexpected.push(format!("{key} {value}: {} differences\n{shown}", found.len()));
        }
    }
    println!("{} keys compared", keys.len());
    assert!(unexpected.is_empty(), "{} differ\n{}", unexpected.len(), unexpected.join("\n"));
}
