//! The offences that the SA server counts, asked for now and then without waiting for it.

use crate::ids::Lid;
use crate::manage::offenders::{Offence, of_sa_server};
use crate::manage::sa_query::{SaQuery, SaReport};
use crate::manage::sources::SaQueryFn;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Time between two queries.
const QUERY_INTERVAL: Duration = Duration::from_secs(5);

/// The offences of the last reply.
pub struct SaOffences {
    query: SaQueryFn,
    asked: Option<Instant>,
    reply: Option<oneshot::Receiver<SaReport>>,
    counts: Vec<((Lid, Offence), u64)>,
}

impl SaOffences {
    pub fn new(query: SaQueryFn) -> Self {
        Self { query, asked: None, reply: None, counts: Vec::new() }
    }

    /// The last known counts since the start of the daemon. Asks for later ones.
    pub fn counts(&mut self, now: Instant) -> &[((Lid, Offence), u64)] {
        if let Some(Ok(report)) = self.reply.as_mut().map(oneshot::Receiver::try_recv) {
            self.counts = of_sa_server(&report.counters);
        }
        if self.asked.is_none_or(|asked| now - asked >= QUERY_INTERVAL) {
            let (sender, reply) = oneshot::channel();
            self.asked = Some(now);
            // A busy server drops the query, and is asked again later.
            self.reply = (self.query)(SaQuery::Report(sender)).then_some(reply);
        }
        &self.counts
    }
}
