//! saquery against torus-sm and against Debian's opensm, each on a copy of one simulated torus: the
//! same queries have the same answers, record by record, apart from the differences listed in
//! `differences.rs`.
//!
//! Both start with the same files: partitions, a registry of members, subscriptions, services and
//! an alias GUID, and a guid2lid that gives every port the same LIDs. Thus a LID means the same
//! port in both answers; node records, which name both, are compared like all others.

pub(crate) mod answer;
mod differences;
mod fabric;
mod question;

use answer::Answer;
use differences::{DIFFERENCES, Pair};
use fabric::{Fabric, Manager};
use question::Question;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use testkit::START_TIMEOUT;
use testkit::tool;

#[test]
fn answers_are_those_of_opensm() {
    if !["saquery", "opensm"].iter().all(|name| tool(name).is_some()) {
        return;
    }
    let questions = question::all(include_str!("questions.txt"));
    let [(ours, our_answers), (theirs, their_answers)] = thread::scope(|scope| {
        let asked = [Manager::TorusSm, Manager::OpenSm].map(|manager| {
            let questions = &questions;
            scope.spawn(move || {
                let fabric = Fabric::start(manager);
                let answers: Vec<Answer> = questions.iter().map(|q| fabric.ask(q)).collect();
                (fabric, answers)
            })
        });
        asked.map(|thread| thread.join().expect("its questions are asked"))
    });
    let mut met = BTreeSet::new();
    let mut differing = Vec::new();
    for (question, (ours_first, theirs_first)) in
        questions.iter().zip(our_answers.into_iter().zip(their_answers))
    {
        let pair = Pair { ours: ours_first, theirs: theirs_first };
        if let Err(difference) = settle(pair, question, [&ours, &theirs], &mut met) {
            differing.push(format!("saquery {}\n{difference}", question.text));
        }
    }
    let count = differing.len();
    let text = differing.join("\n");
    assert!(differing.is_empty(), "{count} differ:\n{text}\nlog:\n{}", ours.log());
    for difference in &DIFFERENCES {
        let name = difference.name;
        let reason = difference.reason;
        assert!(met.contains(name), "'{name}' is no difference any more ({reason})");
    }
}

/// Compares two answers. Answers that differ are requested again for a while, since the manager may
/// still have been sweeping.
fn settle(
    mut pair: Pair,
    question: &Question,
    [ours, theirs]: [&Fabric; 2],
    met: &mut BTreeSet<&'static str>,
) -> Result<(), String> {
    let patience = Instant::now() + START_TIMEOUT / 10;
    loop {
        let listed = DIFFERENCES.iter().filter(|listed| (listed.apply)(question, &mut pair));
        let listed: Vec<&'static str> = listed.map(|listed| listed.name).collect();
        let Some(difference) = pair.difference() else {
            met.extend(listed);
            return Ok(());
        };
        if Instant::now() > patience {
            return Err(difference);
        }
        thread::sleep(Duration::from_millis(100));
        pair = Pair { ours: ours.ask(question), theirs: theirs.ask(question) };
    }
}
