//! The structures of the kernel's `ib_user_mad.h`, ABI version 5, as bytes.
//!
//! Numbers are in host byte order, except QPN, Q_Key, LID and flow label, which are in network byte
//! order.

use super::super::{Address, Agent, Grh};
use crate::ids::{Gid, Lid, Sl};
use crate::wire::congestion;
use crate::wire::mad::{Class, Method};
use crate::wire::sa::REQUESTS;

/// Length of `struct ib_user_mad_hdr`.
pub(super) const HEADER: usize = 64;
/// Length of `struct ib_user_mad_hdr_old`, which lacks the P_Key index.
pub(super) const OLD_HEADER: usize = 56;

/// `IB_USER_MAD_REGISTER_AGENT`: `_IOWR(0x1b, 1, struct ib_user_mad_reg_req)`.
pub const REGISTER_AGENT: libc::c_ulong = read_write(1, size_of::<RegisterRequest>());
/// `IB_USER_MAD_UNREGISTER_AGENT`: `_IOW(0x1b, 2, __u32)`.
pub const UNREGISTER_AGENT: libc::c_ulong = nix::request_code_write!(MAGIC, 2, 4) as _;
/// `IB_USER_MAD_ENABLE_PKEY`: `_IO(0x1b, 3)`.
pub const ENABLE_PKEY: libc::c_ulong = nix::request_code_none!(MAGIC, 3) as _;
/// `IB_USER_MAD_REGISTER_AGENT2`: `_IOWR(0x1b, 4, struct ib_user_mad_reg_req2)`.
pub const REGISTER_AGENT2: libc::c_ulong = read_write(4, size_of::<RegisterRequest2>());

const MAGIC: u8 = 0x1B;

/// `IB_USER_MAD_USER_RMPP`: the program implements RMPP. Since Linux 3.17, as
/// `IB_USER_MAD_REGISTER_AGENT2`.
pub(super) const USER_RMPP: u32 = 1;

const fn read_write(number: u8, size: usize) -> libc::c_ulong {
    nix::request_code_readwrite!(MAGIC, number, size) as libc::c_ulong
}

/// `struct ib_user_mad_reg_req`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RegisterRequest {
    pub id: u32,
    /// A bitmap of longs, aligned to four bytes only.
    pub method_mask: [u8; 16],
    pub qpn: u8,
    pub mgmt_class: u8,
    pub mgmt_class_version: u8,
    pub oui: [u8; 3],
    pub rmpp_version: u8,
}

/// `struct ib_user_mad_reg_req2`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RegisterRequest2 {
    pub id: u32,
    pub qpn: u32,
    pub mgmt_class: u8,
    pub mgmt_class_version: u8,
    pub res: u16,
    pub flags: u32,
    pub method_mask: [u64; 2],
    pub oui: u32,
    pub rmpp_version: u8,
    pub reserved: [u8; 3],
}

const _: () = assert!(size_of::<RegisterRequest>() == 28);
const _: () = assert!(size_of::<RegisterRequest2>() == 40);

/// Registration of an agent.
#[derive(Clone, Copy)]
pub(super) struct Registration {
    pub qpn: u8,
    pub class: u8,
    pub class_version: u8,
    /// 1 to have the kernel segment and reassemble messages; 0 without RMPP.
    pub rmpp_version: u8,
    /// [`USER_RMPP`] or 0; for `IB_USER_MAD_REGISTER_AGENT2` only.
    pub flags: u32,
    /// Bit n: receive requests with method n.
    pub methods: u128,
}

impl Registration {
    /// The registration of a subnet manager's agent.
    pub(super) fn of(agent: Agent) -> Self {
        let smi = [Method::GET, Method::SET, Method::TRAP, Method::TRAP_REPRESS];
        let (class, qpn, class_version, rmpp_version, methods) = match agent {
            Agent::SmiDirected => (Class::SUBN_DIRECTED, 0, 1, 0, method_bits(&smi)),
            Agent::SmiLid => (Class::SUBN_LID, 0, 1, 0, method_bits(&smi)),
            Agent::Sa => (Class::SUBN_ADM, 1, 2, 1, method_bits(&REQUESTS)),
            Agent::Perf => (Class::PERF, 1, 1, 0, 0),
            Agent::Congestion => (Class::CONGESTION, 1, congestion::CLASS_VERSION, 0, 0),
        };
        Self { qpn, class, class_version, rmpp_version, flags: 0, methods }
    }

    /// The argument of `IB_USER_MAD_REGISTER_AGENT`.
    pub(super) fn request(&self) -> RegisterRequest {
        RegisterRequest {
            qpn: self.qpn,
            mgmt_class: self.class,
            mgmt_class_version: self.class_version,
            rmpp_version: self.rmpp_version,
            method_mask: mask_of_longs(self.methods),
            ..RegisterRequest::default()
        }
    }

    /// The argument of `IB_USER_MAD_REGISTER_AGENT2`.
    pub(super) fn request2(&self) -> RegisterRequest2 {
        RegisterRequest2 {
            qpn: u32::from(self.qpn),
            mgmt_class: self.class,
            mgmt_class_version: self.class_version,
            flags: self.flags,
            rmpp_version: self.rmpp_version,
            method_mask: [self.methods as u64, (self.methods >> 64) as u64],
            ..RegisterRequest2::default()
        }
    }
}

fn method_bits(methods: &[Method]) -> u128 {
    methods.iter().fold(0, |mask, m| mask | 1_u128 << m.0)
}

/// 128 bits as the kernel's longs, lowest first.
fn mask_of_longs(bits: u128) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (at, long) in bytes.chunks_exact_mut(size_of::<usize>()).enumerate() {
        long.copy_from_slice(&((bits >> (at * usize::BITS as usize)) as usize).to_ne_bytes());
    }
    bytes
}

/// The header in front of every MAD that is read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserHeader {
    /// The kernel's ID of the agent.
    pub id: u32,
    /// 0, or an errno such as ETIMEDOUT if the MAD is a request that failed.
    pub status: u32,
    /// Timeout in milliseconds; 0 for MADs without a response.
    pub timeout_ms: u32,
    /// Maximum number of retransmissions.
    pub retries: u32,
    /// Length of header and MAD in bytes.
    pub length: u32,
    pub address: Address,
}

impl UserHeader {
    /// The header as bytes. The old header lacks the last eight.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut raw = [0; HEADER];
        let words = [self.id, self.status, self.timeout_ms, self.retries, self.length];
        for (at, word) in words.iter().enumerate() {
            raw[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let Address { lid, qpn, qkey, sl, path_bits, pkey_index, grh } = self.address;
        raw[20..24].copy_from_slice(&qpn.to_be_bytes());
        raw[24..28].copy_from_slice(&qkey.to_be_bytes());
        raw[28..30].copy_from_slice(&lid.0.to_be_bytes());
        raw[30] = sl.0;
        raw[31] = path_bits;
        if let Some(grh) = grh {
            raw[32..36].copy_from_slice(&[1, grh.gid_index, grh.hop_limit, grh.traffic_class]);
            raw[36..52].copy_from_slice(&grh.gid.0);
            raw[52..56].copy_from_slice(&grh.flow_label.to_be_bytes());
        }
        raw[56..58].copy_from_slice(&pkey_index.to_ne_bytes());
        raw
    }

    /// Reads a header; `None` if it is truncated.
    pub fn read(raw: &[u8], with_pkey_index: bool) -> Option<Self> {
        let bytes: &[u8; OLD_HEADER] = raw.first_chunk()?;
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[36..52]);
        let grh = Grh {
            gid: Gid(gid),
            gid_index: bytes[33],
            hop_limit: bytes[34],
            traffic_class: bytes[35],
            flow_label: u32::from_be_bytes(word_at(bytes, 52)),
        };
        let pkey_index = match (with_pkey_index, raw.get(56..58)) {
            (true, Some(index)) => u16::from_ne_bytes([index[0], index[1]]),
            _ => 0,
        };
        Some(Self {
            id: u32::from_ne_bytes(word_at(bytes, 0)),
            status: u32::from_ne_bytes(word_at(bytes, 4)),
            timeout_ms: u32::from_ne_bytes(word_at(bytes, 8)),
            retries: u32::from_ne_bytes(word_at(bytes, 12)),
            length: u32::from_ne_bytes(word_at(bytes, 16)),
            address: Address {
                qpn: u32::from_be_bytes(word_at(bytes, 20)),
                qkey: u32::from_be_bytes(word_at(bytes, 24)),
                lid: Lid(u16::from_be_bytes([bytes[28], bytes[29]])),
                sl: Sl(bytes[30]),
                path_bits: bytes[31],
                pkey_index,
                grh: (bytes[32] != 0).then_some(grh),
            },
        })
    }
}

fn word_at(bytes: &[u8; 56], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    #[test]
    fn ioctl_numbers_are_those_of_the_kernel() {
        assert_eq!(REGISTER_AGENT, 0xC01C_1B01);
        assert_eq!(UNREGISTER_AGENT, 0x4004_1B02);
        assert_eq!(ENABLE_PKEY, 0x1B03);
        assert_eq!(REGISTER_AGENT2, 0xC028_1B04);
    }

    #[test]
    fn header_comes_back_and_has_the_kernels_layout() {
        let gid = Gid::new(0xfe80_0000_0000_0000, Guid(0x1122));
        let grh =
            Grh { gid, gid_index: 1, hop_limit: 64, traffic_class: 7, flow_label: 0x000A_BCDE };
        let mut address = Address::gsi(Lid(0x1234), Sl(3));
        address.pkey_index = 5;
        address.grh = Some(grh);
        let header =
            UserHeader { id: 2, status: 110, timeout_ms: 200, retries: 3, length: 320, address };
        let raw = header.to_bytes();
        assert_eq!(raw[0..4], 2_u32.to_ne_bytes());
        assert_eq!(raw[20..30], [0, 0, 0, 1, 0x80, 0x01, 0, 0, 0x12, 0x34]);
        assert_eq!(raw[30..36], [3, 0, 1, 1, 64, 7]);
        assert_eq!(raw[52..56], [0, 0x0A, 0xBC, 0xDE]);
        assert_eq!(UserHeader::read(&raw, true), Some(header));
        let old = UserHeader::read(&raw[..OLD_HEADER], false);
        assert_eq!(old.map(|old| old.address.pkey_index), Some(0));
        assert_eq!(UserHeader::read(&raw[..OLD_HEADER - 1], false), None);
    }

    #[test]
    fn methods_are_bits_in_both_requests() {
        let registration = Registration::of(Agent::Sa);
        assert_eq!(registration.request2().method_mask, [0x3C_0006, 0]);
        assert_eq!(u128::from_ne_bytes(registration.request().method_mask), 0x3C_0006);
        let with_flag = Registration { flags: USER_RMPP, ..registration };
        assert_eq!((with_flag.request2().flags, with_flag.request2().rmpp_version), (1, 1));
        let smi = Registration::of(Agent::SmiDirected);
        assert_eq!(smi.methods, 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7);
    }
}
