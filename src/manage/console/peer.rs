//! The user at the other end of a TCP connection from this host.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Connections of this host over IPv4 (proc_net_tcp).
const CONNECTIONS: &str = "/proc/net/tcp";

/// True for a connection of root, or of the user of this process, from this host.
pub(super) fn may_use_console(stream: &TcpStream) -> bool {
    let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return false };
    let table = fs::read_to_string(CONNECTIONS).unwrap_or_default();
    let user = peer.ip().is_loopback().then(|| owner(&table, peer, own)).flatten();
    user.is_some_and(|user| user == 0 || user == nix::unistd::geteuid().as_raw())
}

/// The user that owns the socket at `local` with the connection to `remote`.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let local = in_table(local)?;
    let remote = in_table(remote)?;
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = words.next()? == local && words.next()? == remote;
        // After the addresses: state, queues, timer, retransmissions, user.
        words.nth(4).filter(|_| is_it)?.parse().ok()
    })
}

/// An IPv4 address and port as the table has them: the address as a number of this host.
fn in_table(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_own_user_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (server, _) = listener.accept().expect("a client");
        assert!(may_use_console(&server));
        let table = fs::read_to_string(CONNECTIONS).expect("a table");
        let peer = client.local_addr().expect("bound");
        let own = server.local_addr().expect("bound");
        assert_eq!(owner(&table, peer, own), Some(nix::unistd::geteuid().as_raw()));
        assert_eq!(owner(&table, "127.0.0.1:1".parse().expect("an address"), own), None);
    }
}
