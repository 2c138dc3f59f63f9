//! The Linux umad device as a [`MadPort`].
//!
//! The kernel matches responses, repeats requests, times them out and does RMPP. One file per
//! concern: [`abi`] has the kernel's structures, [`sys`] the calls, [`rmpp`] the header of a
//! long response, [`device`] an open file with its agents, [`reader`] the thread that reads it;
//! here the port is opened, written to and closed.
//!
//! Subnet management and subnet administration have a file and a reader each, as the kernel keeps
//! one queue for a file: answers to SMPs do not wait behind ten thousand requests for paths.
//! ibsim's shim has one file for a device, which then serves both. In a rush of requests to subnet
//! administration a second thread reads the same file, if there is a core for it.
//!
//! The reader reads until there is nothing more, tells its sink so, and only then polls: under
//! load a MAD costs one call to receive and one to send. Writes come from any thread.
//!
//! When the port is dropped its readers end, then agents are unregistered and devices closed.

mod abi;
mod device;
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
use abi::HEADER;
use device::{Device, Life};
use reader::Reader;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::Descriptor;

/// The agents of subnet management.
const MANAGEMENT: [Agent; 2] = [Agent::SmiDirected, Agent::SmiLid];
/// Those of subnet administration.
const ADMINISTRATION: [Agent; 1] = [Agent::Sa];

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

/// An open file, and the thread that reads it.
struct Line {
    device: Arc<Device>,
    life: Arc<Life>,
    /// Closing it ends the reader.
    alarm: Option<OwnedFd>,
    /// The reader, and who relieves it.
    readers: Vec<JoinHandle<()>>,
}

impl Line {
    /// Starts the reader of a device, and another if it `is_relieved` in a rush.
    fn start(
        device: Device,
        name: String,
        is_relieved: bool,
        life: &Arc<Life>,
        sink: &Arc<dyn MadSink>,
    ) -> Result<Self, OpenError> {
        let device = Arc::new(device);
        let pipe = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
        let (alarm_end, alarm) = pipe.map_err(|errno| OpenError::Reader(errno.into()))?;
        let mut line = Self { device, life: life.clone(), alarm: Some(alarm), readers: Vec::new() };
        let reader = Reader::new(line.device.clone(), life.clone(), sink.clone());
        if is_relieved {
            let reader = reader.clone();
            line.spawn(format!("{name}-2"), move || reader.relieve())?;
        }
        let relief = line.readers.first().map(|relief| relief.thread().clone());
        line.spawn(name, move || reader.run(&alarm_end, relief.as_ref()))?;
        Ok(line)
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), OpenError> {
        let thread = std::thread::Builder::new().name(name);
        self.readers.push(thread.spawn(run).map_err(OpenError::Reader)?);
        Ok(())
    }
}

impl Drop for Line {
    /// The port is being dropped, or was never complete.
    fn drop(&mut self) {
        self.life.stop.store(true, Ordering::Relaxed);
        drop(self.alarm.take());
        for reader in self.readers.drain(..) {
            reader.thread().unpark();
            if reader.thread().id() != std::thread::current().id() {
                // A panic in there was told when it happened.
                let _ = reader.join();
            }
        }
    }
}

/// An open port.
pub struct UmadPort {
    identity: PortIdentity,
    number: u32,
    lines: Vec<Line>,
    life: Arc<Life>,
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
        let mut devices = vec![Device::open(number)?];
        if devices[0].descriptor.is_real() {
            devices[0].register(&MANAGEMENT)?;
            devices.push(Device::open(number)?);
            devices[1].register(&ADMINISTRATION)?;
        } else {
            devices[0].register(&[MANAGEMENT.as_slice(), &ADMINISTRATION].concat())?;
        }
        let life = Arc::<Life>::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let names = ["smi", "sa"].map(|line| format!("umad{number}-{line}"));
        let relieved = [false, cores > 1];
        let lines = devices.into_iter().zip(names).zip(relieved);
        let lines = lines.map(|((device, name), is_relieved)| {
            Line::start(device, name, is_relieved, &life, &sink)
        });
        Ok(Self {
            identity: PortIdentity {
                device: port.device.clone(),
                port: port.port,
                guid: port.guid,
            },
            number,
            lines: lines.collect::<Result<_, _>>()?,
            life,
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
        let is_gone = self.life.gone.load(Ordering::Relaxed);
        let mut lines = self.lines.iter().filter(|_| !is_gone);
        let found = lines.find_map(|line| Some((&line.device, line.device.id(out.agent)?)));
        let Some((device, id)) = found else { return Err(self.closed()) };
        let long = out.agent == Agent::Sa && rmpp::is_needed(out.mad);
        let header = UserHeader {
            id,
            status: 0,
            timeout_ms: out.timeout.map_or(0, milliseconds),
            retries: if long && out.retries == 0 { RMPP_RETRIES } else { out.retries },
            length: out.mad.len() as u32,
            address: out.to,
        };
        send(device, &header, out.mad, long).map_err(|source| SendError::Io {
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
