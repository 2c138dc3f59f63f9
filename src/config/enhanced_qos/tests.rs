//! The examples of the manual, and errors.

use super::*;
use std::path::Path;

fn policy(text: &str) -> EnhancedQos {
    let (policy, found) = parse(Path::new("rates.conf"), text, &[]);
    assert_eq!(found, []);
    policy.expect("no error")
}

/// The findings without the name of the file.
fn found(text: &str) -> Vec<String> {
    let (policy, found) = parse(Path::new("f"), text, &[]);
    let is_error = found.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(policy.is_none(), is_error);
    found.iter().map(|found| found.to_string()[2..].to_owned()).collect()
}

/// The limits of a physical port by the rule of its GUID.
fn of_port(policy: &EnhancedQos, guid: u64) -> RateLimits {
    let subject = RateSubject::Guid(Guid(guid));
    let rule = policy.ports.iter().find(|rule| rule.subject == subject);
    limits(rule, default_rule(&policy.ports))
}

fn of_vport(policy: &EnhancedQos, guid: u64, is_first: bool, option: bool) -> RateLimits {
    policy.vport_limits(LimitedVport { guid: Guid(guid), is_first }, option)
}

fn only(limits: &[(usize, u32)], others: u32) -> RateLimits {
    let mut all = [others; SLS];
    limits.iter().for_each(|&(sl, rate)| all[sl] = rate);
    all
}

/// The example at the end of the chapter, with its frame of dashes.
#[test]
fn the_manuals_example_has_the_effect_that_the_manual_describes() {
    let dashes = "-".repeat(71);
    let text = format!(
        "{dashes}\nBW_NAMES\nbw1 = 50\nbw2 = 25\nbw3 = 15\nbw4 = 10\n\nBW_RULES\ndefault= 1:bw1\n\
         0x2c90000000025= 1:bw2\n\nVPORT_BW_RULES\ndefault= all:bw3\n0x2c90000000026= 3:bw4\n\n{dashes}-\n"
    );
    let policy = policy(&text);
    assert_eq!(of_port(&policy, 0x99), only(&[(1, 50)], 0));
    assert_eq!(of_port(&policy, 0x2c90000000025), only(&[(1, 25)], 0));
    assert_eq!(of_vport(&policy, 0x77, false, true), [15; SLS]);
    assert_eq!(of_vport(&policy, 0x2c90000000026, false, true), only(&[(3, 10)], 15));
    assert_eq!(of_vport(&policy, 0x99, true, true), [0; SLS], "virtual port 0");
    assert_eq!(of_vport(&policy, 0x99, true, false), [15; SLS]);
    assert_eq!(of_vport(&policy, 0x2c90000000026, true, true), only(&[(3, 10)], 0));
}

#[test]
fn the_examples_of_lines_are_read() {
    let text = "BW_NAMES\nMy_bandwidth = 50\nBW1=7\nBW2 = 0\nBW_RULES\n\
                0x2c90000000025 = 5:My_bandwidth, 7:My_bandwidth\nALL_CAS = 3:My_bandwidth, 9:My_bandwidth\n\
                VPORT_BW_RULES\n0x2c90000000026= 5:My_bandwidth,\n  7:My_bandwidth # goes on\n\
                0x2c90000000025 = all:BW1,SL3:BW2\n";
    let policy = policy(text);
    assert_eq!(of_port(&policy, 0x2c90000000025), only(&[(5, 50), (7, 50)], 0));
    assert_eq!(policy.ports[1].subject, RateSubject::Group(GroupRef::AllCas));
    assert_eq!(limits(Some(&policy.ports[1]), None), only(&[(3, 50), (9, 50)], 0));
    assert_eq!(of_vport(&policy, 0x2c90000000026, false, true), only(&[(5, 50), (7, 50)], 0));
    assert_eq!(of_vport(&policy, 0x2c90000000025, false, true), only(&[(3, 0)], 7));
}

#[test]
fn headings_alone_limit_nothing() {
    let policy = policy("BW_NAMES\nBW_RULES\n");
    assert_eq!(of_port(&policy, 1), [0; SLS]);
    assert_eq!(of_vport(&policy, 1, false, false), [0; SLS]);
}

#[test]
fn the_order_in_a_rule_and_of_sections_does_not_matter() {
    let policy = policy(
        "BW_RULES\nDEFAULT=sl15 : b\n0x1 = 2:a,ALL:b\n0x2 = all:b,2:a\nBW_NAMES\na=1\nb=2\n",
    );
    assert_eq!(of_port(&policy, 1), only(&[(2, 1)], 2));
    assert_eq!(of_port(&policy, 2), of_port(&policy, 1));
    assert_eq!(of_port(&policy, 3), only(&[(15, 2)], 0));
}

#[test]
fn errors_have_places_and_suggestions() {
    for (text, expected) in [
        (
            "a = 1\n",
            "1:1: text before the first section; expected BW_NAMES, BW_RULES or VPORT_BW_RULES",
        ),
        ("BW_NAME\n", "1:1: `BW_NAME` is no section; did you mean `BW_NAMES`?"),
        ("BW_NAMES\na b\n", "2:1: expected a section, or NAME = VALUE"),
        ("BW_NAMES\na =\n", "2:4: nothing follows `=`"),
        ("BW_NAMES\n= 1\n", "2:1: expected the name of a bandwidth before `=`"),
        ("BW_NAMES\na = -1\n", "2:5: a rate limit is a number of Mb/s from 0 to 1048575, not `-1`"),
        (
            "BW_NAMES\na = 1048576\n",
            "2:5: a rate limit is a number of Mb/s from 0 to 1048575, not `1048576`",
        ),
        ("BW_NAMES\na = 1\n a = 2\nBW_RULES\n0x1=1:a\n", "3:2: `a` is defined in line 2 already"),
        ("BW_NAMES\na = 1\nBW_RULES\n0x1=1 a,2:a\n", "4:5: expected SL:BANDWIDTH, not `1 a`"),
        (
            "BW_NAMES\nfast = 1\nBW_RULES\n0x1=1:fast,2:fats\n",
            "4:14: there is no bandwidth `fats`; did you mean `fast`?",
        ),
        (
            "BW_NAMES\na = 1\nBW_RULES\n0x1=1:a,16:a\n",
            "4:9: an SL is a number from 0 to 15, or all, not `16`",
        ),
        ("BW_NAMES\na = 1\nBW_RULES\n0x1=1:a,SL1:a\n", "4:9: `SL1` stands in this rule twice"),
        ("BW_NAMES\na = 1\nBW_RULES\n0x1=all:a,all:a\n", "4:11: `all` stands in this rule twice"),
        (
            "BW_NAMES\na = 1\nBW_RULES\n0x1=1:a\n0x01=2:a\n",
            "5:1: `0x01` has a rule in line 4 already",
        ),
        (
            "BW_NAMES\na = 1\nBW_RULES\ndefault=1:a\ndefault=2:a\n",
            "5:1: `default` has a rule in line 4 already",
        ),
        (
            "BW_NAMES\na = 1\nVPORT_BW_RULES\nALL=1:a,2:a\nBW_RULES\n0x1=1:a\n",
            "4:1: `ALL` is no GUID: virtual ports have no groups; expected a GUID or default",
        ),
        (
            "BW_NAMES\na = 1\nBW_RULES\nALL_CSA=1:a\n0x1=1:a\n",
            "4:1: `ALL_CSA` is no GUID, and no port group of pgrp_policy_file; did you mean `ALL_CAS`?",
        ),
        ("BW_NAMES\na = 1\nBW_RULES\n0x0=1:a\n0x1=1:a\n", "4:1: 0 is not a valid port GUID"),
        (
            "BW_NAMES\na = 1\nBW_RULES\n=1:a\n0x1=1:a\n",
            "4:1: expected a GUID, a port group or default before `=`",
        ),
    ] {
        let found = found(text);
        assert_eq!(found, [expected], "{text}");
    }
    let malformed = found("BW_NAMES\na = 1\nBW_RULES\n0x12345678901234567=1:a\n0x1=1:a\n");
    assert!(malformed.len() == 1 && malformed[0].starts_with("4:1: "), "{malformed:?}");
}

#[test]
fn unused_names_and_repeated_sections_are_warnings() {
    let expected =
        ["2:1: bandwidth `a` is not used", "3:1: a second section BW_NAMES: it is added"];
    assert_eq!(found("BW_NAMES\na = 1\nBW_NAMES\n"), expected);
}
