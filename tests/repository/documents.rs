//! Agreement of documents and program: every option, key and exit code is in the manual, the sample
//! files are right, and OpenSM's own template is accepted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use torus_sm::cli::{self, ExitCode};
use torus_sm::config::options::{self, Options, TABLE};
use torus_sm::config::torus::TorusConfig;
use torus_sm::manage::api::{ENDPOINTS, OPENAPI};
use torus_sm::sim::console::help::COMMANDS;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of a manual page without markup of names.
fn manual(name: &str) -> String {
    read(name).replace("\\-", "-").replace("\\_", "_")
}

#[test]
fn the_manual_has_every_option() {
    let manual = manual("man/torus-sm.8");
    for arg in cli::command().get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let row = manual
            .lines()
            .find(|line| line.starts_with(".B") && has_word(line, &format!("--{long}")))
            .unwrap_or_else(|| panic!("--{long} is missing"));
        for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
            assert!(has_word(row, &format!("--{name}")), "--{name}: {row}");
        }
        for letter in arg.get_short_and_visible_aliases().unwrap_or_default() {
            assert!(has_word(row, &format!("-{letter}")), "-{letter}: {row}");
        }
        for value in arg.get_value_names().unwrap_or_default() {
            assert!(has_word(row, value), "{value}: {row}");
        }
    }
}

#[test]
fn the_pages_of_offline_commands_have_every_option_of_theirs() {
    let commands = cli::command();
    // The options of the daemon are in torus-sm(8), and so are those of simulated fabrics.
    let sim = commands.find_subcommand("sim").expect("a command");
    let shared = commands.get_arguments().chain(sim.get_arguments());
    let shared: BTreeSet<&str> = shared.filter_map(|arg| arg.get_long()).collect();
    for name in ["plan", "check", "torus-config", "replay"] {
        let manual = manual(&format!("man/torus-sm-{name}.8"));
        let command = commands.find_subcommand(name).expect("a command");
        let own = command.get_arguments().filter_map(|arg| arg.get_long());
        for long in own.filter(|long| !shared.contains(long) && *long != "help") {
            assert!(has_word(&manual, &format!("--{long}")), "{name}: --{long}");
        }
    }
    let manual = manual("man/torus-sm.8");
    let command = commands.find_subcommand("shadow").expect("a command");
    let own = command.get_arguments().filter_map(|arg| arg.get_long());
    for long in own.filter(|long| *long != "help") {
        assert!(has_word(&manual, &format!("--{long}")), "shadow: --{long}");
    }
}

#[test]
fn the_manual_has_every_key() {
    let first = ".SS Device attributes\n";
    let end = ".SH SIGNALS\n";
    let manual = read("man/torus-sm.8");
    let start = manual.find(first).expect("the first section of keys");
    let stop = manual.find(end).expect("the section after the keys");
    let wanted = manual_of_keys();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = [&manual[..start], wanted.as_str(), &manual[stop..]].concat();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/torus-sm.8");
        fs::write(path, text).unwrap();
        return;
    }
    for (ours, theirs) in manual[start..stop].lines().zip(wanted.lines()) {
        assert_eq!(ours, theirs, "UPDATE_GOLDEN=1 rewrites the keys of man/torus-sm.8");
    }
    assert_eq!(manual[start..stop].lines().count(), wanted.lines().count());
}

/// The template of opensm.conf as a part of a manual page.
fn manual_of_keys() -> String {
    let escaped = |text: &str| text.replace('-', "\\-").replace('…', "\\&...");
    let mut manual = String::new();
    let mut help = Vec::new();
    let template = options::template();
    let body = template.split_once("\n\n#\n").expect("the first heading").1;
    for line in body.lines().filter(|line| !["#", ""].contains(line)) {
        if let Some(text) = line.strip_prefix("# ") {
            let is_heading = TABLE.iter().find(|key| key.section.to_uppercase() == text);
            match is_heading {
                Some(key) => manual += &format!(".SS {}\n", escaped(key.section)),
                None => help.push(escaped(text)),
            }
        } else {
            let (name, value) = line.split_once(' ').expect("key and value");
            manual += &format!(".TP\n.BI \"{name} \" \"{}\"\n", escaped(value));
            for text in help.drain(..) {
                manual += &format!("{text}\n");
            }
        }
    }
    manual
}

/// A key is marked as ready exactly if the program reads it outside of the modules that set it.
#[test]
fn keys_are_ready_when_they_are_read() {
    let source = program_source();
    for key in TABLE {
        let name = key.name;
        let is_read = source.iter().any(|text| {
            let owners = ["options.", "options()."].map(|owner| format!("{owner}{name}"));
            let by_macro = text.contains("options.$") && has_word(text, name);
            by_macro || owners.iter().any(|path| has_word(text, path))
        });
        assert_eq!(key.support == options::Support::Implemented, is_read, "{name}: read {is_read}");
    }
}

/// The code of the program without comments, blanks and tests, except the modules that read and
/// write configurations.
fn program_source() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let aside = [source.join("cli"), source.join("config/options")];
    let mut texts = Vec::new();
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !aside.contains(&path) {
                folders.push(path);
            } else if path.is_file() && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
                texts.push(code.map(str::trim).collect());
            }
        }
    }
    texts
}

#[test]
fn the_manual_has_every_command_of_the_console() {
    let manual = manual("man/torus-sm-sim.8");
    for entry in &COMMANDS {
        let row = format!("\n.B {} {}", entry.name, entry.arguments);
        assert!(manual.contains(&format!("{}\n", row.trim_end())), "{row}");
    }
}

#[test]
fn the_manual_has_every_resource_event_and_command_of_the_management_interface() {
    let manual = manual("man/torus-sm-manage.8");
    for endpoint in ENDPOINTS {
        let name = endpoint.path.strip_prefix("/v1/actions/").unwrap_or(endpoint.path);
        assert!(has_word(&manual, name), "{name}");
    }
    let description: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
    let events = &description["components"]["schemas"]["EventRecord"]["oneOf"];
    let events = events.as_array().expect("the kinds of events");
    assert!(events.len() > 10, "{events:?}");
    for event in events {
        let name = event["properties"]["event"]["const"].as_str().expect("a name");
        assert!(has_word(&manual, name), "{name}");
    }
    let commands = cli::command();
    let is_documented = |name: &str| has_word(&manual, name);
    let others =
        ["sim", "plan", "check", "torus-config", "replay", "shadow", "completions", "help"];
    for command in commands.get_subcommands().filter(|c| !others.contains(&c.get_name())) {
        assert!(is_documented(command.get_name()), "{}", command.get_name());
        for arg in command.get_arguments().filter_map(|arg| arg.get_long()) {
            assert!(arg == "help" || is_documented(&format!("--{arg}")), "--{arg}");
        }
    }
}

/// The events of osm_event_plugin.h in OpenSM 3.3.24.
const PLUGIN_EVENTS: [&str; 11] = [
    "PORT_ERRORS",
    "PORT_DATA_COUNTERS",
    "PORT_SELECT",
    "TRAP",
    "SUBNET_UP",
    "HEAVY_SWEEP_START",
    "HEAVY_SWEEP_DONE",
    "UCAST_ROUTING_DONE",
    "STATE_CHANGE",
    "SA_DB_DUMPED",
    "LFT_CHANGE",
];

#[test]
fn the_manual_maps_every_event_of_plugins_to_events_that_exist() {
    let manual = manual("man/torus-sm-manage.8");
    let (_, mapping) = manual.split_once(".SS Events of OpenSM's plug-in interface\n").unwrap();
    let mapping = mapping.split(".SH").next().unwrap_or_default();
    let description: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
    let schemas = &description["components"]["schemas"];
    let kinds = schemas["EventRecord"]["oneOf"].as_array().expect("the kinds of events");
    let mut events = BTreeSet::new();
    let mut fields = BTreeSet::from(["last_reset", "xmit_wait"]);
    for kind in kinds {
        events.extend(kind["properties"]["event"]["const"].as_str());
        fields.extend(
            kind["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()),
        );
    }
    let entries: Vec<&str> = mapping.split(".B OSM_EVENT_ID_").skip(1).collect();
    let named: Vec<&str> = entries.iter().filter_map(|entry| entry.lines().next()).collect();
    assert_eq!(named, PLUGIN_EVENTS);
    for entry in entries {
        let (name, text) = entry.split_once('\n').expect("a text");
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        let words: Vec<&str> =
            text.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
        assert!(events.contains(words[0]), "{name}: '{}' is no event", words[0]);
        for word in words.into_iter().filter(|word| word.contains('_')) {
            assert!(events.contains(word) || fields.contains(word), "{name}: '{word}'");
        }
    }
}

#[test]
fn the_manual_has_every_exit_code() {
    let manual = manual("man/torus-sm.8");
    let codes = manual.split(".SH EXIT STATUS").nth(1).expect("the section is there");
    let codes = codes.split(".SH").next().unwrap_or_default();
    for (code, _) in ExitCode::ALL {
        assert!(codes.contains(&format!("\n.B {}\n", code as u8)), "{code:?}");
    }
}

#[test]
fn no_dependency_needs_a_newer_rust_than_stated() {
    let outcome = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let version =
        |text: &str| -> Vec<u32> { text.split('.').take(2).flat_map(str::parse).collect() };
    let stated = version(env!("CARGO_PKG_RUST_VERSION"));
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20);
    for package in packages {
        let needed = version(package["rust_version"].as_str().unwrap_or_default());
        assert!(needed <= stated, "{} needs Rust {needed:?}", package["name"]);
    }
}

#[test]
fn the_sample_torus_is_understood() {
    let text = read("etc/torus-2QoS.conf");
    let parsed = TorusConfig::parse(Path::new("etc/torus-2QoS.conf"), &text);
    assert!(parsed.is_ok(), "{parsed:?}");
}

/// True if `line` has `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[test]
fn the_sample_configuration_is_the_template() {
    let sample = read("etc/opensm.conf");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("etc/opensm.conf");
        fs::write(path, options::template()).unwrap();
        return;
    }
    assert!(sample == options::template(), "UPDATE_GOLDEN=1 rewrites etc/opensm.conf");
}

#[test]
fn opensms_own_template_gives_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opensm.conf");
    let outcome = Command::new("/usr/sbin/opensm")
        .args(["-F", "/nonexistent", "-c"])
        .arg(&path)
        .current_dir(folder.path())
        .env_remove("OSM_TMP_DIR")
        .env("OSM_CACHE_DIR", folder.path())
        .output();
    if outcome.is_err() {
        println!("SKIPPED: opensm is not installed (apt-get install opensm)");
        return;
    }
    let text = fs::read_to_string(&path).unwrap();
    let (options, diagnostics) = Options::parse(&text, &path);
    assert_eq!(diagnostics, []);
    assert_eq!(options, Options::default());
}

#[test]
fn opensm_knows_every_key_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.conf");
    fs::write(&ours, options::template()).unwrap();
    let outcome = Command::new("/usr/sbin/opensm")
        .args(["-f", "/dev/null", "-F"])
        .arg(&ours)
        .arg("-c")
        .arg(folder.path().join("theirs.conf"))
        .current_dir(folder.path())
        .env("OSM_TMP_DIR", folder.path())
        .env("OSM_CACHE_DIR", folder.path())
        .output();
    let Ok(outcome) = outcome else {
        println!("SKIPPED: opensm is not installed (apt-get install opensm)");
        return;
    };
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(said.contains("Reading Cached Option File"), "{said}");
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| ["-E-", "Unrecognized", "Invalid"].iter().any(|word| line.contains(word)))
        // Options of versions later than 3.3.23, of Mellanox's, and our own.
        .filter(|line| {
            let newer = [
                "max_rate_enum",
                "rtr_",
                "master_sm_priority",
                "activity_report_subjects",
                "enhanced_qos_",
                "virt_",
                "rereg_on_guid_migr",
                "pqft_structure",
                "topo_config_file",
                "ar_mode",
                "ar_sl_mask",
                "ar_transport_mask",
                "enable_ar_",
                "shield_mode",
                "pfrn_",
            ];
            let own = ["sa_allow_", "sa_max_", "standby_query_rate", "management", "recorder_"];
            let trust = ["sa_trust", "sa_check_", "m_key_in_trap_repress", "sm_key_peers"];
            let own = own
                .iter()
                .chain(&["perfmgr_window_s", "replication_", "_policy_file", "offsweep_"])
                .chain(&trust);
            let own = own.chain(&["core_dump_", "log_format", "syslog_"]);
            let own = own.chain(&[
                "max_smps_per_device",
                "max_adaptive_wire_smps",
                "refuse_faulty_routes",
                "torus_repair",
                "strict_transitions",
                "transition_drain_time",
                "unresponsive_",
                "vendor_attributes",
                "umad_rx_threshold",
            ]);
            !newer.iter().chain(own).any(|key| line.contains(key))
        })
        .collect();
    assert_eq!(complaints, [""; 0]);
}
