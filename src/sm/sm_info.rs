//! Replies to SMInfo requests (IBA vol. 1, 14.2.5.13), and the role events of SubnSet(SMInfo).

use super::role::RoleEvent;
use crate::ids::Guid;
use crate::wire::attr::{SmInfo, SmState};
use crate::wire::mad::{Mad, Method, Status};

/// The present state of this SM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmStatus {
    /// Port GUID.
    pub guid: Guid,
    /// Compared with the SM_Key of SubnSet(SMInfo); never part of a reply.
    pub sm_key: u64,
    /// 0 to 15.
    pub priority: u8,
    pub state: SmState,
    /// ActCount, which increases while this SM is alive: number of SMPs sent, as of the last sweep.
    pub act_count: u32,
}

impl SmStatus {
    /// The SMInfo attribute with an SM_Key of 0.
    pub fn sm_info(&self) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_guid(self.guid);
        info.set_act_count(self.act_count);
        info.set_priority(self.priority);
        info.set_state(self.state);
        info
    }
}

/// The reply to an SMInfo request, and the role event that a Set requests. `None` for other MADs.
pub fn answer(status: &SmStatus, request: &Mad) -> Option<(Mad, Option<RoleEvent>)> {
    use crate::wire::attr::AttrId;
    if request.header().attr_id() != AttrId::SM_INFO {
        return None;
    }
    match request.method() {
        Method::GET => Some((reply(status, request, Status::OK), None)),
        Method::SET => {
            let event = requested(request.header().attr_mod());
            let sender = SmInfo::read(request.smp_data());
            let trusted = sender.sm_key() == status.sm_key;
            let legal = event.filter(|&event| {
                trusted && (is_acknowledge(request) || legal(status.state, event))
            });
            let is_valid = is_acknowledge(request) || legal.is_some();
            let mad_status = if is_valid { Status::OK } else { Status::BAD_FIELD };
            Some((reply(status, request, mad_status), legal))
        }
        _ => None,
    }
}

fn legal(state: SmState, event: RoleEvent) -> bool {
    super::role::step(state, event).is_some()
}

/// ACKNOWLEDGE (AttributeModifier 2): the new master acknowledges a handover, which needs no action.
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

fn reply(status: &SmStatus, request: &Mad, mad_status: u16) -> Mad {
    let mut mad = *request;
    let mut header = mad.header();
    let is_directed = header.class() == crate::wire::mad::Class::SUBN_DIRECTED;
    header.set_method(Method::GET_RESP.0);
    // The D bit in the status of a directed route SMP marks a reply.
    header.set_status(if is_directed { mad_status | 0x8000 } else { mad_status });
    mad.set_header(&header);
    *mad.smp_data_mut() = [0; 64];
    status.sm_info().write(mad.smp_data_mut());
    mad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, PortNum};
    use crate::wire::attr::AttrId;
    use crate::wire::smp::{DirectedRoute, SmpRoute, request};

    fn status(state: SmState) -> SmStatus {
        SmStatus { guid: Guid(7), sm_key: 1, priority: 3, state, act_count: 9 }
    }

    #[test]
    fn a_directed_route_get_is_answered_without_the_key() {
        let route = DirectedRoute::new(&[PortNum(1)]).expect("one hop");
        let route = SmpRoute::Directed(route);
        let get = request(&route, Method::GET, AttrId::SM_INFO, 0, 0, 5, &[0; 64]);
        let (mad, event) = answer(&status(SmState::Master), &get).expect("an answer");
        assert_eq!(event, None);
        assert_eq!(mad.method(), Method::GET_RESP);
        assert!(mad.smp().returning());
        assert_eq!(mad.smp().status(), 0);
        let info = SmInfo::read(mad.smp_data());
        assert_eq!((info.guid(), info.priority(), info.sm_key()), (Guid(7), 3, 0));
        assert_eq!(info.state(), SmState::Master);
    }

    #[test]
    fn a_handover_requires_the_key_and_the_standby_role() {
        let set = |key: u64| {
            let mut data = [0; 64];
            let mut info = SmInfo::default();
            info.set_sm_key(key);
            info.write(&mut data);
            request(&SmpRoute::Lid(Lid(1)), Method::SET, AttrId::SM_INFO, 1, 0, 5, &data)
        };
        let asked = |state, key| answer(&status(state), &set(key)).expect("an answer");
        assert_eq!(asked(SmState::Standby, 1).1, Some(RoleEvent::Handover));
        assert_eq!(asked(SmState::Standby, 2).1, None);
        let (mad, event) = asked(SmState::NotActive, 1);
        assert_eq!(event, None);
        assert_eq!(mad.header().status(), Status::BAD_FIELD);
    }
}
