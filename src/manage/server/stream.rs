//! Streams of events: server-sent events (WHATWG HTML, 9.2), or JSON lines.
//!
//! A stream reads from the shared event log at the client's pace, so that a slow client holds no
//! more memory than its place in the log.

use super::ServerState;
use super::progress::ReplyProgress;
use crate::manage::event_log::LoggedEvent;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Maximum number of events in a part.
const MAX_EVENTS_PER_PART: usize = 64;

/// Interval of comments in a stream without events, which show the server that the client reads.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Format of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamFormat {
    ServerSentEvents,
    JsonLines,
}

impl StreamFormat {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::ServerSentEvents => "text/event-stream",
            Self::JsonLines => "application/x-ndjson",
        }
    }

    fn keep_alive(self) -> &'static str {
        match self {
            Self::ServerSentEvents => ":\n\n",
            Self::JsonLines => "\n",
        }
    }

    fn put(self, text: &mut String, event: &LoggedEvent) {
        let LoggedEvent { number, name, json } = event;
        // Writing to a String cannot fail.
        let _ = match self {
            Self::ServerSentEvents => {
                write!(text, "id: {number}\nevent: {name}\ndata: {json}\n\n")
            }
            Self::JsonLines => writeln!(text, "{json}"),
        };
    }

    /// Tells the client that events before `next` are no longer kept.
    fn put_missed(self, text: &mut String, count: u64) {
        let json = format!("{{\"event\":\"events_lost\",\"count\":{count}}}");
        let _ = match self {
            Self::ServerSentEvents => write!(text, "event: events_lost\ndata: {json}\n\n"),
            Self::JsonLines => writeln!(text, "{json}"),
        };
    }
}

/// The next part of a stream, and the place of the stream after it; `None` at its end.
type NextPart = Pin<Box<dyn Future<Output = Option<(Bytes, u64)>> + Send>>;

/// A stream of events as the body of a reply.
pub(super) struct EventStream {
    state: Arc<ServerState>,
    progress: Arc<ReplyProgress>,
    format: StreamFormat,
    /// Number of the last event sent.
    place: u64,
    /// Ends after the events that exist already.
    ends: bool,
    /// The names of the events to send; all if it is empty.
    names: Arc<[String]>,
    next: Option<NextPart>,
}

/// The part of the events that a client wants.
#[derive(Default)]
pub(super) struct WantedEvents {
    /// Those after this number.
    pub(super) after: u64,
    /// Later ones, too.
    pub(super) follow: bool,
    /// Those with these names; all if it is empty.
    pub(super) names: Arc<[String]>,
}

impl EventStream {
    pub(super) fn new(
        state: Arc<ServerState>,
        progress: Arc<ReplyProgress>,
        format: StreamFormat,
        wanted: WantedEvents,
    ) -> Self {
        let WantedEvents { after, follow, names } = wanted;
        // A number above the last one is that of a daemon that ran before.
        let place = if after > state.events.last() { 0 } else { after };
        Self { state, progress, format, place, ends: !follow, names, next: None }
    }
}

async fn next_part(
    state: Arc<ServerState>,
    format: StreamFormat,
    mut place: u64,
    ends: bool,
    names: Arc<[String]>,
) -> Option<(Bytes, u64)> {
    let mut last = state.events.subscribe();
    let mut closing = state.closing.clone();
    loop {
        last.mark_unchanged();
        let (events, missed) = state.events.after(place, MAX_EVENTS_PER_PART);
        if let Some(newest) = events.last() {
            let mut text = String::new();
            if missed > 0 {
                format.put_missed(&mut text, missed);
            }
            events
                .iter()
                .filter(|event| names.is_empty() || names.iter().any(|it| *it == event.name))
                .for_each(|event| format.put(&mut text, event));
            place = newest.number;
            if !text.is_empty() {
                return Some((text.into(), place));
            }
            continue;
        }
        if ends {
            return None;
        }
        tokio::select! {
            biased;
            changed = last.changed() => changed.ok()?,
            _ = closing.wait_for(|&ends| ends) => return None,
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => {
                return Some((format.keep_alive().into(), place));
            }
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let next = this.next.get_or_insert_with(|| {
            this.progress.part_taken();
            Box::pin(next_part(
                this.state.clone(),
                this.format,
                this.place,
                this.ends,
                this.names.clone(),
            ))
        });
        let part = std::task::ready!(next.as_mut().poll(context));
        this.next = None;
        Poll::Ready(part.map(|(bytes, place)| {
            this.place = place;
            Ok(Frame::data(bytes))
        }))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
