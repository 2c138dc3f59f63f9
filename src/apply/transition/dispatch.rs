//! Hands out the steps of a transition in the order of their dependencies, without I/O.

use super::{Steps, TransitionStep};
use crate::fabric::PortId;
use std::collections::VecDeque;

/// Tracks which steps are done, and hands out those whose predecessors are.
pub struct Dispatch {
    steps: Steps,
    /// The number of predecessors that are not done, by step.
    waiting: Vec<u32>,
    /// The steps that wait for each step.
    followers: Vec<Vec<u32>>,
    ready: VecDeque<u32>,
    /// Secondary steps whose predecessors are done.
    secondary: VecDeque<u32>,
    /// Steps that wait only for ports to become ACTIVE.
    deferred: Vec<u32>,
    ports_active: bool,
    /// True, by step, if a predecessor failed.
    is_forced: Vec<bool>,
    /// True, by step, if the step was made ready.
    entered: Vec<bool>,
    /// True, by step, if it leads to a link that is not ACTIVE, or waits for a step that does.
    is_withheld: Vec<bool>,
    forced: usize,
}

impl Dispatch {
    pub fn new(steps: Steps) -> Self {
        let count = steps.len();
        let mut dispatch = Self {
            waiting: vec![0; count],
            followers: vec![Vec::new(); count],
            ready: VecDeque::new(),
            secondary: VecDeque::new(),
            deferred: Vec::new(),
            ports_active: false,
            is_forced: vec![false; count],
            entered: vec![false; count],
            is_withheld: vec![false; count],
            forced: 0,
            steps,
        };
        for (step, index) in dispatch.steps.iter().zip(0u32..) {
            for &before in step.after.iter().filter(|&&before| (before as usize) < count) {
                dispatch.followers[before as usize].push(index);
                dispatch.waiting[index as usize] += 1;
            }
        }
        for index in 0..count as u32 {
            if dispatch.waiting[index as usize] == 0 && !dispatch.entered[index as usize] {
                dispatch.begin(index);
            }
        }
        dispatch
    }

    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    pub fn into_steps(self) -> Steps {
        self.steps
    }

    /// The next step that may be sent; a secondary one ([`TransitionStep::is_secondary`]) only
    /// `with_secondary`, if there is no other. The barrier at which packets drain is handed out like
    /// a Set if steps wait behind it.
    pub fn take(&mut self, with_secondary: bool) -> Option<u32> {
        let step = self.ready.pop_front();
        if step.is_some() || !with_secondary { step } else { self.secondary.pop_front() }
    }

    /// Records the result of a step. After a failure, the steps that waited for it are sent all the
    /// same and counted as forced.
    pub fn done(&mut self, step: u32, acknowledged: bool) {
        debug_assert!(self.entered[step as usize], "a step is done that was not sent");
        let mut finished = vec![(step, !acknowledged)];
        while let Some((step, spoils)) = finished.pop() {
            for follower in std::mem::take(&mut self.followers[step as usize]) {
                let at = follower as usize;
                if self.entered[at] {
                    continue;
                }
                if spoils && !std::mem::replace(&mut self.is_forced[at], true) {
                    self.forced += usize::from(!self.is_barrier(follower));
                }
                self.waiting[at] -= 1;
                if self.waiting[at] == 0 {
                    finished.extend(self.enter(follower));
                }
            }
        }
    }

    /// Records that the ports of the plan have been activated; `is_active` tells which of them are
    /// ACTIVE. Steps that lead to other links are withheld, with all steps that wait for them.
    pub fn ports_active(&mut self, is_active: impl Fn(PortId) -> bool) {
        self.ports_active = true;
        let steps = self.steps.iter().zip(0u32..).filter(|(step, _)| step.is_deferred);
        let leads_nowhere = steps.filter(|(step, _)| !step.links.iter().all(|&at| is_active(at)));
        let mut found: Vec<u32> = leads_nowhere.map(|(_, index)| index).collect();
        while let Some(step) = found.pop() {
            if !std::mem::replace(&mut self.is_withheld[step as usize], true) {
                found.extend(&self.followers[step as usize]);
            }
        }
        for step in std::mem::take(&mut self.deferred) {
            self.begin(step);
        }
    }

    /// Records that packets have drained at this barrier.
    pub fn barrier_passed(&mut self, barrier: u32) {
        let is_forced = self.is_forced[barrier as usize];
        self.done(barrier, !is_forced);
    }

    /// The withheld steps.
    pub fn withheld(&self) -> impl Iterator<Item = &TransitionStep> {
        self.steps.iter().zip(&self.is_withheld).filter(|(_, stays)| **stays).map(|(step, _)| step)
    }

    /// The number of Sets that are sent although a predecessor failed.
    pub fn forced(&self) -> usize {
        self.forced
    }

    fn is_barrier(&self, step: u32) -> bool {
        self.steps.get(step).is_some_and(|step| step.set.is_none())
    }

    fn may_go(&self, step: u32) -> bool {
        self.ports_active || self.steps.get(step).is_some_and(|step| !step.is_deferred)
    }

    /// Makes a step ready. A barrier is done at once and returned.
    fn enter(&mut self, step: u32) -> Option<(u32, bool)> {
        let at = step as usize;
        if self.is_withheld[at] {
            return None;
        }
        if !self.may_go(step) {
            self.deferred.push(step);
            return None;
        }
        self.entered[at] = true;
        if self.steps.drain() == Some(step) {
            if !self.followers[at].is_empty() {
                self.ready.push_back(step);
            }
            return None;
        }
        if self.is_barrier(step) {
            return Some((step, self.is_forced[at]));
        }
        let is_secondary = self.steps.get(step).is_some_and(|step| step.is_secondary);
        let queue = if is_secondary { &mut self.secondary } else { &mut self.ready };
        queue.push_back(step);
        None
    }

    fn begin(&mut self, step: u32) {
        if let Some((barrier, spoils)) = self.enter(step) {
            self.done(barrier, !spoils);
        }
    }

    /// Releases the first step of a cycle of waiting steps, if nothing is outstanding; returns true
    /// if there was one. Correct orders have no cycle. This is a safeguard: every Set is sent even
    /// if an order is wrong.
    pub fn break_cycle(&mut self) -> bool {
        if !self.ports_active {
            return false;
        }
        let waiting = (0..self.steps.len() as u32)
            .find(|&step| !self.entered[step as usize] && !self.is_withheld[step as usize]);
        let Some(step) = waiting else { return false };
        self.forced += usize::from(!self.is_barrier(step));
        self.begin(step);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::set_id::SetId;
    use crate::fabric::NodeId;
    use crate::ids::PortNum;

    fn steps(all: &[(bool, bool, &[u32])]) -> Steps {
        let steps = all.iter().zip(0..).map(|(&(is_set, is_deferred, after), node)| {
            let set = SetId { node: NodeId(node), port: PortNum::ZERO, attr_id: 0x19, attr_mod: 0 };
            TransitionStep {
                set: is_set.then_some(set),
                data: None,
                after: after.to_vec(),
                is_deferred,
                links: if is_deferred { vec![PortId(7)] } else { Vec::new() },
                is_last: true,
                is_secondary: false,
            }
        });
        Steps { steps: steps.collect(), ..Steps::default() }
    }

    fn ready(dispatch: &mut Dispatch) -> Vec<u32> {
        std::iter::from_fn(|| dispatch.take(false)).collect()
    }

    #[test]
    fn a_step_is_ready_when_its_predecessors_are_done() {
        // Steps 0 and 1 precede barrier 2, step 3 follows it, step 4 is independent.
        let steps = steps(&[set(&[]), set(&[]), (false, false, &[0, 1]), set(&[2]), set(&[])]);
        let mut dispatch = Dispatch::new(steps);
        assert_eq!(ready(&mut dispatch), [0, 1, 4]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [0; 0]);
        dispatch.done(1, true);
        assert_eq!(ready(&mut dispatch), [3]);
        assert_eq!(dispatch.forced(), 0);
    }

    fn set(after: &'static [u32]) -> (bool, bool, &'static [u32]) {
        (true, false, after)
    }

    #[test]
    fn secondary_steps_are_taken_by_themselves() {
        let mut steps = steps(&[(true, false, &[]), (true, false, &[]), (true, false, &[0])]);
        steps.steps[1].is_secondary = true;
        let mut dispatch = Dispatch::new(steps);
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [2]);
        assert_eq!(dispatch.take(true), Some(1));
        assert_eq!(dispatch.take(true), None);
    }

    #[test]
    fn a_failure_releases_waiting_steps_and_is_counted() {
        let steps = steps(&[(true, false, &[]), (false, false, &[0]), (true, false, &[1])]);
        let mut dispatch = Dispatch::new(steps);
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, false);
        assert_eq!(ready(&mut dispatch), [2]);
        assert_eq!(dispatch.forced(), 1);
    }

    #[test]
    fn deferred_steps_wait_for_the_ports() {
        let steps = steps(&[(true, true, &[]), (true, true, &[0]), (true, false, &[])]);
        let mut dispatch = Dispatch::new(steps);
        assert_eq!(ready(&mut dispatch), [2]);
        dispatch.done(2, true);
        assert!(!dispatch.break_cycle());
        dispatch.ports_active(|_| true);
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [1]);
    }

    #[test]
    fn steps_to_inactive_links_are_withheld_with_their_followers() {
        let steps = steps(&[(true, true, &[]), (true, false, &[0]), (true, false, &[])]);
        let mut dispatch = Dispatch::new(steps);
        dispatch.ports_active(|link| link != PortId(7));
        assert_eq!(ready(&mut dispatch), [2]);
        dispatch.done(2, true);
        assert!(!dispatch.break_cycle());
        assert_eq!(dispatch.withheld().count(), 2);
    }

    #[test]
    fn a_cycle_is_broken() {
        let steps = steps(&[(true, false, &[1]), (true, false, &[0])]);
        let mut dispatch = Dispatch::new(steps);
        dispatch.ports_active(|_| true);
        assert_eq!(ready(&mut dispatch), [0; 0]);
        assert!(dispatch.break_cycle());
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [1]);
        assert!(!dispatch.break_cycle());
    }
}
