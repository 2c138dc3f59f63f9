//! What a program with the preloaded library and the simulator say to each other. Both are built
//! from this file, on one machine: numbers are in host order.
//!
//! The library keeps one connection per process for requests: a stream of frames, each answered
//! in turn.
//!
//! ```text
//! request:  length u32 | operation u32 | body      length counts what follows it
//! reply:    length u32 | errno u32     | body
//! ```
//!
//! An open device is a file of the simulator with a number; opening passes a descriptor along
//! (SCM_RIGHTS), one end of a pair of sequenced packet sockets, which becomes the program's own:
//! poll, epoll, dup and fork do with it as with any other. A MAD that waits is one message in it:
//!
//! ```text
//! packet:   length u32 | header u16 | outside u16 | the first 320 bytes at most
//! ```
//!
//! `length` counts the user header and the MAD, `header` is the user header's length. With
//! `outside` 1 a descriptor comes along: a memory file that holds the whole. The device is closed
//! when the last copy of that descriptor is.

/// Version of all this; the first word of [`HELLO`].
pub const VERSION: u32 = 1;

/// The variable with the path of the simulator's socket. Without it the library does nothing.
pub const SOCKET_VARIABLE: &str = "TORUS_SM_SIM_SOCKET";
/// The variable that says where the program is attached; unset or empty: where the SM is.
pub const PLACE_VARIABLE: &str = "TORUS_SM_SIM_AT";

/// Begins a connection. Body: version u32, place (text). Reply: the folder below which `sys` and
/// `dev` of the place are to be found; or ENODEV and why there is no such place.
pub const HELLO: u32 = 1;
/// Opens a device. Body: its path below the folder. Reply: number u64, with a descriptor.
pub const OPEN: u32 = 2;
/// In the number of a device that is opened only to hold it: there is nothing to read or write.
pub const HELD: u64 = 1 << 63;
/// write(2). Body: number u64, bytes. Reply: bytes taken, u32.
pub const WRITE: u32 = 3;
/// ioctl(2). Body: number u64, request u32, argument. Reply, also if it failed: the argument.
pub const IOCTL: u32 = 4;
/// Brings a file below the folder, or all files of a folder there, up to date. Body: path. Reply:
/// empty.
pub const REFRESH: u32 = 5;

/// A line for the fabric's console, also without [`HELLO`]. Body: the line. Reply: what is to be
/// said; with EINVAL the column u32 of what is wrong with the line, and what that is.
pub const CONSOLE: u32 = 6;

/// Length of a frame's length and operation or errno.
pub const FRAME_HEAD: usize = 8;
/// Longest body of a frame: longer than the longest MAD.
pub const MAX_BODY: usize = 64 << 20;
/// Length of a packet's head.
pub const PACKET_HEAD: usize = 8;
/// How much of a packet travels inside it.
pub const INSIDE: usize = 320;

/// The head of a frame.
pub fn frame_head(word: u32, body: usize) -> [u8; FRAME_HEAD] {
    let length = u32::try_from(body + 4).unwrap_or(u32::MAX);
    join(length, word)
}

/// Operation or errno of a frame, and the length of its body. `None` if it makes no sense.
pub fn read_frame_head(head: [u8; FRAME_HEAD]) -> Option<(u32, usize)> {
    let (length, word) = split(head);
    let body = usize::try_from(length).ok()?.checked_sub(4)?;
    (body <= MAX_BODY).then_some((word, body))
}

/// The head of a packet.
pub fn packet_head(length: usize, header: usize, outside: bool) -> [u8; PACKET_HEAD] {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let header = u32::try_from(header).unwrap_or_default();
    join(length, header | u32::from(outside) << 16)
}

/// Length, header length, and whether the whole is outside.
pub fn read_packet_head(head: [u8; PACKET_HEAD]) -> (usize, usize, bool) {
    let (length, word) = split(head);
    (length as usize, (word & 0xFFFF) as usize, word >> 16 != 0)
}

/// What a console answered: its text, or the column and what is wrong. `None` if it makes no
/// sense.
pub fn read_console_reply(errno: u32, body: &[u8]) -> Option<Result<String, (usize, String)>> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if errno == 0 {
        return Some(Ok(text(body)));
    }
    let (column, rest) = body.split_first_chunk()?;
    Some(Err((u32::from_ne_bytes(*column) as usize, text(rest))))
}

fn join(first: u32, second: u32) -> [u8; 8] {
    let (a, b) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

fn split(raw: [u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = raw;
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}
