//! The same options and the same opensm.conf, read by Debian's opensm and by torus-sm: both write the
//! resulting configuration with `-c`. What differs is reported with file and line, or listed here with
//! its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use testkit::{tool, torus_sm};

/// Values of all keys, right ones and wrong ones.
const VALUES: [&str; 44] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "7",
    "8",
    "15",
    "16",
    "17",
    "31",
    "32",
    "63",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "0x0",
    "0x5",
    "0xff",
    "010",
    "0x1f",
    "TRUE",
    "FALSE",
    "true",
    "yes",
    "no",
    "nonsense",
    "(null)",
    "both",
    "Both",
    "in",
    "loopback",
    "\"quoted\"",
    "\"two words\"",
    "two words",
    "5 # a comment",
    "12abc",
    "0:1,1:2",
    "/tmp/a file",
];

/// Keys with which OpenSM crashes if the value is (null).
const CRASHING: [&str; 2] = ["console", "part_enforce"];

/// Keys whose values differ without a warning, with the reason.
const SILENT: [(&str, &str); 8] = [
    ("log_file", "(null) is standard output, as in OpenSM"),
    ("scatter_ports", "a seed, whose bits OpenSM shows as a signed number"),
    ("part_enforce", "shows what no_partition_enforcement makes of it"),
    (
        "force_link_speed_ext",
        "8 to 15 are the speeds of OpenSM 3.3.24, which the version of Debian does not know",
    ),
    ("cc_ca_cong_setting_ccti_timer", CC_ENTRIES),
    ("cc_ca_cong_setting_ccti_increase", CC_ENTRIES),
    ("cc_ca_cong_setting_trigger_threshold", CC_ENTRIES),
    ("cc_ca_cong_setting_ccti_min", CC_ENTRIES),
];

const CC_ENTRIES: &str = "OpenSM lists an SL with all four settings if one of them is set";

/// Options whose keys differ, with the reason.
const OPTIONS: [(&str, &str); 2] = [
    ("cc_key", "OpenSM stores the bytes of the option in reverse order"),
    ("no_part_enforce", "part_enforce shows what no_partition_enforcement makes of it"),
];

/// The configuration that a program writes: the values by key, several of a key separated by lines.
type Values = BTreeMap<String, String>;

/// Runs a program with these arguments and `-c`. `None` if it writes nothing; and its messages.
fn written(program: &Path, folder: &Path, args: &[&str]) -> (Option<Values>, String) {
    let file = folder.join("written.conf");
    let _ = fs::remove_file(&file);
    let mut command = Command::new(program);
    command.args(args).arg("-c").arg(&file).current_dir(folder).env_remove("OSM_TMP_DIR");
    let output = command.output().expect("it starts");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let Ok(text) = fs::read_to_string(&file) else { return (None, messages) };
    let mut values = Values::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let lines = values.entry(key.to_owned()).or_default();
        *lines += &format!("{}\n", normal(value.trim()));
    }
    (Some(values), messages)
}

/// The findings of `torus-sm check`, which are those of a start.
fn warnings(folder: &Path, name: &str) -> String {
    let mut command = Command::new(torus_sm());
    command.args(["check", "-F", name]).current_dir(folder).env("OSM_CACHE_DIR", folder);
    String::from_utf8_lossy(&command.output().expect("it starts").stdout).into_owned()
}

/// A value that is the same for the same number, and for no value.
fn normal(value: &str) -> String {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    match number {
        Some(number) => number.to_string(),
        None if value.is_empty() => "(null)".to_owned(),
        None => value.to_owned(),
    }
}

/// The keys of a table of `tests/vectors/options` with the rest of their lines.
fn rows(file: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/options");
    let text = fs::read_to_string(folder.join(file)).expect("the table");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let _effect = words.next()?;
        Some((name, words.collect::<Vec<_>>().join(" ")))
    };
    lines.filter_map(row).collect()
}

#[test]
fn every_value_of_every_key_is_that_of_opensm_or_reported() {
    let Some(opensm) = tool("opensm") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let keys = rows("opensm-keys.txt");
    let file = dir.path().join("opensm.conf");
    let name = file.to_str().expect("UTF-8");
    let mut compared = 0;
    let mut reported = 0;
    for value in VALUES {
        let line = |(key, _): &(String, String)| match value {
            "(null)" if CRASHING.contains(&key.as_str()) => "\n".to_owned(),
            _ => format!("{key} {value}\n"),
        };
        fs::write(&file, keys.iter().map(line).collect::<String>()).expect("a file");
        let (theirs, _) = written(&opensm, dir.path(), &["-F", name]);
        let (ours, _) = written(&torus_sm(), dir.path(), &["-F", name]);
        let messages = warnings(dir.path(), name);
        let theirs = theirs.expect("OpenSM writes");
        let ours = ours.expect("torus-sm writes");
        for (number, (key, _)) in (1..).zip(&keys) {
            // OpenSM knows this deprecated name and does not write it.
            let Some(their) = theirs.get(key) else { continue };
            compared += 1;
            if ours.get(key) == Some(their) {
                continue;
            }
            reported += 1;
            let place = format!("{name}:{number}:");
            let is_reported = messages
                .lines()
                .any(|line| line.contains(&place) && line.contains(&format!(" {key}: ")));
            let is_known = SILENT.iter().any(|(known, _)| known == key);
            assert!(
                is_reported || is_known,
                "{key} {value}: ours {:?}, OpenSM's {their:?}\n{messages}",
                ours.get(key)
            );
        }
    }
    println!("{compared} values compared, {reported} differ");
    assert!(compared > 6500 && reported < 500, "{compared} values, {reported} differ");
}

#[test]
fn every_option_changes_the_keys_that_opensm_changes() {
    let Some(opensm) = tool("opensm") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let changed = |program: &Path, args: &[&str]| {
        let (default, _) = written(program, dir.path(), &[]);
        let default = default.expect("a configuration");
        let (values, messages) = written(program, dir.path(), args);
        let values = values.unwrap_or_else(|| panic!("{args:?}: {messages}"));
        let is_changed = |(key, value): &(String, String)| {
            // A key of ours alone: -n sets it, so that the limit does not adapt.
            key != "max_adaptive_wire_smps" && default.get(key) != Some(value)
        };
        values.into_iter().filter(is_changed).collect::<Values>()
    };
    let mut rows = rows("opensm-flags.txt");
    for (option, value) in [
        ("debug", "0"),
        ("debug", "1"),
        ("debug", "3"),
        ("maxsmps", "0"),
        ("maxsmps", "-5"),
        ("sweep", "0"),
        ("sweep", "-5"),
        ("part_enforce", "off"),
        ("part_enforce", "nonsense"),
        ("console", "nonsense"),
    ] {
        rows.push((option.to_owned(), value.to_owned()));
    }
    for (option, value) in rows {
        if ["create-config", "help", "version"].contains(&option.as_str()) {
            continue;
        }
        let word = format!("--{option}");
        let args: Vec<&str> = [word.as_str(), &value].into_iter().collect();
        let args = if value.is_empty() { &args[..1] } else { &args[..] };
        let ours = changed(&torus_sm(), args);
        let theirs = changed(&opensm, args);
        let is_known = OPTIONS.iter().any(|(known, _)| *known == option);
        assert!(ours == theirs || is_known, "{args:?}: ours {ours:?}, OpenSM's {theirs:?}");
    }
}
