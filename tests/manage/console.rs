//! OpenSM's console on a TCP port of a simulation.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Running, torus_sm};

/// Time limit of a reply.
const LIMIT: Duration = Duration::from_secs(20);

/// A simulation with a console, and its port.
fn simulation(folder: &std::path::Path, kind: &str) -> (Running, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = port.local_addr().expect("bound").port();
    drop(port);
    let token = folder.join("token");
    std::fs::write(&token, "0123456789abcdef-token\n").expect("a file");
    let conf = folder.join("opensm.conf");
    let text = format!("management_token_file {}\n", token.display());
    std::fs::write(&conf, text).expect("a file");
    let child = Command::new(torus_sm())
        .args(["sim", "3x3", "--console", kind, "--console-port", &number.to_string(), "-F"])
        .arg(&conf)
        .env("XDG_RUNTIME_DIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    (Running(child.expect("it starts")), number)
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Self {
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

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(line.as_bytes()).expect("it is taken");
    }

    /// Reads up to `end`.
    fn until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).ends_with(end) {
            let mut byte = [0];
            let read = self.0.read(&mut byte).expect("a reply");
            assert!(read == 1, "the console closed after {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The reply to a command.
    fn ask(&mut self, command: &str) -> String {
        self.send(&format!("{command}\n"));
        self.until("OpenSM $ ")
    }

    /// Repeats a command until its reply has `wanted`.
    fn ask_until(&mut self, command: &str, wanted: &str) -> String {
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

#[test]
fn commands_of_opensm_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_running, port) = simulation(folder.path(), "loopback");
    let mut client = Client::connect(port);
    client.until("OpenSM $ ");
    let status = client.ask_until("status", "SA State             : Ready");
    for line in [
        "   SM State             : Master     \n",
        "   Sweeping enabled               : 1\n",
        "   Known SMs\n",
        "        SELF\n",
    ] {
        assert!(status.contains(line), "{line} is missing in {status}");
    }
    for (command, reply) in [
        ("help", "resweep [heavy|light]\n"),
        ("help sweep", "   [off] inhibit all sweeping\n"),
        ("loglevel", "Current log level is 0x"),
        ("loglevel 0x7", "Setting log level to 0x7\n"),
        ("loglevel 256", "Invalid log level 256\n"),
        ("priority 3", "Setting sm-priority to 3\n"),
        ("priority 16", "Invalid sm-priority 16"),
        ("resweep", "Invalid resweep command\nresweep [heavy|light]\n"),
        ("logflush on", ""),
        ("querylid 1", "   Node Type           : Channel Adapter\n"),
        ("querylid 4000", "Invalid lid 4000\n"),
        ("portstatus switch", "\"Switch\" port status:\n"),
        ("portstatus printer", "Node type not understood\n"),
        ("switchbalance verbose", "Switch: 0x"),
        ("switchbalance 0x1", "guid not found\n"),
        ("lidbalance none", "Invalid switchguid specified\n"),
        ("dump_conf", "\nsm_priority "),
        ("version", "torus-sm "),
        ("pm", "Performance Manager status:\n"),
        ("pm nothing", "option not found"),
        ("dump_portguid .*", "0x"),
        ("dump_portguid (", "Cannot parse regular expression '('. Skipping\n"),
        ("nonsense", "nonsense : Command not found\n"),
    ] {
        let text = client.ask(command);
        assert!(text.contains(reply), "{command}: no {reply} in {text}");
    }
    // As in OpenSM, a file that does not exist is no error.
    let reply = client.ask("permodlog");
    assert!(!reply.contains("per-module-logging.conf"), "{reply}");
    client.ask("sweep off");
    client.ask_until("status", "Sweeping enabled               : 0");
    client.ask("sweep on");
    client.ask_until("status", "Sweeping enabled               : 1");
    client.ask_until("priority", "Current sm-priority is 3\n");
    client.send("status loop\n");
    client.until("use \"q<ret>\" to quit loop\n");
    client.send("q\n");
    client.until("OpenSM $ ");
    client.send("quit\n");
    let mut rest = String::new();
    client.0.read_line(&mut rest).expect("the end");
    assert_eq!(rest, "");
}

#[test]
fn a_remote_console_needs_the_token_and_bounds_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_running, port) = simulation(folder.path(), "socket");
    let mut client = Client::connect(port);
    client.until("Token: ");
    client.send("guess\n");
    assert!(client.until("\n").contains("The token is wrong."));
    let mut client = Client::connect(port);
    client.until("Token: ");
    client.send("0123456789abcdef-token\n");
    client.until("OpenSM $ ");
    let file = folder.path().join("guids");
    client.ask_until("status", "SA State             : Ready");
    let reply = client.ask(&format!("dump_portguid file {} .*", file.display()));
    assert!(
        reply.contains("Only sessions on this host write files\n") && !file.exists(),
        "{reply}"
    );
    client.send(&"x".repeat(5000));
    let mut rest = Vec::new();
    // The console closes the connection, maybe before it has read everything.
    let _ = client.0.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    Client::connect(port).until("Token: ");
}
