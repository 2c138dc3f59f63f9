//! Rules of `qos-ulps`: a protocol, an optional selector with values, and the SL.

use super::field_value::FieldValue;
use super::policy::{MatchRule, PortFilter};
use super::ranges::Ranges;
use super::statements::ULPS;
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::at_most;
use crate::config::span::Span;
use crate::config::suggest::did_you_mean;
use crate::ids::Sl;

/// First service ID of SDP; the TCP port is added to it (IBA annex A4).
const SDP_SERVICE_ID: u64 = 0x0000_0000_0001_0000;
/// First service ID of the TCP port space of the RDMA connection manager.
const TCP_SERVICE_ID: u64 = 0x0000_0000_0106_0000;
const RDS_PORT: u64 = 0x48CA;
const ISER_PORT: u64 = 0x0CBC;
/// P_Key of the default partition, which IPoIB uses without a selector.
const DEFAULT_PKEY: u64 = 0x7FFF;

/// A rule of `qos-ulps`.
pub(super) enum UlpRule {
    /// `default : SL`: the SL of queries that match no rule.
    Default(Sl),
    /// A rule without its level, and the SL of the level.
    Match(Box<MatchRule>, Sl),
}

/// Selectors that a protocol accepts.
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

/// Parses `protocol[, selector values] : SL`.
pub(super) fn rule(text: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<UlpRule> {
    let (traffic, Some(sl)) = text.split_once(':') else {
        let message = format!("`{}` has no SL: a rule is `protocol : SL`", text.text());
        diagnostics.error(text, message);
        return None;
    };
    let (protocol, selector) = traffic.split_once(',');
    let protocol = protocol.trim();
    let name = protocol_name(protocol, diagnostics)?;
    let sl = service_level(sl.trim(), diagnostics)?;
    if name == "default" && selector.is_none() {
        return Some(UlpRule::Default(sl));
    }
    let mut rule = MatchRule {
        line: text.line,
        purpose: Some(traffic.text().trim().to_owned()),
        is_ipoib: name == "ipoib",
        ..MatchRule::default()
    };
    match selector.map(|selector| selector.trim()).filter(|selector| !selector.is_empty()) {
        Some(selector) => select(name, selector, &mut rule, diagnostics)?,
        None => select_all(name, protocol, &mut rule, diagnostics)?,
    }
    Some(UlpRule::Match(Box::new(rule), sl))
}

fn service_level(sl: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Sl> {
    let at = if sl.is_empty() { sl.after() } else { sl };
    match at_most(sl.text(), "an SL", 15) {
        Ok(sl) => Some(Sl(sl as u8)),
        Err(message) => {
            diagnostics.error(at, message);
            None
        }
    }
}

fn protocol_name(protocol: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<&'static str> {
    let word = protocol.text();
    let known = ULPS.iter().find(|name| name.eq_ignore_ascii_case(word)).copied();
    if known.is_none() {
        let hint = did_you_mean(word, ULPS);
        let known = ULPS.join(", ");
        diagnostics.error(protocol, format!("`{word}` is not one of {known}{hint}"));
    }
    known
}

/// Selects all traffic of a protocol.
fn select_all(
    name: &str,
    protocol: Span<'_>,
    rule: &mut MatchRule,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    match name {
        "sdp" => rule.service_ids = Ranges::new([(SDP_SERVICE_ID, SDP_SERVICE_ID + 0xFFFF)]),
        "rds" => rule.service_ids = single(TCP_SERVICE_ID + RDS_PORT),
        "iser" => rule.service_ids = single(TCP_SERVICE_ID + ISER_PORT),
        "ipoib" => rule.pkeys = single(DEFAULT_PKEY),
        _ => {
            let selectors = selectors(name).join(" or ");
            diagnostics.error(protocol, format!("`{name}` needs a {selectors}: `{name}, … : SL`"));
            return None;
        }
    }
    Some(())
}

fn single(number: u64) -> Ranges {
    Ranges::new([(number, number)])
}

fn selectors(name: &str) -> &'static [&'static str] {
    SELECTORS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, selectors)| selectors)
}

/// Selects a part of a protocol's traffic by `selector values`.
fn select(
    name: &'static str,
    selector: Span<'_>,
    rule: &mut MatchRule,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let text = selector.text();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, values) = selector.split_at(end);
    let known = selectors(name).iter().find(|known| known.eq_ignore_ascii_case(word.text()));
    let Some(known) = known else {
        diagnostics.error(word, unknown_selector(name, word.text()));
        return None;
    };
    let values = values.trim();
    let parts = if values.is_empty() { vec![] } else { vec![values] };
    let value = FieldValue { at: word, parts: &parts };
    match *known {
        "port-num" => {
            let base = if name == "sdp" { SDP_SERVICE_ID } else { TCP_SERVICE_ID };
            let ports = value.ranges("a port number", 0xFFFF, diagnostics);
            let ids = ports.into_iter().map(|(first, last)| (base + first, base + last));
            rule.service_ids = Ranges::new(ids);
        }
        "service-id" => {
            rule.service_ids = Ranges::new(value.ranges("a service ID", u64::MAX, diagnostics));
        }
        "pkey" => rule.pkeys = Ranges::new(value.pkeys(diagnostics)),
        "target-port-guid" => rule.destination = Some(port_guids(&value, diagnostics)),
        "source-port-guid" => rule.source = Some(port_guids(&value, diagnostics)),
        _ => {
            rule.destination = Some(port_guids(&value, diagnostics));
            rule.source = rule.destination.clone();
        }
    }
    Some(())
}

fn unknown_selector(name: &str, word: &str) -> String {
    match selectors(name) {
        [] => format!("`{name}` takes no selector, but `{word}` follows its comma"),
        selectors => {
            let selectors = selectors.join(" or ");
            format!("`{name},` must be followed by {selectors} and values, not by `{word}`")
        }
    }
}

fn port_guids(value: &FieldValue<'_, '_>, diagnostics: &mut Diagnostics<'_>) -> PortFilter {
    let guids = Ranges::new(value.ranges("a port GUID", u64::MAX, diagnostics));
    PortFilter { groups: Vec::new(), guids }
}
