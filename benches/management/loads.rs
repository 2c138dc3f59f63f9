//! Loads on the management interface.

use crate::daemon::request_sweep;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";

/// Connections of the load of this name.
const CONNECTIONS: usize = 200;
/// Interval at which slow clients send and read.
const SLOW_INTERVAL: Duration = Duration::from_millis(100);
/// Nice value of the clients: they compete with the daemon for this machine only.
const LOWEST_PRIORITY: i32 = 19;

/// A load by name.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    /// Threads that run it.
    threads: usize,
    /// Runs until the flag is set; counts what it has done.
    run: fn(&Path, &AtomicBool, &AtomicU64),
}

pub(crate) const LOADS: [Load; 5] = [
    Load { name: "scrape", threads: 1, run: scrape_each_second },
    Load { name: "scrapes", threads: 1, run: scrape_always },
    Load { name: "connections", threads: 1, run: hold_connections },
    Load { name: "garbage", threads: 2, run: send_garbage },
    Load { name: "counters", threads: 1, run: sweep_always },
];

/// A load that ends when dropped.
pub(crate) struct RunningLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the load; adds to `done` what it does.
    pub(crate) fn start(&self, socket: &Path, done: &Arc<AtomicU64>) -> RunningLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..self.threads)
            .map(|_| {
                let stop = stop.clone();
                let run = self.run;
                let socket: PathBuf = socket.into();
                let done = done.clone();
                std::thread::spawn(move || {
                    let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
                    run(&socket, &stop, &done);
                })
            })
            .collect();
        RunningLoad { stop, threads }
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the load does not panic");
        }
    }
}

/// Sends a request and reads the reply.
pub(crate) fn request(socket: &Path, text: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(text)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    Ok(reply)
}

/// Scrapes into a buffer of this thread, so that the client allocates nothing.
fn scrape(socket: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(METRICS)?;
    while stream.read(buffer)? > 0 {}
    Ok(())
}

fn scrape_at(interval: Duration, socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    let mut buffer = vec![0; 1 << 18];
    while !stop.load(Ordering::Relaxed) {
        let next = Instant::now() + interval;
        scrape(socket, &mut buffer).expect("a reply");
        done.fetch_add(1, Ordering::Relaxed);
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn scrape_each_second(socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    scrape_at(Duration::from_secs(1), socket, stop, done);
}

fn scrape_always(socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    scrape_at(Duration::ZERO, socket, stop, done);
}

/// Opens a connection of [`hold_connections`] and sends what its number tells.
fn connect_slowly(socket: &Path, number: usize) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_nonblocking(true).ok()?;
    match number % 4 {
        0 => stream.write_all(b"GET /v1/status HTTP/1.1\r\nx: ").ok()?,
        1 => stream.write_all(METRICS).ok()?,
        _ => {}
    }
    Some(stream)
}

/// Keeps connections open: half of them send nothing, a quarter sends a header byte by byte, and a
/// quarter reads metrics slowly.
fn hold_connections(socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    let mut connections: Vec<Option<UnixStream>> = Vec::new();
    connections.resize_with(CONNECTIONS, || None);
    let mut buffer = [0; 1024];
    while !stop.load(Ordering::Relaxed) {
        for (number, connection) in connections.iter_mut().enumerate() {
            let Some(stream) = connection else {
                *connection = connect_slowly(socket, number);
                done.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let is_open = number % 4 != 0 || stream.write_all(b"x").is_ok();
            let read = match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if !(is_open && read) {
                *connection = None;
            }
        }
        std::thread::sleep(SLOW_INTERVAL);
    }
}

/// A body of 1 GB, as far as it is taken.
fn send_giant_body(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let head =
        b"POST /v1/actions/priority HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n";
    stream.write_all(head)?;
    let block = [b' '; 1 << 14];
    for _ in 0..65536 {
        stream.write_all(&block)?;
    }
    Ok(())
}

fn send_garbage(socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    let requests = [
        "\r\n\r\n\r\n".to_owned() + &"\u{0}".repeat(100),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "BREW /v1/status HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000)),
        format!("GET /v1/status HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)),
        "GET /v1/routes?from=1&to=%ff HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        "POST /v1/actions/loglevel HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "POST /v1/actions/loglevel HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n{\"f".to_owned(),
    ];
    while !stop.load(Ordering::Relaxed) {
        // The server closes connections before it has read all.
        let _ = send_giant_body(socket);
        for text in &requests {
            let _ = UnixStream::connect(socket).and_then(|mut stream| {
                stream.write_all(text.as_bytes())?;
                stream.shutdown(Shutdown::Write)?;
                stream.read_to_end(&mut Vec::new())
            });
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Requests a sweep of the counters whenever the last one has ended.
fn sweep_always(socket: &Path, stop: &AtomicBool, done: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        // The queue of commands is served between sweeps.
        request_sweep(socket);
        done.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }
}
