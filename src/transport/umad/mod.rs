//! The Linux umad device as a [`MadPort`].
//!
//! The kernel matches responses, repeats requests, times them out and does RMPP. One file per
//! concern: [`abi`] has the kernel's structures, [`sys`] the calls, [`rmpp`] the header of a
//! long response, [`reader`] the thread that reads; here the port is opened, written to and
//! closed.
//!
//! The reader reads until there is nothing more, tells its sink so, and only then polls: under
//! load a MAD costs one call to receive and one to send. Writes come from any thread.
//!
//! When the port is dropped its reader ends, then agents are unregistered and devices closed.

mod abi;
mod reader;
pub mod rmpp;
mod sys;

pub use abi::UserHeader;

/// The numbers of the device's requests, for ioctl(2).
pub mod request {
    pub use super::abi::{ENABLE_PKEY, REGISTER_AGENT, REGISTER_AGENT2, UNREGISTER_AGENT};
}

use super::sysfs::{LocalPort, PortError};
use super::{Agent, MadPort, MadSink, Outgoing, PortIdentity, SendError};
use crate::wire::mad::{Class, MAD_SIZE};
use abi::{HEADER, OLD_HEADER, Registration};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::Descriptor;

/// The agents of a subnet manager.
const AGENTS: [Agent; 3] = [Agent::SmiDirected, Agent::SmiLid, Agent::Sa];

/// How often the kernel repeats a segment of a long response when the sender does not say.
const RMPP_RETRIES: u32 = 3;

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The port has no umad device.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A device could not be opened.
    #[error("{path}: {source}")]
    Device {
        /// Which device.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused an agent: another program has registered for the same MADs.
    #[error("registering for {agent:?} failed: {source}")]
    Register {
        /// Which agent.
        agent: Agent,
        /// What the kernel said.
        source: io::Error,
    },
    /// The reader could not be started.
    #[error("the reader could not be started: {0}")]
    Reader(io::Error),
}

/// The device, shared by the port and its reader; the last one closes it.
#[derive(Debug)]
struct Device {
    descriptor: Descriptor,
    /// Numbers of the agents, as in [`AGENTS`].
    agents: Vec<u32>,
    with_pkey_index: bool,
    stop: AtomicBool,
    gone: AtomicBool,
}

impl Device {
    fn header_len(&self) -> usize {
        if self.with_pkey_index { HEADER } else { OLD_HEADER }
    }

    /// Which agent the kernel calls `id`.
    fn agent(&self, id: u32) -> Option<Agent> {
        let at = self.agents.iter().position(|&agent| agent == id)?;
        AGENTS.get(at).copied()
    }

    fn register(&mut self) -> Result<(), OpenError> {
        for agent in AGENTS {
            let registered = register(&self.descriptor, &Registration::of(agent));
            let id = registered.map_err(|source| OpenError::Register { agent, source })?;
            self.agents.push(id);
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        for &id in &self.agents {
            // The kernel forgets the agents with the descriptor; this is for simulators.
            let _ = self.descriptor.unregister(id);
        }
    }
}

/// Registers with the newer call, or the older one where only that exists.
fn register(descriptor: &Descriptor, registration: &Registration) -> io::Result<u32> {
    let mut request = registration.request2();
    match descriptor.register2(&mut request) {
        Ok(()) => return Ok(request.id),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {}
        Err(error) => return Err(error),
    }
    let mut request = registration.request();
    descriptor.register(&mut request)?;
    Ok(request.id)
}

/// An open port.
pub struct UmadPort {
    identity: PortIdentity,
    number: u32,
    device: Arc<Device>,
    /// Closing it ends the reader.
    alarm: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    is_sm: Mutex<Option<Descriptor>>,
}

impl UmadPort {
    /// Opens `port`; what arrives goes to `sink`.
    ///
    /// # Errors
    /// [`OpenError`] names the device or the agent that was refused.
    pub fn open(port: &LocalPort, sink: Arc<dyn MadSink>) -> Result<Self, OpenError> {
        let number = port
            .umad
            .ok_or_else(|| PortError::NoUmad { device: port.device.clone(), port: port.port })?;
        let descriptor = open_device("umad", number, Descriptor::open)?;
        // ibsim's shim agrees to the longer header but keeps the shorter one, which is what a
        // device has that was never asked.
        let with_pkey_index = descriptor.is_real() && descriptor.enable_pkey_index().is_ok();
        let mut device = Device {
            descriptor,
            agents: Vec::new(),
            with_pkey_index,
            stop: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        };
        device.register()?;
        let device = Arc::new(device);
        let pipe = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
        let (alarm_end, alarm) = pipe.map_err(|errno| OpenError::Reader(errno.into()))?;
        let reader = reader::Reader::new(Arc::clone(&device), alarm_end, sink);
        let thread = std::thread::Builder::new().name(format!("umad{number}"));
        let reader = thread.spawn(move || reader.run()).map_err(OpenError::Reader)?;
        Ok(Self {
            identity: PortIdentity {
                device: port.device.clone(),
                port: port.port,
                guid: port.guid,
            },
            number,
            device,
            alarm: Some(alarm),
            reader: Some(reader),
            is_sm: Mutex::new(None),
        })
    }

    /// Shows or hides the port's capability bit IsSM, which tells other subnet managers that
    /// there is one here (IBA vol. 1, 14.2.5.6).
    ///
    /// # Errors
    /// [`OpenError::Device`] if the `issm` device cannot be opened; EAGAIN: it is held by
    /// another program.
    pub fn set_is_sm(&self, raised: bool) -> Result<(), OpenError> {
        let mut held = self.is_sm.lock().unwrap_or_else(PoisonError::into_inner);
        match (raised, held.is_some()) {
            (true, false) => *held = Some(open_device("issm", self.number, Descriptor::hold)?),
            (false, true) => *held = None,
            _ => {}
        }
        Ok(())
    }

    fn closed(&self) -> SendError {
        let PortIdentity { device, port, .. } = &self.identity;
        SendError::Closed { device: device.clone(), port: *port }
    }
}

fn open_device(
    kind: &str,
    number: u32,
    open: fn(&std::ffi::CStr) -> io::Result<Descriptor>,
) -> Result<Descriptor, OpenError> {
    let path = format!("/dev/infiniband/{kind}{number}");
    let opened = CString::new(path.clone()).map_err(io::Error::from).and_then(|path| open(&path));
    opened.map_err(|source| OpenError::Device { path, source })
}

impl MadPort for UmadPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if self.device.gone.load(Ordering::Relaxed) {
            return Err(self.closed());
        }
        let at = AGENTS.iter().position(|&agent| agent == out.agent);
        let Some(&id) = at.and_then(|at| self.device.agents.get(at)) else {
            return Err(self.closed());
        };
        let long = out.agent == Agent::Sa && rmpp::is_needed(out.mad);
        let header = UserHeader {
            id,
            status: 0,
            timeout_ms: out.timeout.map_or(0, milliseconds),
            retries: if long && out.retries == 0 { RMPP_RETRIES } else { out.retries },
            length: out.mad.len() as u32,
            address: out.to,
        };
        send(&self.device, &header, out.mad, long).map_err(|source| SendError::Io {
            device: self.identity.device.clone(),
            port: self.identity.port,
            source,
        })
    }
}

/// At least 1, as 0 means that no answer is expected.
fn milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn send(device: &Device, header: &UserHeader, mad: &[u8], long: bool) -> io::Result<()> {
    let start = device.header_len();
    if mad.len() <= MAD_SIZE {
        // A single MAD is padded to its full size, an RMPP message has its own length.
        let len = if long { mad.len() } else { MAD_SIZE };
        let mut message = [0; HEADER + MAD_SIZE];
        message[start..start + mad.len()].copy_from_slice(mad);
        finish(&mut message[..start + len], start, header, long);
        return device.descriptor.write(&message[..start + len]);
    }
    let class = mad.get(1).copied();
    if class != Some(Class::SUBN_ADM) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "MAD longer than 256 bytes"));
    }
    let mut message = vec![0; start + mad.len()];
    message[start..].copy_from_slice(mad);
    finish(&mut message, start, header, long);
    device.descriptor.write(&message)
}

/// Puts the header in front of the MAD at `start`, and makes a long one known as such.
fn finish(message: &mut [u8], start: usize, header: &UserHeader, long: bool) {
    message[..start].copy_from_slice(&header.to_bytes()[..start]);
    if long {
        rmpp::prepare(&mut message[start..]);
    }
}

impl Drop for UmadPort {
    fn drop(&mut self) {
        self.device.stop.store(true, Ordering::Relaxed);
        drop(self.alarm.take());
        if let Some(reader) = self.reader.take()
            && reader.thread().id() != std::thread::current().id()
        {
            // A panic in there was told when it happened.
            let _ = reader.join();
        }
    }
}
