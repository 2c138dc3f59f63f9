//! Limits the unsolicited SMPs that each sender may put in the queue: a flood of traps or SMInfo
//! requests from one port must not leave the others without a place. This module has no clock:
//! time is an argument.

use crate::ids::Lid;
use crate::wire::mad::{Class, Mad};
use crate::wire::smp::{MAX_HOPS, RETURN_PATH};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The period of the limits.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of SMPs of a sender within a [`PERIOD`]. Another subnet manager polls at most some
/// ten times a second, and a switch sends one trap per failed link.
pub const MAX_PER_SENDER: u32 = 256;
/// Maximum number of directed-route SMPs of all senders within a [`PERIOD`]. The route
/// that they took distinguishes their senders, which may choose among several.
const MAX_DIRECTED: u32 = 1024;

/// The origin of an SMP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SmpOrigin {
    Lid(Lid),
    /// Hash of the return path of a directed route.
    Path(u64),
}

impl SmpOrigin {
    fn of(from: Lid, mad: &[u8]) -> Self {
        let mad = Mad::read(mad);
        if mad.header().class() != Class::SUBN_DIRECTED {
            return Self::Lid(from);
        }
        let hops = usize::from(mad.smp().hop_count()).min(MAX_HOPS);
        let mut hasher = DefaultHasher::new();
        mad.0[RETURN_PATH..=RETURN_PATH + hops].hash(&mut hasher);
        Self::Path(hasher.finish())
    }
}

#[derive(Debug, Default)]
struct IntakeState {
    period_start: Option<Instant>,
    /// SMPs of each sender in this period: at most 49,151 LIDs and [`MAX_DIRECTED`] paths.
    admitted: HashMap<SmpOrigin, u32>,
    directed: u32,
    /// SMPs above the limit since they were last taken, by the LID that sent them.
    omitted: HashMap<Lid, u64>,
}

impl IntakeState {
    fn admit(&mut self, sender: SmpOrigin, now: Instant) -> bool {
        if self.period_start.is_none_or(|start| now.duration_since(start) >= PERIOD) {
            self.period_start = Some(now);
            self.directed = 0;
            self.admitted.clear();
        }
        if matches!(sender, SmpOrigin::Path(_)) {
            if self.directed >= MAX_DIRECTED {
                return false;
            }
            self.directed += 1;
        }
        let admitted = self.admitted.entry(sender).or_default();
        *admitted += 1;
        *admitted <= MAX_PER_SENDER
    }
}

/// The limits, for the reader threads and the server of SMPs.
#[derive(Debug, Default)]
pub struct SmpIntake {
    state: Mutex<IntakeState>,
    /// True if [`IntakeState::omitted`] has entries.
    has_omitted: AtomicBool,
}

impl SmpIntake {
    fn lock(&self) -> MutexGuard<'_, IntakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an SMP from LID `from`; false if it exceeds a limit.
    pub fn admit(&self, from: Lid, mad: &[u8], now: Instant) -> bool {
        let sender = SmpOrigin::of(from, mad);
        let mut state = self.lock();
        let is_admitted = state.admit(sender, now);
        if !is_admitted {
            *state.omitted.entry(from).or_default() += 1;
            self.has_omitted.store(true, Ordering::Relaxed);
        }
        is_admitted
    }

    /// The number of SMPs above the limits since the last call, by LID. Directed-route SMPs have the
    /// permissive LID.
    pub fn take_omitted(&self) -> Vec<(Lid, u64)> {
        if !self.has_omitted.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut omitted: Vec<_> = std::mem::take(&mut self.lock().omitted).into_iter().collect();
        omitted.sort_unstable();
        omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MKey, PortNum};
    use crate::wire::attr::AttrId;
    use crate::wire::mad::Method;
    use crate::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

    fn get(route: &SmpRoute) -> Mad {
        request(
            route,
            SmpFields {
                method: Method::GET,
                attr_id: AttrId::SM_INFO,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 1,
            },
            &[0; 64],
        )
    }

    /// A directed-route request that came in through `port` of the last switch.
    fn directed(port: u8) -> Mad {
        let route = DirectedRoute::new(&[PortNum(1), PortNum(2)]).expect("two hops");
        let mut mad = get(&SmpRoute::Directed(route));
        mad.0[RETURN_PATH + 2] = port;
        mad
    }

    #[test]
    fn a_flooding_sender_leaves_room_for_others() {
        let intake = SmpIntake::default();
        let now = Instant::now();
        let mad = get(&SmpRoute::Lid(Lid(1)));
        let admitted = (0..5000).filter(|_| intake.admit(Lid(7), &mad.0, now)).count();
        assert_eq!(admitted as u32, MAX_PER_SENDER);
        assert!(intake.admit(Lid(8), &mad.0, now), "others are not affected");
        assert!(intake.admit(Lid::PERMISSIVE, &directed(3).0, now));
        assert_eq!(intake.take_omitted(), [(Lid(7), u64::from(5000 - MAX_PER_SENDER))]);
        assert_eq!(intake.take_omitted(), []);
        assert!(intake.admit(Lid(7), &mad.0, now + PERIOD), "it may try again");
    }

    #[test]
    fn senders_of_directed_routes_are_told_apart_by_their_routes() {
        let intake = SmpIntake::default();
        let now = Instant::now();
        let mad = directed(1).0;
        let admitted = (0..5000).filter(|_| intake.admit(Lid::PERMISSIVE, &mad, now)).count();
        assert_eq!(admitted as u32, MAX_PER_SENDER);
        assert!(intake.admit(Lid(7), &get(&SmpRoute::Lid(Lid(1))).0, now));
    }
}
