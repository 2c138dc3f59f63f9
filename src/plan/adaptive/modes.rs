//! What the configuration switches on.

use crate::config::options::Options;
use crate::config::options::adaptive::has_groups_by_name;

/// The value of `ar_mode` and `shield_mode` that leaves the choice to the engine.
const BY_ENGINE: u8 = 3;

/// What switches do by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdaptiveModes {
    /// They choose a port of a group for each packet.
    pub routing: bool,
    /// They choose another port of a group while that of the forwarding table is down.
    pub healing: bool,
}

impl AdaptiveModes {
    /// The modes with the routes of an engine.
    pub fn of(options: &Options, engine: &str) -> Self {
        let by_engine = has_groups_by_name(options, engine);
        Self {
            routing: is_on(options.ar_mode, by_engine),
            healing: is_on(options.shield_mode, by_engine),
        }
    }

    /// True if there is anything for which switches need groups.
    pub fn needs_groups(self) -> bool {
        self.routing || self.healing
    }
}

fn is_on(mode: u8, by_engine: bool) -> bool {
    if mode == BY_ENGINE { by_engine } else { mode > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_with_groups_switch_both_on_unless_keys_say_otherwise() {
        assert_eq!(modes("ar_torus,no_fallback", 3, 3), [true, true]);
        assert_eq!(modes("updn,ar_torus", 3, 0), [true, false]);
        assert_eq!(modes("ar_torus", 0, 3), [false, true]);
        assert_eq!(modes("torus-2QoS", 3, 3), [false, false]);
        assert_eq!(modes("torus-2QoS", 0, 1), [false, true]);
        assert_eq!(modes("torus-2QoS,ar_torus", 3, 3), [false, false], "the first name counts");
        assert_eq!(modes("ar_updn", 3, 3), [false, false], "another engine has taken over");
        assert!(!AdaptiveModes::of(&Options::default(), "minhop").needs_groups());
    }

    fn modes(engines: &str, ar_mode: u8, shield_mode: u8) -> [bool; 2] {
        let routing_engine = Some(engines.to_owned());
        let options = Options { routing_engine, ar_mode, shield_mode, ..Options::default() };
        let AdaptiveModes { routing, healing } = AdaptiveModes::of(&options, "torus-2QoS");
        [routing, healing]
    }
}
