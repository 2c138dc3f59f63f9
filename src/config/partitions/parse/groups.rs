//! Multicast groups and their flags, those of a definition's head included.

use super::super::{BROADCAST, GroupEntry, GroupFlags, is_ip, pkey_of_ip_group};
use super::{FLAGS, Found, GROUP_FLAGS, KEYWORDS, Open, Parser, look_up};
use crate::config::piece::Piece;
use crate::config::suggest;
use crate::config::value::{self, quoted};
use crate::ids::{Gid, Pkey, Sl};
use std::net::Ipv6Addr;

/// The scope of groups that say none.
const LINK_LOCAL: u8 = 2;

impl Parser<'_> {
    /// The index of a flag's name in the first `count` of [`FLAGS`].
    pub(super) fn flag(&mut self, name: Piece<'_>, count: usize, whose: &str) -> Option<usize> {
        let flags = &FLAGS[..count];
        match look_up(name.text(), flags.iter().copied()) {
            Some(Found::Exactly(index)) => Some(index),
            // OpenSM wants the whole name of this one.
            Some(Found::CutShort(index)) if flags[index] != "indx0" => {
                self.odd(name, format!("`{}` is taken for `{}`", name.text(), flags[index]));
                Some(index)
            }
            _ => {
                let hint = suggest::closest(name.text(), flags.iter().copied())
                    .map(|meant| format!("; did you mean `{meant}`?"));
                let hint = hint.unwrap_or_default();
                self.odd(name, format!("{whose} have no flag `{}`: ignored{hint}", name.text()));
                None
            }
        }
    }

    /// Sets a group's parameter; false if the value is wrong.
    pub(super) fn group_flag(
        &mut self,
        flag: &str,
        name: Piece<'_>,
        value: Option<Piece<'_>>,
        flags: &mut GroupFlags,
    ) -> bool {
        let at = value.unwrap_or(name.behind());
        let text = at.text();
        let set = match flag {
            "mtu" => value::mtu(text).map(|code| flags.mtu = code),
            "rate" => value::rate(text).map(|code| flags.rate = code),
            "scope" => value::scope(text).map(|scope| flags.scopes |= 1 << scope),
            "sl" => value::at_most(text, "an SL", 15).map(|sl| flags.sl = Sl(sl as u8)),
            "Q_Key" => value::at_most(text, "a Q_Key", u32::MAX.into())
                .map(|q_key| flags.q_key = q_key as u32),
            "TClass" => value::at_most(text, "a traffic class", 0xFF)
                .map(|tclass| flags.tclass = tclass as u8),
            _ => value::at_most(text, "a flow label", 0xF_FFFF)
                .map(|label| flags.flow_label = label as u32),
        };
        set.map_err(|message| self.wrong(at, message)).is_ok()
    }

    /// A group with its flags: the rest of the line.
    pub(super) fn group(
        &mut self,
        open: &mut Open,
        name: Piece<'_>,
        value: Option<Piece<'_>>,
        flags: Option<Piece<'_>>,
    ) {
        let at = value.unwrap_or(name.behind());
        let mgid = match at.text().parse::<Ipv6Addr>() {
            Ok(address) if address.octets()[0] == 0xFF => Some(Gid(address.octets())),
            Ok(_) => {
                self.wrong(at, format!("{} is no multicast GID: those begin with ff", at.text()));
                None
            }
            Err(_) => {
                let found = quoted(at.text());
                self.wrong(at, format!("{found} is no GID such as ff12:401b::16"));
                None
            }
        };
        // The traffic class alone is not inherited, as in OpenSM.
        let mut wanted = GroupFlags { tclass: 0, ..open.definition.flags };
        for item in flags.iter().flat_map(Piece::items) {
            self.flag_of_group(item, &mut wanted);
        }
        let Some(mgid) = mgid else { return };
        if is_ip(&mgid) && !self.suits_broadcast(open, at, mgid, &wanted) {
            return;
        }
        let scope = mgid.0[1] & 0xF;
        if wanted.scopes == 0 && scope != LINK_LOCAL {
            let message = format!(
                "the group is link-local, whatever the scope in its MGID is ({scope:#x}): write \
                 `scope={scope}` behind it if that one is meant"
            );
            self.odd(at, message);
        }
        open.definition.groups.push(GroupEntry { line: at.number, mgid, flags: wanted });
    }

    fn flag_of_group(&mut self, item: Piece<'_>, flags: &mut GroupFlags) {
        let (name, value) = item.assignment();
        if name.is_empty() {
            return;
        }
        let text = name.text();
        if value::number(text).is_some() || KEYWORDS.iter().any(|(known, _)| *known == text) {
            let message = format!(
                "a port in the line of an mgid: what follows an mgid belongs to the group; write \
                 `{text}` in a line of its own"
            );
            self.wrong(name, message);
            return;
        }
        if let Some(index) = self.flag(name, GROUP_FLAGS, "groups") {
            self.group_flag(FLAGS[index], name, value, flags);
        }
    }

    /// IP groups have the key, MTU and rate of the broadcast group (RFC 4391, 5). Those that do not
    /// are left out, as in OpenSM: nobody is cut off from anybody by that.
    fn suits_broadcast(
        &mut self,
        open: &Open,
        at: Piece<'_>,
        mgid: Gid,
        flags: &GroupFlags,
    ) -> bool {
        let broadcast = &open.definition.flags;
        let found = pkey_of_ip_group(&mgid);
        let own = open.definition.pkey.map(|pkey| Pkey(pkey.0 | 0x8000));
        let default = open.definition.name == "Default" && found == Pkey::DEFAULT_FULL;
        let message = if !(found.0 == 0 || own == Some(found) || default || mgid == BROADCAST) {
            match own {
                Some(own) => format!(
                    "the P_Key in this MGID is {found}, the partition's is {own}: write the \
                     partition's, or 0 to have it put in"
                ),
                None => format!(
                    "the P_Key in this MGID is {found}, the partition's is generated: write 0 to \
                     have it put in"
                ),
            }
        } else if flags.rate != broadcast.rate {
            format!(
                "an IP group has the rate of the partition's broadcast group, {}, not {}",
                value::rate_in_words(broadcast.rate),
                value::rate_in_words(flags.rate)
            )
        } else if flags.mtu != broadcast.mtu {
            format!(
                "an IP group has the MTU of the partition's broadcast group, {}, not {}",
                value::mtu_in_words(broadcast.mtu),
                value::mtu_in_words(flags.mtu)
            )
        } else {
            return true;
        };
        self.odd(at, format!("{message}; the group is left out"));
        false
    }
}
