//! SMInfo (IBA vol. 1, 14.2.5.13): replies to the requests of other SMs, and requests to them.

use super::election::{ElectionCandidate, Voter};
use super::peer::{Peer, is_trusted};
use super::role::{RoleEvent, step};
use crate::config::options::Options;
use crate::ids::{Guid, MKey, SmKey};
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, PortInfo, SmInfo, SmState};
use crate::wire::mad::{Class, Mad, Method, Status};
use crate::wire::smp::DATA_SIZE;

/// The present state of this SM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmStatus {
    /// Port GUID.
    pub guid: Guid,
    pub sm_key: SmKey,
    /// M_Key of the local port, which requesters must know as far as its protection level requires.
    pub m_key: MKey,
    /// M_Key that the port is to get: the master may have changed the key since this SM has looked.
    pub configured_m_key: MKey,
    /// Protection level of the local port, 0 to 3.
    pub m_key_protection_level: u8,
    /// 0 to 15.
    pub priority: u8,
    /// Priority while this SM is master, if it is higher than `priority`: 0 to 15.
    pub master_priority: u8,
    pub state: SmState,
    /// The state shown instead of MASTER while a HANDOVER is on its way.
    pub handing_over: Option<SmState>,
    /// ActCount, which increases while this SM is alive: number of SMPs sent, as of the last sweep.
    pub act_count: u32,
}

impl SmStatus {
    pub fn new(guid: Guid, options: &Options, state: SmState) -> Self {
        Self {
            guid,
            sm_key: options.sm_key,
            m_key: MKey::NONE,
            configured_m_key: options.m_key,
            m_key_protection_level: 0,
            priority: options.sm_priority,
            master_priority: options.master_sm_priority,
            state,
            handing_over: None,
            act_count: 0,
        }
    }

    /// Uses new options. The role stays.
    pub fn reload(&mut self, options: &Options) {
        let new = Self::new(self.guid, options, self.state);
        *self = Self {
            sm_key: new.sm_key,
            configured_m_key: new.configured_m_key,
            priority: new.priority,
            master_priority: new.master_priority,
            ..*self
        };
    }

    /// Takes over the M_Key protection of the local port.
    pub fn set_protection(&mut self, port: &PortInfo) {
        self.m_key = port.m_key();
        self.m_key_protection_level = port.m_key_protect_bits();
    }

    /// This SM in elections.
    pub fn voter(&self) -> Voter {
        let candidate = ElectionCandidate { priority: self.shown_priority(), guid: self.guid };
        Voter { state: self.state, candidate, sm_key: self.sm_key }
    }

    /// This SM in elections once it is standby.
    pub fn standby_candidate(&self) -> ElectionCandidate {
        ElectionCandidate { priority: self.priority, guid: self.guid }
    }

    /// The standby SM at port GUID `to`, or the best one, for a HANDOVER.
    ///
    /// # Errors
    /// There is none, or this SM would win the next election and take over again. As master, the
    /// successor counts with this SM's own `master_priority`.
    pub fn chosen_successor(&self, others: &[Peer], to: Option<Guid>) -> Result<Peer, String> {
        let successors = self.voter().successors(others);
        let Some(chosen) = successors.iter().find(|peer| to.is_none_or(|to| peer.guid() == to))
        else {
            return Err(self.no_successor(others, to));
        };
        let shown = ElectionCandidate::from(&chosen.info);
        let as_master =
            ElectionCandidate { priority: shown.priority.max(self.master_priority), ..shown };
        if !self.standby_candidate().beats(as_master) {
            return Ok(*chosen);
        }
        let losing = (0..self.priority)
            .rev()
            .find(|&priority| !ElectionCandidate { priority, guid: self.guid }.beats(as_master));
        let remedy = match losing {
            None => "raise the priority of the other".to_owned(),
            Some(lower) => {
                format!("lower it first (torus-sm priority {lower}), or raise the other's")
            }
        };
        Err(format!(
            "the SM at port GUID {} has priority {} and would lose the next election against this \
             SM, which has priority {} (at equal priority the lower port GUID wins): {remedy}",
            chosen.guid(),
            shown.priority,
            self.priority
        ))
    }

    /// Why there is no successor.
    fn no_successor(&self, others: &[Peer], to: Option<Guid>) -> String {
        let seen = others.iter().find(|peer| to.is_none_or(|to| peer.guid() == to));
        let remedy = "start one on another host of this subnet (torus-sm status lists other SMs)";
        match (seen, to) {
            (Some(peer), _) if !is_trusted(self.sm_key, &peer.info) => {
                format!("the SM at port GUID {} has another SM_Key: set sm_key alike", peer.guid())
            }
            (Some(peer), _) => {
                let state = peer.info.state();
                format!("the SM at port GUID {} is {state}, not STANDBY", peer.guid())
            }
            (None, Some(guid)) => format!("there is no SM at port GUID {guid}: {remedy}"),
            (None, None) => format!("there is no standby SM: {remedy}"),
        }
    }

    /// The state that other SMs see.
    ///
    /// While a HANDOVER is on its way, it is no longer MASTER: OpenSM sweeps as soon as it has
    /// accepted one, and would wait for the HANDOVER of a second master. It is NOT-ACTIVE if this
    /// SM ends: OpenSM would hand back to a standby that wins the election.
    fn shown_state(&self) -> SmState {
        self.handing_over.unwrap_or(self.state)
    }

    /// The priority in elections.
    fn shown_priority(&self) -> u8 {
        match self.shown_state() {
            SmState::Master => self.priority.max(self.master_priority),
            _ => self.priority,
        }
    }

    /// The SMInfo attribute.
    pub fn sm_info(&self) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_guid(self.guid);
        info.set_sm_key(self.sm_key);
        info.set_act_count(self.act_count);
        info.set_priority(self.shown_priority());
        info.set_state(self.shown_state());
        info
    }

    /// SubnSet(SMInfo) HANDOVER to another SM, still without the M_Key of its port.
    pub fn handover(&self, to: &Peer) -> SmpRequest {
        self.set_request(to, 1, SmState::Master)
    }

    /// SubnSet(SMInfo) ACKNOWLEDGE to the sender of a HANDOVER, which this SM received as STANDBY.
    /// OpenSM refuses it from an SM in any other state.
    pub fn acknowledge(&self, to: &Peer) -> SmpRequest {
        self.set_request(to, 2, SmState::Standby)
    }

    fn set_request(&self, to: &Peer, modifier: u32, state: SmState) -> SmpRequest {
        let mut data = [0; DATA_SIZE];
        let mut info = self.sm_info();
        info.set_state(state);
        info.write(&mut data);
        SmpRequest::set(to.route, AttrId::SM_INFO, modifier, data)
    }

    /// True if the port has no M_Key, or this one.
    fn admits(&self, m_key: MKey) -> bool {
        !self.m_key.is_set()
            || m_key.is_set() && [self.m_key, self.configured_m_key].contains(&m_key)
    }

    /// Whether a requester with `m_key` gets a reply to SubnGet(SMInfo), and whether that shows
    /// the SM_Key. OpenSM uses the same rules.
    fn get_access(&self, m_key: MKey) -> GetAccess {
        match (self.admits(m_key), self.m_key_protection_level) {
            (true, _) | (false, 0) => GetAccess::Full,
            (false, 1) => GetAccess::WithoutKey,
            _ => GetAccess::Denied,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GetAccess {
    Full,
    WithoutKey,
    Denied,
}

/// The outcome of an SMInfo request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// SubnGet: the reply.
    Get(Mad),
    /// A legal SubnSet: the reply, and the role event that it requests.
    Accepted(Mad, RoleEvent),
    /// A SubnSet that has no effect: the reply and the reason.
    Refused(Mad, &'static str),
    /// The request gets no reply, for this reason.
    Dropped(&'static str),
}

/// Answers an SMInfo request. `None` for other MADs. The reply contains the SM_Key if the sender
/// may see it by the M_Key rules, and by `sm_key_peers` (`shows_key`).
pub fn answer(status: &SmStatus, request: &Mad, shows_key: bool) -> Option<Answer> {
    if request.header().attr_id() != AttrId::SM_INFO {
        return None;
    }
    let m_key = request.smp().m_key();
    let shown_key = if shows_key { status.sm_key } else { SmKey::NONE };
    let shown = SmStatus { sm_key: shown_key, ..*status };
    match request.method() {
        Method::GET => Some(match status.get_access(m_key) {
            GetAccess::Full => Answer::Get(reply(&shown, request, Status::OK)),
            GetAccess::WithoutKey => {
                let status = SmStatus { sm_key: SmKey::NONE, ..*status };
                Answer::Get(reply(&status, request, Status::OK))
            }
            GetAccess::Denied => Answer::Dropped("wrong M_Key"),
        }),
        Method::SET if !status.admits(m_key) => Some(Answer::Dropped("wrong M_Key")),
        Method::SET => Some(match requested(status, request) {
            Ok(event) => Answer::Accepted(reply(&shown, request, Status::OK), event),
            Err(reason) => Answer::Refused(reply(&shown, request, Status::BAD_FIELD), reason),
        }),
        _ => None,
    }
}

/// The event that a SubnSet requests, if its sender may request it and this SM is in a role in
/// which it is legal.
fn requested(status: &SmStatus, request: &Mad) -> Result<RoleEvent, &'static str> {
    let sender = SmInfo::read(request.smp_data());
    let modifier = request.header().attr_mod();
    let event = RoleEvent::requested_by(modifier).ok_or("undefined AttributeModifier")?;
    if !is_trusted(status.sm_key, &sender) {
        return Err("wrong SM_Key");
    }
    let (required, problem) = match event {
        RoleEvent::Acknowledge => (SmState::Standby, "its sender is not STANDBY"),
        _ => (SmState::Master, "its sender is not MASTER"),
    };
    if sender.state() != required {
        return Err(problem);
    }
    step(status.shown_state(), event).map(|_| event).ok_or("it is not legal in the present state")
}

fn reply(status: &SmStatus, request: &Mad, mad_status: u16) -> Mad {
    let mut mad = request.without_undefined_bytes();
    let mut header = mad.header();
    let is_directed = header.class() == Class::SUBN_DIRECTED;
    header.set_method(Method::GET_RESP.0);
    // The D bit in the status of a directed route SMP marks a reply.
    header.set_status(if is_directed { mad_status | 0x8000 } else { mad_status });
    mad.set_header(&header);
    *mad.smp_data_mut() = [0; DATA_SIZE];
    status.sm_info().write(mad.smp_data_mut());
    mad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, PortNum};
    use crate::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

    fn status(state: SmState) -> SmStatus {
        let options = Options { sm_key: SmKey(11), sm_priority: 3, ..Options::default() };
        SmStatus { act_count: 9, ..SmStatus::new(Guid(7), &options, state) }
    }

    fn get(m_key: MKey) -> Mad {
        request(
            &SmpRoute::Lid(Lid(1)),
            SmpFields { method: Method::GET, attr_id: AttrId::SM_INFO, attr_mod: 0, m_key, tid: 5 },
            &[0; 64],
        )
    }

    fn set(modifier: u32, sender: SmState, sm_key: u64) -> Mad {
        let mut data = [0; 64];
        let mut info = SmInfo::default();
        info.set_sm_key(SmKey(sm_key));
        info.set_state(sender);
        info.write(&mut data);
        request(
            &SmpRoute::Lid(Lid(1)),
            SmpFields {
                method: Method::SET,
                attr_id: AttrId::SM_INFO,
                attr_mod: modifier,
                m_key: MKey::NONE,
                tid: 5,
            },
            &data,
        )
    }

    fn event(state: SmState, request: &Mad) -> Option<RoleEvent> {
        match answer(&status(state), request, true).expect("an answer") {
            Answer::Accepted(reply, event) => {
                assert_eq!(reply.header().status(), Status::OK);
                Some(event)
            }
            Answer::Refused(reply, _) => {
                assert_eq!(reply.header().status(), Status::BAD_FIELD);
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// ibsim's library delivers old memory behind byte 224 of a MAD.
    #[test]
    fn nothing_goes_back_with_a_reply_but_what_the_sender_defined() {
        let mut request = get(MKey::NONE);
        request.0[32..64].fill(0xEE);
        request.0[128..].fill(0xEE);
        let Some(Answer::Get(reply)) = answer(&status(SmState::Master), &request, true) else {
            panic!("a reply");
        };
        assert!(reply.0[32..64].iter().chain(&reply.0[128..]).all(|&byte| byte == 0));
    }

    fn peer(priority: u8, guid: u64, state: SmState) -> Peer {
        let mut info = SmInfo::default();
        info.set_guid(Guid(guid));
        info.set_priority(priority);
        info.set_state(state);
        info.set_sm_key(SmKey(1));
        Peer { info, route: SmpRoute::Lid(crate::ids::Lid(1)) }
    }

    #[test]
    fn a_requested_successor_must_win_the_next_election() {
        let low = peer(1, 5, SmState::Standby);
        let high = peer(1, 20, SmState::Standby);
        assert_eq!(own(1, 0).chosen_successor(&[low], None), Ok(low), "the lower port GUID");
        assert_eq!(own(0, 0).chosen_successor(&[high], None), Ok(high));
        assert_eq!(own(3, 14).chosen_successor(&[high], Some(Guid(20))), Ok(high));
        let lower = problem(own(3, 0), &[low], None);
        assert!(lower.ends_with("(torus-sm priority 1), or raise the other's"), "{lower}");
        let lower = problem(own(3, 0), &[high], None);
        assert!(lower.ends_with("(torus-sm priority 0), or raise the other's"), "{lower}");
        let lower = problem(own(3, 0), &[peer(0, 20, SmState::Standby)], None);
        assert!(lower.ends_with("raise the priority of the other"), "{lower}");
        let inactive = problem(own(0, 0), &[peer(5, 5, SmState::NotActive)], None);
        assert!(inactive.contains("is NOT-ACTIVE, not STANDBY"), "{inactive}");
        let other = problem(own(0, 0), &[low], Some(Guid(6)));
        assert!(other.starts_with("there is no SM at port GUID 0x0000000000000006"), "{other}");
    }

    fn problem(own: SmStatus, others: &[Peer], to: Option<Guid>) -> String {
        own.chosen_successor(others, to).expect_err("no successor")
    }

    fn own(priority: u8, master_priority: u8) -> SmStatus {
        let options = Options {
            sm_priority: priority,
            master_sm_priority: master_priority,
            ..Options::default()
        };
        SmStatus::new(Guid(10), &options, SmState::Master)
    }

    #[test]
    fn a_directed_route_get_is_answered_with_the_key() {
        let route = DirectedRoute::new(&[PortNum(1)]).expect("one hop");
        let route = SmpRoute::Directed(route);
        let get = request(
            &route,
            SmpFields {
                method: Method::GET,
                attr_id: AttrId::SM_INFO,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 5,
            },
            &[0; 64],
        );
        let answer = answer(&status(SmState::Master), &get, true).expect("an answer");
        let Answer::Get(mad) = answer else { panic!("{answer:?}") };
        assert_eq!(mad.method(), Method::GET_RESP);
        assert!(mad.smp().returning());
        assert_eq!(mad.smp().status(), 0);
        let info = SmInfo::read(mad.smp_data());
        assert_eq!((info.guid(), info.priority(), info.sm_key()), (Guid(7), 3, SmKey(11)));
        assert_eq!((info.state(), info.act_count()), (SmState::Master, 9));
    }

    #[test]
    fn other_ports_than_configured_peers_see_no_key_in_any_reply() {
        let requests = [get(MKey::NONE), set(1, SmState::Master, 11), set(1, SmState::Master, 12)];
        for (request, shows_key) in requests.iter().flat_map(|one| [(one, true), (one, false)]) {
            let reply = match answer(&status(SmState::Standby), request, shows_key) {
                Some(Answer::Get(mad) | Answer::Accepted(mad, _) | Answer::Refused(mad, _)) => mad,
                other => panic!("{other:?}"),
            };
            let expected = if shows_key { SmKey(11) } else { SmKey::NONE };
            assert_eq!(SmInfo::read(reply.smp_data()).sm_key(), expected);
        }
    }

    fn protected(m_key: MKey, configured_m_key: MKey) -> SmStatus {
        SmStatus { m_key, configured_m_key, ..status(SmState::Standby) }
    }

    #[test]
    fn the_m_key_protects_the_sm_key_and_requests() {
        let by_stranger = [Some(11), Some(0), None, None];
        for (level, expected) in (0..).zip(by_stranger) {
            assert_eq!(shown(level, 4), Some(11), "level {level}");
            assert_eq!(shown(level, 5), expected, "level {level}");
            // The master may have set the configured key since the last sweep.
            assert_eq!(shown(level, 6), Some(11), "level {level}");
        }
        let status = protected(MKey(4), MKey::NONE);
        let handover = set(1, SmState::Master, 11);
        assert_eq!(answer(&status, &handover, true), Some(Answer::Dropped("wrong M_Key")));
    }

    fn shown(level: u8, m_key: u64) -> Option<u64> {
        let status = SmStatus { m_key_protection_level: level, ..protected(MKey(4), MKey(6)) };
        match answer(&status, &get(MKey(m_key)), true).expect("an answer") {
            Answer::Get(mad) => Some(SmInfo::read(mad.smp_data()).sm_key().0),
            _ => None,
        }
    }

    /// The changes of the role that are legal in a state.
    fn legal(state: SmState) -> Vec<RoleEvent> {
        use RoleEvent::{Acknowledge, Disable, Discover, Handover, Standby};
        use SmState as S;
        let all = [(1, Handover), (2, Acknowledge), (3, Disable), (4, Standby), (5, Discover)];
        let legal = all.into_iter().filter(|&(modifier, expected)| {
            let sender = if modifier == 2 { S::Standby } else { S::Master };
            let taken = event(state, &set(modifier, sender, 11));
            assert!(taken.is_none_or(|taken| taken == expected));
            assert_eq!(event(state, &set(modifier, sender, 12)), None, "wrong SM_Key");
            for other in [S::NotActive, S::Discovering, S::Standby, S::Master] {
                let is_refused =
                    other == sender || event(state, &set(modifier, other, 11)).is_none();
                assert!(is_refused, "{expected} by an SM that is {other}");
            }
            taken.is_some()
        });
        legal.map(|(_, event)| event).collect()
    }

    #[test]
    fn requests_to_change_the_role_need_the_key_and_come_from_a_master() {
        use RoleEvent::{Acknowledge, Disable, Discover, Handover, Standby};
        use SmState as S;
        assert_eq!(legal(S::Discovering), [Handover]);
        assert_eq!(legal(S::Standby), [Handover, Acknowledge, Disable, Discover]);
        assert_eq!(legal(S::Master), [Handover, Acknowledge]);
        assert_eq!(legal(S::NotActive), [Acknowledge, Standby]);
        assert_eq!(event(S::Standby, &set(6, S::Master, 11)), None);
    }

    #[test]
    fn a_master_shows_the_higher_of_its_two_priorities() {
        let shown = |state, master_priority| {
            SmStatus { master_priority, ..status(state) }.sm_info().priority()
        };
        assert_eq!(shown(SmState::Master, 14), 14);
        assert_eq!(shown(SmState::Master, 2), 3);
        assert_eq!(shown(SmState::Standby, 14), 3);
    }

    #[test]
    fn during_a_handover_the_old_master_shows_standby() {
        let mut status = status(SmState::Master);
        status.handing_over = Some(SmState::Standby);
        assert_eq!(status.sm_info().state(), SmState::Standby);
        let peer = Peer { info: SmInfo::default(), route: SmpRoute::Lid(Lid(3)) };
        let request = status.handover(&peer);
        let info = SmInfo::read(&request.data);
        assert_eq!(
            (request.attr_mod, info.state(), info.sm_key()),
            (1, SmState::Master, SmKey(11))
        );
    }
}
