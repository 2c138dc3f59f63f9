//! The server for unsolicited SMPs: answers SMInfo from the present SM status, represses traps, and
//! forwards new traps and role requests to the SM loop. It never waits for a sweep.

use super::bad_m_key::BadMKeyLog;
use super::sender_limits::{self, SenderLimits, SenderReport};
use super::sm_peers;
use crate::contained;
use crate::daemon::messages::{DeviceNotice, SmEvent, VportTrap};
use crate::daemon::process::trap_log;
use crate::ids::{Gid, Lid, MKey};
use crate::manage::loop_status::LoopStatus;
use crate::manage::offenders::{Offence, is_logged};
use crate::notes::counted;
use crate::observe::traps::{ChangedAttributes, TrapEvent, TrapFilter, TrapVerdict};
use crate::publish::Subnet;
use crate::sa::trap_origin;
use crate::sa::trust::{MKeyInTrapRepress, TrustRules};
use crate::sm::peer::{Peer, may_see_sm_key};
use crate::sm::role::RoleEvent;
use crate::sm::sm_info::{self, Answer, SmStatus};
use crate::transport::client::SmpClient;
use crate::transport::demux::Inbound;
use crate::transport::{Address, Agent, smp_intake};
use crate::wire::attr::{AttrId, NodeKind, Notice, PortInfo, SmInfo, SmState, TrapNumber};
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::smp::DATA_OFFSET;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

/// Minimum time between two HANDOVERs that a master acts on: each has it sweep the fabric and read
/// all tables.
const HANDOVER_INTERVAL: Duration = Duration::from_secs(10);

/// The connections to the rest of the daemon.
pub struct SmpServerConnections {
    pub client: SmpClient,
    pub sm_status: watch::Receiver<SmStatus>,
    /// Traps and role requests, for the SM loop.
    pub events: mpsc::UnboundedSender<SmEvent>,
    /// The notices of traps, for subscribers.
    pub to_report: mpsc::Sender<DeviceNotice>,
    pub vport_traps: mpsc::Sender<VportTrap>,
    /// The published snapshot, for the own LID and the names of senders.
    pub published: watch::Receiver<Option<Arc<Subnet>>>,
    /// The options, and the last observed fabric.
    pub status: Arc<ArcSwap<LoopStatus>>,
}

pub struct SmpServer {
    connections: SmpServerConnections,
    traps: TrapFilter,
    bad_m_keys: BadMKeyLog,
    /// Limits of the senders of traps.
    senders: SenderLimits,
    /// The time at which dropped requests are counted: a period of their limit after the last
    /// request that was queued.
    next_count: Option<Instant>,
    /// Sender, AttributeModifier and reason of the last SMInfo request without effect.
    last_refusal: Option<(Lid, u32, &'static str)>,
    /// The last HANDOVER that was forwarded while this SM was master.
    last_handover: Option<Instant>,
}

impl SmpServer {
    pub fn new(connections: SmpServerConnections) -> Self {
        Self {
            connections,
            traps: TrapFilter::default(),
            bad_m_keys: BadMKeyLog::default(),
            senders: SenderLimits::default(),
            next_count: None,
            last_refusal: None,
            last_handover: None,
        }
    }

    /// Serves until the port is closed.
    pub async fn serve(mut self, mut inbox: mpsc::Receiver<Inbound>) {
        loop {
            let due = [self.traps.next_due(), self.next_count, self.senders.next_report()];
            let due = due.into_iter().flatten().min();
            tokio::select! {
                inbound = inbox.recv() => match inbound {
                    Some(inbound) => {
                        if let Err(panic) = contained::run(|| self.receive(&inbound)) {
                            contained::log("a trap or SMInfo request", &panic, "it is ignored");
                        }
                    }
                    None => break,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.deliver_held_traps();
                    if self.next_count.is_some_and(|due| due <= Instant::now()) {
                        self.next_count = None;
                        self.count_omitted();
                    }
                    self.report_floods();
                }
            }
        }
        let _ = self.connections.events.send(SmEvent::PortClosed("the port was closed".into()));
    }

    fn trust(&self) -> TrustRules {
        TrustRules::of(&self.connections.status.load().options)
    }

    /// Counts offences of a port. Returns their number so far if they are to be logged.
    fn offend(&self, lid: Lid, offence: Offence, times: u64) -> Option<u64> {
        let count = self.connections.status.load().handles.offenders.count(lid, offence, times);
        is_logged(count).then_some(count)
    }

    /// Counts the traps and requests that were dropped before they were queued.
    fn count_omitted(&mut self) {
        for (lid, count) in self.connections.client.take_omitted_smps() {
            self.senders.omitted(lid, count, Instant::now());
        }
    }

    fn deliver_held_traps(&mut self) {
        for news in self.traps.due(Instant::now()) {
            self.forward(news);
        }
    }

    /// Logs the ports whose traps were ignored because there were too many.
    fn report_floods(&mut self) {
        for sender in self.senders.take_report(Instant::now()) {
            let SenderReport { lid, omitted: count, unlogged } = sender;
            if unlogged > 0 {
                let traps = counted(unlogged as usize, "more trap", "more traps");
                info!("Received {traps} from LID {lid} ({})", self.name_of(lid));
            }
            if count == 0 {
                continue;
            }
            self.offend(lid, Offence::TrapFlood, count);
            warn!(
                "LID {lid} ({}) sent more than {} traps within {} s, or {} traps and \
                 SMInfo requests within a second: {count} of them were ignored; check the device and \
                 the software of this port",
                self.name_of(lid),
                sender_limits::MAX_TRAPS,
                sender_limits::PERIOD.as_secs(),
                smp_intake::MAX_PER_SENDER
            );
        }
    }

    /// The M_Key for a TrapRepress to the port at `lid`: that which the port holds, and none for an
    /// unknown port. `None` if the port hides its key, or is one of a host that may not see it.
    fn m_key_at(&self, lid: Lid) -> Option<MKey> {
        let published = self.connections.published.borrow();
        let port = published.as_ref().and_then(|subnet| {
            let id = subnet.plan.lids.port(lid)?;
            let is_host = subnet.fabric.node_of(id).kind() != NodeKind::Switch;
            let info = subnet.fabric.port(id).info()?;
            (info.lid().0 >> info.lmc() == lid.0 >> info.lmc()).then_some((is_host, info))
        });
        let Some((is_host, info)) = port else { return Some(MKey::NONE) };
        if is_host && info.m_key().is_set() && !self.may_see_m_key(&info) {
            return None;
        }
        let is_in_use = self.connections.sm_status.borrow().configured_m_key.is_set();
        let is_hidden = is_in_use && !info.m_key().is_set() && info.m_key_protect_bits() > 0;
        (!is_hidden).then(|| info.m_key())
    }

    /// True if programs on a host may learn the M_Key of its port.
    fn may_see_m_key(&self, port: &PortInfo) -> bool {
        match self.trust().m_key_in_trap_repress {
            MKeyInTrapRepress::Always => true,
            MKeyInTrapRepress::IfReadable => port.m_key_protect_bits() == 0,
            MKeyInTrapRepress::Never => false,
        }
    }

    /// Node GUID and description of the port at `lid`.
    fn name_of(&self, lid: Lid) -> String {
        let published = self.connections.published.borrow();
        let port = published.as_ref().and_then(|subnet| {
            let node = subnet.fabric.node_of(subnet.plan.lids.port(lid)?);
            Some(format!("{} \"{}\"", node.guid(), node.name()))
        });
        port.unwrap_or_else(|| "unknown node".to_owned())
    }

    fn receive(&mut self, inbound: &Inbound) {
        self.count_omitted();
        self.next_count = Some(Instant::now() + smp_intake::PERIOD);
        let mad = Mad::read(&inbound.mad);
        match (mad.method(), mad.header().attr_id()) {
            (Method::TRAP, AttrId::NOTICE) => self.trap(inbound, &mad),
            (Method::GET | Method::SET, AttrId::SM_INFO) => self.sm_info(inbound, &mad),
            _ => debug!("ignoring unsolicited MAD from LID {}: {mad:?}", inbound.from.lid),
        }
    }

    fn trap(&mut self, inbound: &Inbound, mad: &Mad) {
        // Devices repeat traps that are not repressed, so that none is lost for good.
        if !self.senders.admit(inbound.from.lid, Instant::now()) {
            return;
        }
        let notice = Notice::read(&mad.0[DATA_OFFSET..DATA_OFFSET + 64]);
        if let Err(reason) = self.check_origin(inbound.from.lid, &notice) {
            // A device whose LID has changed since the snapshot repeats a trap that is not
            // repressed.
            let number = notice.trap_number();
            let lid = inbound.from.lid;
            if let Some(count) = self.offend(lid, Offence::ImpossibleTrap, 1) {
                warn!(
                    "{} from LID {lid} ({}) ignored, the last with number {number}: {reason}",
                    counted(count as usize, "trap", "traps"),
                    self.name_of(lid)
                );
            }
            return;
        }
        let sm_status = *self.connections.sm_status.borrow();
        if sm_status.state == SmState::Master {
            self.repress(inbound, mad);
        }
        let verdict = self.traps.receive(Instant::now(), mad.header().tid(), &notice);
        if verdict == TrapVerdict::Duplicate && notice.trap_number() == TrapNumber::BAD_M_KEY {
            self.renew_lease(&notice);
        }
        if let TrapVerdict::New(mut news) = verdict {
            if self.senders.is_logged(inbound.from.lid, Instant::now()) {
                trap_log::received(&notice, inbound.from.lid, mad.header().tid());
                if sm_status.state == SmState::Master {
                    self.log_report(&notice, inbound.from.lid);
                }
            }
            if news.number == TrapNumber::BAD_M_KEY {
                let published = self.connections.published.borrow();
                news.changed.port_info = self.bad_m_keys.received(&notice, published.as_deref());
            }
            self.forward(news);
            let notice = DeviceNotice { from: inbound.from.lid, notice };
            if self.connections.to_report.try_send(notice).is_err() {
                debug!("notice from LID {} is not reported: the queue is full", inbound.from.lid);
            }
        }
    }

    fn log_report(&self, notice: &Notice, from: Lid) {
        let published = self.connections.published.borrow();
        let Some(subnet) = published.as_deref() else { return };
        if let Some(port) = trap_origin::sender(subnet, from) {
            let guid = subnet.fabric.port(port).guid;
            trap_log::reporting(notice, from, Gid::new(subnet.options.subnet_prefix, guid));
        }
    }

    /// Has the SM loop read PortInfo of a port that repeats its trap 256, which renews the lease of
    /// its M_Key: a TrapRepress would have renewed it, but the port got none. Meanwhile it may have
    /// refused further requests, about which it sends no other trap.
    fn renew_lease(&mut self, notice: &Notice) {
        let is_due = {
            let published = self.connections.published.borrow();
            self.bad_m_keys.needs_renewal(notice, published.as_deref(), Instant::now())
        };
        if is_due {
            let changed = ChangedAttributes { port_info: true, ..Default::default() };
            self.forward(TrapEvent { changed, ..TrapEvent::of(notice) });
        }
    }

    /// Checks that the device at `from` can be the origin of a trap, as far as the snapshot tells.
    fn check_origin(&self, from: Lid, notice: &Notice) -> Result<(), &'static str> {
        let published = self.connections.published.borrow();
        let is_strict = self.trust().checks_trap_sender;
        let sender = published.as_ref().and_then(|subnet| trap_origin::sender(subnet, from));
        match (published.as_ref(), sender) {
            (Some(subnet), Some(sender)) => {
                trap_origin::check(subnet, sender, notice)?;
                if is_strict { trap_origin::check_producer(subnet, sender, notice) } else { Ok(()) }
            }
            (Some(_), None) if is_strict => Err("no port has this LID"),
            _ if is_foreign(from, notice) => Err("it is about another port"),
            _ => Ok(()),
        }
    }

    /// Sends TrapRepress with the trap's transaction ID and notice (IBA vol. 1, 13.4.9), and the
    /// M_Key that the port at the trap's source LID holds: without it, the port would not accept
    /// the TrapRepress (14.2.4.1). The key goes to that port only, and to hosts only if
    /// `m_key_in_trap_repress` allows it. A LID that the snapshot does not have gets none.
    /// A port whose key is unknown or withheld is not answered: it would refuse the TrapRepress as
    /// an M_Key violation, and send trap 256 for it.
    fn repress(&self, inbound: &Inbound, trap: &Mad) {
        let mut answer = trap_repress(trap);
        let Some(lid) = repress_lid(inbound.from.lid, || self.own_lid()) else { return };
        let Some(m_key) = self.m_key_at(lid) else { return };
        answer.set_m_key(m_key);
        let to = Address::smi(lid);
        if let Err(error) = self.connections.client.post_only(Agent::SmiLid, to, &answer.0) {
            warn!("cannot send TrapRepress to LID {}: {error}", inbound.from.lid);
        }
    }

    /// The LID of this SM's port.
    fn own_lid(&self) -> Option<Lid> {
        let subnet = self.connections.published.borrow();
        let fabric = &subnet.as_ref()?.fabric;
        fabric.observed_lid(fabric.local())
    }

    fn forward(&self, news: TrapEvent) {
        let TrapEvent { issuer, number, subject, port, .. } = news;
        debug!("trap {number} from LID {issuer} about LID {subject} port {port}");
        if news.reports_vports() {
            let trap = VportTrap { lid: issuer, number };
            // Light sweeps find what a full queue loses.
            if let Err(problem) = self.connections.vport_traps.try_send(trap) {
                debug!("trap {number} from LID {issuer} is ignored: {problem}");
            }
            return;
        }
        let arrived = Some(Instant::now());
        let _ = self.connections.events.send(SmEvent::Trap(TrapEvent { arrived, ..news }));
    }

    fn sm_info(&mut self, inbound: &Inbound, mad: &Mad) {
        let mut sm_status = *self.connections.sm_status.borrow();
        // The reply counts as an SMP, so that ActCount shows a polling SM that this one is alive.
        sm_status.act_count = self.connections.client.sent() as u32;
        match sm_info::answer(&sm_status, mad, self.shows_sm_key_to(inbound, mad)) {
            Some(Answer::Get(reply)) => self.reply(inbound, &reply),
            Some(Answer::Accepted(reply, event)) => {
                self.reply(inbound, &reply);
                if self.is_due(event, sm_status.state) {
                    self.forward_role(inbound, mad, event);
                } else {
                    self.log_refusal(
                        inbound,
                        mad,
                        "this SM is master, and was handed over to lately",
                    );
                }
            }
            Some(Answer::Refused(reply, reason)) => {
                self.reply(inbound, &reply);
                self.log_refusal(inbound, mad, reason);
            }
            Some(Answer::Dropped(reason)) => self.log_refusal(inbound, mad, reason),
            None => {}
        }
    }

    /// False for a HANDOVER that a master has no use for.
    fn is_due(&mut self, event: RoleEvent, state: SmState) -> bool {
        if event != RoleEvent::Handover || state != SmState::Master {
            return true;
        }
        let now = Instant::now();
        let last = self.last_handover;
        let is_due = last.is_none_or(|last| now.duration_since(last) >= HANDOVER_INTERVAL);
        if is_due {
            self.last_handover = Some(now);
        }
        is_due
    }

    /// True if the sender of an SMInfo request may see the SM_Key. Senders are known by the last
    /// observed fabric.
    fn shows_sm_key_to(&self, inbound: &Inbound, mad: &Mad) -> bool {
        let status = self.connections.status.load();
        let sender = status.fabric.as_deref().and_then(|fabric| {
            let subnet = status.subnet.as_deref();
            sm_peers::sender(fabric, subnet, inbound.from.lid, mad)
        });
        may_see_sm_key(&status.options, sender)
    }

    fn reply(&self, inbound: &Inbound, reply: &Mad) {
        if let Err(error) = self.connections.client.post_only(inbound.agent, inbound.from, &reply.0)
        {
            warn!("cannot answer SMInfo to LID {}: {error}", inbound.from.lid);
        }
    }

    fn forward_role(&self, inbound: &Inbound, mad: &Mad, event: RoleEvent) {
        let Some(peer) = Peer::sender_of(mad, inbound.from.lid) else { return };
        info!("the SM at port GUID {} requests {event}", peer.guid());
        let _ = self.connections.events.send(SmEvent::Role(event, peer));
    }

    /// Logs SMInfo requests without effect, each kind of a sender at growing counts.
    fn log_refusal(&mut self, inbound: &Inbound, mad: &Mad, reason: &'static str) {
        let refusal = (inbound.from.lid, mad.header().attr_mod(), reason);
        let is_new = self.last_refusal.replace(refusal) != Some(refusal);
        let is_due = self.offend(inbound.from.lid, Offence::RefusedSmInfo, 1).is_some();
        if !is_new || !is_due {
            return;
        }
        let method = if mad.method() == Method::SET { "SubnSet" } else { "SubnGet" };
        let guid = SmInfo::read(mad.smp_data()).guid();
        let requested = match RoleEvent::requested_by(mad.header().attr_mod()) {
            Some(event) => format!(" {event} of the SM at port GUID {guid}"),
            None => String::new(),
        };
        let sender = Peer::sender_of(mad, inbound.from.lid).map(|peer| peer.route.to_string());
        let sender = sender.unwrap_or_else(|| "an invalid path".into());
        warn!("{method}(SMInfo){requested} from {sender} has no effect: {reason}");
    }
}

/// The LID to send a TrapRepress to; `None` if it cannot be sent. A trap of the own port may arrive
/// with SLID 0.
fn repress_lid(from: Lid, own_lid: impl FnOnce() -> Option<Lid>) -> Option<Lid> {
    if from.is_unicast() { Some(from) } else { own_lid() }
}

/// True for traps 129 to 131 about a port of another node than the sender, which would let any host
/// take links out of service. For senders that are not in the snapshot.
fn is_foreign(from: Lid, notice: &Notice) -> bool {
    let errors = TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL;
    errors.contains(&notice.trap_number()) && from.is_unicast() && from != notice.subject_lid()
}

/// The TrapRepress for a trap, without an M_Key.
fn trap_repress(trap: &Mad) -> Mad {
    let mut answer = *trap;
    let mut header = answer.header();
    header.set_class(Class::SUBN_LID);
    header.set_method(Method::TRAP_REPRESS.0);
    header.set_status(0);
    answer.set_header(&header);
    answer.set_m_key(MKey::NONE);
    answer.without_undefined_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ibsim's library delivers old memory behind byte 224 of a MAD.
    #[test]
    fn nothing_goes_back_with_a_repressed_trap_but_what_its_sender_defined() {
        let mut trap = Mad([0xEE; 256]);
        trap.0[1] = Class::SUBN_LID;
        let answer = trap_repress(&trap);
        assert_eq!(
            (answer.method(), answer.header().tid()),
            (Method::TRAP_REPRESS, u64::MAX / 15 * 14)
        );
        assert_eq!(answer.smp_data(), trap.smp_data(), "the notice");
        assert!(answer.0[24..64].iter().chain(&answer.0[128..]).all(|&byte| byte == 0));
    }

    #[test]
    fn a_trap_of_the_own_port_is_repressed_at_the_own_lid() {
        assert_eq!(repress_lid(Lid(7), || unreachable!("the sender has a LID")), Some(Lid(7)));
        assert_eq!(repress_lid(Lid(0), || Some(Lid(3))), Some(Lid(3)));
        assert_eq!(repress_lid(Lid(0), || None), None);
    }

    #[test]
    fn a_port_reports_errors_of_its_own_node_only() {
        let mut notice = Notice::default();
        notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
        notice.set_subject_lid(Lid(5));
        assert!(!is_foreign(Lid(5), &notice) && !is_foreign(Lid(0), &notice));
        assert!(is_foreign(Lid(6), &notice));
        notice.set_trap_number(TrapNumber::LINK_STATE);
        assert!(!is_foreign(Lid(6), &notice));
    }
}
