//! The RMPP and SA headers (IBA vol. 1, 13.6.2 and 15.2.1), and what SA MADs name: attributes,
//! statuses, component masks.

use super::bits::record;
use super::mad::{Class, Header, MAD_SIZE, Method, Status};

/// Where the RMPP header of a MAD starts: after the common header.
pub const RMPP_OFFSET: usize = Header::SIZE;
/// Where the SA header starts.
pub const SA_OFFSET: usize = RMPP_OFFSET + RmppHeader::SIZE;
/// Where the records start.
pub const DATA_OFFSET: usize = SA_OFFSET + SaHeader::SIZE;
/// Bytes of records that one MAD carries.
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
        /// Why a transfer was stopped or aborted.
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
    /// [`Self::resp_time`] when none is given.
    pub const NO_RESP_TIME: u8 = 31;

    /// The header of a message with `data` bytes of records, as its first segment has it. A port
    /// that cuts the message into segments writes its own over it.
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

/// The reply that asks whoever sent `request` to try again later (IBA vol. 1, 13.4.7); `None` if
/// it is no request that a reply is due to.
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
    // The SM_Key never goes back (IBA vol. 1, C15-0.1.5).
    sa.set_sm_key(0);
    sa.write(&mut mad[SA_OFFSET..]);
    Some(mad)
}

record! {
    /// The SA header (IBA vol. 1, 15.2.1.1).
    pub struct SaHeader[20] {
        /// 0, or the key that makes the requester a trusted one; 0 in responses.
        sm_key, set_sm_key: u64 = 0, 64;
        /// Distance from one record to the next, in units of 8 bytes.
        attribute_offset, set_attribute_offset: u16 = 64, 16;
        /// Which components of the record are meant, bit by bit.
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
    /// ClassPortInfo
    CLASS_PORT_INFO = 0x0001, "ClassPortInfo";
    /// Notice
    NOTICE = 0x0002, "Notice";
    /// InformInfo
    INFORM_INFO = 0x0003, "InformInfo";
    /// NodeRecord
    NODE_RECORD = 0x0011, "NodeRecord";
    /// PortInfoRecord
    PORT_INFO_RECORD = 0x0012, "PortInfoRecord";
    /// SLtoVLMappingTableRecord
    SL_TO_VL_RECORD = 0x0013, "SLtoVLMappingTableRecord";
    /// SwitchInfoRecord
    SWITCH_INFO_RECORD = 0x0014, "SwitchInfoRecord";
    /// LinearForwardingTableRecord
    LINEAR_FT_RECORD = 0x0015, "LinearForwardingTableRecord";
    /// RandomForwardingTableRecord
    RANDOM_FT_RECORD = 0x0016, "RandomForwardingTableRecord";
    /// MulticastForwardingTableRecord
    MULTICAST_FT_RECORD = 0x0017, "MulticastForwardingTableRecord";
    /// SMInfoRecord
    SM_INFO_RECORD = 0x0018, "SMInfoRecord";
    /// LinkRecord
    LINK_RECORD = 0x0020, "LinkRecord";
    /// GUIDInfoRecord
    GUID_INFO_RECORD = 0x0030, "GUIDInfoRecord";
    /// ServiceRecord
    SERVICE_RECORD = 0x0031, "ServiceRecord";
    /// P_KeyTableRecord
    PKEY_TABLE_RECORD = 0x0033, "P_KeyTableRecord";
    /// PathRecord
    PATH_RECORD = 0x0035, "PathRecord";
    /// VLArbitrationTableRecord
    VL_ARBITRATION_RECORD = 0x0036, "VLArbitrationTableRecord";
    /// MCMemberRecord
    MC_MEMBER_RECORD = 0x0038, "MCMemberRecord";
    /// TraceRecord
    TRACE_RECORD = 0x0039, "TraceRecord";
    /// MultiPathRecord
    MULTI_PATH_RECORD = 0x003A, "MultiPathRecord";
    /// ServiceAssociationRecord
    SERVICE_ASSOCIATION_RECORD = 0x003B, "ServiceAssociationRecord";
    /// InformInfoRecord
    INFORM_INFO_RECORD = 0x00F3, "InformInfoRecord";
}

/// Statuses of subnet administration (IBA vol. 1, 15.2.1.2): they use the class specific high
/// byte of the status field.
pub struct SaStatus;

impl SaStatus {
    /// No room for it.
    pub const NO_RESOURCES: u16 = 0x0100;
    /// The request is invalid.
    pub const REQ_INVALID: u16 = 0x0200;
    /// Nothing matches.
    pub const NO_RECORDS: u16 = 0x0300;
    /// A Get matches more than one record.
    pub const TOO_MANY_RECORDS: u16 = 0x0400;
    /// A GID of the request is not one of this subnet.
    pub const INVALID_GID: u16 = 0x0500;
    /// A component that the request must have is missing.
    pub const INSUFFICIENT_COMPONENTS: u16 = 0x0600;
    /// The requester may not do that.
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
        header.set_sm_key(0x0102_0304_0506_0708);
        header.set_attribute_offset(14);
        header.set_component_mask(0x8000_0000_0000_0001);
        assert_eq!(header.0, [1, 2, 3, 4, 5, 6, 7, 8, 0, 14, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn who_is_to_come_back_later_is_told_so() {
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
        assert_eq!(SaHeader::read(&reply[SA_OFFSET..]).sm_key(), 0);
        assert_eq!(reply[DATA_OFFSET], 5);
        assert_eq!(busy(&reply), None, "no reply to a reply");
        assert_eq!(busy(&request[..DATA_OFFSET - 1]), None);
        assert_eq!(busy(&request[..DATA_OFFSET]).map(|reply| reply.len()), Some(MAD_SIZE));
        request[1] = Class::PERF;
        assert_eq!(busy(&request), None);
    }
}
