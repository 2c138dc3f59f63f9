//! Alias GUIDs of vports.

use super::sa::{client_on_vport, path};
use super::*;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, request};
use torus_sm::ids::Lid;
use torus_sm::sim::AttributeFault;
use torus_sm::wire::attr::tables::GuidBlock;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::Record;
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const HERE: [u16; 3] = [1, 1, 0];

/// A request for entry 1 of the first block of the table that a LID stands for.
fn guid_info(method: Method, lid: Lid, alias: Guid) -> Mad {
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid);
    let mut guids = GuidBlock::default();
    guids.0[1] = alias;
    record.set_guids(&guids);
    let mut mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
    if method != Method::GET {
        mask |= GuidInfoRecord::GID0 << 1;
    }
    request(SaAttr::GUID_INFO_RECORD, method, mask, &record)
}

/// The first two GUIDs in a reply.
async fn guids(client: &Client, request: &Mad) -> Result<[Guid; 2], u16> {
    let reply = client.call(request).await;
    match Header::read(&reply).status() {
        Status::OK => {
            let block = GuidInfoRecord::parse(&reply[DATA_OFFSET..]).guids();
            Ok([block.0[0], block.0[1]])
        }
        status => Err(status),
    }
}

#[tokio::test(start_paused = true)]
async fn a_vport_sets_and_clears_aliases() {
    let cluster = cluster_with_vports(3);
    let host = cluster.shape.host_guid(HERE, 0);
    let far = cluster.shape.host_guid([2, 2, 0], 0);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, HERE, 1);
    let lid = cluster.fabric.port_info(host, PORT).expect("a port").lid();
    let own = vport_guid(host, 1);
    let alias = Guid(0xA11A5);
    let set = guid_info(Method::SET, lid, alias);
    assert_eq!(guids(&client, &set).await, Ok([own, alias]));
    sleep(QUIET).await;
    assert_eq!(held(&cluster, host, 1).0.guids.0[..2], [own, alias]);
    // The LID stands for the table of the requester: the other ones that share it have none.
    let get = guid_info(Method::GET, lid, Guid(0));
    assert_eq!(guids(&client, &get).await, Ok([own, alias]));
    for index in [0, 2] {
        let other = client_on_vport(&cluster, HERE, index);
        let expected = [vport_guid(host, index.into()), Guid(0)];
        assert_eq!(guids(&other, &get).await, Ok(expected), "vport {index}");
        assert_eq!(held(&cluster, host, index.into()).0.guids.0[1], Guid(0));
    }
    // A path leads to the alias, and no GUID of a vport becomes an alias.
    let other = Client::at(&cluster, [2, 2, 0], true);
    let query = path_query(DEFAULT_PREFIX, [Guid(far.0 + 1), alias]);
    let found = path(&other.call(&query).await).expect("a path");
    assert_eq!((found.dlid(), found.hop_limit()), (lid, 2));
    let taken = guid_info(Method::SET, lid, vport_guid(far, 1));
    assert_eq!(guids(&client, &taken).await, Ok([own, alias]));
    // A vport that restarts gets its table again.
    let change = |is_up| {
        let set = move |spec: &mut VportSpec| spec.is_up = is_up;
        assert!(cluster.fabric.change_virtual_port(host, PORT, 1, false, set));
    };
    change(false);
    change(true);
    assert_eq!(held(&cluster, host, 1).0.guids.0[1], Guid(0));
    sleep(POLLED).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
    assert_eq!(held(&cluster, host, 1).0.guids.0[1], alias);
    assert!(guids(&client, &guid_info(Method::DELETE, lid, Guid(0))).await.is_ok());
    sleep(QUIET).await;
    assert_eq!(held(&cluster, host, 1).0.guids.0[..2], [own, Guid(0)]);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_vport_works_without_the_aliases_that_its_device_refuses() {
    let cluster = cluster_with_vports(2);
    let host = cluster.shape.host_guid(HERE, 0);
    let fault = AttributeFault::Refused(Status::BAD_METHOD_ATTR);
    assert!(cluster.fabric.set_attribute_fault(host, AttrId::VPORT_GUID_INFO, Some(fault)));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, HERE, 1);
    let lid = cluster.fabric.port_info(host, PORT).expect("a port").lid();
    let set = guid_info(Method::SET, lid, Guid(0xA11A5));
    assert!(guids(&client, &set).await.is_ok());
    sleep(POLLED).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
    assert_eq!(cluster.fabric.requests(AttrId::VPORT_GUID_INFO)[1], 1, "it is not sent again");
    assert_eq!(cluster.faults(&sm), [""; 0]);
}
