//! Answers to SMInfo (IBA vol. 1, 14.2.5.13), and what a Set of it asks this SM to do.

use super::role::RoleEvent;
use crate::ids::Guid;
use crate::wire::attr::{SmInfo, SmState};
use crate::wire::mad::{Mad, Method, Status};

/// What this SM says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmStatus {
    /// GUID of its port.
    pub guid: Guid,
    /// Its SM_Key; shown to nobody who does not know it.
    pub sm_key: u64,
    /// Its priority, 0..=15.
    pub priority: u8,
    /// Its state.
    pub state: SmState,
    /// Counter that moves while it lives: SMPs sent, as of its last sweep.
    pub act_count: u32,
}

impl SmStatus {
    /// The attribute, as an asker without the SM_Key sees it.
    pub fn sm_info(&self) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_guid(self.guid);
        info.set_act_count(self.act_count);
        info.set_priority(self.priority);
        info.set_state(self.state);
        info
    }
}

/// The reply to an SMInfo request, and the event a Set stands for. `None` for MADs that are no
/// SMInfo requests.
pub fn answer(portrait: &SmStatus, request: &Mad) -> Option<(Mad, Option<RoleEvent>)> {
    use crate::wire::attr::AttrId;
    if request.header().attr_id() != AttrId::SM_INFO {
        return None;
    }
    match request.method() {
        Method::GET => Some((reply(portrait, request, Status::OK), None)),
        Method::SET => {
            let event = requested(request.header().attr_mod());
            let sender = SmInfo::read(request.smp_data());
            let trusted = sender.sm_key() == portrait.sm_key;
            let legal = event.filter(|&event| {
                trusted && (is_acknowledge(request) || legal(portrait.state, event))
            });
            let known = is_acknowledge(request) || legal.is_some();
            let status = if known { Status::OK } else { Status::BAD_FIELD };
            Some((reply(portrait, request, status), legal))
        }
        _ => None,
    }
}

fn legal(state: SmState, event: RoleEvent) -> bool {
    super::role::step(state, event).is_some()
}

/// Modifier 2: a master acknowledges a handover; there is nothing to do.
fn is_acknowledge(request: &Mad) -> bool {
    request.header().attr_mod() == 2
}

fn requested(modifier: u32) -> Option<RoleEvent> {
    match modifier {
        1 => Some(RoleEvent::Handover),
        3 => Some(RoleEvent::Disable),
        4 => Some(RoleEvent::Standby),
        5 => Some(RoleEvent::Discover),
        _ => None,
    }
}

fn reply(portrait: &SmStatus, request: &Mad, status: u16) -> Mad {
    let mut mad = *request;
    let mut header = mad.header();
    let is_directed = header.class() == crate::wire::mad::Class::SUBN_DIRECTED;
    header.set_method(Method::GET_RESP.0);
    // The top bit of a directed route's status says "on the way back".
    header.set_status(if is_directed { status | 0x8000 } else { status });
    mad.set_header(&header);
    *mad.smp_data_mut() = [0; 64];
    portrait.sm_info().write(mad.smp_data_mut());
    mad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, PortNum};
    use crate::wire::attr::AttrId;
    use crate::wire::smp::{DirectedRoute, SmpRoute, request};

    fn portrait(state: SmState) -> SmStatus {
        SmStatus { guid: Guid(7), sm_key: 1, priority: 3, state, act_count: 9 }
    }

    #[test]
    fn a_get_by_directed_route_is_answered_on_the_way_back_without_the_key() {
        let route = DirectedRoute::new(&[PortNum(1)]).expect("one hop");
        let route = SmpRoute::Directed(route);
        let get = request(&route, Method::GET, AttrId::SM_INFO, 0, 0, 5, &[0; 64]);
        let (mad, event) = answer(&portrait(SmState::Master), &get).expect("an answer");
        assert_eq!(event, None);
        assert_eq!(mad.method(), Method::GET_RESP);
        assert!(mad.smp().returning());
        assert_eq!(mad.smp().status(), 0);
        let info = SmInfo::read(mad.smp_data());
        assert_eq!((info.guid(), info.priority(), info.sm_key()), (Guid(7), 3, 0));
        assert_eq!(info.state(), SmState::Master);
    }

    #[test]
    fn a_handover_needs_the_key_and_the_right_role() {
        let set = |key: u64| {
            let mut data = [0; 64];
            data[8..16].copy_from_slice(&key.to_be_bytes());
            request(&SmpRoute::Lid(Lid(1)), Method::SET, AttrId::SM_INFO, 1, 0, 5, &data)
        };
        let asked = |state, key| answer(&portrait(state), &set(key)).expect("an answer");
        assert_eq!(asked(SmState::Standby, 1).1, Some(RoleEvent::Handover));
        assert_eq!(asked(SmState::Standby, 2).1, None);
        let (mad, event) = asked(SmState::NotActive, 1);
        assert_eq!(event, None);
        assert_eq!(mad.header().status(), Status::BAD_FIELD);
    }
}
