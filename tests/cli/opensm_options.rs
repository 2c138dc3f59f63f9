//! Every key and option of OpenSM: accepted, and effective or with a warning that gives the reason.
//! The tables are `opensm-keys.txt` and `opensm-flags.txt` of `tests/vectors/options`.

use std::fs;
use std::path::Path;
use torus_sm::cli::{self, Command, DaemonArgs, configuration};
use torus_sm::config::options::{Options, Support, parse::find};

/// A row: name, effect, and the rest of the line.
struct Row {
    name: String,
    effect: String,
    value: String,
}

fn rows(file: &str) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/options");
    let text = fs::read_to_string(folder.join(file)).expect("the table");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let rest = rest.trim_start();
        let (effect, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let [name, effect, value] = [name, effect, value.trim()].map(str::to_owned);
        Some(Row { name, effect, value })
    };
    lines.map(|line| row(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn daemon(words: &[&str]) -> DaemonArgs {
    match cli::parse(words) {
        Ok(Command::Daemon(args)) => args,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Checks that a start with these words has the effect of the row, compared with the defaults.
fn check(row: &Row, words: &[&str], place: &str) {
    let name = &row.name;
    let configured = configuration::read(&daemon(words)).expect("readable");
    let default = configuration::read(&daemon(&[])).expect("readable");
    let reasons = configured.notes.iter().map(|note| note.text.as_str());
    let reasons: Vec<&str> = reasons
        .filter(|text| text.starts_with(place) && text.contains(" has no effect: "))
        .collect();
    match row.effect.as_str() {
        "warns" => assert_eq!(reasons.len(), 1, "{name}: {:?}", configured.notes),
        "same" | "differs" => {
            assert_eq!(reasons, [""; 0], "{name}");
            assert_ne!(configured.options, default.options, "{name} changes nothing");
        }
        other => panic!("{name}: {other} is no effect"),
    }
}

#[test]
fn every_key_of_opensm_is_effective_or_warns() {
    let rows = rows("opensm-keys.txt");
    assert!(rows.len() >= 160, "{} keys", rows.len());
    let folder = tempfile::tempdir().expect("a folder");
    for row in rows {
        let key = find(&row.name).unwrap_or_else(|| panic!("{} is unknown", row.name));
        assert_eq!(
            key.support == Support::Implemented,
            row.effect != "warns",
            "{} is not what the table says",
            row.name
        );
        let path = folder.path().join("opensm.conf");
        let line = format!("# one key\n{} {}\n", row.name, row.value);
        fs::write(&path, &line).expect("a file");
        let (mut options, findings) = Options::parse(&line, &path);
        assert!(findings.is_empty(), "{findings:?}");
        options.reconcile();
        let place = format!("{}:2: {}", path.display(), key.name);
        check(&row, &["-F", path.to_str().expect("text")], &place);
    }
}

#[test]
fn every_option_of_opensm_is_effective_or_warns() {
    let rows = rows("opensm-flags.txt");
    assert!(rows.len() >= 67, "{} options", rows.len());
    for row in rows {
        let option = format!("--{}", row.name);
        let words: Vec<&str> = [option.as_str(), &row.value].into_iter().collect();
        let words = if row.value.is_empty() { &words[..1] } else { &words[..] };
        match row.name.as_str() {
            // These have no key: their effect is in the arguments.
            "help" => assert!(matches!(cli::parse(words), Ok(Command::ShowHelp(_)))),
            "version" => assert_eq!(cli::parse(words), Ok(Command::ShowVersion)),
            "create-config" => {
                assert!(matches!(cli::parse(words), Ok(Command::CreateConfig(..))));
            }
            "config" | "once" | "pidfile" => assert_ne!(daemon(words), daemon(&[]), "{option}"),
            _ => check(&row, words, ""),
        }
    }
}
