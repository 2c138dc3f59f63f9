//! Compares the configurations of two instances as far as it matters for the fabric which of them
//! is master.

use crate::config::options::{Options, SECRET_KEYS, Support, TABLE};
use crate::config::routing_chain::{StepSettings, steps};
use crate::config::text_file::read_text;
use crate::config::text_file::without_comment;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Values by key. Those of keys with secrets and of files are hashes.
pub type Description = BTreeMap<String, String>;

/// Sections of opensm.conf that concern this host only.
const LOCAL_SECTIONS: [&str; 8] = [
    "Timing and threads",
    "Performance manager",
    "Plug-ins and names",
    "Log and dumps",
    "Flight recorder",
    "Management interface",
    "Shared state",
    "Console",
];

/// Other keys that may differ: what is the instance's own, and what has no effect on devices and
/// clients.
const LOCAL_KEYS: [&str; 13] = [
    "daemon",
    "exit_on_fatal",
    "fsync_high_avail_files",
    "guid",
    "master_sm_priority",
    "polling_retry_number",
    "sa_db_dump",
    "sa_db_file",
    "sm_inactive",
    "sm_priority",
    "sminfo_polling_timeout",
    "standby_query_rate",
    "virt_dump_file",
];

/// Keys that name files, of which the contents matter.
const FILE_KEYS: [&str; 19] = [
    "partition_config_file",
    "qos_policy_file",
    "enhanced_qos_policy_file",
    "prefix_routes_file",
    "torus_config",
    "topo_config_file",
    "lfts_file",
    "lid_matrix_dump_file",
    "root_guid_file",
    "cn_guid_file",
    "io_guid_file",
    "ids_guid_file",
    "guid_routing_order_file",
    "hop_weights_file",
    "port_prof_ignore_file",
    "port_search_ordering_file",
    "pgrp_policy_file",
    "topo_policy_file",
    "rch_policy_file",
];

/// Between the step of a routing chain and a key that its configuration file may set.
const STEP_SEPARATOR: &str = ": ";

/// Stands for the configuration file of a step as a whole.
const STEP_CONFIG: &str = "config";

/// Prefix of the digest that stands for a secret value.
const HASHED: &str = "sha256:";

/// The configuration of an instance, with the files that it names.
pub fn describe(options: &Options) -> Description {
    let keys = TABLE
        .iter()
        .filter(|key| key.support == Support::Implemented && !is_local(key.name, key.section));
    let own = keys.map(|key| (key.name.to_owned(), value(key.name, key.text(options))));
    own.chain(options.rch_policy_file.as_deref().into_iter().flat_map(steps_of)).collect()
}

fn is_local(name: &str, section: &str) -> bool {
    LOCAL_SECTIONS.contains(&section) || LOCAL_KEYS.contains(&name)
}

fn value(name: &str, text: String) -> String {
    match name {
        name if FILE_KEYS.contains(&name) => file_hash(&text),
        name if SECRET_KEYS.contains(&name) => hash(&[name, &text]),
        _ => text,
    }
}

/// The values that the steps of a routing chain set in their own configuration files, with the
/// contents of the files that these name. A value is empty if the step has that of opensm.conf.
fn steps_of(policy_file: &str) -> Vec<(String, String)> {
    let text = read_text(Path::new(policy_file)).unwrap_or_default();
    steps::config_files(&text).iter().flat_map(|(id, file)| step(*id, Path::new(file))).collect()
}

fn step(id: u64, file: &Path) -> Vec<(String, String)> {
    // Errors in the file are reported by the routing chain.
    let text = read_text(file);
    let is_readable = if text.is_ok() { "readable" } else { "" };
    let (settings, _) = StepSettings::parse(file, &text.unwrap_or_default());
    let keys = settings.texts().map(|(key, text)| {
        (key_name(key, id), text.map_or_else(String::new, |text| value(key, text)))
    });
    std::iter::once((key_name(STEP_CONFIG, id), is_readable.to_owned())).chain(keys).collect()
}

fn key_name(key: &str, id: u64) -> String {
    format!("rch_policy_file step {id}{STEP_SEPARATOR}{key}")
}

/// Hash of a file's contents without comments and blanks; empty without a file.
fn file_hash(path: &str) -> String {
    let Ok(bytes) = fs::read(path) else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(without_comment);
    let words: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    if words.is_empty() { String::new() } else { hash(&[&words.join("\n")]) }
}

fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let hex = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{HASHED}{hex}")
}

/// The keys in which two instances differ, with the values where they may be shown. Keys that only
/// one of the versions knows are left out.
pub fn differences(own: &Description, other: &Description) -> Vec<String> {
    let names: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
    let shared =
        names.into_iter().filter_map(|name| Some((name, own.get(name)?, other.get(name)?)));
    let different = shared.filter(|(_, own, other)| own != other);
    different.map(|(name, own, other)| difference(name, own, other)).collect()
}

fn difference(name: &str, own: &str, other: &str) -> String {
    let key = name.rsplit_once(STEP_SEPARATOR).map_or(name, |(_, key)| key);
    if FILE_KEYS.contains(&key) || key == STEP_CONFIG {
        return match (own.is_empty(), other.is_empty()) {
            (true, _) => format!("{name} (no or an empty file here)"),
            (_, true) => format!("{name} (no or an empty file there)"),
            _ => format!("{name} (contents of the files)"),
        };
    }
    if own.starts_with(HASHED) || other.starts_with(HASHED) {
        name.to_owned()
    } else {
        format!("{name} (here {}, there {})", shown_value(own), shown_value(other))
    }
}

/// Control characters of a peer must not reach the log.
fn shown_value(value: &str) -> String {
    match value {
        "" => "not set".to_owned(),
        value => value.escape_debug().take(80).collect::<String>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MKey, SmKey};

    #[test]
    fn keys_that_do_not_exist_are_not_listed() {
        for name in LOCAL_KEYS.iter().chain(&SECRET_KEYS).chain(&FILE_KEYS) {
            assert!(TABLE.iter().any(|key| key.name == *name), "{name}");
        }
        for section in LOCAL_SECTIONS {
            assert!(TABLE.iter().any(|key| key.section == section), "{section}");
        }
        // Paths may differ, and the contents matter.
        let compared = describe(&Options::default()).into_keys();
        let files =
            compared.filter(|name| name.ends_with("_file") && name != "honor_guid2lid_file");
        let by_path: Vec<String> =
            files.filter(|name| !FILE_KEYS.contains(&name.as_str())).collect();
        assert_eq!(by_path, [""; 0]);
    }

    #[test]
    fn values_are_shown_and_secrets_are_not() {
        let own = Options { lmc: 1, m_key: MKey(0xABCD), ..Options::default() };
        let other = Options { m_key: MKey(0x1234), sa_key: SmKey(9), ..Options::default() };
        let own = describe(&own);
        let other = describe(&other);
        let found = differences(&own, &other);
        assert_eq!(found, ["lmc (here 1, there 0)", "m_key", "sa_key"]);
        let text = format!("{own:?}").to_lowercase();
        assert!(!text.contains("abcd\""), "{text}");
        assert_eq!(differences(&own, &own), [""; 0]);
        // Keys that concern the host only may differ, and keys that another version lacks.
        let local = Options { sm_priority: 3, log_file: "x".into(), ..Options::default() };
        let mut local = describe(&local);
        local.remove("lmc");
        assert_eq!(differences(&local, &describe(&Options::default())), [""; 0]);
    }

    #[test]
    fn files_are_compared_by_contents_without_comments() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = with(&dir, "first", "torus 3 3 3\nxp_link 1 2 # a comment\n");
        let same = with(&dir, "same", "# other comments\n\ntorus  3 3 3\n  xp_link 1 2\n");
        assert_eq!(differences(&first, &same), [""; 0]);
        let other = with(&dir, "other", "torus 3 3 4\n");
        assert_eq!(differences(&first, &other), ["torus_config (contents of the files)"]);
        let none = with(&dir, "none", "# nothing\n");
        assert_eq!(differences(&first, &none), ["torus_config (no or an empty file there)"]);
    }

    fn with(dir: &tempfile::TempDir, name: &str, text: &str) -> BTreeMap<String, String> {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("a file");
        describe(&Options { torus_config: path.display().to_string(), ..Options::default() })
    }

    fn step(id: u32, more: &str) -> String {
        format!("unicast-step\nid: {id}\nengine: updn\n{more}end-unicast-step\n")
    }

    /// The configuration of an instance whose files are in `dir`: a chain of three steps, of which
    /// two have configuration files, in `second` with a list of roots.
    fn chain(dir: &Path, second: &str, roots: &str, groups: &str) -> Description {
        let roots = file(dir, "roots", roots.to_owned());
        let second = file(dir, "second", format!("{second}root_guid_file {roots}\n"));
        let third = file(dir, "third", "use_ucast_cache TRUE\nconnect_roots TRUE\n".to_owned());
        let steps = [
            step(1, ""),
            step(2, &format!("config: {second}\n")),
            step(3, &format!("config: {third}\n")),
        ];
        let options = Options {
            rch_policy_file: Some(file(dir, "rch", steps.concat())),
            pgrp_policy_file: Some(file(dir, "pgrp", groups.to_owned())),
            ..Options::default()
        };
        let mut description = describe(&options);
        // It contains the folder of the instance.
        description.remove("rch_policy_file");
        description
    }

    fn file(dir: &Path, name: &str, text: String) -> String {
        let path = dir.join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    #[test]
    fn files_of_the_steps_of_a_routing_chain_are_compared() {
        let [one, two] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
        assert_eq!(compare(&one, &two, "# comment\n", "0x1 # a root\n", "port-group\n"), [""; 0]);
        assert_eq!(
            compare(&one, &two, "", "0x1\n", "other\n"),
            ["pgrp_policy_file (contents of the files)"]
        );
        assert_eq!(
            compare(&one, &two, "", "0x2\n", "port-group\n"),
            ["rch_policy_file step 2: root_guid_file (contents of the files)"]
        );
        assert_eq!(
            compare(&one, &two, "connect_roots TRUE\n", "0x1\n", "port-group\n"),
            ["rch_policy_file step 2: connect_roots (here not set, there TRUE)"]
        );
        let own = chain(one.path(), "", "", "");
        let other = chain(two.path(), "", "", "");
        assert_eq!(differences(&own, &other), [""; 0]);
        fs::remove_file(two.path().join("third")).expect("it exists");
        let policy = two.path().join("rch").display().to_string();
        let steps: Description = steps_of(&policy).into_iter().collect();
        assert_eq!(
            differences(&own, &steps),
            [
                "rch_policy_file step 3: config (no or an empty file there)",
                "rch_policy_file step 3: connect_roots (here TRUE, there not set)",
            ]
        );
    }

    fn compare(
        one: &tempfile::TempDir,
        two: &tempfile::TempDir,
        second: &str,
        roots: &str,
        groups: &str,
    ) -> Vec<String> {
        let own = chain(one.path(), "", "0x1\n", "port-group\n");
        differences(&own, &chain(two.path(), second, roots, groups))
    }
}
