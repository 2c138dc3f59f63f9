//! Another subnet manager, as this one sees it.

use crate::config::options::{Options, SaTrust};
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
        let route = if request.header().class() == Class::SUBN_DIRECTED {
            SmpRoute::Directed(request.smp().return_route()?)
        } else {
            SmpRoute::Lid(from)
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

/// True if SMInfo may show the SM_Key to the SM at `port`; `None` is an unknown port.
pub fn may_see_sm_key(options: &Options, port: Option<Guid>) -> bool {
    match &options.sm_key_peers.0 {
        Some(peers) => port.is_some_and(|port| peers.contains(&port)),
        None => options.sa_trust == SaTrust::Compatible,
    }
}

/// True if an SM of `sm_key_peers` shows no SM_Key. Before its first sweep, it does not know whose
/// request it answers.
pub fn hides_sm_key(options: &Options, info: &SmInfo) -> bool {
    let peers = options.sm_key_peers.0.as_deref().unwrap_or(&[]);
    options.sm_key.is_set() && !info.sm_key().is_set() && peers.contains(&info.guid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::PortGuids;

    #[test]
    fn configured_peers_see_the_sm_key() {
        let [peer, other] = [Guid(5), Guid(6)].map(Some);
        assert_eq!(shown(&peer, &other, SaTrust::Compatible, None), [true; 3]);
        assert_eq!(shown(&peer, &other, SaTrust::Strict, None), [false; 3]);
        for mode in [SaTrust::Compatible, SaTrust::Strict] {
            assert_eq!(shown(&peer, &other, mode, Some(vec![Guid(5)])), [true, false, false]);
        }
    }

    fn shown(
        peer: &Option<Guid>,
        other: &Option<Guid>,
        sa_trust: SaTrust,
        peers: Option<Vec<Guid>>,
    ) -> [bool; 3] {
        let sm_key_peers = PortGuids(peers);
        let options = Options { sa_trust, sm_key_peers, ..Options::default() };
        [*peer, *other, None].map(|port| may_see_sm_key(&options, port))
    }

    #[test]
    fn only_configured_peers_without_a_key_are_expected_to_show_it() {
        let mut info = SmInfo::default();
        info.set_guid(Guid(5));
        assert!(hides(SmKey(7), Some(vec![Guid(4), Guid(5)]), &info));
        assert!(!hides(SmKey(7), Some(vec![Guid(4)]), &info));
        assert!(!hides(SmKey(7), None, &info));
        assert!(!hides(SmKey(0), Some(vec![Guid(5)]), &info), "this SM trusts all");
        info.set_sm_key(SmKey(8));
        assert!(!hides(SmKey(7), Some(vec![Guid(5)]), &info), "it shows another key");
    }

    fn hides(sm_key: SmKey, peers: Option<Vec<Guid>>, info: &SmInfo) -> bool {
        let options = Options { sm_key, sm_key_peers: PortGuids(peers), ..Options::default() };
        hides_sm_key(&options, info)
    }

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
