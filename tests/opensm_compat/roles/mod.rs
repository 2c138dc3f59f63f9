//! torus-sm and Debian's opensm as managers of one fabric, on ibsim and on torus-sm's own
//! simulator: there is always exactly one master, which a fourth port observes by SMInfo.
//!
//! * `inside`: the observer as a process inside the fabric;
//! * `observer`: the samples that it sends;
//! * `site`: a fabric, its managers and the observer;
//! * `pairs`: two managers, and three that start one after the other;
//! * `mixture`: random events at three managers of any mixture.
//!
//! These are deviations from "the elected manager is the only master within the polling time":
//!
//! * An SM that is STANDBY polls the master that it found. When that one hands over and ends, the
//!   SM goes through DISCOVERING after the polling time, finds the new master and is STANDBY again.
//!   torus-sm and opensm both do so, and it is no second master.
//! * opensm ends without a HANDOVER, so that its successor takes over after the polling time.
//! * After a freeze the device answers and the SM does not. The successor's sweep queries it with
//!   all retries, which adds to the polling time.
//! * opensm announces itself to a lower master by trap 144 and counts it as outstanding until the
//!   TrapRepress. ibsim drops every TrapRepress and its library has no timeouts, so that opensm
//!   never finishes a sweep as master afterwards. On ibsim, opensm never gets the mastership from
//!   a living SM here.
//! * On ibsim, an opensm that was master beside another one that had just set IsSM did not sweep
//!   any more, once in about fifty walks and with no torus-sm running. `site` stops opensm until
//!   a starting one answers SMInfo.
//!
//! ibsim differs from a real fabric in other ways that matter, too. It loses MADs that a killed
//! program has not read, and replies to a port whose link went down; opensm would wait for them
//! for ever, too, and `site` stops it while such an event happens. A program that does not read
//! blocks ibsim after ten MADs, so that an SM can be frozen for a moment only. ibsim clears IsSM of
//! a port whose link returns; `site` sets it again.

mod inside;
mod mixture;
mod observer;
mod pairs;
mod site;

use std::time::Duration;

/// Number of hosts that have managers: A, B and C.
const HOSTS: usize = 3;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Positions of the managers' switches.
const PLACES: [[u16; 3]; HOSTS] = [[0, 0, 0], [2, 0, 0], [3, 2, 0]];
/// The observer. It is in the same half of the fabric as A.
const EYE: [u16; 3] = [1, 1, 0];
/// The observer of the other half.
const FAR_EYE: [u16; 3] = [3, 1, 0];

/// Codes of SMInfo:SMState.
const DISCOVERING: u8 = 1;
const STANDBY: u8 = 2;
const MASTER: u8 = 3;

/// Time limit of a start, a sweep or a takeover. The polling time is half a second.
const LIMIT: Duration = Duration::from_secs(15);
