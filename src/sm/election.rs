//! The election of the master SM: the higher priority wins, and at equal priority the lower port
//! GUID (IBA vol. 1, 14.4.1).

use super::peer::{Peer, is_trusted};
use super::role::RoleEvent;
use crate::ids::{Guid, SmKey};
use crate::wire::attr::{SmInfo, SmState};
use std::cmp::Reverse;

/// The properties of an SM that decide the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElectionCandidate {
    /// 0 to 15.
    pub priority: u8,
    /// Port GUID.
    pub guid: Guid,
}

impl ElectionCandidate {
    fn rank(self) -> (u8, Reverse<Guid>) {
        (self.priority, Reverse(self.guid))
    }

    /// True if this SM wins against `other`.
    pub fn beats(self, other: Self) -> bool {
        self.rank() > other.rank()
    }
}

impl From<&SmInfo> for ElectionCandidate {
    fn from(info: &SmInfo) -> Self {
        Self { priority: info.priority(), guid: info.guid() }
    }
}

/// This SM as a voter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Voter {
    pub state: SmState,
    pub candidate: ElectionCandidate,
    pub sm_key: SmKey,
}

impl Voter {
    /// The others that take part in the election.
    fn rivals<'a>(&self, others: &'a [Peer]) -> impl Iterator<Item = &'a Peer> + use<'a> {
        let Self { candidate, sm_key, .. } = *self;
        others
            .iter()
            .filter(move |other| other.guid() != candidate.guid && is_trusted(sm_key, &other.info))
    }

    /// The result of a sweep that found `others`, and the SM that it is about.
    ///
    /// A DISCOVERING SM gives way to any master and to every active SM that wins against it. A
    /// master gives way only to a standby or master that wins against it: one that is still
    /// DISCOVERING enters STANDBY by itself.
    pub fn survey(&self, others: &[Peer]) -> (RoleEvent, Option<Peer>) {
        let is_master = self.state == SmState::Master;
        let masters = self.rivals(others).filter(|peer| peer.info.state() == SmState::Master);
        let master = best(masters);
        let successors = self.rivals(others).filter(|peer| match peer.info.state() {
            SmState::Standby => true,
            SmState::Discovering => !is_master,
            _ => false,
        });
        let better = best(successors.filter(|peer| peer.beats(self.candidate)));
        if !is_master {
            let event = match master.or(better) {
                Some(_) => RoleEvent::SweepMetBetter,
                None => RoleEvent::SweepAlone,
            };
            return (event, master.or(better));
        }
        let higher_master = master.filter(|peer| peer.beats(self.candidate));
        match (best([higher_master, better].iter().flatten()), master) {
            (Some(better), _) => (RoleEvent::SweepMetBetter, Some(better)),
            (None, Some(master)) => (RoleEvent::SweepMetLowerMaster, Some(master)),
            (None, None) => (RoleEvent::SweepAlone, None),
        }
    }

    /// The best master among those whose SM_Key is not that of this SM: two masters would both write to
    /// the subnet. `None` if this SM trusts every other one.
    pub fn foreign_master(&self, others: &[Peer]) -> Option<Peer> {
        let Self { candidate, sm_key, .. } = *self;
        best(others.iter().filter(|peer| {
            peer.guid() != candidate.guid
                && peer.info.state() == SmState::Master
                && !is_trusted(sm_key, &peer.info)
        }))
    }

    /// True if a better SM is DISCOVERING, which is going to be STANDBY soon.
    pub fn expects_better(&self, others: &[Peer]) -> bool {
        self.rivals(others)
            .any(|peer| peer.info.state() == SmState::Discovering && peer.beats(self.candidate))
    }

    /// The standby SMs, best first: one of them becomes master when this SM ends.
    pub fn successors(&self, others: &[Peer]) -> Vec<Peer> {
        let standbys = self.rivals(others).filter(|peer| peer.info.state() == SmState::Standby);
        let mut standbys: Vec<Peer> = standbys.copied().collect();
        standbys.sort_by_key(|peer| Reverse(ElectionCandidate::from(&peer.info).rank()));
        standbys
    }
}

impl Peer {
    /// True if the SM wins against `candidate`.
    fn beats(&self, candidate: ElectionCandidate) -> bool {
        ElectionCandidate::from(&self.info).beats(candidate)
    }
}

fn best<'a>(peers: impl Iterator<Item = &'a Peer>) -> Option<Peer> {
    peers.max_by_key(|peer| ElectionCandidate::from(&peer.info).rank()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lid;
    use crate::wire::smp::SmpRoute;

    fn peer(priority: u8, guid: u64, state: SmState) -> Peer {
        let mut info = SmInfo::default();
        info.set_priority(priority);
        info.set_guid(Guid(guid));
        info.set_state(state);
        info.set_sm_key(SmKey(1));
        Peer { info, route: SmpRoute::Lid(Lid(1)) }
    }

    fn voter(state: SmState) -> Voter {
        Voter {
            state,
            candidate: ElectionCandidate { priority: 5, guid: Guid(10) },
            sm_key: SmKey(1),
        }
    }

    #[test]
    fn priority_decides_before_the_lower_guid() {
        let own = voter(SmState::Discovering).candidate;
        assert!(own.beats(ElectionCandidate { priority: 4, guid: Guid(1) }));
        assert!(own.beats(ElectionCandidate { priority: 5, guid: Guid(11) }));
        assert!(!own.beats(ElectionCandidate { priority: 5, guid: Guid(9) }));
        assert!(!own.beats(own));
    }

    #[test]
    fn while_discovering_any_master_and_every_better_sm_is_an_obstacle() {
        use RoleEvent::{SweepAlone, SweepMetBetter};
        use SmState::{Discovering, Master, NotActive, Standby};
        let own = voter(Discovering);
        let weak_master = peer(0, 99, Master);
        let better = peer(5, 9, Standby);
        for (others, event, about) in [
            (vec![], SweepAlone, None),
            (vec![weak_master], SweepMetBetter, Some(weak_master)),
            (vec![better, weak_master], SweepMetBetter, Some(weak_master)),
            (vec![better], SweepMetBetter, Some(better)),
            (vec![better, peer(15, 8, NotActive)], SweepMetBetter, Some(better)),
            (vec![peer(6, 9, Discovering)], SweepMetBetter, Some(peer(6, 9, Discovering))),
            (vec![peer(5, 11, Standby), peer(15, 1, NotActive)], SweepAlone, None),
            (vec![peer(15, 10, Master)], SweepAlone, None),
        ] {
            assert_eq!(own.survey(&others), (event, about), "{others:?}");
        }
    }

    #[test]
    fn a_master_gives_way_to_better_standbys_and_masters() {
        use RoleEvent::{SweepAlone, SweepMetBetter, SweepMetLowerMaster};
        use SmState::{Discovering, Master, NotActive, Standby};
        let own = voter(Master);
        let lower = peer(4, 1, Master);
        let higher = peer(6, 11, Master);
        let best = peer(7, 12, Standby);
        for (others, event, about) in [
            (vec![], SweepAlone, None),
            (vec![peer(4, 1, Standby)], SweepAlone, None),
            (vec![lower], SweepMetLowerMaster, Some(lower)),
            (vec![lower, higher], SweepMetBetter, Some(higher)),
            (vec![higher, best, lower], SweepMetBetter, Some(best)),
            (vec![peer(9, 2, Discovering)], SweepAlone, None),
            (vec![peer(9, 2, NotActive)], SweepAlone, None),
        ] {
            assert_eq!(own.survey(&others), (event, about), "{others:?}");
        }
        assert!(own.expects_better(&[peer(9, 2, Discovering)]));
        assert!(!own.expects_better(&[peer(4, 2, Discovering), best]));
    }

    #[test]
    fn an_sm_with_another_key_is_ignored() {
        for state in [SmState::Discovering, SmState::Master] {
            let own = Voter { sm_key: SmKey(2), ..voter(state) };
            let stranger = peer(15, 1, SmState::Master);
            assert_eq!(own.survey(&[stranger]), (RoleEvent::SweepAlone, None));
            assert_eq!(own.successors(&[peer(15, 1, SmState::Standby)]), []);
        }
    }

    #[test]
    fn only_a_master_with_another_key_is_foreign() {
        let own = Voter { sm_key: SmKey(2), ..voter(SmState::Discovering) };
        let low = peer(1, 20, SmState::Master);
        let high = peer(3, 21, SmState::Master);
        assert_eq!(own.foreign_master(&[low, high]), Some(high));
        assert_eq!(own.foreign_master(&[peer(15, 1, SmState::Standby)]), None);
        assert_eq!(own.foreign_master(&[peer(15, 10, SmState::Master)]), None, "itself");
        assert_eq!(voter(SmState::Discovering).foreign_master(&[high]), None, "the same key");
        assert_eq!(
            Voter { sm_key: SmKey(0), ..own }.foreign_master(&[high]),
            None,
            "it trusts all"
        );
    }

    #[test]
    fn the_best_standby_is_the_first_successor() {
        use SmState::{Discovering, Master, NotActive, Standby};
        let others = [
            peer(1, 20, Standby),
            peer(9, 21, NotActive),
            peer(3, 23, Standby),
            peer(3, 22, Standby),
            peer(9, 24, Discovering),
        ];
        let guids = voter(Master).successors(&others).iter().map(Peer::guid).collect::<Vec<_>>();
        assert_eq!(guids, [Guid(22), Guid(23), Guid(20)]);
    }
}
