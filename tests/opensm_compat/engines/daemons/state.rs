//! What a subnet manager made of a fabric: its tables, and its replies to path queries.

use super::super::EngineCase;
use crate::sa_queries::{Answer, Question};
use std::collections::BTreeMap;
use testkit::dumps::{self, LidLfts, Mfts, SlToVls};
use testkit::torus::random::Random;
use torus_sm::fabric::Fabric;
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::wire::sa::SaStatus;

/// Maximum number of pairs of ports whose paths are queried; all of them on smaller fabrics.
const MAX_PAIRS: usize = 1600;

/// Engines whose SLs the comparison of plans explains, and the daemons' replies do not show to be
/// equal: lash keeps those of earlier sweeps, dfsssp shares VLs among SLs, and OpenSM's nue has
/// credit loops.
const OWN_SLS: [&str; 3] = ["lash", "dfsssp", "nue"];

/// Queries for the paths of pairs of ports, by GUID and by LID.
pub(super) struct Questions(pub(super) Vec<Question>);

/// The tables of a manager and its replies to questions.
#[derive(Clone)]
pub(super) struct State {
    pub(super) lfts: LidLfts,
    pub(super) mfts: Mfts,
    pub(super) sl_to_vls: SlToVls,
    pub(super) replies: Vec<Answer>,
}

/// Queries for all pairs of ports, or a random choice of them. `lids` is the text of guid2lid.
pub(super) fn questions(case: &EngineCase, lids: &str) -> Questions {
    let lids = read_lids(lids);
    let mut random = Random::new(case.seed);
    let ports: Vec<Guid> = case.end_ports().into_iter().map(|(_, guid)| guid).collect();
    let pairs = ports.iter().flat_map(|&from| ports.iter().map(move |&to| (from, to)));
    let mut pairs: Vec<(Guid, Guid)> = pairs.collect();
    if pairs.len() > MAX_PAIRS {
        random.shuffle(&mut pairs);
        pairs.truncate(MAX_PAIRS);
    }
    let mut questions = Vec::new();
    for (from, to) in pairs {
        questions.push(Question::Path { from, to, sl: None });
        if let (Some(from), Some(to)) = (lids.get(&from), lids.get(&to)) {
            let mut pick = |&[first, last]: &[u16; 2]| {
                Lid(first + random.below(usize::from(last - first) + 1) as u16)
            };
            questions.push(Question::LidPath { from: pick(from), to: pick(to) });
        }
    }
    Questions(questions)
}

/// First and last LID by port GUID.
fn read_lids(text: &str) -> BTreeMap<Guid, [u16; 2]> {
    let entry = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.trim_start_matches("0x"));
        let guid = u64::from_str_radix(words.next()?, 16).ok()?;
        let first = u16::from_str_radix(words.next()?, 16).ok()?;
        let last = u16::from_str_radix(words.next()?, 16).ok()?;
        Some((Guid(guid), [first, last]))
    };
    text.lines().filter_map(entry).collect()
}

impl State {
    /// The differences from OpenSM's state with the same questions; empty if there are none.
    pub(super) fn differences(&self, theirs: &Self, questions: &Questions, engine: &str) -> String {
        let mut text = dumps::differences(&self.lfts.owners, &theirs.lfts.owners);
        text += &dumps::differences(&self.lfts.entries, &theirs.lfts.entries);
        text += &dumps::differences(&self.mfts, &theirs.mfts);
        text += &dumps::differences(&self.sl_to_vls, &theirs.sl_to_vls);
        let ignores_sls = OWN_SLS.contains(&engine);
        let mut count = 0;
        for ((question, our), their) in questions.0.iter().zip(&self.replies).zip(&theirs.replies) {
            let is_equal = our.status == their.status && (ignores_sls || our.value == their.value);
            if !is_equal && !self.is_of_unknown_gid(question, [our, their]) {
                count += 1;
                if count <= 10 {
                    text += &format!("{question:x?}: ours {our:x?}, theirs {their:x?}\n");
                }
            }
        }
        if count > 10 {
            text += &format!("{count} replies differ\n");
        }
        text
    }

    /// True if nothing but multicast trees differs.
    pub(super) fn differs_in_trees_only(
        &self,
        theirs: &Self,
        questions: &Questions,
        engine: &str,
    ) -> bool {
        let mfts = theirs.mfts.clone();
        Self { mfts, ..self.clone() }.differences(theirs, questions, engine).is_empty()
    }

    /// True if a query names the GID of a port that the subnet does not have, of which only our reply
    /// tells the client (torus-sm(8), differences from OpenSM).
    fn is_of_unknown_gid(&self, question: &Question, [ours, theirs]: [&Answer; 2]) -> bool {
        let Question::Path { from, to, .. } = *question else { return false };
        let is_known = |port: Guid| self.lfts.owners.values().any(|&owner| owner == port.0);
        (!is_known(from) || !is_known(to))
            && ours.status == SaStatus::INVALID_GID
            && *theirs == Answer::NO_RECORDS
    }

    /// The replies that say other than the tables whether a path by LIDs exists.
    pub(super) fn wrong_replies(&self, fabric: &Fabric, questions: &Questions) -> String {
        let mut text = String::new();
        for (question, reply) in questions.0.iter().zip(&self.replies) {
            let Question::LidPath { from, to } = *question else { continue };
            let is_known = [from, to].iter().all(|lid| self.lfts.owners.contains_key(&lid.0));
            if is_known && (reply.status == 0) != self.leads(fabric, from, to) {
                text += &format!("{question:x?}: {reply:x?} against the tables\n");
            }
        }
        text
    }

    /// True if packets from the port of a LID reach another LID.
    fn leads(&self, fabric: &Fabric, from: Lid, to: Lid) -> bool {
        let port = |lid: Lid| fabric.port_by_guid(Guid(*self.lfts.owners.get(&lid.0)?));
        let Some((start, end)) = port(from).zip(port(to)) else { return false };
        let mut at = start;
        if !fabric.node_of(at).is_switch() {
            if start == end {
                return true;
            }
            let Some(peer) = fabric.port(at).peer else { return false };
            at = peer;
        }
        for _ in 0..=fabric.switches().len() {
            let node = fabric.node_of(at);
            let Some(switch) = node.switch else { return at == end };
            let guid = fabric.switch(switch).guid().0;
            let Some(&out) = self.lfts.entries.get(&(guid, to.0)) else { return false };
            if out == 0 {
                return fabric.port(end).guid.0 == guid;
            }
            let peer =
                fabric.switch_port(switch, PortNum(out)).and_then(|out| fabric.port(out).peer);
            let Some(peer) = peer else { return false };
            at = peer;
        }
        false
    }
}
