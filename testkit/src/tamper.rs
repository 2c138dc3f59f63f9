//! A port that changes, records or loses MADs on their way to a fabric.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use torus_sm::ids::PortNum;
use torus_sm::transport::{Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::mad::{Class, Mad, Method};
use torus_sm::wire::smp::INITIAL_PATH;

/// Called with each request of subnet management before it is sent; may change it.
pub type Tamper = Box<dyn FnMut(&mut Mad) + Send>;

/// A handle that replaces the function of a [`TamperedPort`].
#[derive(Clone, Default)]
pub struct Tampering(Arc<Mutex<Option<Tamper>>>);

impl Tampering {
    /// Calls `tamper` with each request from now on.
    pub fn set(&self, tamper: impl FnMut(&mut Mad) + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(tamper));
    }

    /// Lets requests pass unchanged from now on.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Wraps `port`.
    pub fn wrap(&self, port: Arc<dyn MadPort>) -> Arc<dyn MadPort> {
        Arc::new(TamperedPort { port, tampering: self.clone() })
    }
}

struct TamperedPort {
    port: Arc<dyn MadPort>,
    tampering: Tampering,
}

impl MadPort for TamperedPort {
    fn identity(&self) -> &PortIdentity {
        self.port.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let mut mad = Mad::read(out.mad);
        let is_request = matches!(mad.method(), Method::GET | Method::SET);
        if matches!(out.agent, Agent::Sa | Agent::Perf | Agent::Congestion) || !is_request {
            return self.port.post(out);
        }
        let mut tamper = self.tampering.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tamper) = tamper.as_mut() {
            tamper(&mut mad);
        }
        drop(tamper);
        self.port.post(&Outgoing { mad: &mad.0, ..*out })
    }
}

/// A handle by which a program falls silent, as one that hangs does: its port answers what concerns
/// the device, and the program sends nothing.
#[derive(Clone, Default)]
pub struct Silence(Arc<AtomicBool>);

impl Silence {
    /// Whether the program is silent from now on.
    pub fn set(&self, is_silent: bool) {
        self.0.store(is_silent, Ordering::Relaxed);
    }

    /// Wraps `port`.
    pub fn wrap(&self, port: Arc<dyn MadPort>) -> Arc<dyn MadPort> {
        Arc::new(SilencedPort { port, silence: self.clone() })
    }
}

struct SilencedPort {
    port: Arc<dyn MadPort>,
    silence: Silence,
}

impl MadPort for SilencedPort {
    fn identity(&self) -> &PortIdentity {
        self.port.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if self.silence.0.load(Ordering::Relaxed) { Ok(()) } else { self.port.post(out) }
    }
}

/// The egress ports of a directed route request.
pub fn path(mad: &Mad) -> Vec<PortNum> {
    let hops = usize::from(mad.smp().hop_count());
    mad.0[INITIAL_PATH + 1..=INITIAL_PATH + hops].iter().map(|&port| PortNum(port)).collect()
}

/// True for the first query of a heavy sweep, which only heavy sweeps send: NodeInfo of the own
/// node.
pub fn begins_heavy_sweep(mad: &Mad) -> bool {
    let is_query = (mad.method(), mad.header().attr_id()) == (Method::GET, AttrId::NODE_INFO);
    is_query && mad.header().class() == Class::SUBN_DIRECTED && mad.smp().hop_count() == 0
}

/// Makes a device answer the request with the status "version not supported".
pub fn let_refuse(mad: &mut Mad) {
    let mut header = mad.header();
    header.set_class_version(9);
    mad.set_header(&header);
}

/// Lets the response be lost: it has another transaction ID.
pub fn let_ignore_response(mad: &mut Mad) {
    let mut header = mad.header();
    header.set_tid(!header.tid());
    mad.set_header(&header);
}

/// Lets a directed route request with hops get lost.
pub fn let_vanish(mad: &mut Mad) {
    let last = INITIAL_PATH + usize::from(mad.smp().hop_count());
    mad.0[last] = 0xFE;
}
