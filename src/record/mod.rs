//! The flight recorder: the MADs and events of the last minutes, and the last plans with their
//! inputs.
//!
//! * [`recorder`]: [`FlightRecorder`], which the daemon feeds; [`ring`]: its bounded memory;
//! * [`entry`], `mad_code`, `requests`: MADs and events as bytes; `bytes`: numbers as bytes;
//! * [`incidents`]: incidents as events;
//! * [`plans`]: plans with their inputs; [`digest`]: digests of devices and plans, for comparison;
//! * [`file`](mod@file), [`json`]: the recording as a file;
//! * [`devices`]: the devices as the MADs of a recording show them; [`replay_port`]: a port that
//!   answers queries for them.
//!
//! # Format of recordings
//!
//! A recording begins with the text `torus-sm recording`, a line feed, and the version of the
//! format as one byte, 2. Sections follow: kind (one byte), size of the contents (32 bits),
//! checksum (CRC-32 of kind, size and contents, 32 bits), contents. Numbers of fixed size are
//! big-endian, others are LEB128: 7 bits a byte, the low ones first.
//!
//! * `H`, first: the header as JSON, [`json::HeaderJson`];
//! * `E`: a block of entries: number of the first entry since the start of the daemon, number of
//!   entries, time, entries;
//! * `Z`, last: the number of blocks.
//!
//! An entry begins with a code (one byte) and the time since the entry before, in microseconds. The
//! code of an event is 0x80 plus its kind ([`entry::EventKind`]); the length of its text and the
//! text follow. The code of a MAD is its fate ([`crate::transport::recorded::MadFate`]: 0 sent, 1
//! not sent, 2 received, 3 unanswered) plus 4 times its agent (0 directed route, 1 LID routed, 2
//! subnet administration); LID and queue pair of the other end and the 256 bytes follow, these as
//! pairs of a run of zeros and other bytes: the length of each in one byte, then the other bytes. A
//! pair without other bytes ends the MAD.
//!
//! A response has 0x40 added to its code if its request is in the same block. The last byte of the
//! transaction ID modulo 128 then precedes the 256 bytes, which are the exclusive or of response and
//! request: the last MAD of the block that was sent with this number. Version 1 lacks this form.
//!
//! Keys (M_Key, SM_Key, ServiceKey, CC_Key) are recorded as 0, and so are bytes that the sender of a
//! MAD has not defined: reserved ones, those behind an attribute, and unknown attributes
//! ([`crate::wire::defined`]). Queries of subnet administration and replies to its clients are not
//! recorded, except for reports.

mod bytes;
pub mod devices;
pub mod digest;
pub mod entry;
pub mod file;
pub mod incidents;
pub mod json;
mod mad_code;
pub mod plans;
pub mod recorder;
pub mod replay_port;
mod requests;
pub mod ring;

pub use bytes::DecodeError;
pub use file::Recording;
pub use recorder::FlightRecorder;
