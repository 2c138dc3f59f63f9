//! Strict transitions: whichever order of Sets the steps allow, the tables of the devices are a subset
//! of the old plan's before packets drain and of the new plan's afterwards, and the new plan's in the
//! end.

use testkit::dice::Dice;
use testkit::seeds;
use testkit::transition::draw::scene;
use testkit::transition::mixture::held;
use testkit::transition::{Devices, Scene};
use torus_sm::apply::transition::{Steps, TransitionStep};

/// The environment variable with the seeds of random transitions.
const SEEDS: &str = "TORUS_SM_TRANSITIONS";

/// Applies all steps in a random order that their dependencies allow; returns the faults.
fn transit(scene: &Scene, steps: &Steps, dice: &mut Dice) -> Vec<String> {
    let drain = steps.drain().expect("it is strict") as usize;
    // A rebooted switch holds less than the old plan.
    let old = &held(scene);
    let new = &Devices::planned(scene);
    let mut devices = Devices::new(scene);
    let mut faults = Vec::new();
    let all: Vec<&TransitionStep> = steps.iter().collect();
    let mut done = vec![false; all.len()];
    let mut are_ports_up = false;
    loop {
        let may_go = |index: &usize| {
            let step = all[*index];
            let after = step.after.iter().all(|&before| done[before as usize]);
            !done[*index] && after && (are_ports_up || !step.is_deferred)
        };
        let ready: Vec<usize> = (0..all.len()).filter(may_go).collect();
        if ready.is_empty() && !are_ports_up {
            are_ports_up = true;
            devices.raise_ports();
            continue;
        }
        if ready.is_empty() {
            break;
        }
        let index = ready[dice.index(ready.len())];
        done[index] = true;
        devices.carry_out(all[index]);
        let (holder, name) = if done[drain] { (new, "new") } else { (old, "old") };
        if !devices.is_part_of(holder) {
            faults.push(format!("{:?} leaves more than a part of the {name} plan", all[index].set));
        }
    }
    if done.contains(&false) {
        faults.push("steps are left that wait for each other".into());
    }
    if !devices.equals(new) {
        faults.push("the devices do not hold the plan".into());
    }
    faults
}

#[test]
fn old_and_new_entries_are_never_mixed() {
    let mut removed = 0;
    for seed in seeds(SEEDS, 0..300) {
        let mut dice = Dice::new(seed);
        let scene = scene(&mut dice);
        let steps = scene.strict_steps();
        removed += steps.removed_entries();
        for _ in 0..3 {
            let faults = transit(&scene, &steps, &mut dice);
            assert!(faults.is_empty(), "{SEEDS}={seed}:\n{}", faults.join("\n"));
        }
    }
    assert!(removed > 0);
}

/// The order that keeps pairs connected mixes old and new entries.
#[test]
fn the_usual_order_mixes_entries() {
    let mixes = |seed: &u64| {
        let scene = scene(&mut Dice::new(*seed));
        let old = held(&scene);
        let new = Devices::planned(&scene);
        let mut devices = Devices::new(&scene);
        scene.steps().iter().any(|step| {
            devices.carry_out(step);
            !devices.is_part_of(&old) && !devices.is_part_of(&new)
        })
    };
    let mixing = (0..40).filter(mixes).count();
    assert!(mixing > 20, "{mixing} of 40");
}
