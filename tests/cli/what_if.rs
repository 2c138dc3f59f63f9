//! `torus-sm plan --what-if 2`: pairs of failures by kind, samples, and the worst of them.

use super::plan::{json, strict, text};
use serde_json::Value;
use std::fs;
use torus_sm::sim::generate::Shape;

/// The results of the kinds of failures: kind, possible, tried, complete, partial, unrouted,
/// repaired.
fn kinds(report: &Value) -> Vec<(String, [u64; 6])> {
    let kinds = report["what_if"]["kinds"].as_array().expect("kinds").iter();
    let names = ["possible", "tried", "complete", "partial", "unrouted", "repaired"];
    let row = |kind: &Value| names.map(|name| kind[name].as_u64().expect("a count"));
    kinds.map(|kind| (kind["kind"].as_str().expect("a kind").to_owned(), row(kind))).collect()
}

/// The two seeds of this torus are far from each other, so that each switch can be placed.
#[test]
fn pairs_of_failures_are_counted_by_kind() {
    let (code, report) = json(&strict(&["4x4", "--what-if", "2"]));
    assert_eq!(code, Some(0));
    let found = kinds(&report);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["switch", "cable", "two_switches", "switch_and_cable", "two_cables"]);
    let switches = 16;
    let cables = 32;
    let possible =
        [switches, cables, switches * 15 / 2, switches * cables - 2 * cables, cables * 31 / 2];
    for ((name, row), possible) in found.iter().zip(possible) {
        let [all, tried, complete, partial, unrouted, _] = *row;
        assert_eq!([all, tried], [possible; 2], "{name}");
        assert_eq!(complete + partial + unrouted, tried, "{name}");
    }
    // Two missing switches are routed around, which torus-2QoS itself refuses.
    let [_, tried, complete, _, _, repaired] = found[2].1;
    assert!(complete > 0 && repaired > 0 && repaired <= tried, "{found:?}");
    let failures = report["what_if"]["failures"].as_array().expect("failures");
    assert_eq!(failures.len() as u64, possible.iter().sum::<u64>());
    let is_loss = |failure: &Value| {
        let count = |name: &str| failure[name].as_u64().expect("a count");
        failure["result"] == "routed" && count("cut_off") + count("unrouted_pairs") > 0
    };
    let lossy = failures.iter().filter(|failure| is_loss(failure)).count() as u64;
    assert_eq!(lossy, found.iter().map(|(_, row)| row[3]).sum::<u64>());
    let worst = report["what_if"]["worst"].as_array().expect("failures");
    assert!(!worst.is_empty() && worst.len() <= 10);
    assert!(lossy == 0 || is_loss(&worst[0]), "{:?}", worst[0]);
    let (_, text) = text(&strict(&["4x4", "--what-if-pairs"]));
    assert!(text.contains("\n  two switches          all 120: "), "{text}");
    assert!(text.contains("\n  worst of those that are routed:\n"), "{text}");
}

#[test]
fn samples_depend_on_the_seed_alone() {
    let run = |seed: &str| {
        let words = ["5x4", "--what-if", "2", "--samples", "9", "--seed", seed];
        json(&strict(&words)).1["what_if"].clone()
    };
    let first = run("3");
    let tried = kinds(&serde_json::json!({ "what_if": first.clone() }));
    assert!(tried.iter().all(|(_, row)| row[1] == 9 && row[0] > 9), "{tried:?}");
    assert_eq!(run("3"), first);
    assert_ne!(run("4")["failures"], first["failures"]);
    let (_, text) = text(&strict(&["5x4", "--what-if", "2", "--samples", "9", "--seed", "3"]));
    assert!(text.contains("\n  two switches          9 of 190 (seed 3): "), "{text}");
}

/// Each failure of a switch of the only seed is routed with the seed that the report ends with, and the
/// paths of the whole torus stay as they are.
#[test]
fn a_further_seed_cures_failures_of_the_first_one() {
    for shape in [[4, 4, 2], [5, 4, 1], [3, 3, 3]] {
        let [x, y, z] = shape;
        let size = format!("{x}x{y}x{z}");
        let folder = tempfile::tempdir().expect("a folder");
        let conf = folder.path().join("torus-2QoS.conf");
        let one_seed = Shape::torus(shape).torus_conf();
        let one_seed = one_seed.split("next_seed").next().expect("a seed");
        fs::write(&conf, one_seed).expect("a file");
        let conf = conf.to_str().expect("UTF-8");
        let words = strict(&[&size, "--torus_config", conf, "--what-if"]);
        let (_, before) = json(&words);
        let cure = &before["what_if"]["cure"];
        assert_eq!(cure["seeds"], 1, "{size}");
        assert_eq!(cure["failures"], before["what_if"]["unrouted"], "{size}");
        assert_eq!(cure["routed"], cure["failures"], "{size}: {cure}");
        let seed = cure["config"].as_str().expect("lines");
        let (_, shown) = text(&words);
        assert!(shown.contains("\ncure:        of "), "{shown}");
        assert!(shown.ends_with(&format!("    {}\n", seed.trim_end().replace('\n', "\n    "))));
        fs::write(conf, format!("{one_seed}\n{seed}")).expect("a file");
        let (code, after) = json(&words);
        assert_eq!(code, Some(0), "{size}");
        assert_eq!(after["what_if"]["unrouted"], 0, "{size}");
        assert_eq!(after["what_if"]["cure"], Value::Null, "{size}");
        let warnings = |report: &Value| {
            let notes = report["notes"].as_array().expect("notes").iter();
            let about_seeds =
                |note: &&Value| note["text"].as_str().is_some_and(|it| it.contains("seed"));
            notes.filter(about_seeds).filter(|note| note["severity"] != "Info").count()
        };
        assert_eq!(warnings(&after), 0, "{size}: {}", after["notes"]);
    }
}
