//! Redirection of performance management (IBA vol. 1, 13.4.8.1): a node tells requesters that its
//! agent answers at another port and queue pair.

use super::pma;
use crate::ids::{Lid, Pkey};
use crate::transport::GSI_QKEY;
use crate::wire::attr::AttrId;
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::perf::PerfData;

/// Queue pair of the general services interface.
pub(super) const GSI_QPN: u32 = 1;

/// The place at which a node's performance management agent answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PerfRedirection {
    /// Slot of an end port.
    pub(super) to: u32,
    /// Queue pair, other than those of subnet management and general services.
    pub(super) qpn: u32,
}

/// Replaces a request with the response that redirects its sender to a queue pair at `lid`.
pub(super) fn redirect(mad: &mut Mad, is_switch: bool, lid: Lid, qpn: u32) {
    let mut header = mad.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(Status::REDIRECT);
    header.set_attr_id(AttrId::CLASS_PORT_INFO);
    mad.set_header(&header);
    let mut info = pma::class_port_info(is_switch);
    info.set_redirect_lid(lid);
    info.set_redirect_qp(qpn);
    info.set_redirect_pkey(Pkey(0xFFFF));
    info.set_redirect_qkey(GSI_QKEY);
    let mut data = PerfData::default();
    info.write(&mut data.0);
    data.write(mad);
}
