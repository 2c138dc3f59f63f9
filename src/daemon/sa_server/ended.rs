//! Registrations that end without a request: those of ports that have been absent for long, and the
//! subscriptions of queue pairs that do not respond to reports.

use super::SaServer;
use crate::ids::{Guid, Lid};
use crate::manage::event::Event;
use crate::manage::offenders::Offence;
use crate::notes::counted;
use tokio::time::Instant;
use tracing::warn;

impl SaServer {
    /// Notes the time at which registrations of absent ports end.
    pub(super) fn watch_absences(&mut self) {
        let end = self.responder.get().registry().next_absence_end();
        self.registered.absence_end = end.map(Instant::from_std);
    }

    /// Ends the subscriptions of queue pairs that do not respond to reports.
    pub(super) fn end_silent_subscriptions(&mut self) {
        if !self.dispatcher.has_silent() {
            return;
        }
        let registry = self.responder.get().registry_mut();
        for ((subscriber, qpn), count) in self.dispatcher.end_silent(registry) {
            self.subscriptions_ended(subscriber, qpn, count);
        }
        self.registry_changed();
    }

    fn subscriptions_ended(&mut self, subscriber: Guid, qpn: u32, count: usize) {
        self.misuse.ended_subscriptions += count as u64;
        let port = self.snapshots.subnet.as_ref().and_then(|subnet| {
            let port = subnet.fabric.port_by_guid(subscriber)?;
            let lid = subnet.plan.lids.base_or_zero(port);
            Some((lid, subnet.fabric.node_of(port).name().to_string()))
        });
        let (lid, description) = port.unwrap_or((Lid(0), String::new()));
        self.misuse.offenders.count(lid, Offence::SilentSubscriber, count as u64);
        warn!(
            "{} of port {subscriber} (LID {lid}, {description}), QP {qpn}, ended: it responds to no \
             report (sa_max_subscriber_silence)",
            counted(count, "event subscription", "event subscriptions")
        );
        let guid = subscriber.to_string();
        let lid = lid.0;
        let subscriptions = count as u64;
        self.outputs.feed.send(Event::SubscriptionsEnded {
            guid,
            lid,
            description,
            qpn,
            subscriptions,
        });
    }
}
