//! Vendor-specific capabilities of a node.

use crate::ids::Guid;
use crate::vendor::status::VendorStatus;
use serde::Serialize;

/// The answer of a node to GeneralInfo.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VendorCapabilities {
    /// `answered`, `unsupported`, `unanswered` or `refused`.
    state: &'static str,
    /// Capabilities, such as `rate-limit`; the number of those without a name.
    names: Vec<String>,
}

/// `None` if the node was not asked.
pub(super) fn vendor_capabilities(status: &VendorStatus, node: Guid) -> Option<VendorCapabilities> {
    let answer = status.nodes.get(&node)?;
    Some(VendorCapabilities {
        state: answer.word(),
        names: answer.capabilities().names().collect(),
    })
}
