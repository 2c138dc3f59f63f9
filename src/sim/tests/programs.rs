//! MADs between programs.

use super::*;
use crate::wire::mad::Class;

#[tokio::test(start_paused = true)]
async fn sa_mads_need_active_links() {
    let (fabric, mut sm) = sm();
    let mut client = Client::at(&fabric, HOST1, false);
    sm.bring_up().await;
    let mut mad = Mad::default();
    let mut header = mad.header();
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(2);
    header.set_method(Method::GET.0);
    header.set_tid(0x77);
    mad.set_header(&header);
    client.post(Agent::Sa, Address::gsi(Lid(1), crate::ids::Sl(0)), Some(TIMEOUT), &mad.0);
    let (agent, from, outcome, request) = sm.inbox.recv().await.unwrap();
    assert_eq!((agent, from.lid, outcome), (Agent::Sa, Lid(3), Outcome::Arrived));
    let mut answer = vec![0; 1000];
    answer[..256].copy_from_slice(&request);
    answer[3] = Method::GET_RESP.0;
    sm.post(Agent::Sa, from, None, &answer);
    let (.., outcome, response) = client.inbox.recv().await.unwrap();
    assert_eq!((outcome, response.len()), (Outcome::Arrived, 1000));
    assert_eq!(response[12..16], [0, 0, 0, 0x77]);
    sm.change(&[1], 1, |info| info.set_port_state(PortState::Down)).await;
    client.post(Agent::Sa, Address::gsi(Lid(1), crate::ids::Sl(0)), Some(TIMEOUT), &mad.0);
    assert_eq!(client.next().await.0, Outcome::Unanswered);
}

#[tokio::test(start_paused = true)]
async fn sm_info_requests_go_to_the_sm() {
    let (fabric, mut sm) = sm();
    let mut other = Client::at(&fabric, HOST1, true);
    other.send(route(&[1, 2, 7]), Method::GET, (AttrId::SM_INFO, 0), &[]);
    let (agent, _, outcome, request) = sm.inbox.recv().await.unwrap();
    assert_eq!((agent, outcome), (Agent::SmiDirected, Outcome::Arrived));
    let mut answer = Mad::read(&request);
    answer.0[3] = Method::GET_RESP.0;
    answer.0[4] |= 0x80;
    sm.post(Agent::SmiDirected, Address::smi(Lid::PERMISSIVE), None, &answer.0);
    assert_eq!(other.next().await.0, Outcome::Arrived);
    let refused = other.get(&[1, 2], AttrId::SM_INFO, 0).await.expect("the switch answers");
    assert_eq!(refused.smp().status(), Status::BAD_METHOD_ATTR);
}

/// In real time the thread of the first port handles the timed events, also when the port is detached.
#[tokio::test]
async fn threads_deliver_and_handle_events_in_real_time() {
    let fabric = pair(7);
    fabric.set_timed_events(TimedEvents::Thread);
    let service_time = Duration::from_micros(50);
    fabric.set_sma_speed(SmaSpeed { service_time, queue: SmaSpeed::UNLIMITED });
    let mut first = Client::at(&fabric, HOST0, true);
    let mut second = Client::at(&fabric, HOST1, false);
    for client in [&mut first, &mut second] {
        // A busy machine may let it wait.
        client.retries = 100;
        assert!(client.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    }
    let Client { port, mut inbox, .. } = first;
    drop(port);
    assert!(inbox.recv().await.is_none(), "the thread has dropped the sink");
    assert!(second.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
}
