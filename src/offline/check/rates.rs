//! The effective rate limits of a port (`--effective-rates`).

use super::config_files::CheckedFiles;
use crate::config::enhanced_qos::{
    EnhancedQos, LimitedVport, RateLimits, RateSubject, default_rule, limits,
};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::plan::rate_limits;
use std::fmt::Write as _;

/// The limits of the port with this GUID, by SL. Without a fabric, rules of groups are left out.
pub(super) fn shown(files: &CheckedFiles, guid: Guid, fabric: Option<&Fabric>) -> String {
    let Some(policy) = &files.enhanced_qos else {
        return format!(
            "rate limits of {guid}: none, since no enhanced_qos_policy_file is in force\n"
        );
    };
    let unlimited_first = files.options.enhanced_qos_vport0_unlimit_default_rl;
    let mut text = format!("rate limits of {guid} in Mb/s (0: no limit):\n");
    put_line(&mut text, "SL", &std::array::from_fn(|sl| sl as u32));
    match port_limits(policy, guid, fabric) {
        Some(limits) => put_line(&mut text, "port", &limits),
        None => text += "  port: no port of a channel adapter in the fabric has this GUID\n",
    }
    put_line(&mut text, "virtual port 0", &vport_rates(policy, true, guid, unlimited_first));
    put_line(&mut text, "another virtual port", &vport_rates(policy, false, guid, unlimited_first));
    let has_groups = policy.ports.iter().any(|rule| matches!(rule.subject, RateSubject::Group(_)));
    if has_groups && fabric.is_none() {
        text += "  without --file, the rules of port groups are left out\n";
    }
    text
}

fn vport_rates(
    policy: &EnhancedQos,
    is_first: bool,
    guid: Guid,
    unlimited_first: bool,
) -> [u32; 16] {
    policy.vport_limits(LimitedVport { guid, is_first }, unlimited_first)
}

fn port_limits(policy: &EnhancedQos, guid: Guid, fabric: Option<&Fabric>) -> Option<RateLimits> {
    let Some(fabric) = fabric else {
        let own = policy.ports.iter().find(|rule| rule.subject == RateSubject::Guid(guid));
        return Some(limits(own, default_rule(&policy.ports)));
    };
    let (all, _) = rate_limits::port_limits(policy, fabric);
    let found = all.into_iter().find(|(port, _)| fabric.port(*port).guid == guid);
    found.map(|(_, limits)| limits)
}

fn put_line(text: &mut String, name: &str, values: &RateLimits) {
    let _ = write!(text, "  {name:20}");
    for value in values {
        let _ = write!(text, " {value:>7}");
    }
    text.push('\n');
}
