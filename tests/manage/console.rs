//! OpenSM's console on a TCP port of a simulation.

use std::io::{BufRead as _, Read as _};
use std::process::{Command, Stdio};
use testkit::console::{ConsoleClient as Client, free_port};
use testkit::{Running, torus_sm};

/// A simulation with a console, and its port.
fn simulation(folder: &std::path::Path, kind: &str) -> (Running, u16) {
    let number = free_port();
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
        "   SA MADs outstanding            : 0\n",
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
        ("pm print_counters nowhere", "Node nowhere not found...\n"),
        ("pm dump_redir", "Redirection Table\n"),
        ("pm sweep_time 0", "sweep_time requires a positive time period"),
        ("help pm", "[print_errors(pe) "),
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
