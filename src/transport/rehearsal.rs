//! A port on which a subnet manager rehearses: its Sets reach no device.
//!
//! Below is a [`GetOnlyPort`]. A Set is posted there as the Get of the same attribute; the answer
//! becomes that of the Set, with the data that the device would hold afterwards. A device that is
//! silent is therefore silent in the rehearsal, too. Gets of an attribute that was set before are
//! answered with that data. [`Rehearsal::take`] returns the Sets with the data that the devices hold.

use super::get_only::GetOnlyPort;
use super::rmpp::Segmentation;
use super::{Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError};
use crate::ids::MKey;
use crate::wire::attr::{AttrId, PortInfo, PortState, SwitchInfo};
use crate::wire::mad::{Mad, Method, Status, low_tid_of};
use crate::wire::smp::{DATA_SIZE, DirectedRoute};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits of the attribute modifier of PortInfo that name no port.
const PORT_INFO_FLAGS: u32 = 1 << 31;

/// The direction bit of a directed-route SMP, beside its status.
const DIRECTION: u16 = 1 << 15;

/// A Set that was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RehearsedSet {
    pub route: DirectedRoute,
    pub attr_id: u16,
    pub attr_mod: u32,
    /// The data of the Set.
    pub data: [u8; DATA_SIZE],
    /// The data before the Set; `None` if the device refuses the Get.
    pub held: Option<[u8; DATA_SIZE]>,
}

/// An attribute of the device at the end of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct AttributeKey {
    route: DirectedRoute,
    attr_id: u16,
    attr_mod: u32,
}

/// A Get in flight whose answer is changed.
#[derive(Clone, Copy, Debug)]
enum RehearsedGet {
    /// The Get in place of a Set with this data.
    Set(AttributeKey, [u8; DATA_SIZE]),
    /// The Get of an attribute that was set.
    Get(AttributeKey),
}

#[derive(Default)]
struct RehearsalState {
    /// By the lower half of the transaction ID.
    in_flight: FxHashMap<u32, RehearsedGet>,
    /// The attributes that were set.
    written: FxHashMap<AttributeKey, [u8; DATA_SIZE]>,
    /// The M_Keys that the devices really hold to which another one was set.
    m_keys: FxHashMap<DirectedRoute, MKey>,
    sets: Vec<RehearsedSet>,
}

/// The Sets of a rehearsal.
#[derive(Default)]
pub struct Rehearsal(Mutex<RehearsalState>);

impl Rehearsal {
    /// Ends the rehearsal and begins the next one: the devices are as they are. Returns the answered
    /// Sets in the order of their answers.
    pub fn take(&self) -> Vec<RehearsedSet> {
        std::mem::take(&mut *self.state()).sets
    }

    fn state(&self) -> MutexGuard<'_, RehearsalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port of a rehearsal.
pub struct RehearsalPort {
    below: GetOnlyPort,
    rehearsal: Arc<Rehearsal>,
}

/// Opens a port by `open` and puts a rehearsal between it and `sink`.
///
/// # Errors
/// Those of `open`.
pub fn open<E>(
    sink: Arc<dyn MadSink>,
    open: impl FnOnce(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, E>,
) -> Result<(RehearsalPort, Arc<Rehearsal>), E> {
    let rehearsal = Arc::new(Rehearsal::default());
    let below = open(Arc::new(RehearsalSink { above: sink, rehearsal: rehearsal.clone() }))?;
    let below = GetOnlyPort::new(below);
    Ok((RehearsalPort { below, rehearsal: rehearsal.clone() }, rehearsal))
}

impl RehearsalPort {
    /// Notes a request of subnet management whose answer is to be changed, and turns a Set into a Get.
    fn rehearse(&self, mad: &mut Mad) {
        let header = mad.header();
        let is_set = mad.method() == Method::SET;
        let Some(route) = mad.smp().route().filter(|_| is_set || mad.method() == Method::GET)
        else {
            return;
        };
        let attr_id = header.attr_id();
        let flags = if attr_id == AttrId::PORT_INFO { PORT_INFO_FLAGS } else { 0 };
        let key = AttributeKey { route, attr_id, attr_mod: header.attr_mod() & !flags };
        let mut state = self.rehearsal.state();
        let tid = header.tid() as u32;
        if is_set {
            let data = *mad.smp_data();
            let used_key = mad.smp().m_key();
            if attr_id == AttrId::PORT_INFO && PortInfo::read(&data).m_key() != used_key {
                state.m_keys.entry(route).or_insert(used_key);
            }
            state.in_flight.insert(tid, RehearsedGet::Set(key, data));
            let mut get = header;
            get.set_method(Method::GET.0);
            mad.set_header(&get);
            *mad.smp_data_mut() = [0; DATA_SIZE];
        } else if state.written.contains_key(&key) {
            state.in_flight.insert(tid, RehearsedGet::Get(key));
        } else {
            // An earlier request may have had this transaction ID.
            state.in_flight.remove(&tid);
        }
        if let Some(&m_key) = state.m_keys.get(&route) {
            mad.set_m_key(m_key);
        }
    }
}

impl MadPort for RehearsalPort {
    fn identity(&self) -> &PortIdentity {
        self.below.identity()
    }

    fn segmentation(&self) -> Segmentation {
        self.below.segmentation()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if out.agent != Agent::SmiDirected {
            return self.below.post(out);
        }
        let mut mad = Mad::read(out.mad);
        self.rehearse(&mut mad);
        self.below.post(&Outgoing { mad: &mad.0, ..*out })
    }
}

struct RehearsalSink {
    above: Arc<dyn MadSink>,
    rehearsal: Arc<Rehearsal>,
}

impl RehearsalSink {
    /// The answer as the sink above gets it; `None` if it stays as it is.
    fn changed(&self, delivery: &Delivery<'_>) -> Option<Mad> {
        if delivery.agent != Agent::SmiDirected {
            return None;
        }
        let mut state = self.rehearsal.state();
        let in_flight = state.in_flight.remove(&low_tid_of(delivery.mad)?)?;
        if delivery.outcome == Outcome::Unanswered {
            return None;
        }
        let mut answer = Mad::read(delivery.mad);
        let mut header = answer.header();
        let is_answered = header.status() & !DIRECTION == Status::OK;
        match in_flight {
            RehearsedGet::Get(key) => {
                *answer.smp_data_mut() = *state.written.get(&key)?;
            }
            RehearsedGet::Set(key, data) => {
                let read = is_answered.then(|| *answer.smp_data());
                let held = state.written.get(&key).copied().or(read);
                let AttributeKey { route, attr_id, attr_mod } = key;
                state.sets.push(RehearsedSet { route, attr_id, attr_mod, data, held });
                let after = after_set(attr_id, held.as_ref(), &data);
                state.written.insert(key, after);
                *answer.smp_data_mut() = after;
                header.set_status(header.status() & DIRECTION);
                answer.set_header(&header);
            }
        }
        Some(answer)
    }
}

impl MadSink for RehearsalSink {
    fn deliver(&self, delivery: Delivery<'_>) {
        match self.changed(&delivery) {
            Some(answer) => self.above.deliver(Delivery { mad: &answer.0, ..delivery }),
            None => self.above.deliver(delivery),
        }
    }

    fn idle(&self) {
        self.above.idle();
    }

    fn closed(&self, reason: &str) {
        self.above.closed(reason);
    }
}

/// The data of an attribute after a Set.
fn after_set(
    attr_id: u16,
    held: Option<&[u8; DATA_SIZE]>,
    data: &[u8; DATA_SIZE],
) -> [u8; DATA_SIZE] {
    match attr_id {
        AttrId::PORT_INFO => {
            let mut info = PortInfo::read(data);
            info.set_client_reregister(false);
            let before = held.map(|held| PortInfo::read(held));
            match (info.port_state(), before) {
                (PortState::NoChange, Some(before)) => info.set_port_state(before.port_state()),
                // The link is trained again.
                (PortState::Down, _) => info.set_port_state(PortState::Init),
                _ => {}
            }
            if let Some(before) = before {
                info.set_phys_state(before.phys_state());
            }
            info.0
        }
        AttrId::SWITCH_INFO => {
            let mut info = SwitchInfo::read(data);
            // Writing 1 clears the bit.
            info.set_port_state_change(false);
            let mut after = *data;
            let length = info.0.len();
            after[..length].copy_from_slice(&info.0);
            after
        }
        _ => *data,
    }
}
