//! Compares the replies of switches with what was set.

use crate::wire::attr::AttrId;
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::adaptive::ArInfo;

/// True if a reply shows what was set. Fields of ARInfo that cannot be set are not compared.
pub(super) fn is_as_set(attr_id: u16, set: &[u8; DATA_SIZE], reply: &[u8; DATA_SIZE]) -> bool {
    if attr_id != AttrId::AR_INFO {
        return set == reply;
    }
    info_fields(set) == info_fields(reply)
}

fn info_fields(data: &[u8; DATA_SIZE]) -> ((bool, bool, bool), u16, bool, u16, u8) {
    let info = ArInfo(*data);
    let on = (info.adaptive_routing(), info.fast_recovery(), info.notifications());
    (on, info.group_top(), info.by_sl(), info.sl_mask(), info.excluded_transports())
}
