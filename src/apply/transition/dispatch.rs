//! Which steps may be sent now, as data: no I/O.

use super::{Step, Steps};
use crate::fabric::PortId;
use std::collections::VecDeque;

/// Hands out steps whose predecessors are done.
pub struct Dispatch<'a> {
    steps: &'a Steps,
    /// By step: predecessors that are not done.
    waiting: Vec<u32>,
    /// By step: who waits for it.
    followers: Vec<Vec<u32>>,
    ready: VecDeque<u32>,
    /// Ready, but for ports that are not ACTIVE.
    deferred: Vec<u32>,
    ports_active: bool,
    /// By step: something before it failed.
    is_forced: Vec<bool>,
    /// By step: it was made ready.
    entered: Vec<bool>,
    /// By step: it leads to a link that is not ACTIVE, or waits for one that does.
    is_withheld: Vec<bool>,
    forced: usize,
}

impl<'a> Dispatch<'a> {
    /// Nothing is done yet.
    pub fn new(steps: &'a Steps) -> Self {
        let count = steps.len();
        let mut dispatch = Self {
            steps,
            waiting: vec![0; count],
            followers: vec![Vec::new(); count],
            ready: VecDeque::new(),
            deferred: Vec::new(),
            ports_active: false,
            is_forced: vec![false; count],
            entered: vec![false; count],
            is_withheld: vec![false; count],
            forced: 0,
        };
        for (step, index) in steps.iter().zip(0u32..) {
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

    /// The next step to be sent, if there is one that waits for nothing.
    pub fn take(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// A step was acknowledged, or it failed; then those that waited for it go out all the same.
    pub fn done(&mut self, step: u32, acknowledged: bool) {
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

    /// The ports of the plan are ACTIVE, as far as they can be: `is_active` tells which. What
    /// leads to other links stays back for good, with all that waits for it.
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

    /// The steps that stay back.
    pub fn withheld(&self) -> impl Iterator<Item = &'a Step> + '_ {
        self.steps.iter().zip(&self.is_withheld).filter(|(_, stays)| **stays).map(|(step, _)| step)
    }

    /// Sets that went or will go out although one before them failed.
    pub fn forced(&self) -> usize {
        self.forced
    }

    fn is_barrier(&self, step: u32) -> bool {
        self.steps.get(step).is_some_and(|step| step.set.is_none())
    }

    fn may_go(&self, step: u32) -> bool {
        self.ports_active || self.steps.get(step).is_some_and(|step| !step.is_deferred)
    }

    /// Makes a step ready; a meeting point is done at once, and returned.
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
        if self.is_barrier(step) {
            return Some((step, self.is_forced[at]));
        }
        self.ready.push_back(step);
        None
    }

    fn begin(&mut self, step: u32) {
        if let Some((barrier, spoils)) = self.enter(step) {
            self.done(barrier, !spoils);
        }
    }

    /// With nothing under way any more, lets go the first of steps that wait for each other in a
    /// circle; true if there was one. Orders have none; but nothing must stay unsent if one had.
    pub fn break_cycle(&mut self) -> bool {
        let held = |step: &u32| !self.entered[*step as usize] && !self.is_withheld[*step as usize];
        let steps = 0..self.steps.len() as u32;
        let Some(step) = steps.filter(|_| self.ports_active).find(held) else { return false };
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
        let step = |(&(is_set, is_deferred, after), node): (&(bool, bool, &[u32]), u32)| {
            let set = SetId { node: NodeId(node), port: PortNum::ZERO, attr_id: 0x19, attr_mod: 0 };
            let set = is_set.then_some(set);
            let links = if is_deferred { vec![PortId(7)] } else { Vec::new() };
            Step { set, data: None, after: after.to_vec(), is_deferred, links, is_last: true }
        };
        let steps = all.iter().zip(0..).map(step).collect();
        Steps { steps, ..Steps::default() }
    }

    fn ready(dispatch: &mut Dispatch<'_>) -> Vec<u32> {
        std::iter::from_fn(|| dispatch.take()).collect()
    }

    #[test]
    fn a_step_goes_out_when_all_before_it_are_done() {
        // 0 and 1 before the meeting point 2, 3 after it, 4 alone.
        let set = |after: &'static [u32]| (true, false, after);
        let steps = steps(&[set(&[]), set(&[]), (false, false, &[0, 1]), set(&[2]), set(&[])]);
        let mut dispatch = Dispatch::new(&steps);
        assert_eq!(ready(&mut dispatch), [0, 1, 4]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [0; 0]);
        dispatch.done(1, true);
        assert_eq!(ready(&mut dispatch), [3]);
        assert_eq!(dispatch.forced(), 0);
    }

    #[test]
    fn a_failure_lets_go_those_that_wait_and_is_counted() {
        let steps = steps(&[(true, false, &[]), (false, false, &[0]), (true, false, &[1])]);
        let mut dispatch = Dispatch::new(&steps);
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, false);
        assert_eq!(ready(&mut dispatch), [2]);
        assert_eq!(dispatch.forced(), 1);
    }

    #[test]
    fn late_steps_wait_for_the_ports() {
        let steps = steps(&[(true, true, &[]), (true, true, &[0]), (true, false, &[])]);
        let mut dispatch = Dispatch::new(&steps);
        assert_eq!(ready(&mut dispatch), [2]);
        dispatch.done(2, true);
        assert!(!dispatch.break_cycle());
        dispatch.ports_active(|_| true);
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [1]);
    }

    #[test]
    fn steps_to_links_that_stay_down_stay_back_with_their_followers() {
        let steps = steps(&[(true, true, &[]), (true, false, &[0]), (true, false, &[])]);
        let mut dispatch = Dispatch::new(&steps);
        dispatch.ports_active(|link| link != PortId(7));
        assert_eq!(ready(&mut dispatch), [2]);
        dispatch.done(2, true);
        assert!(!dispatch.break_cycle());
        assert_eq!(dispatch.withheld().count(), 2);
    }

    #[test]
    fn a_circle_does_not_keep_anything_from_being_sent() {
        let steps = steps(&[(true, false, &[1]), (true, false, &[0])]);
        let mut dispatch = Dispatch::new(&steps);
        dispatch.ports_active(|_| true);
        assert_eq!(ready(&mut dispatch), [0; 0]);
        assert!(dispatch.break_cycle());
        assert_eq!(ready(&mut dispatch), [0]);
        dispatch.done(0, true);
        assert_eq!(ready(&mut dispatch), [1]);
        assert!(!dispatch.break_cycle());
    }
}
