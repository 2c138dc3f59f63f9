//! The system calls of the simulated device, compared with those of user_mad.c: sizes, errors,
//! blocking, copies of the descriptor. This test program makes the calls, started once more inside
//! the simulated fabric with one of the ignored tests below.

#![allow(unsafe_code)]

use libc::{c_int, c_ulong};
use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use testkit::{Running, START_TIMEOUT, Simulator, tool, torus_sm, wait_for};
use torus_sm::ids::{Lid, MKey, PortNum, Sl};
use torus_sm::transport::rmpp::Segmentation;
use torus_sm::transport::sysfs::Sysfs;
use torus_sm::transport::umad::{UmadPort, UserHeader, request};
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outgoing};
use torus_sm::wire::mad::{Class, Header, Method};
use torus_sm::wire::smp::{self, DirectedRoute, SmpRoute};

const NODE_INFO: u16 = 0x0011;
const NODE_RECORD: u16 = 0x0011;
const CLASS_PORT_INFO: u16 = 0x0001;
const UMAD: &str = "/dev/infiniband/umad0";
const ISSM: &str = "/dev/infiniband/issm0";

#[test]
fn the_device_behaves_like_user_mad() {
    let sim = Simulator::start(&["3x3x3", "--hosts", "2"]);
    let program = std::env::current_exe().expect("this program has a path");
    for part in ["smps", "long_answers", "opening", "children", "is_sm", "readers"] {
        let output = sim
            .command("h1-1-1-0", &program)
            .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
            .arg(testkit::test_name(module_path!(), &format!("inside::{part}")))
            .output()
            .expect("torus-sm runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{part}: {text}{errors}");
        assert!(text.contains("1 passed"), "{part}: {text}{errors}");
    }
}

#[test]
fn writes_need_not_wait_for_the_simulator() {
    let sim = Simulator::start(&["3x3x2"]);
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = sim.command("h1-1-1", &program);
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
    command.arg(testkit::test_name(module_path!(), "inside::unanswered_writes"));
    let output = command.env("TORUS_SM_SIM_NO_REPLY", "1").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A kernel that does not know `IB_USER_MAD_REGISTER_AGENT2`, and with it no RMPP in user space, divides
/// the tables of the daemon itself: clients get them whole.
#[test]
fn tables_are_complete_from_a_kernel_without_user_space_rmpp() {
    let sim = Simulator::start(&["3x3x2", "--no-sm"]);
    let program = std::env::current_exe().expect("this program has a path");
    for (old, part) in [("", "segments"), ("1", "no_segments")] {
        let mut command = sim.command("h1-1-1", &program);
        command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
        command.arg(testkit::test_name(module_path!(), &format!("inside::{part}")));
        let output = command.env("TORUS_SM_SIM_OLD_KERNEL", old).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{part}: {text}");
    }
    if tool("saquery").is_none() {
        println!("SKIPPED: saquery is not installed");
        return;
    }
    let log = sim.dir.path().join("old.log");
    let mut command = sim.command("h0-0-0", &torus_sm());
    command.args(["-R", "minhop", "-f"]).arg(&log).env("TORUS_SM_SIM_OLD_KERNEL", "1");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _daemon = Running(command.spawn().expect("torus-sm starts"));
    wait_for(&log, "SUBNET UP", START_TIMEOUT);
    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(text.contains("this kernel divides SA tables itself"), "{text}");
    // 36 switches and hosts: all paths are more than 400 segments.
    for _ in 0..3 {
        assert_eq!(sim.ask("saquery", &["PR"]).matches("Record dump:").count(), 36 * 36);
    }
}

fn open(path: &str, flags: c_int) -> io::Result<RawFd> {
    let path = CString::new(path).expect("no NUL");
    check(unsafe { libc::open(path.as_ptr(), flags) } as isize).map(|fd| fd as RawFd)
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

fn ioctl(fd: RawFd, code: c_ulong, argument: &mut [u8]) -> io::Result<usize> {
    check(unsafe { libc::ioctl(fd, code as _, argument.as_mut_ptr()) } as isize)
}

fn close(fd: RawFd) {
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.expect_err("an error").raw_os_error().expect("errno")
}

/// True if the descriptor becomes readable within `timeout_ms`.
fn readable(fd: RawFd, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ready = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    assert!(ready >= 0);
    poll.revents & libc::POLLIN != 0
}

/// Registers an agent; returns its number.
fn register(fd: RawFd, class: u8, version: u8, rmpp: u8, methods: u64) -> io::Result<u32> {
    let mut raw = [0; 28];
    raw[4..12].copy_from_slice(&methods.to_ne_bytes());
    raw[20] = u8::from(![Class::SUBN_LID, Class::SUBN_DIRECTED].contains(&class));
    (raw[21], raw[22], raw[26]) = (class, version, rmpp);
    ioctl(fd, request::REGISTER_AGENT, &mut raw)?;
    Ok(u32::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]]))
}

/// A Get(NodeInfo) along a directed route, with the header of the device.
fn node_info(id: u32, route: &DirectedRoute, tid: u64) -> Vec<u8> {
    let route = SmpRoute::Directed(*route);
    let mad = smp::request(
        &route,
        smp::SmpFields {
            method: Method::GET,
            attr_id: NODE_INFO,
            attr_mod: 0,
            m_key: MKey::NONE,
            tid,
        },
        &[0; 64],
    );
    message(id, Address::smi(Lid::PERMISSIVE), &mad.0)
}

/// An SA request for all records of an attribute.
fn sa_request(method: Method, attr_id: u16, tid: u64) -> [u8; 256] {
    let mut mad = [0; 256];
    let mut header = Header::read(&mad);
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(2);
    header.set_method(method.0);
    header.set_tid(tid);
    header.set_attr_id(attr_id);
    header.write(&mut mad);
    mad
}

fn message(id: u32, address: Address, mad: &[u8]) -> Vec<u8> {
    let header = UserHeader { id, status: 0, timeout_ms: 200, retries: 1, length: 0, address };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(mad);
    bytes
}

/// An open device with long headers and an agent for directed SMPs.
fn smi(flags: c_int) -> (RawFd, u32) {
    let fd = open(UMAD, libc::O_RDWR | flags).expect("the device opens");
    ioctl(fd, request::ENABLE_PKEY, &mut []).expect("long headers");
    let id = register(fd, Class::SUBN_DIRECTED, 1, 0, 0).expect("an agent");
    (fd, id)
}

/// A sink that blocks the delivery of SA MADs until an SMP has arrived.
struct Stuck {
    administration: mpsc::Sender<&'static str>,
    management: mpsc::Sender<()>,
    managed: Mutex<mpsc::Receiver<()>>,
}

impl MadSink for Stuck {
    fn deliver(&self, delivery: Delivery<'_>) {
        if delivery.agent != Agent::Sa {
            let _ = self.management.send(());
            return;
        }
        let _ = self.administration.send("stuck");
        let managed = self.managed.lock().expect("no panic");
        if managed.recv_timeout(Duration::from_secs(10)).is_ok() {
            let _ = self.administration.send("free");
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

mod inside {
    use super::*;

    /// Asserts who divides messages, as the daemon opens its port.
    fn assert_segmentation(expected: Segmentation) {
        struct Ignored;
        impl MadSink for Ignored {
            fn deliver(&self, _: Delivery<'_>) {}
            fn idle(&self) {}
            fn closed(&self, _: &str) {}
        }
        let ports = Sysfs::default().ports().expect("there are ports");
        let [local] = &ports.ports[..] else { panic!("{ports:?}") };
        let port = UmadPort::open_for_segments(local, Arc::new(Ignored)).expect("it opens");
        assert_eq!(port.segmentation(), expected);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by tables_are_complete_from_a_kernel_without_user_space_rmpp"]
    fn segments() {
        assert_segmentation(Segmentation::Caller);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by tables_are_complete_from_a_kernel_without_user_space_rmpp"]
    fn no_segments() {
        assert_segmentation(Segmentation::Device);
    }

    /// SMPs are delivered while the SA client is busy.
    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn readers() {
        let ports = Sysfs::default().ports().expect("there are ports");
        let local = ports.first_usable().expect("it has a link");
        let (administration, heard) = mpsc::channel();
        let (management, managed) = mpsc::channel();
        let managed = Mutex::new(managed);
        let sink = Arc::new(Stuck { administration, management, managed });
        let port = UmadPort::open(local, sink).expect("the port opens");
        let ask = |agent, to, mad: &[u8]| {
            let timeout = Some(Duration::from_secs(2));
            port.post(&Outgoing { agent, to, timeout, retries: 3, mad }).expect("it is taken");
        };
        let mad = sa_request(Method::GET, CLASS_PORT_INFO, 7);
        ask(Agent::Sa, Address::gsi(local.sm_lid, Sl(0)), &mad);
        let wait = Duration::from_secs(30);
        assert_eq!(heard.recv_timeout(wait), Ok("stuck"));
        let route = SmpRoute::Directed(DirectedRoute::LOCAL);
        let smp = smp::request(
            &route,
            smp::SmpFields {
                method: Method::GET,
                attr_id: NODE_INFO,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 8,
            },
            &[0; 64],
        );
        ask(Agent::SmiDirected, Address::smi(Lid::PERMISSIVE), &smp.0);
        assert_eq!(heard.recv_timeout(wait), Ok("free"));
    }

    /// Replies arrive as ever, but no write reports an error of its MAD.
    #[test]
    #[ignore = "run inside a simulated fabric by writes_need_not_wait_for_the_simulator"]
    fn unanswered_writes() {
        let (fd, id) = smi(0);
        let wrong = node_info(31, &DirectedRoute::LOCAL, 1);
        assert_eq!(write(fd, &wrong).expect("taken"), wrong.len());
        for tid in 2..40 {
            let request = node_info(id, &DirectedRoute::LOCAL, tid);
            assert_eq!(write(fd, &request).expect("taken"), request.len());
        }
        let mut buffer = [0; 320];
        for tid in 2..40 {
            assert!(readable(fd, 5000), "a reply to request {tid}");
            assert_eq!(read(fd, &mut buffer).expect("a reply"), 320);
            let mad = Header::read(&buffer[64..]);
            assert_eq!((mad.method(), mad.tid() as u32), (Method::GET_RESP.0, tid as u32));
        }
        assert!(!readable(fd, 0), "no reply to the wrong request");
        close(fd);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn smps() {
        let (fd, id) = smi(libc::O_NONBLOCK);
        let mut buffer = [0; 1024];
        assert_eq!(errno(read(fd, &mut buffer)), libc::EAGAIN);
        assert!(!readable(fd, 0));
        let request = node_info(id, &DirectedRoute::LOCAL, 0x1234);
        assert_eq!(write(fd, &request).expect("taken"), request.len());
        assert!(readable(fd, 2000));
        // A MAD that does not fit the buffer stays in the queue.
        assert_eq!(errno(read(fd, &mut buffer[..63])), libc::EINVAL);
        assert_eq!(errno(read(fd, &mut buffer[..319])), libc::EINVAL);
        assert_eq!(read(fd, &mut buffer).expect("a reply"), 320);
        let header = UserHeader::read(&buffer, true).expect("a header");
        assert_eq!((header.id, header.status, header.length), (id, 0, 320));
        let mad = Header::read(&buffer[64..]);
        assert_eq!((mad.method(), mad.tid() as u32), (Method::GET_RESP.0, 0x1234));
        assert!(!readable(fd, 0));
        // No node at that port: the request returns as a timeout.
        let route = DirectedRoute::new(&[PortNum(1), PortNum(200)]).expect("a route");
        write(fd, &node_info(id, &route, 5)).expect("taken");
        assert!(readable(fd, 5000));
        read(fd, &mut buffer).expect("the request");
        let header = UserHeader::read(&buffer, true).expect("a header");
        assert_eq!((header.id, header.status), (id, libc::ETIMEDOUT as u32));
        // The adapter has no port 9.
        let nowhere = DirectedRoute::new(&[PortNum(9)]).expect("a route");
        assert_eq!(errno(write(fd, &node_info(id, &nowhere, 6))), libc::EINVAL);
        assert_eq!(errno(write(fd, &request[..40])), libc::EINVAL);
        assert_eq!(errno(write(fd, &node_info(31, &DirectedRoute::LOCAL, 1))), libc::EINVAL);
        close(fd);
        assert_eq!(errno(write(fd, &request)), libc::EBADF);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn long_answers() {
        let fd = open(UMAD, libc::O_RDWR).expect("the device opens");
        ioctl(fd, request::ENABLE_PKEY, &mut []).expect("long headers");
        let id = register(fd, Class::SUBN_ADM, 2, 1, 0).expect("an agent");
        let port = std::fs::read_to_string("/sys/class/infiniband/sim0/ports/1/sm_lid");
        let lid = port.expect("sm_lid").trim().trim_start_matches("0x").to_owned();
        let sm = Address::gsi(Lid(u16::from_str_radix(&lid, 16).expect("a LID")), Sl(0));
        let mad = sa_request(Method::GET_TABLE, NODE_RECORD, 77);
        write(fd, &message(id, sm, &mad)).expect("taken");
        // This descriptor blocks until the response is there.
        let mut first = [0; 320];
        assert_eq!(errno(read(fd, &mut first)), libc::ENOSPC);
        let header = UserHeader::read(&first, true).expect("a header");
        // 27 switches and 54 hosts, with records of at least 112 bytes.
        assert!(header.length as usize > 81 * 108, "{}", header.length);
        let mut whole = vec![0; header.length as usize];
        assert_eq!(errno(read(fd, &mut whole[..header.length as usize - 1])), libc::ENOSPC);
        assert_eq!(read(fd, &mut whole).expect("a reply"), whole.len());
        assert_eq!(whole[..320], first);
        let last = whole.windows(8).any(|window| window == b"h2-2-2-1");
        assert!(last, "the last host is in the table");
        assert!(!readable(fd, 0));
        close(fd);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn opening() {
        let (fd, _) = smi(libc::O_NONBLOCK | libc::O_CLOEXEC);
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
        let (second, id) = smi(0);
        assert_eq!(unsafe { libc::fcntl(second, libc::F_GETFD) }, 0);
        // A method belongs to one agent per port.
        let get = 1 << Method::GET.0;
        let vendor = register(second, 0x09, 1, 0, get).expect("an agent");
        assert_eq!(errno(register(fd, 0x09, 1, 0, get)), libc::EINVAL);
        let mut number = vendor.to_ne_bytes();
        ioctl(second, request::UNREGISTER_AGENT, &mut number).expect("known");
        assert_eq!(errno(ioctl(second, request::UNREGISTER_AGENT, &mut number)), libc::EINVAL);
        register(fd, 0x09, 1, 0, get).expect("free again");
        // The newer request returns the supported flags.
        let mut raw = [0; 40];
        raw[12..16].copy_from_slice(&0xFF_u32.to_ne_bytes());
        assert_eq!(errno(ioctl(second, request::REGISTER_AGENT2, &mut raw)), libc::EINVAL);
        assert_eq!(raw[12..16], 1_u32.to_ne_bytes());
        assert_eq!(errno(ioctl(second, 0x1B7F, &mut [])), libc::ENOTTY);
        for (path, flags, wanted) in [
            ("/dev/infiniband/umad1", libc::O_RDWR, libc::ENOENT),
            ("/dev/infiniband/uverbs0", libc::O_RDWR, libc::ENOENT),
            ("/sys/class/infiniband/sim0/ports/1/lid", libc::O_RDWR, libc::EACCES),
            ("/sys/class/infiniband/sim0/ports/2/lid", libc::O_RDONLY, libc::ENOENT),
        ] {
            assert_eq!(errno(open(path, flags)), wanted, "{path}");
        }
        // A copy of the descriptor is equivalent, and the device stays open until the last one is
        // closed.
        let copy = unsafe { libc::dup(second) };
        close(second);
        write(copy, &node_info(id, &DirectedRoute::LOCAL, 9)).expect("taken");
        assert_eq!(read(copy, &mut [0; 400]).expect("a reply"), 320);
        close(copy);
        close(fd);
        // The number is reused for another file.
        let mut ends = [0; 2];
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        assert_eq!(write(ends[1], b"plain").expect("a pipe"), 5);
        assert_eq!(read(ends[0], &mut [0; 8]).expect("a pipe"), 5);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn children() {
        let (fd, id) = smi(0);
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // The child sends; both processes have the device open.
            let sent = write(fd, &node_info(id, &DirectedRoute::LOCAL, 0x42)).is_ok();
            let known = std::fs::read_to_string("/sys/class/infiniband/sim0/ports/1/lid").is_ok();
            unsafe { libc::_exit(if sent && known { 0 } else { 1 }) };
        }
        let mut status = -1;
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        let mut buffer = [0; 320];
        assert_eq!(read(fd, &mut buffer).expect("a reply"), 320);
        assert_eq!(Header::read(&buffer[64..]).tid() as u32, 0x42);
        write(fd, &node_info(id, &DirectedRoute::LOCAL, 0x43)).expect("the parent's own");
        assert_eq!(read(fd, &mut buffer).expect("a reply"), 320);
    }

    #[test]
    #[ignore = "run inside a simulated fabric by the_device_behaves_like_user_mad"]
    fn is_sm() {
        let capabilities = || {
            let path = "/sys/class/infiniband/sim0/ports/1/cap_mask";
            let text = std::fs::read_to_string(path).expect("cap_mask");
            u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).expect("a number")
        };
        assert_eq!(capabilities() & 2, 0);
        let held = open(ISSM, libc::O_RDONLY | libc::O_NONBLOCK).expect("the device opens");
        assert_eq!(capabilities() & 2, 2);
        assert_eq!(errno(open(ISSM, libc::O_RDONLY | libc::O_NONBLOCK)), libc::EAGAIN);
        assert_eq!(errno(read(held, &mut [0; 320])), libc::EINVAL);
        assert_eq!(errno(write(held, &[0; 320])), libc::EINVAL);
        // Another open waits until the device is free.
        let waiting = std::thread::spawn(|| open(ISSM, libc::O_RDONLY));
        close(held);
        let next = waiting.join().expect("no panic").expect("the device opens");
        assert_eq!(capabilities() & 2, 2);
        close(next);
    }
}
