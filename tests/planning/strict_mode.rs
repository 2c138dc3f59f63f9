//! The decisions of `refuse_faulty_routes`, as data: for each engine the fabrics that it may route in
//! this mode, and the reasons against the others. They are those of the program before routes with
//! unreachable pairs or a credit loop were programmed with a warning, when this mode was the only one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use testkit::planning::PlanSetup;
use torus_sm::config::options::Options;
use torus_sm::fabric::ibnet;
use torus_sm::verify::Fault;

/// The folder with the fabrics and the list of verdicts.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/strict-mode")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("a file")
}

/// The verdict on the routes of `engine`. `settings`: keys of opensm.conf with values, which may be
/// files of the folder.
fn verdict(fabric: &str, engine: &str, settings: &[&str], is_strict: bool) -> String {
    let mut conf = format!("routing_engine {engine},no_fallback\n");
    for setting in settings {
        let (key, value) = setting.split_once('=').expect("key=value");
        let file = folder().join(value);
        let value = if file.is_file() { file.display().to_string() } else { value.to_owned() };
        let _ = writeln!(conf, "{key} {value}");
    }
    let mut options = Options { refuse_faulty_routes: is_strict, ..Options::default() };
    assert_eq!(options.read(&conf, Path::new("opensm.conf")), []);
    let file = format!("{fabric}.net");
    let topology = ibnet::parse(Path::new(&file), &read(&file)).expect("a fabric");
    let setup = PlanSetup::new(&topology, 0, options, read("torus.conf"));
    match setup.verdict() {
        Err(failure) => {
            let reason = failure.routing_errors[0].reason().expect("a reason");
            reason.code.map_or("refused: -".to_owned(), |code| format!("refused: ERR {code}"))
        }
        Ok(planned) => match planned.verdict {
            Ok(_) => "accepted".to_owned(),
            Err(failure) => match failure.faults.first() {
                Some(Fault::CreditLoop(_)) => "rejected: credit loop".to_owned(),
                other => format!("rejected: {other:?}"),
            },
        },
    }
}

#[test]
fn strict_verdicts_are_those_recorded() {
    let list = read("verdicts");
    let rows: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let results = testkit::in_parallel(rows.len(), |index| {
        let (words, expected) = rows[index].split_once(" | ").expect("a verdict");
        let mut words = words.split_whitespace();
        let fabric = words.next().expect("a fabric");
        let engine = words.next().expect("an engine");
        let settings: Vec<&str> = words.filter(|&word| word != "-").collect();
        let found = verdict(fabric, engine, &settings, true);
        let lenient = verdict(fabric, engine, &settings, false);
        let mut text = String::new();
        if found != expected {
            let _ = write!(text, "now {found}");
        }
        if lenient != found && lenient != "accepted" {
            let _ = write!(text, "without the mode {lenient}");
        }
        let problem = (!text.is_empty()).then(|| format!("{}: {text}", rows[index]));
        (problem, found != lenient)
    });
    let problems: Vec<&String> = results.iter().filter_map(|(text, _)| text.as_ref()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(rows.len(), 148);
    let stricter = results.iter().filter(|(_, is_stricter)| *is_stricter).count();
    assert_eq!(stricter, 16, "fabrics that the mode refuses and others accept");
}
