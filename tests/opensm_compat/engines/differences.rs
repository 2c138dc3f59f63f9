//! Comparison of both results of a case, and the differences in which OpenSM is wrong.

use super::EngineCase;
use super::ours::Ours;
use super::theirs::{self, Tables, Theirs};
use std::collections::BTreeMap;
use testkit::dumps::{Mfts, differences};
use torus_sm::plan::Plan;
use torus_sm::plan::routing::ftree::{self, FtreePolicy};
use torus_sm::plan::routing::nue;
use torus_sm::plan::routing::sssp::SsspPolicy;
use torus_sm::publish::dumps;
use torus_sm::verify::{Fault, Summary};

/// Differences in which OpenSM is wrong. The comparison shows for each case that it is
/// so: the verification rejects OpenSM's tables.
const UNREACHABLE: &str = "OpenSM leaves pairs without a route that ours have";
const FORWARDING_LOOP: &str = "OpenSM's forwarding tables have a loop, we refuse";
const MULTICAST_LOOP: &str = "OpenSM's multicast entries have a loop, ours do not";
const MEMBERS_LEFT_OUT: &str = "OpenSM's multicast trees leave out members that ours reach";
const CREDIT_LOOP: &str = "OpenSM's tables have a credit loop, we refuse";
const SWITCH_SLS: &str = "OpenSM's packets from switches close a credit loop on VL 0";
const NUE_LOOP: &str = "OpenSM's nue closes a credit loop, ours does not";
const UNORDERED: &str = "OpenSM's ftree sorts hosts as if they were switches, by addresses";
pub(crate) const KEPT: &str =
    "OpenSM keeps entries of the engine before and balances the others with them, ours does not";
const LEFT_OUT: &str = "OpenSM's ftree leaves out hosts";

/// The engines that promise routes between all end ports without credit loops.
const LOOP_FREE: [&str; 6] = ["updn", "dnup", "ftree", "lash", "dfsssp", "nue"];

/// The result of a comparison.
pub(crate) enum Verdict {
    /// Both route the fabric, with equal results.
    Equal,
    /// Both refuse the fabric.
    BothRefuse,
    /// OpenSM is wrong in the way that the text says.
    Known(&'static str),
    /// An unexplained difference.
    Differs(String),
}

impl Verdict {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::BothRefuse => "both refuse",
            Self::Known(name) => name,
            Self::Differs(_) => "differ",
        }
    }
}

/// Routes a case by both programs and compares the results.
pub(crate) fn compare(case: &EngineCase) -> Verdict {
    match theirs::run(case) {
        Theirs::Routed(tables) => judge(case, &tables),
        Theirs::Refused(reasons) => match Ours::new(case, "").plan() {
            Err(_) => Verdict::BothRefuse,
            Ok(_) => Verdict::Differs(format!("OpenSM refuses, we route:\n{reasons}")),
        },
        Theirs::Crashed(text) => Verdict::Differs(format!("OpenSM crashes: {text}")),
    }
}

/// Compares the plan of a case with OpenSM's tables.
pub(crate) fn judge(case: &EngineCase, theirs: &Tables) -> Verdict {
    let ours = Ours::new(case, &theirs.lids);
    let plan = match ours.plan() {
        Ok(plan) => plan,
        Err(reasons) => return explain(&ours, theirs, format!("we refuse:\n{reasons}")),
    };
    let found = differing_tables(&ours, &plan, theirs);
    if !found.is_empty() && case.engine == nue::NAME {
        // Layers are those of LIDs in both programs.
        return match (ours.verify_their_lfts(plan.clone(), theirs), ours.verify(plan)) {
            (Err(faults), Ok(_)) if faults.contains("credit loop") => Verdict::Known(NUE_LOOP),
            (theirs, ours) => {
                Verdict::Differs(format!("{found}theirs: {theirs:?}\nours: {ours:?}"))
            }
        };
    }
    if !found.is_empty() {
        return match explain(&ours, theirs, found) {
            Verdict::Differs(_) if is_unordered(&plan) => Verdict::Known(UNORDERED),
            verdict if case.engine == ftree::NAME => verdict,
            Verdict::Known(reason) => Verdict::Differs(format!("tables differ, and {reason}")),
            verdict => verdict,
        };
    }
    let trees = differences(&ours.mfts(&plan), &theirs.mfts);
    if !trees.is_empty() {
        return match known_trees(&ours, &plan, &ours.mfts(&plan), theirs) {
            Some(reason) => Verdict::Known(reason),
            None => Verdict::Differs(trees),
        };
    }
    let switch_vls = differences(&ours.path_vls(&plan, &theirs.path_vls), &theirs.path_vls);
    if !switch_vls.is_empty() && ours.verify(plan.clone()).is_ok() {
        return match ours.verify_switches_on_vl_0(plan) {
            Err(faults) if faults.contains("credit loop") => Verdict::Known(SWITCH_SLS),
            _ => Verdict::Differs(switch_vls),
        };
    }
    match ours.verify(plan) {
        Ok(_) => Verdict::Equal,
        Err(faults) if faults.contains("credit loop") => Verdict::Known(CREDIT_LOOP),
        Err(faults) => Verdict::Differs(format!("our plan does not pass: {faults}")),
    }
}

/// The known difference of OpenSM's multicast trees from ours, if it is one.
pub(crate) fn known_trees(
    ours: &Ours<'_>,
    plan: &Plan,
    own: &Mfts,
    theirs: &Tables,
) -> Option<&'static str> {
    match ours.verify_their_mfts(plan, theirs) {
        Err(faults) if faults.contains("loops") => Some(MULTICAST_LOOP),
        _ if is_unordered(plan) => Some(UNORDERED),
        _ => ours.reaches_more_members(own, &theirs.mfts).then_some(MEMBERS_LEFT_OUT),
    }
}

fn differing_tables(ours: &Ours<'_>, plan: &Plan, theirs: &Tables) -> String {
    let lfts = ours.lfts(plan);
    let mut text = differences(&lfts.owners, &theirs.lfts.owners);
    text += &differences(&lfts.entries, &theirs.lfts.entries);
    if plan.routing.policy.decides_sl_to_vl() {
        text += &differences(&ours.sl_to_vls(plan, &theirs.sl_to_vls), &theirs.sl_to_vls);
    }
    // With a VL for switches alone, which must then be needed, hosts have fewer VLs than OpenSM's.
    let is_comparable = |from| {
        !ours.is_switch(plan, from)
            && !Ours::policy(plan).is_some_and(SsspPolicy::takes_vl_from_hosts)
    };
    let from_hosts = theirs.path_vls.iter().filter(|((from, _), _)| is_comparable(*from));
    let vls = from_hosts.map(|(&pair, &vl)| (pair, vl)).collect();
    text += &differences(&ours.path_vls(plan, &vls), &vls);
    text += &differences(&numbered(ours.layers(plan)), &numbered(&theirs.layers));
    let own_dumps = plan.routing.policy.dumps(&ours.fabric, &plan.lids);
    // The hops that OpenSM's nue lists are not those of its routes.
    if let Some(their) = theirs.dumps.get(LID_MATRIX)
        && ours.case.engine != "nue"
        && !own_dumps.iter().any(|dump| dump.file == LID_MATRIX)
    {
        let matrix = dumps::render(dumps::lid_matrix, &ours.fabric, plan);
        text += &differences(&lines(&matrix), &lines(their));
    }
    for dump in own_dumps {
        if let Some(their) = theirs.dumps.get(&*dump.file) {
            text += &differences(&lines(&dump.text), &lines(their));
        }
    }
    text
}

/// The dump of hops between switches.
const LID_MATRIX: &str = "opensm-lid-matrix.dump";

fn lines(text: &str) -> BTreeMap<usize, &str> {
    numbered(text.lines())
}

fn numbered<T>(items: impl IntoIterator<Item = T>) -> BTreeMap<usize, T> {
    items.into_iter().enumerate().collect()
}

/// Names the known difference of a case, if it is one: the verification rejects OpenSM's tables.
fn explain(ours: &Ours<'_>, theirs: &Tables, found: String) -> Verdict {
    // Whether tables of several VLs have a loop depends on their SLs.
    let has_lanes = ["dfsssp", "nue"].contains(&ours.case.engine);
    if has_lanes || !LOOP_FREE.contains(&ours.case.engine) {
        return Verdict::Differs(found);
    }
    let known = match ours.verify_theirs(theirs) {
        Ok(Ok(summary)) => known_finding(ours.case.engine, &summary),
        Ok(Err(failure)) => known_fault(&failure.faults)
            .filter(|reason| *reason != UNREACHABLE || has_gap(theirs, &found))
            .ok_or(failure.to_string()),
        Err(reasons) => Err(reasons),
    };
    match known {
        Ok(reason) => Verdict::Known(reason),
        Err(text) => Verdict::Differs(format!("{found}\nOpenSM's tables: {text}")),
    }
}

/// The known difference that a finding in OpenSM's tables shows, which pass.
fn known_finding(engine: &str, summary: &Summary) -> Result<&'static str, String> {
    match (&summary.cycle, summary.left_out.first()) {
        (Some(_), _) => Ok(CREDIT_LOOP),
        (None, Some(_)) if engine == ftree::NAME => Ok(LEFT_OUT),
        (None, first) => Err(format!("they pass; the first port left out is {first:?}")),
    }
}

/// The known difference that the faults of OpenSM's tables show, by the first fault.
fn known_fault(faults: &[Fault]) -> Option<&'static str> {
    match faults.first()? {
        Fault::Unreachable { end, .. } if end.ends_with("has no entry for it") => Some(UNREACHABLE),
        Fault::Unreachable { end, .. } if end.starts_with("loops") => Some(FORWARDING_LOOP),
        Fault::CreditLoop(_) => Some(CREDIT_LOOP),
        _ => None,
    }
}

/// True if OpenSM's tables lack the entry that a refusal names, or if it names none.
fn has_gap(theirs: &Tables, refusal: &str) -> bool {
    named_gap(refusal).is_none_or(|gap| !theirs.lfts.entries.contains_key(&gap))
}

/// The switch GUID and the LID of a refusal "no path from Switch GUID … to LID n, …".
fn named_gap(refusal: &str) -> Option<(u64, u16)> {
    let (_, gap) = refusal.split_once("no path from Switch 0x")?;
    let (guid, gap) = gap.split_once(' ')?;
    let (lid, _) = gap.split_once(" to LID ")?.1.split_once(',')?;
    Some((u64::from_str_radix(guid, 16).ok()?, lid.parse().ok()?))
}

/// True if OpenSM's ftree routes hosts in an order that depends on addresses in memory.
fn is_unordered(plan: &Plan) -> bool {
    let policy = plan.routing.policy.as_any().downcast_ref::<FtreePolicy>();
    policy.is_some_and(|policy| !policy.unordered_leaves().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use torus_sm::ids::{Lid, Sl};
    use torus_sm::verify::Cycle;

    fn unreachable(end: &str) -> Fault {
        let port = String::from("Channel Adapter 0x1");
        let source_port = port.clone();
        let end = end.to_owned();
        Fault::Unreachable { source_port, lid: Lid(1), destination: port, end }
    }

    #[test]
    fn faults_are_named_by_what_they_are() {
        let dropped = Fault::Dropped { switch: String::new(), input: 1, output: 2, sl: Sl(0) };
        let cases = [
            (unreachable("switch 0x2 \"S\" has no entry for it"), Some(UNREACHABLE)),
            (unreachable("loops, back at switch 0x2 \"S\""), Some(FORWARDING_LOOP)),
            (unreachable("Switch 0x2 port 3 has no link"), None),
            (Fault::CreditLoop(Cycle(Vec::new())), Some(CREDIT_LOOP)),
            (dropped, None),
        ];
        for (fault, expected) in cases {
            let text = fault.to_string();
            assert_eq!(known_fault(&[fault]), expected, "{text}");
        }
        assert_eq!(known_fault(&[]), None);
    }

    #[test]
    fn findings_are_those_of_the_engine() {
        let left_out = vec![torus_sm::fabric::PortId(0)];
        let summary = Summary { left_out, ..Summary::default() };
        assert_eq!(known_finding("ftree", &summary), Ok(LEFT_OUT));
        assert!(known_finding("updn", &summary).is_err());
        assert!(known_finding("ftree", &Summary::default()).is_err());
        let summary = Summary { cycle: Some(Cycle(Vec::new())), ..summary };
        assert_eq!(known_finding("updn", &summary), Ok(CREDIT_LOOP));
    }

    #[test]
    fn the_entry_that_a_refusal_names_is_read() {
        let refusal = "updn: ERR AA0E: no path from Switch 0x000201cff80004eb \"S\"[0] to LID 15, \
                       Channel Adapter 0x1 \"H\"[1]: none that goes up first and then down";
        assert_eq!(named_gap(refusal), Some((0x0002_01cf_f800_04eb, 15)));
        assert_eq!(named_gap("no root switches"), None);
    }
}
