//! The rate limits of ports and vports: what they hold as far as is known, and the next request to each.
//!
//! A port is read once, and written only if it differs. When limits are switched off, ports that had
//! some of this subnet manager get zeros; others are left alone.

use crate::ids::Guid;
use crate::transport::transactions::{SmpError, SmpResult};
use crate::wire::mad::Method;
use crate::wire::vendor::qos_config_sl::{QosConfigSl, SLS};
use std::collections::BTreeMap;

/// Rate limits by SL; 0 is no limit.
pub type Limits = [u32; SLS];

const UNLIMITED: Limits = [0; SLS];

/// A physical port or a vport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RateTarget {
    Port(Guid),
    Vport {
        /// The GUID of the physical port.
        port: Guid,
        index: u16,
        guid: Guid,
    },
}

impl RateTarget {
    /// The GUID of the physical port.
    pub fn port(self) -> Guid {
        match self {
            Self::Port(port) | Self::Vport { port, .. } => port,
        }
    }
}

/// Why a port does not have its limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RateFailure {
    Unanswered,
    /// The port answered with this status.
    Refused(u16),
    /// The port acknowledged a Set, but has other limits.
    Altered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LimitedPort {
    /// Generation of the last subnet in which its node was new or had restarted.
    restarted: u64,
    wanted: Limits,
    /// What the port has; `None` if it is not known.
    held: Option<QosConfigSl>,
    /// This subnet manager, or one before it with the same policy, has limited the port.
    is_limited: bool,
    failure: Option<RateFailure>,
}

/// A port or vport of the fabric that supports rate limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapablePort {
    pub target: RateTarget,
    /// Generation of the last subnet in which its node was new or had restarted.
    pub restarted: u64,
    /// `None` if no policy is in force.
    pub wanted: Option<Limits>,
}

/// Numbers of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateCounts {
    /// Ports that have their limits.
    pub configured: usize,
    /// Ports that do not answer, refuse or alter them.
    pub failed: usize,
}

/// All ports that support rate limits and have a policy, or have had one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RateLimiter {
    ports: BTreeMap<RateTarget, LimitedPort>,
}

impl RateLimiter {
    /// Takes over the ports of a published subnet. Those that are gone are forgotten, those that have
    /// restarted are unknown. A port that did not answer is asked again, one that refused is not,
    /// until its limits change.
    pub fn observe(&mut self, ports: impl Iterator<Item = CapablePort>) {
        let mut before = std::mem::take(&mut self.ports);
        for CapablePort { target, restarted, wanted } in ports {
            let known = before.remove(&target).filter(|known| known.restarted == restarted);
            // Without a policy, only ports that were limited get a request.
            let limits = match (wanted, &known) {
                (Some(limits), _) => limits,
                (None, Some(known)) if known.is_limited => UNLIMITED,
                (None, _) => continue,
            };
            let mut port = known.unwrap_or(LimitedPort {
                restarted,
                wanted: limits,
                held: None,
                is_limited: false,
                failure: None,
            });
            let is_other = port.wanted != limits;
            if is_other || port.failure == Some(RateFailure::Unanswered) {
                port.failure = None;
            }
            port.wanted = limits;
            self.ports.insert(target, port);
        }
    }

    /// The ports to which a request is due.
    pub fn due(&self) -> Vec<RateTarget> {
        let due = self.ports.iter().filter(|(_, port)| Self::next_of(port).is_some());
        due.map(|(&target, _)| target).collect()
    }

    fn next_of(port: &LimitedPort) -> Option<(Method, QosConfigSl)> {
        if port.failure.is_some() {
            return None;
        }
        let Some(held) = port.held else { return Some((Method::GET, QosConfigSl::default())) };
        (held.rate_limits() != port.wanted)
            .then(|| (Method::SET, held.with_rate_limits(&port.wanted)))
    }

    /// The next request to a port: its method, and the attribute of a Set.
    pub fn request(&self, target: RateTarget) -> Option<(Method, QosConfigSl)> {
        Self::next_of(self.ports.get(&target)?)
    }

    /// Takes over the answer to the last request. Returns the failure, if it is a new one.
    pub fn answered(&mut self, target: RateTarget, result: &SmpResult) -> Option<RateFailure> {
        let (method, _) = self.request(target)?;
        let port = self.ports.get_mut(&target)?;
        match result {
            Ok(reply) => {
                let held = QosConfigSl(reply.data);
                let has_wanted = held.rate_limits() == port.wanted;
                port.held = Some(held);
                if has_wanted {
                    port.is_limited = port.wanted != UNLIMITED;
                } else if method == Method::SET {
                    port.failure = Some(RateFailure::Altered);
                }
            }
            Err(SmpError::Status(status)) => port.failure = Some(RateFailure::Refused(*status)),
            Err(SmpError::Unanswered | SmpError::Malformed(_) | SmpError::Send(_)) => {
                // A Set may have arrived.
                port.held = None;
                port.is_limited |= method == Method::SET;
                port.failure = Some(RateFailure::Unanswered);
            }
        }
        port.failure
    }

    pub fn counts(&self) -> RateCounts {
        let failed = self.ports.values().filter(|port| port.failure.is_some()).count();
        let limited = self.ports.values().filter(|port| port.wanted != UNLIMITED);
        RateCounts {
            configured: limited
                .filter(|port| port.failure.is_none() && Self::next_of(port).is_none())
                .count(),
            failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::transactions::SmpReply;

    const PORT: RateTarget = RateTarget::Port(Guid(5));
    const WANTED: Limits = [7; SLS];

    fn observed(limiter: &mut RateLimiter, restarted: u64, wanted: Option<Limits>) {
        let port = CapablePort { target: PORT, restarted, wanted };
        limiter.observe([port].into_iter());
    }

    fn answer(limits: &Limits) -> SmpResult {
        Ok(SmpReply { data: QosConfigSl::with_limits(limits).0, status: 0 })
    }

    /// Answers requests as a port that holds `held`; returns the methods.
    fn served(limiter: &mut RateLimiter, held: &mut Limits) -> Vec<Method> {
        let mut methods = Vec::new();
        while let Some((method, config)) = limiter.request(PORT) {
            methods.push(method);
            assert!(methods.len() < 9, "no end");
            if method == Method::SET {
                *held = config.rate_limits();
            }
            assert_eq!(limiter.answered(PORT, &answer(held)), None);
        }
        methods
    }

    #[test]
    fn a_port_is_read_once_and_written_by_differences() {
        let mut limiter = RateLimiter::default();
        let mut held = UNLIMITED;
        observed(&mut limiter, 0, Some(WANTED));
        assert_eq!(served(&mut limiter, &mut held), [Method::GET, Method::SET]);
        observed(&mut limiter, 0, Some(WANTED));
        assert_eq!(served(&mut limiter, &mut held), []);
        observed(&mut limiter, 0, Some([8; SLS]));
        assert_eq!(served(&mut limiter, &mut held), [Method::SET]);
        observed(&mut limiter, 4, Some([8; SLS]));
        assert_eq!(served(&mut limiter, &mut held), [Method::GET], "it has kept its limits");
        assert_eq!(limiter.counts(), RateCounts { configured: 1, failed: 0 });
    }

    #[test]
    fn switching_off_clears_only_ports_that_were_limited() {
        let mut limiter = RateLimiter::default();
        let mut held = [9; SLS];
        observed(&mut limiter, 0, None);
        assert_eq!(served(&mut limiter, &mut held), [], "of another program");
        observed(&mut limiter, 0, Some([9; SLS]));
        assert_eq!(served(&mut limiter, &mut held), [Method::GET]);
        observed(&mut limiter, 0, None);
        assert_eq!(served(&mut limiter, &mut held), [Method::SET]);
        assert_eq!(held, UNLIMITED);
        observed(&mut limiter, 0, None);
        assert_eq!(served(&mut limiter, &mut held), []);
        assert_eq!(limiter.counts(), RateCounts::default());
    }

    #[test]
    fn failures_are_repeated_only_where_that_may_help() {
        let mut limiter = RateLimiter::default();
        observed(&mut limiter, 0, Some(WANTED));
        let unanswered = limiter.answered(PORT, &Err(SmpError::Unanswered));
        assert_eq!(unanswered, Some(RateFailure::Unanswered));
        assert_eq!((limiter.request(PORT), limiter.due()), (None, vec![]));
        observed(&mut limiter, 0, Some(WANTED));
        assert_eq!(limiter.due(), [PORT], "with the next subnet");
        let refused = limiter.answered(PORT, &Err(SmpError::Status(0x1C)));
        assert_eq!(refused, Some(RateFailure::Refused(0x1C)));
        observed(&mut limiter, 0, Some(WANTED));
        assert_eq!(limiter.due(), []);
        observed(&mut limiter, 0, Some([8; SLS]));
        assert_eq!(limiter.due(), [PORT], "other limits");
        limiter.answered(PORT, &answer(&UNLIMITED));
        assert_eq!(limiter.answered(PORT, &answer(&[1; SLS])), Some(RateFailure::Altered));
        assert_eq!(limiter.counts(), RateCounts { configured: 0, failed: 1 });
    }

    /// A Set without an answer may have arrived: switching off clears the port.
    #[test]
    fn a_lost_answer_leaves_no_limit_behind() {
        let mut limiter = RateLimiter::default();
        observed(&mut limiter, 0, Some(WANTED));
        limiter.answered(PORT, &answer(&UNLIMITED));
        limiter.answered(PORT, &Err(SmpError::Unanswered));
        observed(&mut limiter, 0, None);
        assert_eq!(served(&mut limiter, &mut WANTED.clone()), [Method::GET, Method::SET]);
    }
}
