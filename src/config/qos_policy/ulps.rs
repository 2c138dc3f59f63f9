//! Rules of `qos-ulps`: a protocol, what of it, and the SL.

use super::read::{Said, Simple};
use super::statements::ULPS;
use super::values::Value;
use super::{MatchRule, Ports, Ranges};
use crate::config::piece::Piece;
use crate::config::suggest;
use crate::config::value::at_most;
use crate::ids::Sl;

/// Service IDs of SDP: this and the port (IBA annex A4).
const SDP: u64 = 0x0000_0000_0001_0000;
/// Service IDs of RDS and iSER over the connection manager's TCP port space.
const TCP: u64 = 0x0000_0000_0106_0000;
/// RDS's port.
const RDS_PORT: u64 = 0x48CA;
/// iSER's port.
const ISER_PORT: u64 = 0x0CBC;
/// The default partition, which IPoIB uses without a P_Key.
const DEFAULT_PARTITION: u64 = 0x7FFF;

/// What a line says.
pub(super) enum Ulp {
    /// The SL of what no rule matches.
    Default(Sl),
    /// A rule.
    Rule(Box<Simple>),
}

/// What a protocol may be told apart by.
const SELECTORS: [(&str, &[&str]); 7] = [
    ("default", &[]),
    ("sdp", &["port-num"]),
    ("rds", &["port-num"]),
    ("srp", &["target-port-guid"]),
    ("iser", &["port-num"]),
    ("ipoib", &["pkey"]),
    (
        "any",
        &["service-id", "pkey", "target-port-guid", "source-port-guid", "source-target-port-guid"],
    ),
];

/// Reads `protocol[, selector values] : SL`.
pub(super) fn rule(text: Piece<'_>, said: &mut Said<'_>) -> Option<Ulp> {
    let (what, Some(sl)) = text.split_once(':') else {
        said.wrong(text, format!("a rule is `protocol : SL`, and `{}` has no SL", text.text()));
        return None;
    };
    let sl = sl.trim();
    let (protocol, selector) = what.split_once(',');
    let protocol = protocol.trim();
    let name = protocol_name(protocol, said)?;
    let at = if sl.is_empty() { sl.behind() } else { sl };
    let sl = match at_most(sl.text(), "an SL", 15) {
        Ok(sl) => Sl(sl as u8),
        Err(message) => {
            said.wrong(at, message);
            return None;
        }
    };
    if name == "default" && selector.is_none() {
        return Some(Ulp::Default(sl));
    }
    let mut rule = MatchRule {
        line: text.number,
        purpose: Some(what.text().trim().to_owned()),
        is_ipoib: name == "ipoib",
        ..MatchRule::default()
    };
    match selector.map(|selector| selector.trim()).filter(|selector| !selector.is_empty()) {
        Some(selector) => select(name, selector, &mut rule, said)?,
        None => whole(name, protocol, &mut rule, said)?,
    }
    Some(Ulp::Rule(Box::new(Simple { rule, sl })))
}

fn protocol_name(protocol: Piece<'_>, said: &mut Said<'_>) -> Option<&'static str> {
    let word = protocol.text();
    let known = ULPS.iter().find(|name| name.eq_ignore_ascii_case(word)).copied();
    if known.is_none() {
        let hint = suggest::closest(word, ULPS)
            .map(|meant| format!("; did you mean `{meant}`?"))
            .unwrap_or_default();
        let known = ULPS.join(", ");
        said.wrong(protocol, format!("`{word}` is none of {known}{hint}"));
    }
    known
}

/// All of a protocol.
fn whole(name: &str, protocol: Piece<'_>, rule: &mut MatchRule, said: &mut Said<'_>) -> Option<()> {
    let single = |number| Ranges::new([(number, number)]);
    match name {
        "sdp" => rule.service_ids = Ranges::new([(SDP, SDP + 0xFFFF)]),
        "rds" => rule.service_ids = single(TCP + RDS_PORT),
        "iser" => rule.service_ids = single(TCP + ISER_PORT),
        "ipoib" => rule.pkeys = single(DEFAULT_PARTITION),
        _ => {
            let selectors = selectors(name).join(" or ");
            said.wrong(protocol, format!("`{name}` needs a {selectors}: `{name}, … : SL`"));
            return None;
        }
    }
    Some(())
}

fn selectors(name: &str) -> &'static [&'static str] {
    SELECTORS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, selectors)| selectors)
}

/// A part of a protocol: `selector values`.
fn select(
    name: &'static str,
    selector: Piece<'_>,
    rule: &mut MatchRule,
    said: &mut Said<'_>,
) -> Option<()> {
    let text = selector.text();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, values) = selector.split_at(end);
    let known = selectors(name).iter().find(|known| known.eq_ignore_ascii_case(word.text()));
    let Some(known) = known else {
        let known = selectors(name).join(" or ");
        let wanted =
            if known.is_empty() { "nothing".to_owned() } else { format!("{known} and values") };
        said.wrong(word, format!("`{name},` is followed by {wanted}, not by `{}`", word.text()));
        return None;
    };
    let values = values.trim();
    let parts = if values.is_empty() { vec![] } else { vec![values] };
    let value = Value { at: word, parts: &parts };
    let guids = |said: &mut Said<'_>| {
        Some(Ports {
            groups: Vec::new(),
            guids: Ranges::new(value.ranges("a port GUID", u64::MAX, said)),
        })
    };
    match *known {
        "port-num" => {
            let base = if name == "sdp" { SDP } else { TCP };
            let ports = value.ranges("a port number", 0xFFFF, said);
            let ids = ports.into_iter().map(|(first, last)| (base + first, base + last));
            rule.service_ids = Ranges::new(ids);
        }
        "service-id" => {
            rule.service_ids = Ranges::new(value.ranges("a service ID", u64::MAX, said));
        }
        "pkey" => rule.pkeys = Ranges::new(value.pkeys(said)),
        "target-port-guid" => rule.destination = guids(said),
        "source-port-guid" => rule.source = guids(said),
        _ => {
            rule.destination = guids(said);
            rule.source = rule.destination.clone();
        }
    }
    Some(())
}
