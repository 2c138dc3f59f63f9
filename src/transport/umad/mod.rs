//! The Linux umad device as a [`MadPort`].
//!
//! The kernel matches responses, retransmits requests and times them out. It leaves RMPP to
//! [`super::rmpp`], or implements it itself if it is older than 3.17. [`abi`] contains the kernel's
//! structures, [`sys`] the system calls, [`rmpp`] the header of a long response, [`device`] an open file
//! with its agents, [`reader`] the thread that reads it, [`simulator_thread`] the thread of a preloaded
//! simulator, and [`users`] the search for other users of the device. This file opens the port, sends MADs and closes the port.
//!
//! Subnet management, subnet administration and performance management have a file and a reader
//! each, because the kernel keeps one receive queue per file: SMP responses do not wait behind
//! thousands of path queries, nor these behind port counters. ibsim's shim supports one file per
//! device, which then serves all. Under high load of SA requests, a second thread reads the same
//! file if there is more than one core.
//!
//! The reader reads until the queue is empty, notifies its sink, and only then polls, so that under
//! load a MAD costs one system call to receive and one to send. Any thread may send.
//!
//! When the port is dropped, its readers end; then agents are unregistered and devices closed.

mod abi;
mod device;
mod reader;
pub mod rmpp;
mod simulator_thread;
mod sys;
mod users;

pub use abi::UserHeader;
pub use users::DeviceUser;

/// The device's ioctl(2) request numbers.
pub mod request {
    pub use super::abi::{ENABLE_PKEY, REGISTER_AGENT, REGISTER_AGENT2, UNREGISTER_AGENT};
}

use super::rmpp::Segmentation;
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
const SMI_AGENTS: [Agent; 2] = [Agent::SmiDirected, Agent::SmiLid];
/// The agents of subnet administration.
const SA_AGENTS: [Agent; 1] = [Agent::Sa];
/// The agents of the other general services classes.
const GSI_AGENTS: [Agent; 2] = [Agent::Perf, Agent::Congestion];

/// Retransmissions of RMPP segments if the sender does not specify them.
const RMPP_RETRIES: u32 = 3;

/// Failure to open a port.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("cannot open {path}: {source}{}", remedy(source))]
    Device { path: String, source: io::Error },
    #[error("{path}: registering for {agent} MADs failed: {source}")]
    Register { path: String, agent: Agent, source: io::Error },
    /// Another program has registered for the same MADs.
    #[error(
        "{path}: another subnet manager uses this port: {}; stop it, or choose another port with \
         -g GUID",
        list_users(users)
    )]
    InUse {
        path: String,
        /// Processes that have the device open, as far as they are visible to this process.
        users: Vec<DeviceUser>,
    },
    #[error("cannot start the thread that reads the umad device: {0}")]
    Reader(io::Error),
}

/// The end of the message of a failed open.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; run as root or as a user with access to the device",
        Some(libc::EAGAIN) => "; another subnet manager holds the device: stop it first",
        _ => "",
    }
}

impl OpenError {
    /// For a port that another process uses: adds this process to those named, unless some are.
    #[must_use]
    pub fn with_user(mut self, pid: impl FnOnce() -> Option<u32>) -> Self {
        if let Self::InUse { users, .. } = &mut self
            && users.is_empty()
        {
            users.extend(pid().map(DeviceUser::new));
        }
        self
    }
}

fn list_users(users: &[DeviceUser]) -> String {
    if users.is_empty() {
        return "a process that this user cannot see".to_owned();
    }
    users.iter().map(DeviceUser::to_string).collect::<Vec<_>>().join(", ")
}

/// An open file with the threads that read it.
struct UmadChannel {
    device: Arc<Device>,
    life: Arc<Life>,
    /// Write end of a pipe; closing it ends the reader.
    stop_pipe: Option<OwnedFd>,
    /// The reader and, under high load, its helper.
    readers: Vec<JoinHandle<()>>,
}

impl UmadChannel {
    /// Starts the reader of a device, and a helper thread if `has_helper` is true.
    fn start(
        device: Device,
        name: String,
        has_helper: bool,
        life: &Arc<Life>,
        sink: &Arc<dyn MadSink>,
    ) -> Result<Self, OpenError> {
        let device = Arc::new(device);
        let pipe = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
        let (stop, stop_pipe) = pipe.map_err(|errno| OpenError::Reader(errno.into()))?;
        let mut channel =
            Self { device, life: life.clone(), stop_pipe: Some(stop_pipe), readers: Vec::new() };
        let reader = Reader::new(channel.device.clone(), life.clone(), sink.clone());
        if has_helper {
            let reader = reader.clone();
            channel.spawn(format!("{name}-2"), move || reader.help())?;
        }
        let helper = channel.readers.first().map(|helper| helper.thread().clone());
        channel.spawn(name, move || reader.run(&stop, helper.as_ref()))?;
        Ok(channel)
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

impl Drop for UmadChannel {
    /// Stops the readers, also if opening the port failed half-way.
    fn drop(&mut self) {
        self.life.stop.store(true, Ordering::Relaxed);
        drop(self.stop_pipe.take());
        for reader in self.readers.drain(..) {
            reader.thread().unpark();
            if reader.thread().id() != std::thread::current().id() {
                // A panic of the reader has been reported by the panic hook.
                let _ = reader.join();
            }
        }
    }
}

/// An open port.
pub struct UmadPort {
    identity: PortIdentity,
    number: u32,
    channels: Vec<UmadChannel>,
    life: Arc<Life>,
    is_sm: Mutex<Option<Descriptor>>,
}

impl UmadPort {
    /// Opens `port` and delivers its MADs to `sink`, messages in segments as a whole.
    ///
    /// # Errors
    /// [`OpenError`] names the device, and the agent or the other subnet manager.
    pub fn open(port: &LocalPort, sink: Arc<dyn MadSink>) -> Result<Self, OpenError> {
        Self::open_as(port, sink, Segmentation::Device)
    }

    /// Opens `port` for [`super::rmpp::open`]: delivers segments as they are, unless the kernel is
    /// too old for that.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_for_segments(port: &LocalPort, sink: Arc<dyn MadSink>) -> Result<Self, OpenError> {
        Self::open_as(port, sink, Segmentation::Caller)
    }

    /// Opens `port` for requests of subnet management and subnet administration. Requests of others are
    /// not received: another program may use the port as subnet manager.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_requester(port: &LocalPort, sink: Arc<dyn MadSink>) -> Result<Self, OpenError> {
        let mut device = Device::open(umad_number(port)?)?;
        device.register_for_requests(&[SMI_AGENTS.as_slice(), &SA_AGENTS].concat())?;
        Self::with_devices(port, sink, vec![device])
    }

    fn open_as(
        port: &LocalPort,
        sink: Arc<dyn MadSink>,
        wanted: Segmentation,
    ) -> Result<Self, OpenError> {
        let number = umad_number(port)?;
        let mut devices = vec![Device::open(number)?];
        if devices[0].descriptor.is_real() {
            devices[0].register(&SMI_AGENTS)?;
            devices.push(Device::open(number)?);
            devices[1].register_sa(wanted)?;
            devices.push(Device::open(number)?);
            devices[2].register(&GSI_AGENTS)?;
        } else {
            devices[0].register(&[SMI_AGENTS.as_slice(), &SA_AGENTS, &GSI_AGENTS].concat())?;
        }
        Self::with_devices(port, sink, devices)
    }

    /// Starts the readers of `devices`.
    fn with_devices(
        port: &LocalPort,
        sink: Arc<dyn MadSink>,
        devices: Vec<Device>,
    ) -> Result<Self, OpenError> {
        let number = umad_number(port)?;
        let life = Arc::<Life>::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let names = ["smi", "sa", "gsi"].map(|class| format!("umad{number}-{class}"));
        let with_helper = [false, cores > 1, false];
        let channels = devices.into_iter().zip(names).zip(with_helper);
        let channels = channels.map(|((device, name), has_helper)| {
            UmadChannel::start(device, name, has_helper, &life, &sink)
        });
        Ok(Self {
            identity: PortIdentity {
                device: port.device.clone(),
                port: port.port,
                guid: port.guid,
            },
            number,
            channels: channels.collect::<Result<_, _>>()?,
            life,
            is_sm: Mutex::new(None),
        })
    }

    /// Sets or clears the IsSM capability of the port, by which other subnet managers find this one
    /// (IBA vol. 1, 14.2.5.6).
    ///
    /// # Errors
    /// [`OpenError::Device`] if the `issm` device cannot be opened; EAGAIN if another program holds
    /// it.
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

/// The number of the umad device of a port.
fn umad_number(port: &LocalPort) -> Result<u32, PortError> {
    port.umad.ok_or_else(|| PortError::NoUmad { device: port.device.clone(), port: port.port })
}

fn device_path(kind: &str, number: u32) -> String {
    format!("/dev/infiniband/{kind}{number}")
}

fn open_device(
    kind: &str,
    number: u32,
    open: fn(&std::ffi::CStr) -> io::Result<Descriptor>,
) -> Result<Descriptor, OpenError> {
    let path = device_path(kind, number);
    let opened = CString::new(path.clone()).map_err(io::Error::from).and_then(|path| open(&path));
    opened.map_err(|source| OpenError::Device { path, source })
}

impl MadPort for UmadPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn segmentation(&self) -> Segmentation {
        let devices = self.channels.iter().map(|channel| &channel.device);
        let mut of_sa = devices.filter(|device| device.id(Agent::Sa).is_some());
        of_sa.next().map_or(Segmentation::Device, |device| device.segmentation)
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let is_gone = self.life.gone.load(Ordering::Relaxed);
        let mut channels = self.channels.iter().filter(|_| !is_gone);
        let found = channels.find_map(|open| Some((&open.device, open.device.id(out.agent)?)));
        let Some((device, id)) = found else { return Err(self.closed()) };
        let is_divided = device.segmentation != Segmentation::Caller;
        let long = is_divided && out.agent == Agent::Sa && rmpp::is_needed(out.mad);
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

/// At least 1, because 0 means that no response is expected.
fn milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn send(device: &Device, header: &UserHeader, mad: &[u8], long: bool) -> io::Result<()> {
    let start = device.header_len();
    if mad.len() <= MAD_SIZE {
        // A single MAD is padded to 256 bytes; an RMPP message has its own length.
        let len = if long { mad.len() } else { MAD_SIZE };
        let mut message = [0; HEADER + MAD_SIZE];
        message[start..start + mad.len()].copy_from_slice(mad);
        write_headers(&mut message[..start + len], start, header, long);
        return device.descriptor.write(&message[..start + len]);
    }
    let class = mad.get(1).copied();
    if class != Some(Class::SUBN_ADM) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a MAD of another class than SubnAdm is longer than 256 bytes",
        ));
    }
    let mut message = vec![0; start + mad.len()];
    message[start..].copy_from_slice(mad);
    write_headers(&mut message, start, header, long);
    device.descriptor.write(&message)
}

/// Writes the umad header in front of the MAD at `start`, and the RMPP header of a long response.
fn write_headers(message: &mut [u8], start: usize, header: &UserHeader, long: bool) {
    message[..start].copy_from_slice(&header.to_bytes()[..start]);
    if long {
        rmpp::prepare(&mut message[start..]);
    }
}
