//! The bytes of a MAD that may be recorded and shown: those that its sender defined, without keys.
//! The rest is whatever was in the memory of a driver or a device before, such as the key of
//! another MAD.

use super::attr::tables::{PkeyBlock, SlToVl, VlArbBlock};
use super::attr::{
    AttrId, MlnxExtPortInfo, NodeInfo, Notice, PortInfo, SmInfo, SwitchInfo, TrapNumber,
};
use super::congestion::{
    self, CaCongestionSetting, CongestionAttr, CongestionControlTable, CongestionInfo,
    CongestionKeyInfo, SwitchCongestionSetting, SwitchPortCongestionSetting,
};
use super::mad::{Class, Header, MAD_SIZE, Mad};
use super::record::tables::GuidInfoRecord;
use super::record::{InformInfo, InformInfoRecord, McMemberRecord, ServiceRecord};
use super::sa::{self, SaAttr};
use super::smp::{self, INITIAL_PATH, MAX_HOPS, RETURN_PATH};
use std::ops::Range;

/// SM_Key in the SA header.
const SA_SM_KEY: Range<usize> = sa::SA_OFFSET..sa::SA_OFFSET + 8;
/// DrSLID and DrDLID of a directed-route SMP.
const DR_LIDS: Range<usize> = 32..36;
/// Bytes of a table block or a text that fills an SMP.
const FULL: usize = smp::DATA_SIZE;

/// The defined bytes of an attribute and, relative to it, the key in it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Attribute {
    size: usize,
    key: Range<usize>,
}

impl Attribute {
    const fn new(size: usize) -> Self {
        Self { size, key: 0..0 }
    }

    const fn with_key(size: usize, key: Range<usize>) -> Self {
        Self { size, key }
    }
}

/// The bytes of a notice. That of trap 256 has the M_Key of the refused request.
fn notice(size: usize, data: &[u8]) -> Attribute {
    let mut bytes = [0; Notice::SIZE];
    bytes.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    match Notice(bytes).trap_number() {
        TrapNumber::BAD_M_KEY => Attribute::with_key(size, 24..32),
        _ => Attribute::new(size),
    }
}

/// An attribute of subnet management. Unknown ones have no defined bytes.
fn smp_attribute(id: u16, data: &[u8]) -> Attribute {
    let size = match id {
        AttrId::NOTICE => return notice(FULL, data),
        AttrId::PORT_INFO => return Attribute::with_key(PortInfo::SIZE, 0..8),
        AttrId::SM_INFO => return Attribute::with_key(SmInfo::SIZE, 8..16),
        AttrId::NODE_INFO => NodeInfo::SIZE,
        AttrId::SWITCH_INFO => SwitchInfo::SIZE,
        AttrId::PKEY_TABLE => size_of::<PkeyBlock>(),
        AttrId::SL_TO_VL => size_of::<SlToVl>(),
        AttrId::VL_ARBITRATION => size_of::<VlArbBlock>(),
        AttrId::MLNX_EXT_PORT_INFO => MlnxExtPortInfo::SIZE,
        AttrId::NODE_DESCRIPTION
        | AttrId::GUID_INFO
        | AttrId::LINEAR_FT
        | AttrId::RANDOM_FT
        | AttrId::MULTICAST_FT
        | AttrId::GENERAL_INFO
        | AttrId::QOS_CONFIG_SL
        | AttrId::AR_INFO
        | AttrId::AR_GROUP_TABLE
        | AttrId::AR_LFT
        | AttrId::AR_GROUP_TABLE_COPY
        | AttrId::VIRTUALIZATION_INFO
        | AttrId::VPORT_INFO
        | AttrId::VNODE_INFO
        | AttrId::VPORT_STATE
        | AttrId::VNODE_DESCRIPTION
        | AttrId::VPORT_GUID_INFO
        | AttrId::VPORT_PKEY_TABLE => FULL,
        AttrId::LED_INFO => 4,
        _ => 0,
    };
    Attribute::new(size)
}

/// An attribute of subnet administration that clients write, or that is reported to them.
fn sa_attribute(id: u16, data: &[u8]) -> Attribute {
    match id {
        SaAttr::NOTICE => notice(Notice::SIZE, data),
        SaAttr::SERVICE_RECORD => Attribute::with_key(ServiceRecord::SIZE, 32..48),
        SaAttr::MC_MEMBER_RECORD => Attribute::new(McMemberRecord::SIZE),
        SaAttr::INFORM_INFO => Attribute::new(InformInfo::SIZE),
        SaAttr::INFORM_INFO_RECORD => Attribute::new(InformInfoRecord::SIZE),
        SaAttr::GUID_INFO_RECORD => Attribute::new(GuidInfoRecord::SIZE),
        _ => Attribute::new(0),
    }
}

/// An attribute of congestion control.
fn congestion_attribute(id: u16) -> Attribute {
    let size = match id {
        CongestionAttr::CONGESTION_KEY_INFO => {
            return Attribute::with_key(CongestionKeyInfo::SIZE, 0..8);
        }
        CongestionAttr::CONGESTION_INFO => CongestionInfo::SIZE,
        CongestionAttr::CONGESTION_LOG => congestion::DATA_SIZE,
        CongestionAttr::SWITCH_CONGESTION_SETTING => SwitchCongestionSetting::SIZE,
        CongestionAttr::SWITCH_PORT_CONGESTION_SETTING => SwitchPortCongestionSetting::SIZE,
        CongestionAttr::CA_CONGESTION_SETTING => CaCongestionSetting::SIZE,
        CongestionAttr::CONGESTION_CONTROL_TABLE => CongestionControlTable::SIZE,
        _ => 0,
    };
    Attribute::new(size)
}

/// The first 256 bytes of a MAD, with 0 in place of keys and of bytes that are not defined. Of an
/// unknown class, the header is left; of subnet administration, the attributes that clients write.
pub fn defined_bytes(bytes: &[u8]) -> Mad {
    let all = Mad::read(bytes);
    let mut defined = Mad::default();
    let mut keep = |range: Range<usize>| defined.0[range.clone()].copy_from_slice(&all.0[range]);
    keep(0..Header::SIZE);
    let header = all.header();
    let start = match header.class() {
        Class::SUBN_DIRECTED | Class::SUBN_LID => smp::DATA_OFFSET,
        Class::SUBN_ADM => sa::DATA_OFFSET,
        Class::CONGESTION => congestion::DATA_OFFSET,
        _ => MAD_SIZE,
    };
    let data = &all.0[start..];
    let attribute = match header.class() {
        Class::SUBN_DIRECTED => {
            keep(DR_LIDS);
            let hops = usize::from(all.smp().hop_count()).min(MAX_HOPS);
            keep(INITIAL_PATH + 1..INITIAL_PATH + 1 + hops);
            keep(RETURN_PATH + 1..RETURN_PATH + 1 + hops);
            smp_attribute(header.attr_id(), data)
        }
        Class::SUBN_LID => smp_attribute(header.attr_id(), data),
        Class::SUBN_ADM => {
            keep(sa::RMPP_OFFSET..SA_SM_KEY.start);
            keep(SA_SM_KEY.end..sa::DATA_OFFSET);
            sa_attribute(header.attr_id(), data)
        }
        Class::CONGESTION => congestion_attribute(header.attr_id()),
        _ => Attribute::new(0),
    };
    keep(start..start + attribute.key.start);
    keep(start + attribute.key.end..start + attribute.size);
    defined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The offsets of the bytes that are kept of a MAD full of ones with this attribute.
    fn kept(class: u8, attribute: u16, hops: u8) -> Vec<usize> {
        let mut mad = Mad([0xAA; MAD_SIZE]);
        (mad.0[1], mad.0[7]) = (class, hops);
        mad.0[16..18].copy_from_slice(&attribute.to_be_bytes());
        if attribute == AttrId::NOTICE {
            let start = if class == Class::SUBN_ADM { sa::DATA_OFFSET } else { smp::DATA_OFFSET };
            mad.0[start + 4..start + 6].copy_from_slice(&TrapNumber::BAD_M_KEY.to_be_bytes());
        }
        let kept = defined_bytes(&mad.0);
        (24..MAD_SIZE).filter(|at| kept.0[*at] == mad.0[*at] && mad.0[*at] != 0).collect()
    }

    fn ranges(ranges: &[Range<usize>]) -> Vec<usize> {
        ranges.iter().cloned().flatten().collect()
    }

    #[test]
    fn only_defined_bytes_without_keys_are_kept() {
        assert_eq!(directed(AttrId::NODE_INFO, 2), ranges(&[32..36, 64..104, 129..131, 193..195]));
        assert_eq!(directed(AttrId::SWITCH_INFO, 0), ranges(&[32..36, 64..84]));
        assert_eq!(directed(AttrId::SM_INFO, 0), ranges(&[32..36, 64..72, 80..85]));
        let full = directed(AttrId::LINEAR_FT, 255);
        assert_eq!(full, ranges(&[32..36, 64..128, 129..192, 193..256]));
        assert_eq!(routed(AttrId::PORT_INFO), ranges(std::slice::from_ref(&(72..128))));
        assert_eq!(routed(AttrId::SL_TO_VL), ranges(std::slice::from_ref(&(64..72))));
        let mut trap = ranges(&[64..88, 96..128]);
        trap.retain(|at| !(68..70).contains(at));
        let mut kept_of_trap = routed(AttrId::NOTICE);
        kept_of_trap.retain(|at| !(68..70).contains(at));
        assert_eq!(kept_of_trap, trap, "the M_Key of the refused request");
        assert_eq!(routed(AttrId::VENDOR_DIAG), ranges(&[]));
        assert_eq!(routed(AttrId::VPORT_INFO), ranges(std::slice::from_ref(&(64..128))));
        let headers = 24..36;
        assert_eq!(written(SaAttr::MC_MEMBER_RECORD), ranges(&[headers.clone(), 44..112]));
        let service = ranges(&[headers.clone(), 44..88, 104..232]);
        assert_eq!(written(SaAttr::SERVICE_RECORD), service);
        assert_eq!(written(SaAttr::PATH_RECORD), ranges(&[headers, 44..56]), "nobody writes it");
        assert_eq!(kept(Class::PERF, 0x12, 0), ranges(&[]));
        assert_eq!(
            kept(Class::CONGESTION, CongestionAttr::CONGESTION_KEY_INFO, 0),
            ranges(std::slice::from_ref(&(72..80)))
        );
        assert_eq!(
            kept(Class::CONGESTION, CongestionAttr::SWITCH_CONGESTION_SETTING, 0),
            ranges(std::slice::from_ref(&(64..140)))
        );
    }

    fn written(attribute: u16) -> Vec<usize> {
        kept(Class::SUBN_ADM, attribute, 0)
    }

    fn routed(attribute: u16) -> Vec<usize> {
        kept(Class::SUBN_LID, attribute, 9)
    }

    fn directed(attribute: u16, hops: u8) -> Vec<usize> {
        kept(Class::SUBN_DIRECTED, attribute, hops)
    }

    proptest! {
        /// What a driver leaves behind the defined bytes has no effect on the recording.
        #[test]
        fn padding_is_not_recorded(
            attribute in 0x10_u16..0x22,
            hops in 0_u8..=255,
            padding in any::<u8>(),
            is_directed in any::<bool>(),
        ) {
            let mut mad = Mad::default();
            mad.0[1] = if is_directed { Class::SUBN_DIRECTED } else { Class::SUBN_LID };
            mad.0[7] = hops;
            mad.0[16..18].copy_from_slice(&attribute.to_be_bytes());
            let clean = defined_bytes(&mad.0);
            let mut padded = mad;
            let used = if is_directed { usize::from(hops.min(63)) } else { 0 };
            padded.0[36..64].fill(padding);
            padded.0[128 + used + 1..192].fill(padding);
            padded.0[192 + used + 1..].fill(padding);
            prop_assert_eq!(defined_bytes(&padded.0), clean);
        }

        #[test]
        fn any_bytes_are_accepted(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let [directed, routed] = [Class::SUBN_DIRECTED, Class::SUBN_LID];
            for class in [directed, routed, Class::SUBN_ADM, Class::PERF, Class::CONGESTION] {
                if let Some(first) = bytes.get_mut(1) {
                    *first = class;
                }
                defined_bytes(&bytes);
            }
        }
    }
}
