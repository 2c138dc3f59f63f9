//! Subnet management packets: IBA vol. 1, 14.2.1. A directed-route SMP carries its own path,
//! a list of exit ports; a LID-routed one follows the forwarding tables.

use super::bits::record;
use super::mad::{Class, MAD_SIZE, Mad, Method};
use crate::ids::{Lid, MKey, PortNum};
use std::fmt;
use std::ops::Range;

/// Length of the attribute of an SMP in bytes.
pub const DATA_SIZE: usize = 64;
/// Offset of the attribute of an SMP in bytes.
pub const DATA_OFFSET: usize = 64;
/// Maximum number of hops of a directed route: the path field has 64 entries, the first one unused.
pub const MAX_HOPS: usize = 63;

record! {
    /// The header of a directed-route SMP (IBA vol. 1, 14.2.1.2). The LID-routed one has the
    /// same layout as far as the M_Key.
    pub struct SmpHeader[256] {
        /// D bit: 0 outbound, 1 returning.
        returning, set_returning: bool = 32, 1;
        /// Status without the direction bit.
        status, set_status: u16 = 33, 15;
        /// Index of the current hop.
        hop_pointer, set_hop_pointer: u8 = 48, 8;
        /// Number of valid entries of the path.
        hop_count, set_hop_count: u8 = 56, 8;
        m_key, set_m_key: MKey = 192, 64;
        /// Source LID of the LID-routed first part, or permissive.
        dr_slid, set_dr_slid: Lid = 256, 16;
        /// Destination LID of the LID-routed last part, or permissive.
        dr_dlid, set_dr_dlid: Lid = 272, 16;
    }
}

/// Byte offset of DrSLID and DrDLID.
const DR_LIDS: usize = 32;
/// Byte offset of the initial path.
pub const INITIAL_PATH: usize = 128;
/// Byte offset of the return path.
pub const RETURN_PATH: usize = 192;

/// A directed route: the egress port of each node, starting at the local node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectedRoute {
    hops: u8,
    /// Entry 0 is unused, as on the wire.
    ports: [u8; 64],
}

impl DirectedRoute {
    /// The route to the local node, without hops.
    pub const LOCAL: Self = Self { hops: 0, ports: [0; 64] };

    /// The route through the given egress ports; `None` above [`MAX_HOPS`].
    pub fn new(exits: &[PortNum]) -> Option<Self> {
        exits.iter().try_fold(Self::LOCAL, |route, &exit| route.then(exit))
    }

    /// Appends an egress port; `None` above [`MAX_HOPS`].
    pub fn then(mut self, exit: PortNum) -> Option<Self> {
        if self.len() == MAX_HOPS {
            return None;
        }
        self.hops += 1;
        self.ports[usize::from(self.hops)] = exit.0;
        Some(self)
    }

    /// Number of links crossed.
    pub fn len(&self) -> usize {
        usize::from(self.hops)
    }

    pub fn is_empty(&self) -> bool {
        self.hops == 0
    }

    pub fn exits(&self) -> impl ExactSizeIterator<Item = PortNum> + '_ {
        self.ports[1..=self.len()].iter().map(|&port| PortNum(port))
    }

    /// The initial path of an SMP.
    pub fn as_wire(&self) -> &[u8; 64] {
        &self.ports
    }
}

impl fmt::Display for DirectedRoute {
    /// `0,1,3`: the form of infiniband-diags (`smpquery -D`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.exits().try_for_each(|port| write!(f, ",{port}"))
    }
}

impl fmt::Debug for DirectedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectedRoute({self})")
    }
}

/// Route of an SMP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SmpRoute {
    /// Through the given egress ports.
    Directed(DirectedRoute),
    /// By the forwarding tables to this LID.
    Lid(Lid),
}

impl fmt::Display for SmpRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directed(route) => write!(f, "path {route}"),
            Self::Lid(lid) => write!(f, "LID {lid}"),
        }
    }
}

/// The fields of a request besides route and data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpFields {
    pub method: Method,
    pub attr_id: u16,
    pub attr_mod: u32,
    pub m_key: MKey,
    /// Transaction ID.
    pub tid: u64,
}

/// A request as a MAD.
pub fn request(route: &SmpRoute, fields: SmpFields, data: &[u8; DATA_SIZE]) -> Mad {
    let SmpFields { method, attr_id, attr_mod, m_key, tid } = fields;
    let mut smp = SmpHeader::default();
    smp.set_m_key(m_key);
    if let SmpRoute::Directed(route) = route {
        smp.set_hop_count(route.hops);
        smp.set_dr_slid(Lid::PERMISSIVE);
        smp.set_dr_dlid(Lid::PERMISSIVE);
        smp.0[INITIAL_PATH..RETURN_PATH].copy_from_slice(route.as_wire());
    }
    let mut mad = Mad(smp.0);
    mad.0[DATA_OFFSET..DATA_OFFSET + DATA_SIZE].copy_from_slice(data);
    let mut header = mad.header();
    header.set_base_version(1);
    header.set_class(match route {
        SmpRoute::Directed(_) => Class::SUBN_DIRECTED,
        SmpRoute::Lid(_) => Class::SUBN_LID,
    });
    header.set_class_version(1);
    header.set_method(method.0);
    header.set_tid(tid);
    header.set_attr_id(attr_id);
    header.set_attr_mod(attr_mod);
    mad.set_header(&header);
    mad
}

impl SmpHeader {
    /// The route of a directed-route request. `None` for an invalid hop count.
    pub fn route(&self) -> Option<DirectedRoute> {
        let hops = usize::from(self.hop_count());
        let entries = self.0[INITIAL_PATH..].get(1..=hops).filter(|_| hops <= MAX_HOPS)?;
        let ports: Vec<PortNum> = entries.iter().map(|&port| PortNum(port)).collect();
        DirectedRoute::new(&ports)
    }

    /// The route from the receiver of a directed-route request back to its sender: the ports by
    /// which the nodes received it, in reverse. `None` for an invalid hop count.
    pub fn return_route(&self) -> Option<DirectedRoute> {
        let hops = usize::from(self.hop_count());
        let entries = self.0[RETURN_PATH..].get(1..=hops).filter(|_| hops <= MAX_HOPS)?;
        let ports: Vec<PortNum> = entries.iter().rev().map(|&port| PortNum(port)).collect();
        DirectedRoute::new(&ports)
    }
}

impl Mad {
    /// The header of an SMP.
    pub fn smp(&self) -> SmpHeader {
        SmpHeader(self.0)
    }

    /// DrSLID and DrDLID of a directed-route SMP.
    pub fn dr_lids(&self) -> [Lid; 2] {
        [DR_LIDS, DR_LIDS + 2].map(|at| Lid(u16::from_be_bytes([self.0[at], self.0[at + 1]])))
    }

    /// An SMP with 0 in place of the bytes that its sender has not defined: reserved ones, and the
    /// parts of paths beyond the hops. A driver may have left there what was in its memory before,
    /// such as the M_Key of another port, which must not go to others with a reply.
    #[must_use]
    pub fn without_undefined_bytes(&self) -> Self {
        let mut smp = Self([0; MAD_SIZE]);
        let mut keep = |range: Range<usize>| smp.0[range.clone()].copy_from_slice(&self.0[range]);
        keep(0..DR_LIDS);
        keep(DATA_OFFSET..INITIAL_PATH);
        if self.header().class() == Class::SUBN_DIRECTED {
            keep(DR_LIDS..DR_LIDS + 4);
            let hops = usize::from(self.smp().hop_count()).min(MAX_HOPS);
            keep(INITIAL_PATH + 1..INITIAL_PATH + 1 + hops);
            keep(RETURN_PATH + 1..RETURN_PATH + 1 + hops);
        }
        smp
    }

    /// Sets the M_Key of an SMP.
    pub fn set_m_key(&mut self, m_key: MKey) {
        self.0[24..32].copy_from_slice(&m_key.0.to_be_bytes());
    }

    /// The attribute of an SMP.
    pub fn smp_data(&self) -> &[u8; DATA_SIZE] {
        self.0[DATA_OFFSET..DATA_OFFSET + DATA_SIZE].try_into().expect("64 of 256 bytes")
    }

    /// The attribute of an SMP, for writing.
    pub fn smp_data_mut(&mut self) -> &mut [u8; DATA_SIZE] {
        (&mut self.0[DATA_OFFSET..DATA_OFFSET + DATA_SIZE]).try_into().expect("64 of 256 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directed_request_has_the_layout_of_the_specification() {
        let route = DirectedRoute::new(&[PortNum(1), PortNum(7)]).expect("two hops fit");
        let mad = request(
            &SmpRoute::Directed(route),
            SmpFields {
                method: Method::GET,
                attr_id: 0x0011,
                attr_mod: 0,
                m_key: MKey(0xAABB),
                tid: 0x1234,
            },
            &[0x5A; 64],
        );
        assert_eq!(&mad.0[..8], &[1, 0x81, 1, 1, 0, 0, 0, 2]);
        assert_eq!(&mad.0[8..24], &[0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0x11, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&mad.0[24..36], &[0, 0, 0, 0, 0, 0, 0xAA, 0xBB, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(mad.smp_data(), &[0x5A; 64]);
        assert_eq!(&mad.0[128..132], &[0, 1, 7, 0]);
        assert_eq!(route.to_string(), "0,1,7");
    }

    #[test]
    fn the_route_back_is_the_return_path_in_reverse() {
        let route = DirectedRoute::new(&[PortNum(1), PortNum(7)]).expect("two hops fit");
        let route = SmpRoute::Directed(route);
        let mut mad = request(
            &route,
            SmpFields {
                method: Method::SET,
                attr_id: 0x0020,
                attr_mod: 1,
                m_key: MKey::NONE,
                tid: 1,
            },
            &[0; 64],
        );
        mad.0[RETURN_PATH..RETURN_PATH + 3].copy_from_slice(&[0, 4, 5]);
        assert_eq!(mad.smp().route().map(|route| route.to_string()).as_deref(), Some("0,1,7"));
        let back = mad.smp().return_route().map(|route| route.to_string());
        assert_eq!(back.as_deref(), Some("0,5,4"));
        let mut header = mad.smp();
        header.set_hop_count(64);
        assert_eq!((header.route(), header.return_route()), (None, None));
    }

    #[test]
    fn undefined_bytes_are_left_out() {
        let route = DirectedRoute::new(&[PortNum(1), PortNum(7)]).expect("two hops fit");
        for (route, defined) in [
            (SmpRoute::Directed(route), vec![0..36, 64..128, 129..131, 193..195]),
            (SmpRoute::Lid(Lid(1)), vec![0..32, 64..128]),
        ] {
            let mut mad = request(
                &route,
                SmpFields {
                    method: Method::GET,
                    attr_id: 0x0020,
                    attr_mod: 0,
                    m_key: MKey(7),
                    tid: 1,
                },
                &[0x5A; 64],
            );
            mad.0[32..64].fill(0xEE);
            mad.0[128..].fill(0xEE);
            let clean = mad.without_undefined_bytes();
            for (at, (kept, byte)) in clean.0.iter().zip(&mad.0).enumerate() {
                let is_defined = defined.iter().any(|range| range.contains(&at));
                assert_eq!(*kept, if is_defined { *byte } else { 0 }, "{route:?}: byte {at}");
            }
        }
    }

    #[test]
    fn a_route_holds_63_hops_and_no_more() {
        assert!(DirectedRoute::new(&[PortNum(1); 63]).is_some());
        assert!(DirectedRoute::new(&[PortNum(1); 64]).is_none());
    }
}
