//! A client of OpenSM's console on a TCP port of this host.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Time limit of a reply.
const LIMIT: Duration = Duration::from_secs(20);

/// Prompt of the console.
pub const PROMPT: &str = "OpenSM $ ";

/// A TCP port of this host that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// A connection to a console.
pub struct ConsoleClient(pub BufReader<TcpStream>);

impl ConsoleClient {
    /// Waits for the console.
    pub fn connect(port: u16) -> Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
                    return Self(BufReader::new(stream));
                }
                Err(error) => assert!(Instant::now() < deadline, "no console: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(line.as_bytes()).expect("it is taken");
    }

    /// Reads up to `end`.
    pub fn until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).ends_with(end) {
            let mut byte = [0];
            let read = self.0.read(&mut byte).expect("a reply");
            assert!(read == 1, "the console closed after {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The reply to a command, with the prompt after it.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(&format!("{command}\n"));
        self.until(PROMPT)
    }

    /// Repeats a command until its reply has `wanted`.
    pub fn ask_until(&mut self, command: &str, wanted: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let reply = self.ask(command);
            if reply.contains(wanted) {
                return reply;
            }
            assert!(Instant::now() < deadline, "{command}: no {wanted} in {reply}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
