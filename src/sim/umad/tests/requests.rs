//! Requests of one MAD: transaction IDs, timeouts, invalid sends.

use super::*;
use crate::ids::PortNum;
use crate::wire::mad::Method;
use crate::wire::smp::{DATA_SIZE, DirectedRoute, SmpFields, SmpRoute, request};
use tokio::time::Instant;

fn upper(mad: &[u8]) -> u32 {
    (Header::read(mad).tid() >> 32) as u32
}

#[tokio::test(start_paused = true)]
async fn responses_need_the_agents_transaction_id() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    let client = Program::client(&fabric, HOST0);
    assert_eq!(client.umad.register(&sa(0)), Ok(1));
    let mad = sa_message(GET, 0xAAAA_AAAA_0000_0005, 200, false);
    let mut seen = Vec::new();
    for id in [0, 1] {
        let header = UserHeader { id, ..sent_to(gsi(LID1), 100, 0) };
        client.write(header, &mad).expect("it is sent");
        let (from, asked) = server.next().await;
        seen.push(upper(&asked));
        assert_eq!(Header::read(&asked).tid() as u32, 5);
        let wrong = [
            u64::from(upper(&asked)) << 32 | 6,
            5,
            0xAAAA_AAAA_0000_0005,
            u64::from(upper(&asked) + 1) << 32 | 5,
        ];
        for tid in wrong {
            let mut answer = with_method(&asked, 0x81);
            answer[8..16].copy_from_slice(&tid.to_be_bytes());
            server.write(sent_to(from.address, 0, 0), &answer).expect("it is sent");
        }
        assert_eq!(client.read(), None);
        for _ in 0..2 {
            let answer = with_method(&asked, 0x81);
            server.write(sent_to(from.address, 0, 0), &answer).expect("it is sent");
        }
        let (header, answer) = client.next().await;
        assert_eq!((header.id, header.status), (id, 0));
        assert_eq!(upper(&answer), upper(&asked));
        assert_eq!(client.read(), None, "the second response is unexpected");
    }
    assert_ne!(seen[0], seen[1]);
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_returns_the_header_of_the_request() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    let client = Program::client(&fabric, HOST0);
    let mad = sa_message(GET, 5, 200, false);
    let start = Instant::now();
    let sent = sent_to(gsi(LID1), 100, 3);
    client.write(sent, &mad).expect("it is sent");
    let (header, returned) = client.next().await;
    assert_eq!(start.elapsed().as_millis(), 400);
    assert_eq!(header, UserHeader { status: 110, ..sent });
    assert_eq!(returned.len(), 24);
    assert_eq!(
        (returned[..8].to_vec(), returned[12..24].to_vec()),
        (mad[..8].to_vec(), mad[12..24].to_vec())
    );
    let asked: Vec<_> = std::iter::from_fn(|| server.read()).collect();
    assert_eq!(asked.len(), 4);
    assert!(asked.windows(2).all(|pair| pair[0] == pair[1]));
    let late = with_method(&asked[0].1, 0x81);
    server.write(sent_to(asked[0].0.address, 0, 0), &late).expect("it is sent");
    assert_eq!(client.read(), None);
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn unregistering_cancels_requests() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    let client = Program::client(&fabric, HOST0);
    client.write(sent_to(gsi(LID1), 100, 3), &sa_message(GET, 5, 200, false)).expect("sent");
    let long = sa_message(GET_MULTI, 6, 5000, true);
    fabric.set_delay(std::time::Duration::from_millis(1));
    client.write(sent_to(gsi(LID1), 100, 3), &long).expect("sent");
    assert_eq!(client.umad.unregister(0), Ok(()));
    fabric.set_delay(std::time::Duration::ZERO);
    let (from, asked) = server.next().await;
    server.write(sent_to(from.address, 0, 0), &with_method(&asked, 0x81)).expect("sent");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(client.read(), None);
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn closing_a_device_cancels_its_requests() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    let client = Program::client(&fabric, HOST0);
    client.write(sent_to(gsi(LID1), 100, 3), &sa_message(GET_TABLE, 5, 200, false)).expect("sent");
    let (from, asked) = server.next().await;
    drop(client);
    let mut answer = sa_message(0x92, Header::read(&asked).tid(), 5000, true);
    answer[2] = 2;
    server.write(sent_to(from.address, 0, 2), &answer).expect("sent");
    let (header, _) = server.next().await;
    assert_eq!(header.status, 110, "no acknowledgement");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn invalid_sends_fail() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let plain = AgentRegistration { rmpp_version: 0, ..sa(0) };
    assert_eq!(client.umad.register(&plain), Ok(1));
    assert_eq!(client.umad.register(&smi(0x81, 0)), Ok(2));
    let mad = sa_message(GET, 5, 200, false);
    let long = sa_message(GET, 5, 201, false);
    let active = sa_message(GET, 6, 201, true);
    let mut perf = mad.clone();
    perf[1] = 4;
    for (id, mad, fits) in [
        (0, &mad[..], true),
        (0, &mad[..56], true),
        (0, &mad[..55], false),
        (0, &mad[..35], false),
        (0, &[], false),
        (0, &long, false),
        (0, &active, true),
        (0, &perf, false),
        (1, &perf, true),
        (1, &perf[..36], true),
        (1, &perf[..35], false),
        (1, &active, false),
        (1, &active[..256], true),
        (3, &mad, false),
        (32, &mad, false),
        (u32::MAX, &mad, false),
    ] {
        let outcome = client.write(to(id), mad);
        assert_eq!(outcome.is_ok(), fits, "agent {id}, {} bytes", mad.len());
    }
    assert_eq!(client.umad.write(&[0; 30]), Err(Errno::EINVAL));
}

fn to(id: u32) -> UserHeader {
    UserHeader { id, ..sent_to(gsi(LID1), 0, 0) }
}

#[tokio::test(start_paused = true)]
async fn an_outstanding_transaction_id_is_rejected() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let user = AgentRegistration { flags: AgentRegistration::USER_RMPP, ..sa(0) };
    assert_eq!(client.umad.register(&user), Ok(1));
    let mad = sa_message(REPORT, 5, 200, false);
    let active = sa_message(REPORT, 5, 200, true);
    let to = |id| UserHeader { id, ..sent_to(gsi(LID1), 100, 0) };
    assert!(client.write(to(0), &mad).is_ok());
    assert_eq!(client.write(to(0), &mad), Err(Errno::EINVAL));
    assert!(client.write(to(1), &mad).is_ok());
    assert!(client.write(to(1), &active).is_ok(), "segments of an agent that implements RMPP");
    assert_eq!(client.write(to(1), &mad), Err(Errno::EINVAL));
    for _ in 0..3 {
        assert_eq!(client.next().await.0.status, 110);
    }
    assert!(client.write(to(0), &mad).is_ok());
}

/// `ibping -S` sends responses with a timeout.
#[tokio::test(start_paused = true)]
async fn a_response_sent_with_a_timeout_times_out() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    client.write(sent_to(gsi(LID1), 1000, 0), &sa_message(GET, 5, 200, false)).expect("sent");
    let (from, asked) = server.next().await;
    let answer = with_method(&asked, 0x81);
    server.write(sent_to(from.address, 1000, 0), &answer).expect("it is sent");
    assert_eq!(client.next().await.0.status, 0);
    let (header, returned) = server.next().await;
    assert_eq!((header.status, &returned[..]), (110, &answer[..24]));
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn directed_routes_start_at_the_own_port() {
    let fabric = fabric().await;
    let program = Program::at(&fabric, HOST0);
    program.umad.register(&smi(0x81, 0)).expect("free");
    let smp = |exits: &[u8]| {
        let exits: Vec<_> = exits.iter().map(|&exit| PortNum(exit)).collect();
        let route = SmpRoute::Directed(DirectedRoute::new(&exits).expect("few hops"));
        request(
            &route,
            SmpFields {
                method: Method::GET,
                attr_id: 0x11,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 9,
            },
            &[0; DATA_SIZE],
        )
        .0
    };
    let to = sent_to(Address::smi(Lid::PERMISSIVE), 100, 0);
    assert!(program.write(to, &smp(&[1, 1])).is_ok());
    let (header, answer) = program.next().await;
    assert_eq!((header.status, answer[6], answer[7]), (0, 0, 2));
    assert_eq!(program.write(to, &smp(&[2])), Err(Errno::EINVAL));
    let mut far = smp(&[1]);
    far[7] = 64;
    assert_eq!(program.write(to, &far), Err(Errno::EINVAL));
    let mut begun = smp(&[1, 1]);
    begun[6] = 1;
    assert_eq!(program.write(to, &begun), Err(Errno::EINVAL));
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_agent_get_an_error_status() {
    let fabric = fabric().await;
    let client = Program::at(&fabric, HOST0);
    let plain = AgentRegistration { class: 0x09, class_version: 1, rmpp_version: 0, ..sa(0) };
    client.umad.register(&plain).expect("free");
    let mut mad = Mad::default();
    for (method, answered) in [(0x01, true), (0x02, true), (0x03, false), (0x06, false)] {
        mad.0[..4].copy_from_slice(&[1, 0x09, 1, method]);
        client.write(sent_to(gsi(LID1), 100, 0), &mad.0).expect("it is sent");
        let (header, answer) = client.next().await;
        assert_eq!(header.status == 0, answered);
        if answered {
            assert_eq!(answer[3..6], [0x81, 0, 0x0C]);
        }
    }
}
