//! The requests that hosts need to communicate, which `sa_allow_untrusted_queries FALSE` leaves to
//! clients without the SM_Key: those of NVIDIA's SA Enhanced Trust Model. The handlers check
//! further what each of them may change.

use crate::wire::mad::{Header, Method};
use crate::wire::record::PathRecord;
use crate::wire::sa::{SA_OFFSET, SaAttr, SaHeader};

/// True if a client without the SM_Key may send the request.
pub(super) fn is_allowed(mad: &[u8]) -> bool {
    let header = Header::read(mad);
    match (header.attr_id(), Method(header.method())) {
        (SaAttr::CLASS_PORT_INFO | SaAttr::PATH_RECORD, Method::GET)
        | (
            SaAttr::MC_MEMBER_RECORD | SaAttr::SERVICE_RECORD,
            Method::GET | Method::SET | Method::DELETE,
        )
        | (SaAttr::INFORM_INFO, Method::SET)
        | (SaAttr::GUID_INFO_RECORD, Method::SET | Method::DELETE) => true,
        (SaAttr::PATH_RECORD, Method::GET_TABLE) => names_both_ends(mad),
        _ => false,
    }
}

/// True if a PathRecord query selects one source and one destination.
fn names_both_ends(mad: &[u8]) -> bool {
    let mask = SaHeader::read(&mad[SA_OFFSET..]).component_mask();
    mask & (PathRecord::SGID | PathRecord::SLID) != 0
        && mask & (PathRecord::DGID | PathRecord::DLID) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::mad::MAD_SIZE;

    fn is_allowed(attribute: u16, method: Method, mask: u64) -> bool {
        let mut mad = [0; MAD_SIZE];
        let mut header = Header::default();
        header.set_attr_id(attribute);
        header.set_method(method.0);
        header.write(&mut mad);
        let mut sa = SaHeader::default();
        sa.set_component_mask(mask);
        sa.write(&mut mad[SA_OFFSET..]);
        super::is_allowed(&mad)
    }

    #[test]
    fn hosts_get_paths_but_no_tables() {
        let both = PathRecord::SLID | PathRecord::DGID;
        assert!(is_allowed(SaAttr::PATH_RECORD, Method::GET, 0));
        assert!(is_allowed(SaAttr::PATH_RECORD, Method::GET_TABLE, both));
        for half in [0, PathRecord::SLID, PathRecord::DGID, PathRecord::SLID | PathRecord::SGID] {
            assert!(!is_allowed(SaAttr::PATH_RECORD, Method::GET_TABLE, half));
        }
        assert!(is_allowed(SaAttr::INFORM_INFO, Method::SET, 0));
        for attribute in [SaAttr::NODE_RECORD, SaAttr::PORT_INFO_RECORD, SaAttr::SM_INFO_RECORD] {
            assert!(!is_allowed(attribute, Method::GET, 0), "{attribute:#x}");
        }
        assert!(!is_allowed(SaAttr::MC_MEMBER_RECORD, Method::GET_TABLE, 0));
        assert!(!is_allowed(SaAttr::GUID_INFO_RECORD, Method::GET, 0));
    }
}
