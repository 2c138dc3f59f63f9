//! The RMPP and SA headers (IBA vol. 1, 13.6.2 and 15.2.1), attribute identifiers and status codes
//! of the SA.

use super::bits::record;
use super::mad::{Class, Header, MAD_SIZE, Method, Status};
use crate::ids::SmKey;

/// Offset of the RMPP header in bytes, after the common header.
pub const RMPP_OFFSET: usize = Header::SIZE;
/// Offset of the SA header in bytes.
pub const SA_OFFSET: usize = RMPP_OFFSET + RmppHeader::SIZE;
/// Offset of the records in bytes.
pub const DATA_OFFSET: usize = SA_OFFSET + SaHeader::SIZE;
/// Bytes of records in one MAD.
pub const DATA_SIZE: usize = super::mad::MAD_SIZE - DATA_OFFSET;
/// The class version of subnet administration.
pub const CLASS_VERSION: u8 = 2;

const _: () = assert!(DATA_OFFSET == 56 && DATA_SIZE == 200);

record! {
    /// The header of the reliable multi-packet protocol (IBA vol. 1, 13.6.2.1).
    pub struct RmppHeader[12] {
        /// Version of the protocol: 1; 0 in MADs that do not use it.
        version, set_version: u8 = 0, 8;
        /// Type of the packet: 1 data, 2 acknowledgement, 3 stop, 4 abort; 0 none.
        packet_type, set_packet_type: u8 = 8, 8;
        /// Response time: 4.096 us * 2^value, 31 if none is given.
        resp_time, set_resp_time: u8 = 16, 5;
        /// This is the last packet of the message.
        last, set_last: bool = 21, 1;
        /// This is the first packet of the message.
        first, set_first: bool = 22, 1;
        /// The MAD is part of a multi-packet transfer.
        active, set_active: bool = 23, 1;
        /// Reason of a stop or abort.
        status, set_status: u8 = 24, 8;
        /// Data packets: number of the segment, from 1.
        segment, set_segment: u32 = 32, 32;
        /// First data packet: bytes of the whole message, SA headers of all segments counted;
        /// last one: bytes in it.
        payload_length, set_payload_length: u32 = 64, 32;
    }
}

impl RmppHeader {
    /// Packet type of data.
    pub const DATA: u8 = 1;
    /// [`Self::resp_time`] without a value.
    pub const NO_RESP_TIME: u8 = 31;

    /// The header of the first segment of a message with `data` bytes of records. A port that
    /// divides the message into segments replaces it.
    pub fn message(data: usize) -> Self {
        let segments = data.div_ceil(DATA_SIZE).max(1);
        let mut header = Self::default();
        header.set_version(1);
        header.set_packet_type(Self::DATA);
        header.set_resp_time(Self::NO_RESP_TIME);
        header.set_active(true);
        header.set_first(true);
        header.set_last(segments == 1);
        header.set_segment(1);
        header.set_payload_length((data + segments * SaHeader::SIZE) as u32);
        header
    }
}

/// Methods of requests that the SA replies to (IBA vol. 1, 15.2.2).
pub const REQUESTS: [Method; 6] = [
    Method::GET,
    Method::SET,
    Method::GET_TABLE,
    Method::GET_TRACE_TABLE,
    Method::GET_MULTI,
    Method::DELETE,
];

/// The BUSY reply to a request, on which its sender retries later (IBA vol. 1, 13.4.7); `None` for
/// MADs without a reply.
pub fn busy(request: &[u8]) -> Option<Vec<u8>> {
    let mut header = Header::read(request.get(..DATA_OFFSET)?);
    let method = Method(header.method());
    if header.class() != Class::SUBN_ADM || !REQUESTS.contains(&method) {
        return None;
    }
    let mut mad = request[..request.len().min(MAD_SIZE)].to_vec();
    mad.resize(MAD_SIZE, 0);
    header.set_method(method.response().0);
    header.set_status(Status::BUSY);
    header.write(&mut mad);
    RmppHeader::default().write(&mut mad[RMPP_OFFSET..]);
    let mut sa = SaHeader::read(&mad[SA_OFFSET..]);
    // The SM_Key is cleared in replies (IBA vol. 1, C15-0.1.5).
    sa.set_sm_key(SmKey::NONE);
    sa.write(&mut mad[SA_OFFSET..]);
    Some(mad)
}

record! {
    /// The SA header (IBA vol. 1, 15.2.1.1).
    pub struct SaHeader[20] {
        /// SM_Key of a trusted requester; 0 for others and in responses.
        sm_key, set_sm_key: SmKey = 0, 64;
        /// Distance from one record to the next, in units of 8 bytes.
        attribute_offset, set_attribute_offset: u16 = 64, 16;
        /// One bit for each selected component of the record.
        component_mask, set_component_mask: u64 = 96, 64;
    }
}

/// Attribute identifiers of subnet administration (IBA vol. 1, 15.2.5). ClassPortInfo, Notice and
/// InformInfo have their general ones.
pub struct SaAttr;

macro_rules! attributes {
    ($($(#[$doc:meta])* $const:ident = $id:literal, $name:literal;)*) => {
        impl SaAttr {
            $($(#[$doc])* pub const $const: u16 = $id;)*

            /// The attribute's name in the specification, for messages.
            pub fn name(id: u16) -> &'static str {
                match id {
                    $($id => $name,)*
                    _ => "unknown attribute",
                }
            }
        }
    };
}

attributes! {
    CLASS_PORT_INFO = 0x0001, "ClassPortInfo";
    NOTICE = 0x0002, "Notice";
    INFORM_INFO = 0x0003, "InformInfo";
    NODE_RECORD = 0x0011, "NodeRecord";
    PORT_INFO_RECORD = 0x0012, "PortInfoRecord";
    SL_TO_VL_RECORD = 0x0013, "SLtoVLMappingTableRecord";
    SWITCH_INFO_RECORD = 0x0014, "SwitchInfoRecord";
    LINEAR_FT_RECORD = 0x0015, "LinearForwardingTableRecord";
    RANDOM_FT_RECORD = 0x0016, "RandomForwardingTableRecord";
    MULTICAST_FT_RECORD = 0x0017, "MulticastForwardingTableRecord";
    SM_INFO_RECORD = 0x0018, "SMInfoRecord";
    LINK_RECORD = 0x0020, "LinkRecord";
    GUID_INFO_RECORD = 0x0030, "GUIDInfoRecord";
    SERVICE_RECORD = 0x0031, "ServiceRecord";
    PKEY_TABLE_RECORD = 0x0033, "P_KeyTableRecord";
    PATH_RECORD = 0x0035, "PathRecord";
    VL_ARBITRATION_RECORD = 0x0036, "VLArbitrationTableRecord";
    MC_MEMBER_RECORD = 0x0038, "MCMemberRecord";
    TRACE_RECORD = 0x0039, "TraceRecord";
    MULTI_PATH_RECORD = 0x003A, "MultiPathRecord";
    SERVICE_ASSOCIATION_RECORD = 0x003B, "ServiceAssociationRecord";
    INFORM_INFO_RECORD = 0x00F3, "InformInfoRecord";
}

/// Statuses of subnet administration (IBA vol. 1, 15.2.1.2): they use the class specific high
/// byte of the status field.
pub struct SaStatus;

impl SaStatus {
    /// ERR_NO_RESOURCES: a limit of the SA is reached.
    pub const NO_RESOURCES: u16 = 0x0100;
    /// ERR_REQ_INVALID.
    pub const REQ_INVALID: u16 = 0x0200;
    /// ERR_NO_RECORDS: no record matches.
    pub const NO_RECORDS: u16 = 0x0300;
    /// ERR_TOO_MANY_RECORDS: SubnAdmGet matches more than one record.
    pub const TOO_MANY_RECORDS: u16 = 0x0400;
    /// ERR_REQ_INVALID_GID: a GID of the request is not in this subnet.
    pub const INVALID_GID: u16 = 0x0500;
    /// ERR_REQ_INSUFFICIENT_COMPONENTS: a required component is missing.
    pub const INSUFFICIENT_COMPONENTS: u16 = 0x0600;
    /// ERR_REQ_DENIED: the requester lacks permission.
    pub const DENIED: u16 = 0x0700;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmpp_header_has_the_layout_of_the_specification() {
        let header = RmppHeader::message(64);
        assert_eq!(header.0, [1, 1, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0, 84]);
        let header = RmppHeader::message(112 * 10);
        assert_eq!(header.0[2], 0xFB, "not the last of six segments");
        assert_eq!(header.payload_length(), 1120 + 6 * 20);
    }

    #[test]
    fn an_empty_message_is_one_segment() {
        let header = RmppHeader::message(0);
        assert!(header.first() && header.last());
        assert_eq!(header.payload_length(), 20);
    }

    #[test]
    fn sa_header_has_the_layout_of_the_specification() {
        let mut header = SaHeader::default();
        header.set_sm_key(SmKey(0x0102_0304_0506_0708));
        header.set_attribute_offset(14);
        header.set_component_mask(0x8000_0000_0000_0001);
        assert_eq!(header.0, [1, 2, 3, 4, 5, 6, 7, 8, 0, 14, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn busy_replies_keep_the_request_and_clear_the_sm_key() {
        let mut request = [0u8; 300];
        let mut header = Header::default();
        header.set_class(Class::SUBN_ADM);
        header.set_method(Method::SET.0);
        header.set_tid(0x77);
        header.write(&mut request);
        RmppHeader::message(244).write(&mut request[RMPP_OFFSET..]);
        request[SA_OFFSET..SA_OFFSET + 8].fill(9);
        request[DATA_OFFSET] = 5;
        let reply = busy(&request).expect("a reply");
        let header = Header::read(&reply);
        assert_eq!((header.method(), header.status(), header.tid()), (0x81, 1, 0x77));
        assert_eq!(reply.len(), MAD_SIZE);
        assert!(!RmppHeader::read(&reply[RMPP_OFFSET..]).active());
        assert_eq!(SaHeader::read(&reply[SA_OFFSET..]).sm_key(), SmKey::NONE);
        assert_eq!(reply[DATA_OFFSET], 5);
        assert_eq!(busy(&reply), None, "no reply to a reply");
        assert_eq!(busy(&request[..DATA_OFFSET - 1]), None);
        assert_eq!(busy(&request[..DATA_OFFSET]).map(|reply| reply.len()), Some(MAD_SIZE));
        request[1] = Class::PERF;
        assert_eq!(busy(&request), None);
    }
}
