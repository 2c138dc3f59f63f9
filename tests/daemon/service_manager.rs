//! Notifications to a service manager, by the protocol of sd_notify(3), on a socket of the test.

use crate::process::{LIMIT, command, configure, ended, log, ring, signal};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{Running, wait_for};

/// The service manager's end.
struct Manager {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Manager {
    fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        Self { socket, received: Vec::new() }
    }

    /// Waits for a notification that satisfies `is_wanted`; returns it. Earlier ones are dropped.
    fn wait(&mut self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let mut buffer = [0; 4096];
            if let Ok(length) = self.socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                self.received.push(text.clone());
                if is_wanted(&text) {
                    return text;
                }
            }
            assert!(start.elapsed() < LIMIT, "no {what}; received: {:?}", self.received);
        }
    }

    fn wait_for(&mut self, wanted: &str) -> String {
        self.wait(wanted, |text| text.starts_with(wanted))
    }
}

fn start(mut command: Command) -> Running {
    Running(command.spawn().expect("the daemon starts"))
}

#[test]
fn the_service_manager_hears_of_start_work_reload_and_end() {
    let Some(sim) = ring() else { return };
    configure(&sim, "sweep_interval 1\n");
    let path = sim.dir().join("notify");
    let mut manager = Manager::new(UnixDatagram::bind(&path).expect("a socket"));
    let mut daemon = command(&sim, &[]);
    daemon.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let daemon = start(daemon);
    assert_eq!(manager.wait("first notification", |_| true), "READY=1");
    manager.wait("sweep", |text| {
        text.starts_with("STATUS=MASTER; 3 switches; ") && text.contains(" sweep ended at ")
    });
    let first = Instant::now();
    (0..5).for_each(|_| drop(manager.wait_for("WATCHDOG=1")));
    // Five reports at half of the watchdog's time.
    assert!(first.elapsed() < Duration::from_secs(4), "{:?}", first.elapsed());

    configure(&sim, "sweep_interval 2\nrouting_engine minihop\n");
    signal(daemon.0.id(), "HUP");
    let reloading = manager.wait_for("RELOADING=1");
    let (_, time) = reloading.split_once("\nMONOTONIC_USEC=").expect("a time");
    assert!(time.parse::<u64>().is_ok_and(|time| time > 0), "{reloading}");
    manager.wait_for("READY=1");
    wait_for(&log(&sim), "configuration read again", LIMIT);

    signal(daemon.0.id(), "TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(ended(daemon).0, Some(0));
}

#[test]
fn a_hung_daemon_does_not_report_to_the_watchdog() {
    let Some(sim) = ring() else { return };
    configure(&sim, "");
    let path = sim.dir().join("notify");
    let mut manager = Manager::new(UnixDatagram::bind(&path).expect("a socket"));
    let mut daemon = command(&sim, &[]);
    daemon.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let daemon = start(daemon);
    manager.wait_for("WATCHDOG=1");
    signal(daemon.0.id(), "STOP");
    std::thread::sleep(Duration::from_millis(100));
    let mut buffer = [0; 4096];
    while manager.socket.recv(&mut buffer).is_ok() {}
    std::thread::sleep(Duration::from_millis(600));
    assert!(manager.socket.recv(&mut buffer).is_err(), "a stopped process reported");
    signal(daemon.0.id(), "CONT");
    manager.wait_for("WATCHDOG=1");
}

#[test]
fn a_service_stays_in_the_foreground_and_uses_abstract_sockets() {
    let Some(sim) = ring() else { return };
    // A key that a configuration for the init script of OpenSM may have.
    configure(&sim, "daemon TRUE\n");
    let name = format!("torus-sm-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let mut manager = Manager::new(UnixDatagram::bind_addr(&address).expect("a socket"));
    let mut daemon = command(&sim, &[]);
    // The watchdog is for another process.
    daemon.env("NOTIFY_SOCKET", format!("@{name}"));
    daemon.env("WATCHDOG_USEC", "200000").env("WATCHDOG_PID", "1");
    let mut daemon = start(daemon);
    manager.wait_for("READY=1");
    manager.wait_for("STATUS=MASTER; ");
    assert!(daemon.0.try_wait().expect("a child").is_none(), "it went to the background");
    let watchdogs = manager.received.iter().filter(|text| text.starts_with("WATCHDOG"));
    assert_eq!(watchdogs.count(), 0);
}
