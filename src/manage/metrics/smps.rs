//! Subnet management requests.

use super::family::{Family, Labels};
use crate::manage::api::ApiContext;
use crate::wire::attr::AttrId;
use std::collections::BTreeMap;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<Family> {
    let counters = &context.status.smps;
    let mut sent: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for count in &counters.attributes {
        let name = AttrId::name(count.attr_id);
        *sent.entry((name, "get")).or_default() += count.gets;
        *sent.entry((name, "set")).or_default() += count.sets;
    }
    let sent =
        sent.into_iter().filter(|&(_, count)| count > 0).map(|((attribute, method), count)| {
            (vec![("attribute", attribute.to_owned()), ("method", method.to_owned())], count)
        });
    let results = [
        ("answered", counters.answered),
        ("unanswered", counters.unanswered),
        ("refused", counters.refused),
        ("malformed", counters.malformed),
        ("send_error", counters.send_errors),
    ];
    let result = |(name, count): (&str, u64)| -> (Labels, u64) {
        (vec![("result", name.to_owned())], count)
    };
    vec![
        Family::counters(
            "torus_sm_smp_requests",
            "SubnGet and SubnSet requests, without retransmissions",
            sent.collect(),
        ),
        Family::counters(
            "torus_sm_smp_results",
            "Results of SubnGet and SubnSet requests",
            results.map(result).into(),
        ),
        Family::counter(
            "torus_sm_smp_retransmissions",
            "Retransmissions of SubnGet and SubnSet requests",
            counters.retransmissions,
        ),
        Family::counter(
            "torus_sm_smps_posted",
            "SMPs without a response: TrapRepress, and responses to received requests",
            counters.posted,
        ),
        Family::counter(
            "torus_sm_smps_unmatched",
            "Responses without a pending request",
            counters.unmatched,
        ),
    ]
}
