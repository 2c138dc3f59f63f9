//! The entries of a recording: MADs and events.

use super::bytes::{ByteReader, DecodeError, put_number};
use super::mad_code::{put_mad, read_mad};
use super::requests::{Requests, difference};
use crate::ids::Lid;
use crate::transport::Agent;
use crate::transport::recorded::MadFate;
use crate::wire::mad::Mad;

/// Maximum length of the text of an event in bytes; the rest is cut off.
pub(super) const MAX_EVENT_TEXT: usize = 1024;

/// An entry with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordEntry {
    /// Microseconds since the recorder was started.
    pub at: u64,
    pub body: EntryBody,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryBody {
    Mad(Box<RecordedMad>),
    Event(EventKind, String),
}

/// A MAD, or the first 256 bytes of a longer message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedMad {
    pub fate: MadFate,
    pub agent: Agent,
    /// LID and queue pair of the other end.
    pub lid: Lid,
    pub qpn: u32,
    pub mad: Mad,
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $name:literal;)+) => {
        /// Kind of an event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum EventKind {
            $($(#[$doc])* $kind,)+
        }

        impl EventKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The code in a recording.
            fn code(self) -> u8 {
                match self {
                    $(Self::$kind => $code,)+
                }
            }

            fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// The name in the time line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

event_kinds! {
    /// The daemon began or ended.
    Daemon = 1, "daemon";
    /// A trap that is not a repetition.
    Trap = 2, "trap";
    /// A time at which work was due.
    Timer = 3, "timer";
    /// A signal, or a command of the operator.
    Command = 4, "command";
    /// The state of this SM changed, or another SM requests that.
    Role = 5, "role";
    /// A sweep began, with its cause.
    SweepBegan = 6, "sweep";
    /// A sweep ended.
    SweepEnded = 7, "swept";
    /// Multicast members, services, subscriptions or alias GUIDs changed.
    Registry = 8, "registry";
    /// Planning began.
    PlanBegan = 9, "plan";
    /// A plan passed verification.
    PlanAccepted = 10, "planned";
    /// There is no valid plan.
    PlanRejected = 11, "rejected";
    /// Sets were sent to the devices.
    Applied = 12, "applied";
    /// The configuration was read again.
    Configuration = 13, "configuration";
    /// A task panicked; the daemon continues.
    Panic = 14, "panic";
    /// The subnet could not be configured.
    Failed = 15, "failed";
    /// An incident opened, changed or ended: [`super::incidents::RecordedIncident`].
    Incident = 16, "incident";
}

/// Bit of the code of events.
const EVENT: u8 = 0x80;

/// Bit of the code of a MAD that is stored as its difference from a request before it.
const AS_DIFFERENCE: u8 = 0x40;

const FATES: [MadFate; 4] =
    [MadFate::Sent, MadFate::NotSent, MadFate::Received, MadFate::Unanswered];
/// All agents, by their codes.
const AGENTS: [Agent; 5] =
    [Agent::SmiDirected, Agent::SmiLid, Agent::Sa, Agent::Congestion, Agent::Perf];

/// Appends a MAD at `delta` microseconds after the entry before. `requests` are those of the entries
/// before it.
pub(super) fn put_mad_entry(
    out: &mut Vec<u8>,
    delta: u64,
    entry: &RecordedMad,
    requests: &mut Requests,
) {
    let fate = FATES.iter().position(|&fate| fate == entry.fate);
    let agent = AGENTS.iter().position(|&agent| agent == entry.agent);
    debug_assert!(fate.is_some() && agent.is_some(), "each fate and each agent has a code");
    let fate = fate.unwrap_or(0);
    let agent = agent.unwrap_or(0);
    let answered = requests.answered_by(entry.fate, &entry.mad);
    let form = if answered.is_some() { AS_DIFFERENCE } else { 0 };
    out.push((agent << 2 | fate) as u8 | form);
    put_number(out, delta);
    put_number(out, entry.lid.0.into());
    put_number(out, entry.qpn.into());
    match answered {
        Some((place, request)) => {
            out.push(place);
            put_mad(out, &difference(&entry.mad, request));
        }
        None => put_mad(out, &entry.mad),
    }
    requests.note(entry.fate, &entry.mad);
}

/// Appends an event at `delta` microseconds after the entry before.
pub(super) fn put_event(out: &mut Vec<u8>, delta: u64, kind: EventKind, text: &str) {
    let text = truncated(text, MAX_EVENT_TEXT);
    out.push(EVENT | kind.code());
    put_number(out, delta);
    put_number(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// The text up to the last end of a character within `max` bytes.
fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// Reads an entry; `before` is the time of the entry before, `requests` are those of the entries before
/// it.
pub(super) fn read_entry(
    reader: &mut ByteReader<'_>,
    before: u64,
    requests: &mut Requests,
) -> Result<RecordEntry, DecodeError> {
    let start = reader.clone();
    let code = reader.byte("the code of an entry")?;
    let delta = reader.number("the time of an entry")?;
    let at = before.checked_add(delta).ok_or_else(|| start.error("the time exceeds 64 bits"))?;
    let body = match code & EVENT {
        0 => EntryBody::Mad(Box::new(read_mad_entry(reader, code, &start, requests)?)),
        _ => read_event(reader, code & !EVENT, &start)?,
    };
    Ok(RecordEntry { at, body })
}

fn read_mad_entry(
    reader: &mut ByteReader<'_>,
    code: u8,
    start: &ByteReader<'_>,
    requests: &mut Requests,
) -> Result<RecordedMad, DecodeError> {
    let agent = AGENTS.get(usize::from((code & !AS_DIFFERENCE) >> 2));
    let agent = *agent.ok_or_else(|| start.error(format!("unknown entry code 0x{code:02x}")))?;
    let lid = reader.number_to(u16::MAX.into(), "a LID")?;
    let qpn = reader.number_to(u32::MAX.into(), "a queue pair")?;
    let mad = match code & AS_DIFFERENCE {
        0 => read_mad(reader)?,
        _ => {
            let request = requests.at(reader.byte("the place of a request")?).copied();
            let request = request.ok_or_else(|| start.error("a response to a missing request"))?;
            difference(&read_mad(reader)?, &request)
        }
    };
    let fate = FATES[usize::from(code & 3)];
    requests.note(fate, &mad);
    Ok(RecordedMad { fate, agent, lid: Lid(lid as u16), qpn: qpn as u32, mad })
}

fn read_event(
    reader: &mut ByteReader<'_>,
    code: u8,
    start: &ByteReader<'_>,
) -> Result<EntryBody, DecodeError> {
    let kind = EventKind::from_code(code);
    let kind = kind.ok_or_else(|| start.error(format!("unknown event code {code}")))?;
    let len = reader.number_to(MAX_EVENT_TEXT as u64, "the length of a text")?;
    let place = reader.clone();
    let text = reader.take(len as usize, "the text of an event")?;
    let text = std::str::from_utf8(text);
    let text = text.map_err(|error| place.error(format!("invalid UTF-8: {error}")))?;
    Ok(EntryBody::Event(kind, text.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any entry body.
    pub(in crate::record) fn body() -> impl Strategy<Value = EntryBody> {
        // Few transaction IDs, so that some MADs answer others.
        let bytes = (any::<[u8; 32]>(), 0..3u8).prop_map(|(mut bytes, transaction)| {
            bytes[8..16].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, transaction]);
            bytes
        });
        let mad = (0..4usize, 0..3usize, any::<u16>(), any::<u32>(), bytes);
        let mad = mad.prop_map(|(fate, agent, lid, qpn, bytes)| {
            let fate = FATES[fate];
            let agent = AGENTS[agent];
            let mad = Mad::read(&bytes);
            EntryBody::Mad(Box::new(RecordedMad { fate, agent, lid: Lid(lid), qpn, mad }))
        });
        let event = (0..EventKind::ALL.len(), ".{0,40}");
        let event = event.prop_map(|(kind, text)| EntryBody::Event(EventKind::ALL[kind], text));
        prop_oneof![mad, event]
    }

    proptest! {
        #[test]
        fn entries_are_read_as_written(
            bodies in proptest::collection::vec(body(), 1..20),
            before in 0..1u64 << 40,
            delta in 0..1u64 << 30,
        ) {
            let mut out = Vec::new();
            let mut requests = Requests::new();
            for body in &bodies {
                match body {
                    EntryBody::Mad(mad) => put_mad_entry(&mut out, delta, mad, &mut requests),
                    EntryBody::Event(kind, text) => put_event(&mut out, delta, *kind, text),
                }
            }
            let mut reader = ByteReader::new(&out, 0);
            let mut requests = Requests::new();
            let mut at = before;
            for body in bodies {
                let read = read_entry(&mut reader, at, &mut requests);
                at += delta;
                prop_assert_eq!(read, Ok(RecordEntry { at, body }));
            }
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_response_takes_a_fraction_of_its_request() {
        let mut request = Mad::default();
        request.0[..16].copy_from_slice(&[1, 0x81, 1, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 7]);
        request.0[64..128].fill(9);
        let mut response = request;
        response.0[3] = 0x81;
        // The kernel's half of the transaction ID.
        response.0[8..12].copy_from_slice(&[0, 0, 0, 12]);
        let mut out = Vec::new();
        let mut requests = Requests::new();
        put_mad_entry(&mut out, 1, &entry(MadFate::Sent, request), &mut requests);
        let size = out.len();
        put_mad_entry(&mut out, 1, &entry(MadFate::Received, response), &mut requests);
        assert!(size > 80 && out.len() - size < 16, "{size}, {}", out.len() - size);
        let lost = &out[size..];
        let error = read_entry(&mut ByteReader::new(lost, 0), 0, &mut Requests::new());
        assert!(error.is_err_and(|error| error.problem.contains("missing request")));
    }

    fn entry(fate: MadFate, mad: Mad) -> RecordedMad {
        RecordedMad { fate, agent: Agent::SmiDirected, lid: Lid(0xFFFF), qpn: 0, mad }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut out = Vec::new();
        put_event(&mut out, 0, EventKind::Trap, &"é".repeat(MAX_EVENT_TEXT));
        let entry = read_entry(&mut ByteReader::new(&out, 0), 0, &mut Requests::new());
        let entry = entry.expect("an entry");
        let text = "é".repeat(MAX_EVENT_TEXT / 2);
        assert_eq!(entry.body, EntryBody::Event(EventKind::Trap, text));
    }
}
