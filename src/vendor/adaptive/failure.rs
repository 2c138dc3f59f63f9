//! Why a switch forwards statically although it should not.

use crate::wire::attr::AttrId;
use crate::wire::mad::Status;
use std::fmt;

/// Why a switch is not configured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AdaptiveFailure {
    /// It did not answer a request for this attribute.
    Unanswered(u16),
    /// It refused this attribute with a status.
    Refused(u16, u16),
    /// It acknowledged a Set of this attribute with other contents.
    Altered(u16),
    /// Its groups have sub-groups.
    SubGroups,
}

impl fmt::Display for AdaptiveFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unanswered(id) => write!(f, "no answer to {}", AttrId::name(id)),
            Self::Refused(id, status) => {
                let name = Status::name(status);
                write!(f, "{} refused with status 0x{status:04x} ({name})", AttrId::name(id))
            }
            Self::Altered(id) => write!(f, "{} acknowledged with other contents", AttrId::name(id)),
            Self::SubGroups => f.write_str("groups with sub-groups"),
        }
    }
}
