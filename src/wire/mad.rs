//! The management datagram: IBA vol. 1, 13.4.

use super::bits::record;
use std::fmt;

/// Length of a MAD in bytes.
pub const MAD_SIZE: usize = 256;

record! {
    /// The header common to all MADs (IBA vol. 1, 13.4.3).
    pub struct Header[24] {
        /// Version of the MAD format: 1.
        base_version, set_base_version: u8 = 0, 8;
        /// Management class, see [`Class`].
        class, set_class: u8 = 8, 8;
        /// Version of the class: 1 for subnet management, 2 for subnet administration.
        class_version, set_class_version: u8 = 16, 8;
        /// Method with the response bit, see [`Method`].
        method, set_method: u8 = 24, 8;
        /// Status. Its most significant bit is the direction bit in a directed-route SMP.
        status, set_status: u16 = 32, 16;
        /// Hop pointer and hop count in a directed-route SMP.
        class_specific, set_class_specific: u16 = 48, 16;
        /// Transaction identifier, copied by the responder.
        tid, set_tid: u64 = 64, 64;
        attr_id, set_attr_id: u16 = 128, 16;
        attr_mod, set_attr_mod: u32 = 160, 32;
    }
}

/// Management classes (IBA vol. 1, 13.4.4).
pub struct Class;

impl Class {
    /// Subnet management, LID routed.
    pub const SUBN_LID: u8 = 0x01;
    pub const SUBN_ADM: u8 = 0x03;
    pub const PERF: u8 = 0x04;
    /// Congestion control.
    pub const CONGESTION: u8 = 0x21;
    /// Subnet management, directed route.
    pub const SUBN_DIRECTED: u8 = 0x81;
}

/// Methods (IBA vol. 1, 13.4.5, and 15.2.2 for subnet administration).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(pub u8);

impl Method {
    pub const GET: Self = Self(0x01);
    pub const SET: Self = Self(0x02);
    pub const SEND: Self = Self(0x03);
    pub const TRAP: Self = Self(0x05);
    pub const REPORT: Self = Self(0x06);
    pub const TRAP_REPRESS: Self = Self(0x07);
    pub const GET_TABLE: Self = Self(0x12);
    pub const GET_TRACE_TABLE: Self = Self(0x13);
    pub const GET_MULTI: Self = Self(0x14);
    pub const DELETE: Self = Self(0x15);
    pub const GET_RESP: Self = Self(0x81);
    pub const REPORT_RESP: Self = Self(0x86);
    pub const GET_TABLE_RESP: Self = Self(0x92);
    pub const GET_MULTI_RESP: Self = Self(0x94);
    pub const DELETE_RESP: Self = Self(0x95);

    /// True if the response bit is set.
    pub fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The method of the response to a request: the same with the response bit set, but GetResp
    /// to a Set (IBA vol. 1, 13.4.5) and GetTableResp to a GetTraceTable (15.2.2).
    pub fn response(self) -> Self {
        match self {
            Self::SET => Self::GET_RESP,
            Self::GET_TRACE_TABLE => Self::GET_TABLE_RESP,
            other => Self(other.0 | 0x80),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::GET => "Get",
            Self::SET => "Set",
            Self::SEND => "Send",
            Self::TRAP => "Trap",
            Self::REPORT => "Report",
            Self::TRAP_REPRESS => "TrapRepress",
            Self::GET_TABLE => "GetTable",
            Self::GET_TRACE_TABLE => "GetTraceTable",
            Self::GET_MULTI => "GetMulti",
            Self::DELETE => "Delete",
            Self::GET_RESP => "GetResp",
            Self::REPORT_RESP => "ReportResp",
            Self::GET_TABLE_RESP => "GetTableResp",
            Self::GET_MULTI_RESP => "GetMultiResp",
            Self::DELETE_RESP => "DeleteResp",
            Self(other) => return write!(f, "method 0x{other:02x}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Status codes common to all classes (IBA vol. 1, 13.4.7), low byte of the status field.
pub struct Status;

impl Status {
    pub const OK: u16 = 0;
    /// The responder is busy: retry later.
    pub const BUSY: u16 = 0x0001;
    /// The agent answers at the address that the attribute data, a ClassPortInfo, has.
    pub const REDIRECT: u16 = 0x0002;
    /// Bad base or class version.
    pub const BAD_VERSION: u16 = 0x0004;
    pub const BAD_METHOD: u16 = 0x0008;
    /// Method and attribute cannot be combined.
    pub const BAD_METHOD_ATTR: u16 = 0x000C;
    /// An attribute field or the modifier is out of range.
    pub const BAD_FIELD: u16 = 0x001C;

    /// The meaning of a status, for messages.
    pub fn name(status: u16) -> &'static str {
        match status & 0xFF {
            _ if status & 0x7F00 != 0 => "specific to the class",
            0 => "no error",
            busy if busy & 1 == 1 => "busy",
            redirect if redirect & 2 == 2 => "redirection required",
            0x04 => "version not supported",
            0x08 => "method not supported",
            0x0C => "method not supported for the attribute",
            0x1C => "invalid field or modifier",
            _ => "reserved status",
        }
    }
}

/// One MAD of 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mad(pub [u8; MAD_SIZE]);

impl Default for Mad {
    fn default() -> Self {
        Self([0; MAD_SIZE])
    }
}

impl Mad {
    /// The MAD at the start of `bytes`; missing bytes are 0, surplus ones are ignored.
    pub fn read(bytes: &[u8]) -> Self {
        let mut mad = Self::default();
        let len = bytes.len().min(MAD_SIZE);
        mad.0[..len].copy_from_slice(&bytes[..len]);
        mad
    }

    pub fn header(&self) -> Header {
        Header::read(&self.0)
    }

    /// Replaces the common header.
    pub fn set_header(&mut self, header: &Header) {
        header.write(&mut self.0);
    }

    pub fn method(&self) -> Method {
        Method(self.0[3])
    }
}

/// The method of a received MAD; `None` if the MAD is truncated.
pub fn method_of(mad: &[u8]) -> Option<Method> {
    mad.get(3).map(|&method| Method(method))
}

/// The attribute ID of a received MAD; `None` if the MAD is truncated.
pub fn attr_id_of(mad: &[u8]) -> Option<u16> {
    mad.get(16..18)?.try_into().ok().map(u16::from_be_bytes)
}

/// The lower half of the transaction ID of a received MAD, which belongs to its sender; `None` if
/// the MAD is truncated.
pub fn low_tid_of(mad: &[u8]) -> Option<u32> {
    mad.get(12..16)?.try_into().ok().map(u32::from_be_bytes)
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header();
        write!(
            f,
            "class 0x{:02x} {} attr 0x{:04x} mod 0x{:08x} tid 0x{:016x} status 0x{:04x}",
            header.class(),
            Method(header.method()),
            header.attr_id(),
            header.attr_mod(),
            header.tid(),
            header.status()
        )?;
        match self.smp().route().filter(|_| header.class() == Class::SUBN_DIRECTED) {
            Some(route) => write!(f, " route {route}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_responses() {
        let table = [
            (Method::GET, Method::GET_RESP),
            (Method::SET, Method::GET_RESP),
            (Method::REPORT, Method::REPORT_RESP),
            (Method::GET_TABLE, Method::GET_TABLE_RESP),
            (Method::GET_TRACE_TABLE, Method::GET_TABLE_RESP),
            (Method::GET_MULTI, Method::GET_MULTI_RESP),
            (Method::DELETE, Method::DELETE_RESP),
        ];
        for (request, response) in table {
            assert!(!request.is_response() && response.is_response());
            assert_eq!((request.response(), response.response()), (response, response));
        }
    }
}
