//! The M_Key check of a port, and the lease of its key (IBA vol. 1, 14.2.4).
//!
//! A refused request is counted and starts the lease period, unless that is running or 0. Any
//! request with the right key ends it. When it is over, the protection level becomes 0, so that
//! everybody can read the key. As in devices, the lease is looked at when a request arrives.

use super::devices::Devices;
use crate::ids::MKey;
use crate::wire::attr::PortInfo;
use crate::wire::mad::{Mad, Method};
use std::time::Duration;
use tokio::time::Instant;

impl Devices {
    /// Whether the end port that manages the port `entry` accepts the M_Key of `mad`. A refusal is
    /// counted.
    pub(super) fn admits_m_key(&mut self, entry: u32, mad: &Mad) -> bool {
        self.expire_lease(entry);
        let is_checked = match mad.method() {
            Method::GET => self.end_port_info(entry).m_key_protect_bits() >= 2,
            Method::SET | Method::TRAP_REPRESS => true,
            _ => return true,
        };
        let owner = self.end_port(entry);
        if self.m_key_matches(entry, mad.smp().m_key()) {
            self.leases.remove(&owner);
            return true;
        }
        if !is_checked {
            return true;
        }
        let info = &mut self.port_mut(owner).info;
        info.set_m_key_violations(info.m_key_violations().saturating_add(1));
        let period = Duration::from_secs(info.m_key_lease_period().into());
        if !period.is_zero() {
            self.leases.entry(owner).or_insert_with(|| Instant::now() + period);
        }
        false
    }

    /// True if the port has no M_Key, or this one.
    pub(super) fn m_key_matches(&self, entry: u32, m_key: MKey) -> bool {
        let own = self.end_port_info(entry).m_key();
        !own.is_set() || own == m_key
    }

    /// PortInfo of the end port that manages the port `entry`.
    pub(super) fn end_port_info(&self, entry: u32) -> &PortInfo {
        &self.port(self.end_port(entry)).info
    }

    fn expire_lease(&mut self, entry: u32) {
        let owner = self.end_port(entry);
        if self.leases.get(&owner).is_some_and(|&end| Instant::now() >= end) {
            self.leases.remove(&owner);
            self.port_mut(owner).info.set_m_key_protect_bits(0);
        }
    }
}
