//! Multicast groups, and the flags of groups and definitions.

use super::super::{BROADCAST, GroupEntry, GroupFlags, is_ip, pkey_of_ip_group};
use super::{FLAGS, GROUP_FLAGS, NameMatch, OpenDefinition, PORT_KEYWORDS, Parser, look_up};
use crate::config::literal::{self, quoted};
use crate::config::span::Span;
use crate::config::suggest::did_you_mean;
use crate::ids::{Gid, Pkey, Sl};
use std::net::Ipv6Addr;

/// Scope of groups without a `scope` flag.
const LINK_LOCAL: u8 = 2;

impl Parser<'_> {
    /// Index of a flag's name in the first `count` of [`FLAGS`]; warns of unknown flags.
    /// `owner` names the objects with these flags.
    pub(super) fn flag(&mut self, name: Span<'_>, count: usize, owner: &str) -> Option<usize> {
        let flags = &FLAGS[..count];
        match look_up(name.text(), flags.iter().copied()) {
            Some(NameMatch::Exact(index)) => Some(index),
            // OpenSM does not accept abbreviations of indx0.
            Some(NameMatch::Abbreviation(index)) if flags[index] != "indx0" => {
                self.warn_of_abbreviation(name, flags[index]);
                Some(index)
            }
            _ => {
                let hint = did_you_mean(name.text(), flags.iter().copied());
                let message = format!("{owner} have no flag `{}`: ignored{hint}", name.text());
                self.diagnostics.warning(name, message);
                None
            }
        }
    }

    /// Sets a parameter of a group. Returns false if the value is wrong.
    pub(super) fn group_flag(
        &mut self,
        flag: &str,
        name: Span<'_>,
        value: Option<Span<'_>>,
        flags: &mut GroupFlags,
    ) -> bool {
        let at = value.unwrap_or(name.after());
        let text = at.text();
        let set = match flag {
            "mtu" => literal::mtu(text).map(|code| flags.mtu = code),
            "rate" => literal::rate(text).map(|code| flags.rate = code),
            "scope" => literal::scope(text).map(|scope| flags.scopes |= 1 << scope),
            "sl" => literal::at_most(text, "an SL", 15).map(|sl| flags.sl = Sl(sl as u8)),
            "Q_Key" => literal::at_most(text, "a Q_Key", u32::MAX.into())
                .map(|q_key| flags.q_key = q_key as u32),
            "TClass" => literal::at_most(text, "a traffic class", 0xFF)
                .map(|tclass| flags.tclass = tclass as u8),
            _ => literal::at_most(text, "a flow label", 0xF_FFFF)
                .map(|label| flags.flow_label = label as u32),
        };
        set.map_err(|message| self.diagnostics.error(at, message)).is_ok()
    }

    /// Parses a group with its flags, which are the rest of the line.
    pub(super) fn group(
        &mut self,
        open: &mut OpenDefinition,
        name: Span<'_>,
        value: Option<Span<'_>>,
        flags: Option<Span<'_>>,
    ) {
        let at = value.unwrap_or(name.after());
        let mgid = self.mgid(at);
        // As in OpenSM, groups inherit all flags except the traffic class.
        let mut wanted = GroupFlags { tclass: 0, ..open.definition.flags };
        for item in flags.iter().flat_map(Span::items) {
            self.flag_of_group(item, &mut wanted);
        }
        let Some(mgid) = mgid else { return };
        if is_ip(&mgid) && !self.matches_broadcast_group(open, at, mgid, &wanted) {
            return;
        }
        let scope = mgid.0[1] & 0xF;
        if wanted.scopes == 0 && scope != LINK_LOCAL {
            let message = format!(
                "the group gets link-local scope instead of the scope {scope:#x} of its MGID; to \
                 keep that scope, write `scope={scope}` after the MGID"
            );
            self.diagnostics.warning(at, message);
        }
        open.definition.groups.push(GroupEntry { line: at.line, mgid, flags: wanted });
    }

    fn mgid(&mut self, at: Span<'_>) -> Option<Gid> {
        match at.text().parse::<Ipv6Addr>() {
            Ok(address) if address.octets()[0] == 0xFF => Some(Gid(address.octets())),
            Ok(_) => {
                let message = format!("{} is not a multicast GID: those begin with ff", at.text());
                self.diagnostics.error(at, message);
                None
            }
            Err(_) => {
                let message = format!("{} is not a GID such as ff12:401b::16", quoted(at.text()));
                self.diagnostics.error(at, message);
                None
            }
        }
    }

    fn flag_of_group(&mut self, item: Span<'_>, flags: &mut GroupFlags) {
        let (name, value) = item.assignment();
        if name.is_empty() {
            return;
        }
        let text = name.text();
        if literal::number(text).is_some() || PORT_KEYWORDS.iter().any(|(known, _)| *known == text)
        {
            let message = format!(
                "a port in the line of an mgid, where only flags of the group may follow; write \
                 `{text}` in a line of its own"
            );
            self.diagnostics.error(name, message);
            return;
        }
        if let Some(index) = self.flag(name, GROUP_FLAGS, "groups") {
            self.group_flag(FLAGS[index], name, value, flags);
        }
    }

    /// Checks that an IP group has the P_Key, MTU and rate of the partition's broadcast group
    /// (RFC 4391, 5). A group that differs is omitted, as in OpenSM; P_Key tables do not depend on
    /// it.
    fn matches_broadcast_group(
        &mut self,
        open: &OpenDefinition,
        at: Span<'_>,
        mgid: Gid,
        flags: &GroupFlags,
    ) -> bool {
        let broadcast = &open.definition.flags;
        let found = pkey_of_ip_group(&mgid);
        let own = open.definition.pkey.map(|pkey| Pkey(pkey.0 | 0x8000));
        let is_default = open.definition.name == "Default" && found == Pkey::DEFAULT_FULL;
        let message = if !(found.0 == 0 || own == Some(found) || is_default || mgid == BROADCAST) {
            match own {
                Some(own) => format!(
                    "the P_Key in this MGID is {found}, that of the partition is {own}: write the \
                     P_Key of the partition, or 0 to have it inserted"
                ),
                None => format!(
                    "the P_Key in this MGID is {found}, that of the partition is generated: write \
                     0 to have it inserted"
                ),
            }
        } else if flags.rate != broadcast.rate {
            format!(
                "an IP group has the rate of the partition's broadcast group, {}, not {}",
                literal::rate_in_words(broadcast.rate),
                literal::rate_in_words(flags.rate)
            )
        } else if flags.mtu != broadcast.mtu {
            format!(
                "an IP group has the MTU of the partition's broadcast group, {}, not {}",
                literal::mtu_in_words(broadcast.mtu),
                literal::mtu_in_words(flags.mtu)
            )
        } else {
            return true;
        };
        self.diagnostics.warning(at, format!("{message}; the group is omitted"));
        false
    }
}
