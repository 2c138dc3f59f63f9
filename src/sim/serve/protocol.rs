//! Protocol between the preloaded library in a program and the simulator. Both are compiled from
//! this file and run on the same machine, so that numbers are in host byte order.
//!
//! The library has one connection per process, a stream of request frames. The simulator replies to
//! them in order, except to [`POST`].
//!
//! ```text
//! request:  length u32 | operation u32 | body      length excludes itself
//! reply:    length u32 | errno u32     | body
//! ```
//!
//! An open device has a number in the simulator. The reply to an open request carries a descriptor
//! (SCM_RIGHTS), one end of a pair of SOCK_SEQPACKET sockets, which the program uses as the
//! device's descriptor: poll, epoll, dup and fork work on it as on any other. Each message on this
//! socket is one packet of the device's receive queue:
//!
//! ```text
//! packet:   length u32 | header u16 | has_file u16 | up to 320 bytes
//! ```
//!
//! `length` is the size of the umad header and the MAD, `header` the size of the umad header. With
//! `has_file` 1, the message carries a descriptor of a memory file with the whole packet. The
//! device is closed with the last copy of its descriptor.

/// Version of the protocol; the first word of [`ATTACH`].
pub const VERSION: u32 = 2;

/// Environment variable with the path of the simulator's socket. Without it, the library does
/// nothing.
pub const SOCKET_VARIABLE: &str = "TORUS_SM_SIM_SOCKET";
/// Environment variable with the node that the program is attached to; if unset or empty, the node
/// of the subnet manager.
pub const NODE_VARIABLE: &str = "TORUS_SM_SIM_AT";
/// Environment variable that, unless empty, makes the umad devices of the program those of a kernel
/// before Linux 3.17, which has no `IB_USER_MAD_REGISTER_AGENT2` and implements RMPP itself.
pub const OLD_KERNEL_VARIABLE: &str = "TORUS_SM_SIM_OLD_KERNEL";

/// Environment variable that, unless empty, makes the library write requests too without waiting for the simulator's
/// reply ([`POST`]). A write then reports no error of the packet, and costs as much as one to a kernel: for benchmarks.
pub const NO_REPLY_VARIABLE: &str = "TORUS_SM_SIM_NO_REPLY";

/// File in the directory above those of nodes, which exists until the simulator's own subnet manager
/// has configured the subnet.
pub const STARTING_FILE: &str = "starting";

/// Attaches the program to a node. Body: version u32, node (text). Reply: the directory with `sys`
/// and `dev` of the node; or ENODEV with an error message.
pub const ATTACH: u32 = 1;
/// Opens a device. Body: its path in the directory. Reply: number u64, with a descriptor.
pub const OPEN: u32 = 2;
/// Bit in the number of an issm device, which cannot be read or written.
pub const ISSM_BIT: u64 = 1 << 63;
/// write(2). Body: number u64, bytes. Reply: number of bytes written, u32.
pub const WRITE: u32 = 3;
/// ioctl(2). Body: number u64, request u32, argument. Reply, even with an error: the argument.
pub const IOCTL: u32 = 4;
/// Updates a file in the directory, or all files of a subdirectory. Body: path. Reply: empty.
pub const REFRESH: u32 = 5;

/// write(2) of a response, which no error but a defect of the program prevents, and of any MAD with
/// [`NO_REPLY_VARIABLE`]. Body: number u64, bytes. No reply, so that the segments of a long message need not wait for each other.
pub const POST: u32 = 7;

/// Executes a console command; allowed without [`ATTACH`]. Body: the line. Reply: the output; or
/// EINVAL with the column u32 of the error and a message.
pub const CONSOLE: u32 = 6;

/// Size of a frame header (length, operation or errno) in bytes.
pub const FRAME_HEADER_SIZE: usize = 8;
/// Largest body of a frame in bytes; larger than any RMPP message.
pub const MAX_BODY: usize = 64 << 20;
/// Size of a packet's header in bytes.
pub const PACKET_HEADER_SIZE: usize = 8;
/// Bytes of a packet in the message itself: the longest umad header and one MAD.
pub const MAX_INLINE: usize = 320;

/// Encodes a frame header.
pub fn frame_header(word: u32, body: usize) -> [u8; FRAME_HEADER_SIZE] {
    let length = u32::try_from(body + 4).unwrap_or(u32::MAX);
    join(length, word)
}

/// Decodes a frame header: operation or errno, and length of the body. `None` if it is invalid.
pub fn read_frame_header(header: [u8; FRAME_HEADER_SIZE]) -> Option<(u32, usize)> {
    let (length, word) = split(header);
    let body = usize::try_from(length).ok()?.checked_sub(4)?;
    (body <= MAX_BODY).then_some((word, body))
}

/// Encodes a packet header.
pub fn packet_header(length: usize, header: usize, has_file: bool) -> [u8; PACKET_HEADER_SIZE] {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let header = u16::try_from(header).expect("a umad header has at most 64 bytes");
    join(length, u32::from(header) | u32::from(has_file) << 16)
}

/// Decodes a packet header: packet length, umad header length, and whether there is a memory file.
pub fn read_packet_header(header: [u8; PACKET_HEADER_SIZE]) -> (usize, usize, bool) {
    let (length, word) = split(header);
    (length as usize, (word & 0xFFFF) as usize, word >> 16 != 0)
}

/// Decodes a reply to [`CONSOLE`]: the output, or column and message of an error. `None` if it is
/// invalid.
pub fn read_console_reply(errno: u32, body: &[u8]) -> Option<Result<String, (usize, String)>> {
    if errno == 0 {
        return Some(Ok(utf8_text(body)));
    }
    let (column, rest) = body.split_first_chunk()?;
    Some(Err((u32::from_ne_bytes(*column) as usize, utf8_text(rest))))
}

fn utf8_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn join(first: u32, second: u32) -> [u8; 8] {
    let a = first.to_ne_bytes();
    let b = second.to_ne_bytes();
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

fn split(raw: [u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = raw;
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}
