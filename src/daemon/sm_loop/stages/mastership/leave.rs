//! HANDOVER to another SM, with its result, and the end of a master, which hands over to the best
//! standby.

use super::peers::{peers, query};
use crate::config::options::Options;
use crate::daemon::messages::SmEvent;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::event_queue::EventQueue;
use crate::ids::MKey;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::sm::election::ElectionCandidate;
use crate::sm::peer::Peer;
use crate::sm::role::RoleEvent;
use crate::transport::client::SmpClient;
use crate::transport::transactions::{SmpError, SmpLimits, SmpRequest};
use crate::wire::attr::{AttrId, SmInfo, SmState};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Maximum time that the end of the daemon waits for a successor.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(900);
/// The part of it in which standby SMs must answer.
const QUERY_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval at which the successor is queried while it does not send ACKNOWLEDGE: OpenSM never
/// does.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which the successor of a requested HANDOVER is queried.
const MASTER_QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// Time for its first sweep.
const CONFIRM_LIMIT: Duration = Duration::from_secs(60);
/// Requests that are sent at the end although the window is full of those of interrupted work.
const SPARE_REQUESTS: usize = 16;

/// Sends HANDOVER and waits until its receiver accepts it. This SM shows the state `next` from now
/// on; if the receiver does not accept, it stays MASTER. `key`: the M_Key of the receiver's port.
///
/// # Errors
/// The receiver does not answer or refuses.
pub async fn hand_over(
    context: &ManagerContext,
    to: &Peer,
    key: MKey,
    next: SmState,
) -> Result<(), SmpError> {
    let request = context.published.sm_status.borrow().handover(to).with_m_key(key);
    context.published.sm_status.send_modify(|status| status.handing_over = Some(next));
    let result = context.client.call(&request).await;
    if result.is_err() {
        context.published.sm_status.send_modify(|status| status.handing_over = None);
    }
    result.map(|_| ())
}

/// Waits until an SM that accepted a HANDOVER shows that it is master. `own`: this SM as standby.
/// Returns the result as text.
///
/// # Errors
/// It is not master within [`CONFIRM_LIMIT`], or will lose the election against this SM.
pub async fn confirm_master(
    client: &SmpClient,
    successor: &Peer,
    key: MKey,
    own: ElectionCandidate,
) -> Result<String, String> {
    let guid = successor.guid();
    let request = SmpRequest::get(successor.route, AttrId::SM_INFO, 0).with_m_key(key);
    let is_master = async {
        loop {
            if let Ok(reply) = client.call(&request).await {
                let info = SmInfo::read(&reply.data);
                if info.state() == SmState::Master {
                    return info;
                }
            }
            sleep(MASTER_QUERY_INTERVAL).await;
        }
    };
    let Ok(info) = timeout(CONFIRM_LIMIT, is_master).await else {
        let seconds = CONFIRM_LIMIT.as_secs();
        return Err(format!(
            "the SM at port GUID {guid} accepted the HANDOVER and is not MASTER after {seconds} s; \
             this SM takes over again if it stays silent"
        ));
    };
    let candidate = ElectionCandidate::from(&info);
    if own.beats(candidate) {
        return Err(format!(
            "the SM at port GUID {guid} is MASTER with priority {}, and this SM with priority {} \
             wins the election and takes over again: lower its priority first",
            candidate.priority, own.priority
        ));
    }
    Ok(format!("handed over to the SM at port GUID {guid}, which is MASTER now"))
}

/// Hands over to the best standby SM that answers, before the daemon ends. Returns after at most
/// [`LEAVE_TIMEOUT`].
pub async fn leave(
    context: &ManagerContext,
    events: &mut EventQueue,
    options: &Options,
    keys: &MKeys,
    observation: &Observation,
) {
    if observation.managers.is_empty() || options.ignore_other_sm {
        return;
    }
    context.client.set_limits(SmpLimits {
        window: options.max_wire_smps as usize + SPARE_REQUESTS,
        timeout: QUERY_TIMEOUT / 4,
        retries: 2,
        ..SmpLimits::default()
    });
    let handed_over = hand_over_to_best(context, events, keys, observation);
    if timeout(LEAVE_TIMEOUT, handed_over).await.is_err() {
        warn!("no standby SM confirmed to be master within {} ms", LEAVE_TIMEOUT.as_millis());
    }
}

async fn hand_over_to_best(
    context: &ManagerContext,
    events: &mut EventQueue,
    keys: &MKeys,
    observation: &Observation,
) {
    let fabric = &observation.fabric;
    let queried = timeout(QUERY_TIMEOUT, query(&context.client, keys, fabric)).await;
    // If one of them does not answer, all are tried as last seen.
    let managers = queried.unwrap_or_else(|_| observation.managers.clone());
    let others = peers(&Observation { managers, ..observation.clone() });
    let voter = context.published.sm_status.borrow().voter();
    for successor in voter.successors(&others) {
        let guid = successor.guid();
        let key = keys.of(guid);
        match hand_over(context, &successor, key, SmState::NotActive).await {
            Ok(()) => {
                confirm(context, events, &successor, key).await;
                info!("handed over to the SM at port GUID {guid}");
                return;
            }
            Err(problem) => warn!("the SM at port GUID {guid} does not take over: {problem}"),
        }
    }
}

/// Waits until the successor acknowledges the HANDOVER, or shows that it is master.
async fn confirm(context: &ManagerContext, events: &mut EventQueue, successor: &Peer, key: MKey) {
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(SmEvent::Role(RoleEvent::Acknowledge, peer))
                    if peer.guid() == successor.guid() => return,
                Some(_) => continue,
                None => return,
            },
            () = sleep(CONFIRM_INTERVAL) => {}
        }
        let request = SmpRequest::get(successor.route, AttrId::SM_INFO, 0);
        let reply = context.client.call(&request.with_m_key(key)).await;
        if reply.is_ok_and(|reply| SmInfo::read(&reply.data).state() == SmState::Master) {
            return;
        }
    }
}
