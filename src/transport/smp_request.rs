//! Requests of subnet management and their results.

use super::Agent;
use crate::ids::{Lid, MKey};
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::smp::{self, DATA_SIZE, SmpFields, SmpRoute};
use std::fmt;

/// A subnet management request. `Debug` omits the data, which may contain an M_Key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SmpRequest {
    pub route: SmpRoute,
    /// SubnGet or SubnSet.
    pub method: Method,
    pub attr_id: u16,
    pub attr_mod: u32,
    /// M_Key of the destination port.
    pub m_key: MKey,
    /// The attribute; 0 for SubnGet.
    pub data: [u8; DATA_SIZE],
}

impl SmpRequest {
    /// A SubnGet without M_Key.
    pub fn get(route: SmpRoute, attr_id: u16, attr_mod: u32) -> Self {
        Self {
            route,
            method: Method::GET,
            attr_id,
            attr_mod,
            m_key: MKey::NONE,
            data: [0; DATA_SIZE],
        }
    }

    /// A SubnSet without M_Key.
    pub fn set(route: SmpRoute, attr_id: u16, attr_mod: u32, data: [u8; DATA_SIZE]) -> Self {
        Self { route, method: Method::SET, attr_id, attr_mod, m_key: MKey::NONE, data }
    }

    /// Sets the M_Key.
    #[must_use]
    pub fn with_m_key(mut self, m_key: MKey) -> Self {
        self.m_key = m_key;
        self
    }

    pub fn agent(&self) -> Agent {
        match self.route {
            SmpRoute::Directed(_) => Agent::SmiDirected,
            SmpRoute::Lid(_) => Agent::SmiLid,
        }
    }

    /// Destination LID; permissive for directed routes.
    pub fn lid(&self) -> Lid {
        match self.route {
            SmpRoute::Directed(_) => Lid::PERMISSIVE,
            SmpRoute::Lid(lid) => lid,
        }
    }

    /// The MAD of the request.
    pub fn to_mad(&self, tid: u32) -> Mad {
        let Self { ref route, method, attr_id, attr_mod, m_key, ref data } = *self;
        let fields = SmpFields { method, attr_id, attr_mod, m_key, tid: u64::from(tid) };
        smp::request(route, fields, data)
    }
}

impl fmt::Debug for SmpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, method, attr_id, attr_mod, .. } = self;
        write!(f, "{method}(0x{attr_id:04x}, 0x{attr_mod:x}) to {route}")
    }
}

/// The response to an [`SmpRequest`]. `Debug` omits the data, which may contain an M_Key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SmpReply {
    pub data: [u8; DATA_SIZE],
    /// Status without the direction bit: always 0, as others are [`SmpError::Status`].
    pub status: u16,
}

impl fmt::Debug for SmpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmpReply(status 0x{:04x})", self.status)
    }
}

/// Failure of an [`SmpRequest`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SmpError {
    /// No response after all retransmissions.
    #[error("no answer")]
    Unanswered,
    /// Error status of the response (IBA vol. 1, 13.4.7).
    #[error("status 0x{0:04x} ({name})", name = Status::name(*.0))]
    Status(u16),
    #[error("{0}")]
    Send(String),
    /// The response has a different class, method, attribute or modifier than the request.
    #[error("answer does not fit the request: {0}")]
    Malformed(&'static str),
}

/// Result of an [`SmpRequest`].
pub type SmpResult = Result<SmpReply, SmpError>;
