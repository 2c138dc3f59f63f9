//! Two managers, and three that start and end one after the other.

use super::site::Program::{self, Opensm, Ours};
use super::site::{Kind, Site};
use super::{A, B, C, MASTER, STANDBY};
use std::time::Duration;

/// Five polls.
const POLLING_TIME: Duration = Duration::from_millis(500);

/// Time limit of a takeover after the polling time, and of the end of a second mastership.
const TAKEOVER_LIMIT: Duration = Duration::from_millis(400);

/// Two managers start one after the other, the better one is killed, frozen and ended.
fn a_pair_has_one_master(better: Program, worse: Program) {
    for (kind, better_first) in [(Kind::Ibsim, true), (Kind::Own, false), (Kind::Own, true)] {
        let Some(mut site) = Site::new(kind) else { return };
        let (first, second) = if better_first { (A, B) } else { (B, A) };
        for host in [first, second] {
            let (program, priority) = if host == A { (better, 9) } else { (worse, 5) };
            site.start(program, host, priority);
            site.expect_master("start", if better_first { A } else { host });
        }
        site.expect("a standby", |states| states[B] == Some(STANDBY));
        site.settle("second start", A);
        // opensm on ibsim waits for the answer of the frozen SM.
        if kind == Kind::Own || (better, worse) == (Ours, Ours) {
            site.freeze(A);
            let took = site.expect("freeze", |states| states[B] == Some(MASTER));
            assert!(worse == Opensm || took < POLLING_TIME + TAKEOVER_LIMIT, "{took:?}");
            site.thaw(A);
            site.settle("thaw", A);
        }
        if better_first {
            site.kill(A);
        } else {
            let took = site.end(A);
            if better == Ours {
                assert!(took < Duration::from_secs(1), "the end took {took:?}");
                let after = site.expect_master("end", B);
                assert!(after < Duration::from_millis(300), "the successor took {after:?}");
            }
        }
        site.settle("one left", B);
    }
}

#[test]
fn torus_sm_above_opensm() {
    a_pair_has_one_master(Ours, Opensm);
}

#[test]
fn opensm_above_torus_sm() {
    a_pair_has_one_master(Opensm, Ours);
}

#[test]
fn torus_sm_above_torus_sm() {
    a_pair_has_one_master(Ours, Ours);
}

#[test]
fn three_managers_of_any_mixture_have_one_master() {
    for (kind, programs) in [
        (Kind::Ibsim, [Ours, Ours, Ours]),
        (Kind::Own, [Opensm, Ours, Opensm]),
        (Kind::Own, [Ours, Opensm, Ours]),
    ] {
        let Some(mut site) = Site::new(kind) else { return };
        for (host, priority) in [(A, 9), (B, 7), (C, 5)] {
            site.start(programs[host], host, priority);
            let is_standby = move |state: Option<u8>| host == A || state == Some(STANDBY);
            site.expect("start", |states| is_standby(states[host]) && states[A] == Some(MASTER));
        }
        site.settle("third start", A);
        for host in [A, B] {
            site.kill(host);
            site.settle("kill", host + 1);
        }
    }
}

#[test]
fn a_master_whose_link_was_down_is_not_a_second_one() {
    for kind in [Kind::Own, Kind::Ibsim] {
        for (better, worse) in [(Ours, Opensm), (Opensm, Ours), (Ours, Ours)] {
            if (kind, better) == (Kind::Ibsim, Opensm) {
                // opensm would wait for ever for the TrapRepress that ibsim drops.
                continue;
            }
            let Some(mut site) = Site::new(kind) else { return };
            site.start(better, A, 9);
            site.expect_master("first start", A);
            site.start(worse, B, 5);
            site.expect("a standby", |states| states[B] == Some(STANDBY));
            site.settle("second start", A);
            site.unplug(A);
            site.expect("link down", |states| states[B] == Some(MASTER));
            site.plug_in(A);
            site.settle("link up", A);
        }
    }
}

/// A master that stood still looks for others at once when it goes on: its next sweep may be far.
#[test]
fn a_master_that_goes_on_after_a_freeze_soon_is_the_only_one() {
    for worse in [Ours, Opensm] {
        let Some(mut site) = Site::new(Kind::Own) else { return };
        site.sweep_interval = 300;
        site.start(Ours, A, 9);
        site.expect_master("first start", A);
        site.start(worse, B, 5);
        site.expect("a standby", |states| states[B] == Some(STANDBY));
        site.settle("second start", A);
        site.freeze(A);
        site.expect("freeze", |states| states[B] == Some(MASTER));
        // The role was lost more than a moment ago.
        site.settle("frozen", B);
        site.thaw(A);
        let took = site.expect_master("thaw", A);
        assert!(took < POLLING_TIME + TAKEOVER_LIMIT, "{took:?}");
        site.settle("thaw", A);
    }
}
