//! Carries out the actions of the management interface: as events of the SM loop, or at once.

use crate::daemon::messages::SmEvent;
use crate::daemon::perfmgr::PerfRequest;
use crate::daemon::process::logging::LogHandle;
use crate::daemon::process::recordings::Recordings;
use crate::fabric::End;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::ids::{Guid, PortNum};
use crate::manage::action::{Acceptance, Control, OperatorAction, RequestId};
use crate::manage::feed::Feed;
use crate::publish::Subnet;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, watch};
use tracing::info;

/// Number of the next action; the console and the HTTP server share it.
static NEXT_REQUEST: AtomicU64 = AtomicU64::new(1);

/// The daemon as the management interface controls it.
pub struct ManageControl {
    pub events: mpsc::WeakUnboundedSender<SmEvent>,
    pub perf: mpsc::WeakSender<PerfRequest>,
    pub feed: Feed,
    pub subnet: watch::Receiver<Option<Arc<Subnet>>>,
    pub recordings: Arc<Recordings>,
    /// `None` if the log is not that of this daemon.
    pub log: Option<LogHandle>,
    pub shutdown: watch::Sender<bool>,
}

impl ManageControl {
    fn send(&self, event: SmEvent) -> Result<(), String> {
        let sent = self.events.upgrade().is_some_and(|events| events.send(event).is_ok());
        if sent { Ok(()) } else { Err("the daemon is about to end".to_owned()) }
    }

    fn send_to_perfmgr(&self, request: PerfRequest) -> Result<(), String> {
        let sender = self.perf.upgrade().ok_or("the daemon is about to end")?;
        sender.try_send(request).map_err(|_| "the performance manager is busy".to_owned())
    }

    /// Sends an action that only a master carries out.
    fn send_to_master(&self, request: RequestId, action: OperatorAction) -> Result<(), String> {
        let state = self.feed.status.load().managers.own.state;
        if state != SmState::Master {
            return Err(format!("this SM is not master: its state is {state}"));
        }
        self.send(SmEvent::Operator(request, action))
    }

    /// Sends the request to quarantine a link, if there is one that no operator has quarantined.
    /// `guid` is that of its node or port.
    fn quarantine(&self, request: RequestId, guid: Guid, num: PortNum) -> Result<(), String> {
        let (subnet, end) = self.end(guid, num)?;
        match quarantined(&subnet, end) {
            Some(link) if link.cause == QuarantineCause::Operator => {
                let text = format!("an operator has quarantined the link at {guid}[{num}]");
                return Err(text);
            }
            Some(_) => {}
            None => {
                let fabric = &subnet.fabric;
                let port = fabric.node_by_guid(end.0).and_then(|node| fabric.port_of(node, num));
                if port.and_then(|port| fabric.port(port).peer).is_none() {
                    return Err(format!("{guid}[{num}] has no link"));
                }
            }
        }
        self.send_to_master(request, OperatorAction::Quarantine(end.0, end.1))
    }

    /// Sends the request to release a link, if it is quarantined. `guid` is that of its node or
    /// port.
    fn release(&self, request: RequestId, guid: Guid, num: PortNum) -> Result<(), String> {
        let (subnet, end) = self.end(guid, num)?;
        if quarantined(&subnet, end).is_none() {
            return Err(format!("no link at {guid}[{num}] is quarantined"));
        }
        self.send_to_master(request, OperatorAction::Release(end.0, end.1))
    }

    /// The published subnet, and an end of a link in it by the GUID of its node or port.
    fn end(&self, guid: Guid, num: PortNum) -> Result<(Arc<Subnet>, End), String> {
        let subnet = self.subnet.borrow().clone().ok_or("no subnet is configured yet")?;
        let port = subnet.fabric.port_by_guid(guid);
        let node = port.map_or(guid, |port| subnet.fabric.node_of(port).guid());
        Ok((subnet, (node, num)))
    }
}

impl Control for ManageControl {
    fn start(&self, action: &OperatorAction) -> Result<RequestId, String> {
        let request = RequestId(NEXT_REQUEST.fetch_add(1, Ordering::Relaxed));
        match *action {
            OperatorAction::Perfmgr(ref command) => {
                self.send_to_perfmgr(PerfRequest { request, command: command.clone() })
            }
            OperatorAction::Resweep
            | OperatorAction::LightSweep
            | OperatorAction::Reroute
            | OperatorAction::Dump
            | OperatorAction::Handover(_) => self.send_to_master(request, action.clone()),
            OperatorAction::Sweeping(_) | OperatorAction::Priority(_) => {
                self.send(SmEvent::Operator(request, action.clone()))
            }
            OperatorAction::Quarantine(guid, num) => self.quarantine(request, guid, num),
            OperatorAction::Release(guid, num) => self.release(request, guid, num),
            OperatorAction::WhatIf(guid, num) => {
                let (_, end) = self.end(guid, num)?;
                self.send_to_master(request, OperatorAction::WhatIf(end.0, end.1))
            }
            OperatorAction::Record => {
                self.recordings.start("operator").map_err(|error| error.to_string())
            }
            OperatorAction::Reload => self.send(SmEvent::Reload),
            OperatorAction::LogLevel(flags) => {
                let log = self.log.as_ref().ok_or("the log has no flags")?;
                log.set_flags(flags);
                info!("an operator sets the log flags to 0x{flags:02x}");
                let text = format!("log flags 0x{flags:02x}");
                self.feed.events.action_ended(action.name(), request, Ok(text));
                Ok(())
            }
            OperatorAction::LogFlush(is_forced) => {
                self.log.as_ref().ok_or("the log has no buffer")?.set_force_flush(is_forced);
                Ok(())
            }
            OperatorAction::Accept(ref id) => {
                let acceptance = Acceptance { incident: id.clone(), request };
                let sent = self.feed.accepted.try_send(acceptance);
                sent.map_err(|_| "too many requests are being carried out".to_owned())
            }
            OperatorAction::Exit => {
                self.shutdown.send_replace(true);
                Ok(())
            }
        }
        .map(|()| request)
    }

    fn log_event(&self, json: &str) {
        if let Some(log) = &self.log {
            log.write_event(json);
        }
    }

    fn recording(&self) -> Result<Vec<u8>, String> {
        self.recordings.contents("the management interface").map_err(|error| error.to_string())
    }

    fn log_flags(&self) -> Option<u8> {
        self.log.as_ref().map(LogHandle::flags)
    }
}

/// The quarantined link at a port.
fn quarantined(subnet: &Subnet, end: End) -> Option<&QuarantinedLink> {
    subnet.devices.quarantined.iter().find(|link| link.ends.contains(&end))
}
