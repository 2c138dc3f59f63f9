//! Log lines about PathRecord queries that got no record because of partitions, QoS levels or SLs:
//! one in [`INTERVAL`] at most, whatever number of clients ask.

use crate::notes::counted;
use crate::publish::Subnet;
use crate::sa::Responder;
use crate::transport::Address;
use crate::wire::mad::{Header, attr_id_of};
use crate::wire::sa::{DATA_OFFSET, SaAttr, SaStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing::warn;

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The lines of this process.
static LIMIT: Mutex<LineLimit> = Mutex::new(LineLimit { last: None, unlogged: 0 });

/// Limits the number of lines.
#[derive(Debug)]
struct LineLimit {
    last: Option<Instant>,
    /// Queries without a record since the last line.
    unlogged: u64,
}

impl LineLimit {
    /// True if a query gets no line, which is counted then.
    fn suppresses(&mut self, now: Instant) -> bool {
        let suppresses =
            self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        self.unlogged += u64::from(suppresses);
        suppresses
    }

    /// Begins a new interval. Returns the number of queries without a line in the last one.
    fn begin(&mut self, now: Instant) -> u64 {
        self.last = Some(now);
        std::mem::take(&mut self.unlogged)
    }
}

/// A query with its reply.
pub(super) struct AnsweredQuery<'a> {
    pub(super) from: &'a Address,
    pub(super) request: &'a [u8],
    pub(super) reply: &'a [u8],
}

/// Logs why a PathRecord query got no record, if its reply says so. Does not wait: the threads that
/// read the port call it.
pub(super) fn log(responder: &Responder, subnet: &Subnet, query: &AnsweredQuery<'_>, now: Instant) {
    let &AnsweredQuery { from, request, reply } = query;
    let has_no_record =
        Header::read(reply).status() == SaStatus::NO_RECORDS || reply.len() == DATA_OFFSET;
    if !has_no_record || attr_id_of(request) != Some(SaAttr::PATH_RECORD) {
        return;
    }
    let Ok(mut limit) = LIMIT.try_lock() else { return };
    if limit.suppresses(now) {
        return;
    }
    let Some(reason) = responder.refused_path(subnet, from, request, now) else { return };
    let unlogged = limit.begin(now);
    drop(limit);
    let others = match unlogged {
        0 => String::new(),
        count => {
            let queries = counted(count as usize, "query", "queries");
            format!("; {queries} without a record since the last such line")
        }
    };
    warn!("{reason} (asked by LID {}){others}", from.lid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ten_seconds_apart_and_count_the_queries_between() {
        let mut limit = LineLimit { last: None, unlogged: 0 };
        let start = tokio::time::Instant::now().into_std();
        let mut counts = Vec::new();
        for now in [0, 1, 9, 10, 11, 30].map(|seconds| start + Duration::from_secs(seconds)) {
            if !limit.suppresses(now) {
                counts.push(limit.begin(now));
            }
        }
        assert_eq!(counts, [0, 2, 1]);
    }
}
