//! Requests to register an agent, as the two ioctls of the umad device make them, and their
//! validation.

use super::classes;
use crate::wire::mad::Class;
use nix::errno::Errno;

/// The ioctl that registers an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterCall {
    /// `IB_USER_MAD_REGISTER_AGENT`.
    Agent,
    /// `IB_USER_MAD_REGISTER_AGENT2`: has flags, and implies the header with a P_Key index.
    Agent2,
}

/// A request to register an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentRegistration {
    pub call: RegisterCall,
    /// Queue pair number: 0 for subnet management classes, 1 for all others.
    pub qpn: u32,
    /// Management class; 0 for an agent that receives responses only.
    pub class: u8,
    pub class_version: u8,
    /// OUI of vendor classes 0x30 to 0x4f.
    pub oui: u32,
    /// RMPP version: 1, or 0 without RMPP.
    pub rmpp_version: u8,
    /// [`AgentRegistration::USER_RMPP`] or 0.
    pub flags: u32,
    /// Bit n: the agent receives requests with method n.
    pub methods: u128,
}

/// Implementation of RMPP for an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum RmppMode {
    /// The kernel segments and reassembles messages.
    Kernel,
    /// MADs are passed through unchanged.
    User,
}

impl AgentRegistration {
    /// Flag: the program implements RMPP.
    pub const USER_RMPP: u32 = 1;
    /// All flags. A request with others is rejected, and these are returned.
    pub const SUPPORTED_FLAGS: u32 = Self::USER_RMPP;
    /// Length of `struct ib_user_mad_reg_req`.
    pub const REQUEST_SIZE: usize = 28;
    /// Length of `struct ib_user_mad_reg_req2`.
    pub const REQUEST2_SIZE: usize = 40;

    /// Reads a `struct ib_user_mad_reg_req`.
    pub fn from_request(raw: &[u8; Self::REQUEST_SIZE]) -> Self {
        Self {
            call: RegisterCall::Agent,
            methods: methods(&raw[4..20]),
            qpn: raw[20].into(),
            class: raw[21],
            class_version: raw[22],
            oui: u32::from_be_bytes([0, raw[23], raw[24], raw[25]]),
            rmpp_version: raw[26],
            flags: 0,
        }
    }

    /// Reads a `struct ib_user_mad_reg_req2`.
    pub fn from_request2(raw: &[u8; Self::REQUEST2_SIZE]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        Self {
            call: RegisterCall::Agent2,
            qpn: word(4),
            class: raw[8],
            class_version: raw[9],
            flags: word(12),
            methods: methods(&raw[16..32]),
            oui: word(32),
            rmpp_version: raw[36],
        }
    }

    /// Validates the request, regardless of other agents; EINVAL if it is invalid.
    pub(super) fn validate(&self) -> Result<(), Errno> {
        let valid = self.qpn <= 1
            && self.flags & !Self::SUPPORTED_FLAGS == 0
            && self.rmpp_version <= 1
            && if self.class == 0 { self.flags == 0 } else { self.is_class_valid() };
        if valid { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn is_class_valid(&self) -> bool {
        let class = self.class;
        self.class_version < classes::MAX_VERSION
            && (class < classes::MAX_CLASS || class == Class::SUBN_DIRECTED)
            && self.oui <= 0x00FF_FFFF
            && (!classes::has_oui(class) || self.oui != 0)
            && (self.rmpp_version == 0 || classes::has_rmpp(class))
            && classes::is_smi(class) == (self.qpn == 0)
    }

    pub(super) fn rmpp_mode(&self) -> RmppMode {
        match (self.rmpp_version, self.flags & Self::USER_RMPP) {
            (1, 0) => RmppMode::Kernel,
            _ => RmppMode::User,
        }
    }
}

/// Bitmap of methods, in two `long`s of 64 bits in host byte order.
fn methods(raw: &[u8]) -> u128 {
    raw.chunks_exact(8).rev().fold(0, |bits, long| {
        let mut word = [0; 8];
        word.copy_from_slice(long);
        bits << 64 | u128::from(u64::from_ne_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SA: AgentRegistration = AgentRegistration {
        call: RegisterCall::Agent2,
        qpn: 1,
        class: 3,
        class_version: 2,
        oui: 0,
        rmpp_version: 1,
        flags: 0,
        methods: 0x3C_0006,
    };

    #[test]
    fn both_requests_have_the_layout_of_the_header_file() {
        let mut raw = [0; 28];
        raw[4..12].copy_from_slice(&0x3C_0006_u64.to_ne_bytes());
        raw[12..20].copy_from_slice(&(1_u64 << 63).to_ne_bytes());
        raw[20..27].copy_from_slice(&[1, 0x32, 2, 0, 0x14, 0x05, 1]);
        let wanted = AgentRegistration {
            call: RegisterCall::Agent,
            class: 0x32,
            oui: 0x1405,
            methods: 1 << 127 | 0x3C_0006,
            ..SA
        };
        assert_eq!(AgentRegistration::from_request(&raw), wanted);
        let mut raw = [0; 40];
        raw[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        raw[8..10].copy_from_slice(&[0x32, 2]);
        raw[12..16].copy_from_slice(&1_u32.to_ne_bytes());
        raw[16..24].copy_from_slice(&0x3C_0006_u64.to_ne_bytes());
        raw[24..32].copy_from_slice(&(1_u64 << 63).to_ne_bytes());
        raw[32..36].copy_from_slice(&0x1405_u32.to_ne_bytes());
        raw[36] = 1;
        let wanted = AgentRegistration { call: RegisterCall::Agent2, flags: 1, ..wanted };
        assert_eq!(AgentRegistration::from_request2(&raw), wanted);
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let smi = AgentRegistration { qpn: 0, class: 1, class_version: 1, rmpp_version: 0, ..SA };
        let send_only = AgentRegistration { class: 0, ..SA };
        let vendor = AgentRegistration { class: 0x32, oui: 0x1405, ..SA };
        for (request, valid) in [
            (SA, true),
            (AgentRegistration { rmpp_version: 0, ..SA }, true),
            (AgentRegistration { rmpp_version: 2, ..SA }, false),
            (AgentRegistration { flags: 1, ..SA }, true),
            (AgentRegistration { flags: 2, ..SA }, false),
            (AgentRegistration { qpn: 2, ..SA }, false),
            (AgentRegistration { qpn: 0, ..SA }, false),
            (AgentRegistration { class_version: 0x82, ..SA }, true),
            (AgentRegistration { class_version: 0x83, ..SA }, false),
            (AgentRegistration { class: 4, ..SA }, false),
            (AgentRegistration { class: 4, rmpp_version: 0, ..SA }, true),
            (AgentRegistration { class: 0x50, rmpp_version: 0, ..SA }, false),
            (smi, true),
            (AgentRegistration { class: 0x81, ..smi }, true),
            (AgentRegistration { qpn: 1, ..smi }, false),
            (AgentRegistration { rmpp_version: 1, ..smi }, false),
            (send_only, true),
            (AgentRegistration { flags: 1, ..send_only }, false),
            (vendor, true),
            (AgentRegistration { oui: 0, ..vendor }, false),
            (AgentRegistration { oui: 0x0100_0000, ..vendor }, false),
        ] {
            assert_eq!(request.validate().is_ok(), valid, "{request:?}");
        }
    }

    #[test]
    fn rmpp_mode_depends_on_version_and_flag() {
        assert_eq!(mode(0, 0), RmppMode::User);
        assert_eq!(mode(1, 0), RmppMode::Kernel);
        assert_eq!(mode(1, 1), RmppMode::User);
        assert_eq!(mode(0, 1), RmppMode::User);
    }

    fn mode(rmpp_version: u8, flags: u32) -> RmppMode {
        AgentRegistration { rmpp_version, flags, ..SA }.rmpp_mode()
    }
}
