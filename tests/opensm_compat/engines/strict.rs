//! `refuse_faulty_routes` on the same random fabrics: it rejects each plan that leaves pairs of hosts
//! without a route, or closes a credit loop that the rules of the engine are meant to exclude, and
//! names what it found. It changes no other plan.

use super::{EngineCase, Options, SEEDS};
use super::{dfsssp, dnup, file, ftree, lash, minhop, nue, ours::Ours, sssp, updn};
use std::collections::BTreeMap;
use testkit::fabrics::Family;
use torus_sm::plan::Plan;
use torus_sm::verify::Summary;

/// Number of seeds by default.
const DEFAULT_SEEDS: u64 = 7;

/// Name, families and options of an engine.
type Engine = (&'static str, &'static [Family], Options);

const ENGINES: [Engine; 10] = [
    ("minhop", &Family::ALL, minhop::balancing),
    ("updn", &updn::FAMILIES, updn::options),
    ("dnup", &Family::ALL, dnup::options),
    ("ftree", &ftree::FAMILIES, ftree::options),
    ("file", &Family::ALL, file::options),
    ("lash", &Family::ALL, lash::options),
    ("dor", &Family::ALL, minhop::balancing),
    ("nue", &Family::ALL, nue::options),
    ("sssp", &Family::ALL, sssp::options),
    ("dfsssp", &Family::ALL, dfsssp::options),
];

#[test]
fn strictness_rejects_faulty_routes_and_changes_no_others() {
    let seeds = testkit::seeds(SEEDS, 0..DEFAULT_SEEDS);
    let is_default = seeds == (0..DEFAULT_SEEDS);
    let cases: Vec<(u64, Engine)> =
        seeds.flat_map(|seed| ENGINES.map(|engine| (seed, engine))).collect();
    let results = testkit::in_parallel(cases.len(), |index| {
        let (seed, (engine, families, options)) = cases[index];
        // Multicast trees, which may close credit loops as well, never reject a plan.
        let case = EngineCase {
            groups: Vec::new(),
            ..EngineCase::random(engine, families, seed, options)
        };
        outcome(&case).unwrap_or_else(|text| panic!("{}\n{text}", case.replay()))
    });
    let mut tally = BTreeMap::<(&str, &str), usize>::new();
    for (result, (_, (engine, ..))) in results.iter().zip(&cases) {
        *tally.entry((result, engine)).or_default() += 1;
    }
    println!("{tally:#?}");
    for result in ["unchanged", "without a route", "credit loop"] {
        assert!(!is_default || results.contains(&result), "no case of this kind: {result}");
    }
}

/// What strictness does to the plan of a case.
///
/// # Errors
/// It rejects a plan without need, accepts a faulty one, or does not name the fault.
fn outcome(case: &EngineCase) -> Result<&'static str, String> {
    let strict_case = {
        let mut case = case.clone();
        case.set("refuse_faulty_routes", "TRUE");
        case
    };
    let usual = Ours::new(case, "");
    let strict = Ours::new(&strict_case, "");
    let strictly = strict.plan().and_then(|plan| strict.verify(plan.clone()).map(|_| plan));
    let expect_refusal = |result, named: &[&str]| match &strictly {
        Ok(_) => Err(format!("accepted, although: {result}")),
        Err(text) if named.iter().any(|part| text.contains(part)) => Ok(result),
        Err(text) => Err(format!("does not name the fault ({result}): {text}")),
    };
    let Ok(plan) = usual.plan() else { return expect_refusal("refused anyway", &[""]) };
    let Ok(summary) = usual.verify(plan.clone()) else {
        return expect_refusal("rejected anyway", &[""]);
    };
    if summary.unrouted.hosts > 0 {
        return expect_refusal("without a route", &["no path from", "does not reach", "LID "]);
    }
    if has_loop(&plan, &summary) {
        let avoids = |plan: &Plan| {
            let summary = strict.verify(plan.clone());
            summary.is_ok_and(|summary| !has_loop(plan, &summary))
        };
        // dfsssp takes a VL from hosts for switches then.
        if strictly.as_ref().is_ok_and(avoids) {
            return Ok("loop avoided");
        }
        return expect_refusal("credit loop", &["credit loop"]);
    }
    let tables = |ours: &Ours<'_>, plan: &Plan| ours.lfts(plan).entries;
    match &strictly {
        Ok(same) if tables(&strict, same) == tables(&usual, &plan) => Ok("unchanged"),
        Ok(_) => Err("other tables".to_owned()),
        Err(text) => Err(format!("rejected without need: {text}")),
    }
}

/// True if a plan has a credit loop although its engine is meant to have none. Loops that close only
/// if devices map all SLs to one VL are a warning of strict checks as well.
fn has_loop(plan: &Plan, summary: &Summary) -> bool {
    let unmapped = "no SL to VL mappings are written";
    plan.routing.policy.avoids_credit_loops()
        && summary.cycle.is_some()
        && !summary.notes.iter().any(|note| note.to_string().contains(unmapped))
}
