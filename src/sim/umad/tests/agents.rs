//! Registration of agents, devices, and dispatch of MADs to agents.

use super::*;
use crate::wire::attr::CapMask;
use crate::wire::mad::Method;
use crate::wire::smp::{DATA_SIZE, DirectedRoute, SmpFields, SmpRoute, request};

#[tokio::test(start_paused = true)]
async fn a_method_belongs_to_one_agent_of_a_port() {
    let (fabric, _) = sm();
    let first = Program::at(&fabric, HOST0);
    let second = Program::at(&fabric, HOST0);
    for (program, request, outcome) in [
        (&first, sa(0b0110), Ok(0)),
        (&first, sa(0b0110), Err(Errno::EINVAL)),
        (&second, sa(0b0100), Err(Errno::EINVAL)),
        (&second, sa(0b1000), Ok(0)),
        (&second, sa(0), Ok(1)),
        (&second, AgentRegistration { class_version: 1, ..sa(0b0110) }, Ok(2)),
        (&first, AgentRegistration { class: 0, ..sa(0b0110) }, Ok(1)),
        (&first, smi(0x01, 0b0010), Ok(2)),
        (&second, smi(0x81, 0b0010), Ok(3)),
        (&second, smi(0x81, 0b0010), Err(Errno::EINVAL)),
        (&first, vendor(1, 0b0010), Ok(3)),
        (&first, vendor(1, 0b0010), Err(Errno::EINVAL)),
        (&second, vendor(2, 0b0010), Ok(4)),
    ] {
        assert_eq!(program.umad.register(&request), outcome, "{request:?}");
    }
    for oui in 3..=8 {
        assert!(first.umad.register(&vendor(oui, 1)).is_ok());
    }
    assert_eq!(first.umad.register(&vendor(9, 1)), Err(Errno::ENOMEM), "eight OUIs in a class");
    assert!(first.umad.register(&vendor(8, 2)).is_ok());
    let elsewhere = Program::at(&fabric, HOST1);
    assert_eq!(elsewhere.umad.register(&sa(0b0110)), Ok(0));
    assert_eq!(first.umad.unregister(0), Ok(()));
    assert_eq!(first.umad.unregister(0), Err(Errno::EINVAL));
    assert_eq!(first.umad.unregister(77), Err(Errno::EINVAL));
    assert_eq!(second.umad.register(&sa(0b0100)), Ok(5));
    drop(second);
    assert_eq!(first.umad.register(&sa(0b1110)), Ok(0));
}

fn vendor(oui: u32, methods: u128) -> AgentRegistration {
    AgentRegistration { class: 0x32, oui, ..sa(methods) }
}

#[tokio::test(start_paused = true)]
async fn a_device_has_32_agents() {
    let (fabric, _) = sm();
    let program = Program::at(&fabric, HOST0);
    for id in 0..32 {
        assert_eq!(program.umad.register(&sa(0)), Ok(id));
    }
    assert_eq!(program.umad.register(&sa(0)), Err(Errno::ENOMEM));
    assert_eq!(program.umad.unregister(17), Ok(()));
    assert_eq!(program.umad.register(&sa(0)), Ok(17));
}

#[tokio::test(start_paused = true)]
async fn the_first_agent_fixes_the_header_size() {
    let (fabric, _) = sm();
    let old = AgentRegistration { call: RegisterCall::Agent, ..sa(0) };
    for (enable, calls, size) in [
        (false, [old, sa(0)], 56),
        (true, [old, old], 64),
        (false, [sa(0), old], 64),
        (true, [sa(0), sa(0)], 64),
    ] {
        let program = Program::at(&fabric, HOST0);
        if enable {
            assert_eq!(program.umad.enable_pkey(), Ok(()));
        }
        for call in calls {
            assert!(program.umad.register(&call).is_ok());
        }
        assert_eq!(program.umad.header_size(), size);
        assert_eq!(program.umad.enable_pkey(), Err(Errno::EINVAL));
    }
}

#[tokio::test(start_paused = true)]
async fn only_end_ports_have_devices() {
    let (fabric, _) = sm();
    let switch = crate::sim::tests::SW1;
    let open = |guid, num| fabric.open_umad(guid, crate::ids::PortNum(num), Arc::new(|| {}));
    assert!(open(HOST0, 1).is_ok());
    assert!(open(switch, 0).is_ok());
    for (guid, num) in [(HOST0, 0), (HOST0, 2), (switch, 1), (Guid(0xBAD), 1)] {
        assert_eq!(open(guid, num).err(), Some(Errno::ENXIO));
        assert_eq!(fabric.open_issm(guid, crate::ids::PortNum(num)).err(), Some(Errno::ENXIO));
    }
}

#[tokio::test(start_paused = true)]
async fn is_sm_is_set_while_issm_is_open() {
    let (fabric, client) = sm();
    assert!(is_sm(&fabric));
    assert_eq!(fabric.open_issm(HOST0, P1).err(), Some(Errno::EAGAIN));
    drop(client);
    assert!(!is_sm(&fabric));
    let hold = fabric.open_issm(HOST0, P1).expect("the device is free");
    assert!(is_sm(&fabric));
    assert_eq!(fabric.open_issm(HOST0, P1).err(), Some(Errno::EAGAIN));
    let elsewhere = fabric.open_issm(HOST1, P1).expect("another port");
    drop((hold, elsewhere));
    assert!(!is_sm(&fabric));
    drop(Client::at(&fabric, HOST0, true));
    assert!(!is_sm(&fabric));
}

fn is_sm(fabric: &SimFabric) -> bool {
    fabric.port_info(HOST0, P1).expect("a port").has(CapMask::IS_SM)
}

#[tokio::test(start_paused = true)]
async fn requests_go_to_the_registered_agent() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let table = Program::at(&fabric, HOST1);
    let other = Program::at(&fabric, HOST1);
    table.umad.register(&sa(1 << GET_TABLE)).expect("free");
    other.umad.register(&sa(0)).expect("free");
    other.umad.register(&sa(1 << GET | 1 << REPORT)).expect("free");
    assert_eq!(post(&client, &table, &other, GET, 2), (None, Some(1)));
    assert_eq!(post(&client, &table, &other, GET_TABLE, 2), (Some(0), None));
    assert_eq!(post(&client, &table, &other, REPORT, 2), (None, Some(1)));
    assert_eq!(post(&client, &table, &other, GET, 1), (None, None), "another version of the class");
    assert_eq!(post(&client, &table, &other, GET_MULTI, 2), (None, None));
    assert_eq!(other.umad.unregister(1), Ok(()));
    assert_eq!(post(&client, &table, &other, GET, 2), (None, None));
}

fn post(
    client: &Program,
    table: &Program,
    other: &Program,
    method: u8,
    class_version: u8,
) -> (Option<u32>, Option<u32>) {
    let mut mad = sa_message(method, 5, 200, false);
    mad[2] = class_version;
    client.write(sent_to(gsi(LID1), 0, 0), &mad).expect("it is sent");
    (table.read().map(|(header, _)| header.id), other.read().map(|(header, _)| header.id))
}

#[tokio::test(start_paused = true)]
async fn received_mads_have_the_source_address() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    let mut to = gsi(LID1);
    to.sl = Sl(3);
    to.grh = Some(crate::transport::Grh {
        gid: crate::ids::Gid::new(0xFE80_0000_0000_0000, Guid(HOST1.0 + 1)),
        gid_index: 0,
        hop_limit: 5,
        traffic_class: 6,
        flow_label: 7,
    });
    let mad = sa_message(GET, 5, 200, false);
    client.write(sent_to(to, 100, 0), &mad).expect("it is sent");
    let (header, arrived) = server.next().await;
    assert_eq!((header.status, header.length, arrived.len()), (0, 320, 256));
    assert_eq!((header.timeout_ms, header.retries), (0, 0));
    let from = header.address;
    assert_eq!((from.lid, from.qpn, from.qkey, from.sl), (LID0, 1, 0, Sl(3)));
    let gid = crate::ids::Gid::new(0xFE80_0000_0000_0000, Guid(HOST0.0 + 1));
    let grh = crate::transport::Grh { gid, ..to.grh.expect("set above") };
    assert_eq!(from.grh, Some(grh));
    let answer = with_method(&arrived, 0x81);
    server.write(sent_to(from, 0, 0), &answer).expect("it is sent");
    let (header, arrived) = client.next().await;
    assert_eq!((header.status, header.address.lid), (0, LID1));
    assert_eq!(arrived[56..], mad[56..]);
    let mut lost = to;
    lost.qpn = 0;
    client.write(sent_to(lost, 0, 0), &mad).expect("it is sent");
    lost = to;
    lost.pkey_index = 1;
    client.write(sent_to(lost, 0, 0), &mad).expect("it is sent");
    assert_eq!(server.read(), None, "wrong QP or partition");
}

#[tokio::test(start_paused = true)]
async fn only_sm_info_and_traps_go_to_programs() {
    let fabric = fabric().await;
    let program = Program::at(&fabric, HOST0);
    let asks = program.umad.register(&smi(0x81, 0)).expect("free");
    fabric.set_loss(1.0);
    program.write(header(asks, 100), &local(0x11)).expect("it is sent");
    let (from, answer) = program.next().await;
    assert_eq!(
        (from.status, from.address.lid),
        (0, Lid::PERMISSIVE),
        "the request stays in the port"
    );
    assert_eq!((answer[3], answer[4] & 0x80), (0x81, 0x80));
    program.write(header(asks, 100), &local(0x20)).expect("it is sent");
    assert_eq!(program.next().await.1[4..6], [0x80, 0x0C], "no agent for SMInfo");
    let serves = program.umad.register(&smi(0x81, 1 << GET)).expect("free");
    program.write(header(asks, 100), &local(0x20)).expect("it is sent");
    let (from, asked) = program.next().await;
    assert_eq!((from.id, asked[3], asked[6]), (serves, GET, 1));
    let mut answer = with_method(&asked, 0x81);
    answer[4] |= 0x80;
    program.write(header(serves, 0), &answer).expect("it is sent");
    let (from, answer) = program.next().await;
    assert_eq!((from.id, from.status, answer[3]), (asks, 0, 0x81));
}

fn header(id: u32, timeout: u32) -> UserHeader {
    UserHeader { id, ..sent_to(Address::smi(Lid::PERMISSIVE), timeout, 0) }
}

fn local(attr: u16) -> [u8; 256] {
    let route = SmpRoute::Directed(DirectedRoute::LOCAL);
    request(
        &route,
        SmpFields { method: Method::GET, attr_id: attr, attr_mod: 0, m_key: MKey::NONE, tid: 9 },
        &[0; DATA_SIZE],
    )
    .0
}
