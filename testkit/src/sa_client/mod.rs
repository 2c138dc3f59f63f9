//! Clients of the subnet administrator.
//!
//! * [`Client`]: at a host of a [`SimFabric`](torus_sm::sim::SimFabric) in this process
//! * [`SilentClient`]: one that acknowledges no segment of a table
//! * [`joins`]: many of these that join and leave multicast groups
//! * [`UmadClient`]: at the umad port of this process, which runs inside a fabric of `torus-sm sim`
//!   or ibsim

pub mod joins;
mod silent;
mod sim;
mod umad;

pub use silent::SilentClient;
pub use sim::Client;
pub use umad::{Reply, UmadClient, is_inside, run_inside};

use torus_sm::ids::{Gid, Guid, Pkey, SmKey};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

/// The default subnet prefix (IBA vol. 1, 4.1.1).
pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Management class of subnet administration (IBA vol. 1, 13.4.4).
const SUBN_ADM: u8 = 3;

/// A request with the transaction ID 0x5A and no SM_Key.
pub fn request<R: Record>(attribute: u16, method: Method, mask: u64, record: &R) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(SUBN_ADM);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_tid(0x5A);
    header.set_attr_id(attribute);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(mask);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + R::STRIDE].copy_from_slice(record.bytes());
    mad
}

/// The request with another transaction ID.
pub fn with_tid(mut mad: Mad, tid: u64) -> Mad {
    let mut header = mad.header();
    header.set_tid(tid);
    mad.set_header(&header);
    mad
}

/// The request with an SM_Key.
pub fn with_sm_key(mut mad: Mad, key: SmKey) -> Mad {
    let mut sa = SaHeader::read(&mad.0[SA_OFFSET..]);
    sa.set_sm_key(key);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad
}

/// The request of rdma_cm for the path between two ports.
pub fn path_query(prefix: u64, [from, to]: [Guid; 2]) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(prefix, from));
    wanted.set_dgid(Gid::new(prefix, to));
    wanted.set_reversible(true);
    wanted.set_numb_path(1);
    wanted.set_pkey(Pkey::DEFAULT_FULL);
    let mask = PathRecord::SGID
        | PathRecord::DGID
        | PathRecord::REVERSIBLE
        | PathRecord::NUMB_PATH
        | PathRecord::PKEY;
    request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
}
