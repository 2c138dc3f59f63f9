//! Proof, before anything is written, that a plan delivers every packet and cannot deadlock.
//!
//! * [`walk`]: one path, hop by hop, as the tables say: for faults and reports;
//! * `ends`: where packets come from and go to; `unicast`: every LID from every switch, by one pass over
//!   the switches per LID;
//! * `multicast`: the trees of all MLIDs;
//! * `wiring`: the fabric reduced to switches and the channels between them, dense;
//! * `lanes`: which VL a packet takes out of a switch;
//! * `triples`: who follows which channel through which other; `channels`: the channel dependency graph,
//!   and the cycle in it, if there is one;
//! * `whole`: all of that together;
//! * `limits`: what the devices can hold;
//! * [`transition`]: what packets may meet while a fabric goes from one plan to the next;
//! * `proof`: what is kept of a plan that passed, to check a later one where it differs, and `advance`: of
//!   that one, to check the next; `columns`:
//!   its changed forwarding tables, of which `reroute` follows one column up to its `meeting` with
//!   the old ways, if it is not one of a `familiar` kind; `levels`: its dependencies; `nodes`: where
//!   hosts or switches came or went; `healthy`: where something is back;
//! * [`foundation`]: plan and verify in one go, on what the last plan left; [`regroup`]: the same where
//!   only multicast groups changed.
//!
//! **Reachability.** Every end port must reach every LID of every other end port within
//! [`MAX_HOPS`] switches. Destinations that no switch has an entry for, and switches without any
//! entry, were left out by the engine on purpose (ports outside the torus, for instance): they
//! are counted and told, not refused.
//!
//! **Credit loops.** A channel is one direction of a cable between switches. A packet that holds
//! a buffer of one (channel, VL) and waits for the next makes the first depend on the second;
//! a cycle of such dependencies can deadlock (Dally and Seitz 1987). Channels from and to end
//! ports cannot be on a cycle and are left out. What a packet does depends on its path SL, on
//! the input and on the output port of each switch, so the passes collect triples (input port,
//! output port, next output port) with the set of SLs that take them, unicast and multicast
//! in one table, and only then ask for VLs. One approximation, on the safe side: all end ports at
//! one switch count as sources of any SL that one of them uses.

mod advance;
mod channels;
mod columns;
mod ends;
mod familiar;
pub mod foundation;
mod healthy;
mod lanes;
mod levels;
mod limits;
mod meeting;
mod multicast;
mod nodes;
mod proof;
pub mod regroup;
mod reroute;
mod spread;
pub mod transition;
mod triples;
mod unicast;
pub mod walk;
mod whole;
mod wiring;

pub use channels::{ChannelRef, Cycle};
pub use proof::Proof;

use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Mlid, Sl};
use crate::notes::Note;
use crate::plan::Plan;
use std::fmt;
use std::sync::Arc;

/// The longest path a plan may have, in switches passed: the reach of a directed route (IBA vol.
/// 1, 14.2.1.2), which nothing in a subnet exceeds.
pub const MAX_HOPS: u32 = 64;

/// How many faults of a kind are described one by one; all are counted.
const DESCRIBED: usize = 8;

/// What a plan is to be checked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// The SLs that requests may bring as a hint to [`crate::plan::routing::RoutingPolicy::path_sl`].
    /// Empty stands for SL 0.
    pub hints: Vec<Sl>,
}

impl Checks {
    /// The usual checks: without QoS everything travels on SL 0, with QoS both QoS levels of
    /// torus-2QoS (SL bit 3) are legal.
    pub fn new(qos: bool) -> Self {
        let hints = if qos { vec![Sl(0), Sl(8)] } else { vec![Sl(0)] };
        Self { hints }
    }

    fn hints(&self) -> &[Sl] {
        if self.hints.is_empty() { &[Sl(0)] } else { &self.hints }
    }
}

/// A plan that passed: only [`verify`] makes one, so that an unchecked plan cannot reach a
/// device.
#[derive(Clone, Debug)]
pub struct Verified {
    plan: Arc<Plan>,
    summary: Summary,
}

impl Verified {
    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What the checks found.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

/// How much of a plan was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// What differs from an earlier plan that had passed. The dependencies of both plans together
    /// have no cycle, so that packets of both may be under way at the same time; they are what is
    /// counted, and the longest path is an upper bound.
    Changes,
    /// The same, with an earlier plan than the one in force: one from before something was lost.
    Earlier,
}

/// What the checks found in a plan that passed.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How much of the plan was looked at.
    pub extent: Extent,
    /// Unicast LIDs that every source reaches.
    pub lids: usize,
    /// End ports that no switch has an entry for, ascending.
    pub left_out: Vec<PortId>,
    /// Switches passed on the longest path.
    pub longest_path: u32,
    /// Dependencies between (channel, VL) pairs.
    pub dependencies: usize,
    /// A credit loop of an engine that does not promise to have none, or one that is closed by
    /// multicast groups.
    pub cycle: Option<Cycle>,
    /// What the operator is to hear.
    pub notes: Vec<Note>,
}

/// Something wrong with a plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A destination is not reached.
    #[error("no path from {source_port} to LID {lid} of {destination}: {end}")]
    Unreachable {
        /// The end port it is not reached from.
        source_port: String,
        /// The LID sent to.
        lid: Lid,
        /// The end port the LID belongs to.
        destination: String,
        /// Where the path ends or loops.
        end: String,
    },
    /// A used path meets an SL to VL mapping that drops its packets.
    #[error("{switch} drops SL {sl} from port {input} to port {output}: it is mapped to VL 15")]
    Dropped {
        /// The switch.
        switch: String,
        /// Input port; 0 stands for any end port.
        input: u8,
        /// Output port.
        output: u8,
        /// The SL.
        sl: Sl,
    },
    /// The dependencies between channels have a cycle.
    #[error("credit loop: {0}")]
    CreditLoop(Cycle),
    /// The ports of a group do not form a tree.
    #[error("multicast group {mlid} loops: a packet returns to {switch}")]
    MulticastLoop {
        /// The group.
        mlid: Mlid,
        /// A switch on the loop.
        switch: String,
    },
    /// A table does not fit the device.
    #[error("{device}: {what} {value} is beyond its limit of {limit}")]
    Limit {
        /// Switch or port.
        device: String,
        /// What does not fit.
        what: &'static str,
        /// The value planned.
        value: u32,
        /// The largest value the device takes.
        limit: u32,
    },
}

/// Why a plan was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyFailure {
    /// The first faults of each kind.
    pub faults: Vec<Fault>,
    /// How many there are in all.
    pub total: usize,
}

impl fmt::Display for VerifyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan has {} fault(s)", self.total)?;
        for fault in &self.faults {
            write!(f, "; {fault}")?;
        }
        let more = self.total.saturating_sub(self.faults.len());
        if more > 0 { write!(f, "; and {more} more") } else { Ok(()) }
    }
}

impl std::error::Error for VerifyFailure {}

/// Faults as they are found: the first of a kind in words, the rest as a number.
#[derive(Default, Debug)]
struct Faults {
    described: Vec<Fault>,
    total: usize,
}

impl Faults {
    /// Adds a fault; `describe` is asked only while there is room for one more.
    fn add(&mut self, describe: impl FnOnce() -> Fault) {
        if self.described.len() < DESCRIBED {
            self.described.push(describe());
        }
        self.total += 1;
    }

    /// Adds the faults of a later part of the same check.
    fn append(&mut self, later: Self) {
        let room = DESCRIBED.saturating_sub(self.described.len());
        self.described.extend(later.described.into_iter().take(room));
        self.total += later.total;
    }
}

/// Checks a plan.
///
/// # Errors
/// The faults that forbid writing it: LIDs out of reach, forwarding loops, tables beyond what
/// devices hold, packets mapped to VL 15 if the engine made the mapping, and credit loops if it
/// promises to have none. Without that promise a credit loop is a warning among
/// [`Summary::notes`], and so is what a mapping of the configuration drops.
pub fn verify(fabric: &Fabric, plan: Plan, checks: &Checks) -> Result<Verified, VerifyFailure> {
    verify_shared(fabric, &Arc::new(plan), checks)
}

/// The same for a plan that others hold, too.
///
/// # Errors
/// As [`verify`].
pub fn verify_shared(
    fabric: &Fabric,
    plan: &Arc<Plan>,
    checks: &Checks,
) -> Result<Verified, VerifyFailure> {
    let (summary, _) = whole::examine(fabric, plan, checks, wiring::Wiring::new(fabric))?;
    Ok(Verified { plan: plan.clone(), summary })
}

/// Checks a plan, and keeps what was found for later plans; there is no [`Proof`] of a plan with a
/// credit loop, or which loses packets.
///
/// # Errors
/// As [`verify`].
pub fn prove(
    fabric: &Arc<Fabric>,
    plan: Plan,
    checks: &Checks,
) -> Result<(Verified, Option<Proof>), VerifyFailure> {
    prove_after(fabric, plan, checks, None)
}

/// The same with an eye to cables and switches that `last` had, or knew of, and which are lost now: they
/// can be repaired without another check of the whole.
fn prove_after(
    fabric: &Arc<Fabric>,
    plan: Plan,
    checks: &Checks,
    last: Option<&Proof>,
) -> Result<(Verified, Option<Proof>), VerifyFailure> {
    let wiring = healthy::wiring_after(last, fabric);
    let (summary, evidence) = whole::examine(fabric, &plan, checks, wiring)?;
    let verified = Verified { plan: Arc::new(plan), summary };
    let healthy = last.and_then(|last| last.healthiest().if_healthier(fabric));
    let proof = evidence.into_proof(fabric, &verified, checks);
    Ok((verified, proof.map(|proof| Proof { healthy, ..proof })))
}

/// Checks a plan for a fabric that differs so from that of `proof`. Where the proof suffices this
/// takes little time; else the plan is checked as by [`verify`].
///
/// # Errors
/// As [`verify`].
pub fn verify_changes(
    fabric: &Fabric,
    plan: Plan,
    checks: &Checks,
    proof: &Proof,
    difference: &Difference,
) -> Result<Verified, VerifyFailure> {
    judge(fabric, plan, checks, Some((proof, Some(difference)))).map(|(verified, _)| verified)
}

/// Checks a plan, if possible by what is `known`: an earlier proof, and how the fabric differs from that
/// of the proof, if it has the same nodes.
fn judge(
    fabric: &Fabric,
    plan: Plan,
    checks: &Checks,
    known: Option<(&Proof, Option<&Difference>)>,
) -> Result<(Verified, Findings), VerifyFailure> {
    let covered = known.and_then(|(proof, difference)| {
        let now = || match difference {
            Some(difference) => proof.covers(fabric, &plan, checks, difference),
            None => proof.covers_other_nodes(fabric, &plan, checks),
        };
        let before = || proof.covers_as_before(fabric, &plan, checks);
        // With a switch that is back, old and new ways together mostly have a cycle.
        let (base, summary, news) = match fabric.switches().len() > proof.fabric.switches().len() {
            true => before().or_else(now)?,
            false => now().or_else(before)?,
        };
        let base = Proof { healthy: Some(proof.healthiest()), ..base };
        Some((summary, Findings::Changes(Box::new((base, news)))))
    });
    let (summary, findings) = match covered {
        Some(found) => found,
        None => {
            let wiring = healthy::wiring_after(known.map(|(proof, _)| proof), fabric);
            let (summary, evidence) = whole::examine(fabric, &plan, checks, wiring)?;
            (summary, Findings::Whole(Box::new(evidence)))
        }
    };
    Ok((Verified { plan: Arc::new(plan), summary }, findings))
}

/// What was found in a plan that passed, from which its proof is made when there is time.
enum Findings {
    Whole(Box<whole::Evidence>),
    /// What came to an earlier proof.
    Changes(Box<(Proof, proof::News)>),
}

impl Findings {
    fn into_proof(
        self,
        fabric: &Arc<Fabric>,
        verified: &Verified,
        checks: &Checks,
    ) -> Option<Proof> {
        match self {
            Self::Whole(evidence) => evidence.into_proof(fabric, verified, checks),
            Self::Changes(found) => found.0.advance(fabric, verified, found.1),
        }
    }
}

impl VerifyFailure {
    fn take(&mut self, faults: Faults) {
        self.faults.extend(faults.described);
        self.total += faults.total;
    }
}

impl Summary {
    /// Puts the findings into words.
    fn tell(&mut self, fabric: &Fabric) {
        if let Some(&first) = self.left_out.first() {
            self.notes.push(Note::warning(format!(
                "{} end port(s) have no routes and stay unreachable, the first is {}",
                self.left_out.len(),
                fabric.describe(first)
            )));
        }
    }
}
