//! Another subnet manager, as this one sees it.

use crate::ids::{Guid, Lid, SmKey};
use crate::wire::attr::SmInfo;
use crate::wire::mad::{Class, Mad};
use crate::wire::smp::SmpRoute;

/// Another SM: its last SMInfo, and the route to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    pub info: SmInfo,
    pub route: SmpRoute,
}

impl Peer {
    /// Port GUID.
    pub fn guid(&self) -> Guid {
        self.info.guid()
    }

    /// The sender of a SubnSet(SMInfo) that came from LID `from`.
    pub fn sender_of(request: &Mad, from: Lid) -> Option<Self> {
        let route = match request.header().class() == Class::SUBN_DIRECTED {
            true => SmpRoute::Directed(request.smp().return_route()?),
            false => SmpRoute::Lid(from),
        };
        Some(Self { info: SmInfo::read(request.smp_data()), route })
    }
}

/// True if an SM with `own_key` takes part in the election with an SM that shows this SMInfo.
///
/// An SM with SM_Key 0 trusts every other one, as OpenSM does.
pub fn is_trusted(own_key: SmKey, info: &SmInfo) -> bool {
    !own_key.is_set() || info.sm_key() == own_key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_is_trusted_by_an_sm_without_a_key_only() {
        let mut info = SmInfo::default();
        info.set_sm_key(SmKey(7));
        assert!(is_trusted(SmKey(7), &info));
        assert!(is_trusted(SmKey(0), &info));
        assert!(!is_trusted(SmKey(1), &info));
        assert!(!is_trusted(SmKey(1), &SmInfo::default()), "an SM that shows no key");
    }
}
