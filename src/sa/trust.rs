//! Permissions of SA clients without the SM_Key and of senders of traps: the mode `sa_trust`, and
//! the switches that replace its choices one by one.

use crate::config::options::{Options, SaTrust};

/// The groups that a port may join and leave on behalf of other ports of their partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyJoins {
    /// All groups of its partitions.
    Partition,
    /// Only groups that it created.
    OwnGroups,
    Denied,
}

/// The hosts that get the M_Key of their port in TrapRepress. Without it, a port with an M_Key accepts
/// no TrapRepress (IBA vol. 1, 14.2.4.1); with it, any program there that sends a trap may learn the
/// key, which often is that of all ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MKeyInTrapRepress {
    Always,
    /// Those whose port shows its key to everybody anyway: their M_KeyProtectBits are 0.
    IfReadable,
    Never,
}

/// The permissions in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrustRules {
    /// Clients may read all records, not only those that hosts need.
    pub all_queries: bool,
    pub proxy_joins: ProxyJoins,
    /// Ports may set alias GUIDs of other ports of their partitions.
    pub foreign_guid_info: bool,
    /// The GID in a global route header must be one of the port with the source LID.
    pub checks_source_gid: bool,
    /// Senders of traps must be known, and of the type that the trap names.
    pub checks_trap_sender: bool,
    pub m_key_in_trap_repress: MKeyInTrapRepress,
}

impl TrustRules {
    /// The permissions by `sa_trust` and its switches.
    pub fn of(options: &Options) -> Self {
        let is_strict = options.sa_trust == SaTrust::Strict;
        Self {
            all_queries: options.sa_allow_untrusted_queries,
            proxy_joins: match options.sa_allow_untrusted_proxy_joins {
                Some(false) => ProxyJoins::Denied,
                None if is_strict => ProxyJoins::OwnGroups,
                Some(true) | None => ProxyJoins::Partition,
            },
            foreign_guid_info: options.sa_allow_untrusted_guidinfo,
            checks_source_gid: options.sa_check_sgid_spoofing.unwrap_or(is_strict),
            checks_trap_sender: options.sa_check_trap_sender.unwrap_or(is_strict),
            m_key_in_trap_repress: match options.m_key_in_trap_repress {
                Some(true) => MKeyInTrapRepress::Always,
                None if !is_strict => MKeyInTrapRepress::IfReadable,
                Some(false) | None => MKeyInTrapRepress::Never,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_switches_replace_the_choices_of_the_mode() {
        let compatible = TrustRules::of(&Options::default());
        let strict = Options { sa_trust: SaTrust::Strict, ..Options::default() };
        let expected = TrustRules {
            proxy_joins: ProxyJoins::OwnGroups,
            checks_source_gid: true,
            checks_trap_sender: true,
            m_key_in_trap_repress: MKeyInTrapRepress::Never,
            ..compatible
        };
        assert_eq!(TrustRules::of(&strict), expected);
        for sa_trust in [SaTrust::Compatible, SaTrust::Strict] {
            let options = Options {
                sa_trust,
                sa_allow_untrusted_proxy_joins: Some(true),
                sa_check_sgid_spoofing: Some(false),
                sa_check_trap_sender: Some(false),
                m_key_in_trap_repress: Some(true),
                ..Options::default()
            };
            let m_key_in_trap_repress = MKeyInTrapRepress::Always;
            let expected = TrustRules { m_key_in_trap_repress, ..compatible };
            assert_eq!(TrustRules::of(&options), expected, "{sa_trust:?}");
        }
    }
}
