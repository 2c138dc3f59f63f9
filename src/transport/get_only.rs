//! A port that can send Gets and nothing else.
//!
//! What leaves it is a [`GetMad`], and there is no way to make one of a MAD with another method: Sets,
//! responses, traps and reports do not reach the port below.

use super::{Agent, MadPort, Outgoing, PortIdentity, SendError};
use crate::transport::rmpp::Segmentation;
use crate::wire::mad::{Method, method_of};
use std::sync::Arc;

/// A MAD that is a Get of subnet management or subnet administration.
#[derive(Clone, Copy, Debug)]
struct GetMad<'a>(Outgoing<'a>);

impl<'a> GetMad<'a> {
    /// `None` for every other MAD.
    fn of(out: &Outgoing<'a>) -> Option<Self> {
        let is_permitted = match out.agent {
            Agent::SmiDirected | Agent::SmiLid | Agent::Sa => {
                method_of(out.mad) == Some(Method::GET)
            }
            // Vendors attach effects to Gets of these classes.
            Agent::Perf | Agent::Congestion => false,
        };
        is_permitted.then_some(Self(*out))
    }
}

/// A port below which only Gets are sent.
pub struct GetOnlyPort(Arc<dyn MadPort>);

impl GetOnlyPort {
    pub fn new(inner: Arc<dyn MadPort>) -> Self {
        Self(inner)
    }

    fn send(&self, GetMad(out): GetMad<'_>) -> Result<(), SendError> {
        self.0.post(&out)
    }
}

impl MadPort for GetOnlyPort {
    fn identity(&self) -> &PortIdentity {
        self.0.identity()
    }

    fn segmentation(&self) -> Segmentation {
        self.0.segmentation()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let Some(get) = GetMad::of(out) else {
            let PortIdentity { device, port, .. } = self.identity();
            return Err(SendError::NotAGet { device: device.clone(), port: *port });
        };
        self.send(get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid, PortNum, Sl};
    use crate::transport::Address;
    use crate::wire::mad::Mad;
    use std::sync::Mutex;

    struct Counting(PortIdentity, Mutex<Vec<u8>>);

    impl MadPort for Counting {
        fn identity(&self) -> &PortIdentity {
            &self.0
        }

        fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
            self.1.lock().expect("no panic").push(out.mad[3]);
            Ok(())
        }
    }

    #[test]
    fn no_method_but_get_leaves_the_port() {
        let identity = PortIdentity { device: "mlx5_0".into(), port: PortNum(1), guid: Guid(1) };
        let below = Arc::new(Counting(identity, Mutex::default()));
        let port = GetOnlyPort::new(below.clone());
        let agents = [Agent::SmiDirected, Agent::SmiLid, Agent::Sa, Agent::Perf, Agent::Congestion];
        for (agent, method) in agents.into_iter().flat_map(|it| (0..=255).map(move |m| (it, m))) {
            let mut mad = Mad([0; 256]);
            mad.0[3] = method;
            let to = Address::gsi(Lid(1), Sl(0));
            let out = Outgoing { agent, to, timeout: None, retries: 0, mad: &mad.0 };
            let is_get = method == Method::GET.0;
            let is_sent = is_get && !matches!(agent, Agent::Perf | Agent::Congestion);
            assert_eq!(port.post(&out).is_ok(), is_sent, "{agent} {method:#x}");
        }
        assert_eq!(*below.1.lock().expect("no panic"), [Method::GET.0; 3]);
        // A MAD that is cut off has no method.
        let to = Address::smi(Lid::PERMISSIVE);
        let agent = Agent::SmiDirected;
        let out = Outgoing { agent, to, timeout: None, retries: 0, mad: &[1, 0x81, 1] };
        assert!(port.post(&out).is_err());
    }
}
