//! Both subnet managers as they run: torus-sm and opensm, each on an ibsim of its own, with the same
//! random fabric, aggregation nodes at its switches, and the same configuration. Compared are the
//! engine in force, the dumped tables and the reply of the subnet administrator to path queries, by
//! GID and by LID, before and after cables are cut.
//!
//! Replies are equal wherever tables are. Where tables differ in a known way, each manager answers
//! by its own: a path exists if the tables lead from port to port.
//!
//! | file | contents |
//! |---|---|
//! | `manager` | either subnet manager at work |
//! | `state` | what a manager made of the fabric: engine, tables and replies |
//! | `cuts` | the cables that are cut |

mod cuts;
mod manager;
mod state;

use super::differences::{self, Verdict};
use super::ours::Ours;
use super::{EngineCase, Options};
use manager::{Manager, Program};
use state::State;
use testkit::dumps::{self, LidLfts};
use testkit::fabrics::Family;
use testkit::torus::random::Random;
use torus_sm::plan::Plan;
use torus_sm::plan::routing::minhop;

/// Number of seeds of each engine by default.
const DEFAULT_SEEDS: u64 = 1;

/// Maximum number of further sweeps of ours on a loaded machine, where replies of devices are late.
const MAX_REPEATS: usize = 3;

/// Shares of switches with an aggregation node, in percent.
const SHARES: [usize; 3] = [100, 50, 100];

/// Runs both managers on random fabrics of these families with cables that are cut meanwhile.
/// `first` is the first of the default seeds.
pub(crate) fn compare(engine: &'static str, families: &[Family], options: Options, first: u64) {
    run(engine, first, |seed| EngineCase::draw(engine, families, seed, options, &SHARES));
}

/// [`compare`] with the cases that `draw` makes of seeds.
pub(crate) fn run(engine: &'static str, first: u64, draw: impl Fn(u64) -> EngineCase + Sync) {
    if !testkit::have(&["ibsim", "opensm"]) {
        return;
    }
    let seeds = testkit::seeds(super::SEEDS, first..first + DEFAULT_SEEDS);
    let count = (seeds.end - seeds.start) as usize;
    let verdicts = testkit::on_threads(super::THREADS, count, |index| {
        let case = draw(seeds.start + index as u64);
        let verdicts = before_and_after_cuts(&case);
        (case, verdicts)
    });
    let stages = verdicts.into_iter().flat_map(|(case, verdicts)| {
        verdicts.into_iter().map(move |verdict| (case.clone(), verdict))
    });
    let title = format!("{engine}, both daemons");
    let equal = super::report(&title, &seeds, &stages.collect::<Vec<_>>());
    assert!(equal > 0 || seeds.start != first, "no fabric is routed by both");
}

/// The verdicts on a fabric as it was at the start, and with cut cables.
fn before_and_after_cuts(case: &EngineCase) -> Vec<Verdict> {
    let mut random = Random::new(case.seed ^ 0x5AFE);
    let is_alone = random.percent(50);
    let theirs = Manager::start(Program::OpenSm, case, is_alone, "");
    let mut theirs = match theirs {
        Ok(theirs) => theirs,
        Err(text) => return vec![differs(case, format!("OpenSM: {text}"))],
    };
    if case.conf.contains("qos TRUE") {
        // In its first sweep OpenSM cuts the SL to VL tables to the former VLs of the ports.
        if let Err(text) = theirs.sweep() {
            return vec![differs(case, text)];
        }
    }
    let mut ours = match Manager::start(Program::TorusSm, case, is_alone, &theirs.lids()) {
        Ok(ours) => ours,
        Err(text) => return vec![differs(case, format!("torus-sm: {text}"))],
    };
    let mut verdicts = vec![match judge(case, None, [&theirs, &ours]) {
        Verdict::Differs(text) => differs(case, text),
        verdict => verdict,
    }];
    let before = Before { case, engine: theirs.engine(), lids: theirs.lids(), lfts: theirs.lfts() };
    let (cables, remaining) = cuts::draw(case, &mut random);
    for manager in [&mut theirs, &mut ours] {
        manager.cut(&cables);
        if let Err(text) = manager.sweep() {
            verdicts.push(differs(case, text));
            return verdicts;
        }
    }
    let mut verdict = judge(&remaining, Some(&before), [&theirs, &ours]);
    for _ in 0..MAX_REPEATS {
        if !matches!(verdict, Verdict::Differs(_)) || !ours.has_timeouts() {
            break;
        }
        let result = ours.sweep();
        verdict = match result {
            Ok(()) => judge(&remaining, Some(&before), [&theirs, &ours]),
            Err(text) => Verdict::Differs(text),
        };
    }
    verdicts.push(match verdict {
        Verdict::Differs(text) => differs(&remaining, format!("{text}\ncut: {cables:x?}")),
        verdict => verdict,
    });
    verdicts
}

fn differs(case: &EngineCase, text: String) -> Verdict {
    super::keep(case, &text);
    Verdict::Differs(text)
}

/// Compares both managers, OpenSM first. `case` has the cables that are left.
fn judge(case: &EngineCase, before: Option<&Before<'_>>, managers: [&Manager; 2]) -> Verdict {
    match compare_states(case, before, managers) {
        Verdict::Differs(text) => {
            Verdict::Differs(format!("{text}\n{}\n{}", managers[0].errors(), managers[1].errors()))
        }
        verdict => verdict,
    }
}

fn compare_states(
    case: &EngineCase,
    before: Option<&Before<'_>>,
    [theirs, ours]: [&Manager; 2],
) -> Verdict {
    let their_engine = theirs.engine();
    let our_engine = ours.engine();
    if their_engine != our_engine {
        return Verdict::Differs(format!(
            "in force: ours {our_engine:?}, OpenSM's {their_engine:?}"
        ));
    }
    let Some(engine) = our_engine else { return Verdict::BothRefuse };
    let questions = state::questions(case, &theirs.lids());
    let their_state = theirs.state(&questions);
    let our_state = ours.state(&questions);
    let found = our_state.differences(&their_state, &questions, engine);
    if found.is_empty() {
        return Verdict::Equal;
    }
    let case = EngineCase { engine, ..case.clone() };
    let tables = theirs.tables();
    let plans = Ours::new(&case, &tables.lids);
    let plan = match plans.plan() {
        Ok(plan) => plan,
        Err(reasons) => return Verdict::Differs(format!("{found}our plan is refused: {reasons}")),
    };
    let known = if our_state.differs_in_trees_only(&their_state, &questions, engine) {
        differences::known_trees(&plans, &plan, &our_state.mfts, &tables)
    } else if before.is_some_and(|before| before.is_kept(&plans, &our_state, &their_state)) {
        Some(differences::KEPT)
    } else {
        match differences::judge(&case, &tables) {
            Verdict::Known(reason) => Some(reason),
            _ => None,
        }
    };
    let Some(reason) = known else { return Verdict::Differs(found) };
    // Only the known difference: our tables are those of our plan, unless their history counts, and
    // each reply is that of the manager's own tables.
    let mut text = our_state.wrong_replies(&plans.fabric, &questions);
    text += &their_state.wrong_replies(&plans.fabric, &questions);
    if our_state.lfts.entries != their_state.lfts.entries {
        text += &dumps::differences(&our_state.lfts.entries, &plans.lfts(&plan).entries);
        text += &dumps::differences(&our_state.mfts, &plans.mfts(&plan));
    }
    if text.is_empty() {
        Verdict::Known(reason)
    } else {
        Verdict::Differs(format!("{reason}, but {text}\n{found}"))
    }
}

/// OpenSM's result before cables were cut.
struct Before<'a> {
    case: &'a EngineCase,
    engine: Option<&'static str>,
    /// The text of guid2lid.
    lids: String,
    lfts: LidLfts,
}

impl Before<'_> {
    /// True if OpenSM's tables are those of minhop after the tables of another engine, which failed after
    /// the cut: entries that still have the least hops are kept, and the others balanced together with
    /// them (torus-sm(8), differences from OpenSM). `plans` has the fabric after the cut.
    fn is_kept(&self, plans: &Ours<'_>, ours: &State, theirs: &State) -> bool {
        let before = Ours::new(self.case, &self.lids);
        let is_theirs = |plan: &Plan| plans.lfts(plan).entries == theirs.lfts.entries;
        plans.case.engine == minhop::NAME
            && self.engine.is_some_and(|before| before != minhop::NAME)
            && ours.mfts == theirs.mfts
            && ours.lfts.owners == theirs.lfts.owners
            && plans.plan_after(&before, &self.lfts).is_ok_and(|plan| is_theirs(&plan))
    }
}
