//! Baselines for the next plan, computed on other threads, so that planning rarely waits for them.
//!
//! After a plan has passed verification, its intermediate results become a *carried* baseline. That
//! takes tens of milliseconds in a large fabric, and starts when the plan is programmed, which needs
//! the cores before; the baseline may over-approximate dependencies.
//! Once the devices hold the plan and nothing has changed for a while ([`QUIET_FACTOR`]), or when it is waited
//! for, a baseline is *computed* in full from the acknowledged fabric, which may take a second, and
//! replaces the carried one when complete. If the fabric changes before, the next plan uses the carried
//! baseline.
//!
//! The baseline of a large fabric takes tens of megabytes. So the computed one of an earlier plan is freed
//! when the carried one is made, which knows all that it knew, and what a complete one replaces is freed
//! at once.

use crate::contained;
use crate::daemon::process::priority::{spawn_idle, spawn_low_priority, spawn_preparation};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// The baseline of a plan is computed when no other plan has followed it for this multiple of the duration of
/// the last computation. In a series of changes, each baseline would be outdated when complete, and would take
/// time and memory beside the next plan.
const QUIET_FACTOR: u32 = 3;

/// Upper limit of that time.
const MAX_QUIET: Duration = Duration::from_secs(3);

/// A carried baseline, made when it is first needed; `None` if that failed.
type Carried<T> = LazyLock<Option<Arc<T>>, Box<dyn FnOnce() -> Option<Arc<T>> + Send>>;

/// Computes the baseline of a plan.
pub trait Computation<T>: Send + Sync + 'static {
    /// True if the computed baseline of an earlier plan is valid for this plan, too.
    fn is_still_valid(&self, earlier: &T) -> bool;

    /// Computes the baseline in full; `last` is the best one that is known. `None` if the plan has no baseline.
    fn compute(&self, last: Option<&T>) -> Option<T>;
}

/// The baselines, and the tasks that compute them.
pub struct BaselineCache<T> {
    held: Arc<Mutex<HeldPlan<T>>>,
    /// The last computation, which waits for the ones before it.
    computing: Option<Computing>,
    /// Number of computations that were requested.
    requested: u64,
    /// Computations up to this number do not wait until the fabric is quiet: they are waited for, or a later one was
    /// requested.
    urgent: watch::Sender<u64>,
}

/// A computation in progress, or one that waits until the fabric is quiet.
struct Computing {
    /// Number of its plan.
    plan: u64,
    task: JoinHandle<()>,
}

struct HeldPlan<T> {
    /// Number of the plan that needs a baseline.
    plan: u64,
    carried: Option<Arc<Carried<T>>>,
    computed: Option<Computed<T>>,
    /// The computation requested last, until it starts: of others that wait, nothing is kept.
    pending: Option<PendingComputation<T>>,
    /// Duration of the last computation.
    duration: Duration,
}

/// A computation that has not started.
struct PendingComputation<T> {
    number: u64,
    /// Number of its plan.
    plan: u64,
    /// It holds a fabric and its plan.
    work: Arc<dyn Computation<T>>,
}

struct Computed<T> {
    plan: u64,
    baseline: Arc<T>,
    /// [`BaselineCache::computed`] has returned it.
    is_returned: bool,
}

impl<T> Default for BaselineCache<T> {
    fn default() -> Self {
        let duration = Duration::ZERO;
        let held = HeldPlan { plan: 0, carried: None, computed: None, pending: None, duration };
        let urgent = watch::Sender::new(0);
        Self { held: Arc::new(Mutex::new(held)), computing: None, requested: 0, urgent }
    }
}

impl<T: Send + Sync + 'static> BaselineCache<T> {
    /// Uses a baseline that was computed elsewhere until there is a newer one.
    pub fn provide(&mut self, known: Arc<T>) {
        self.replace_carried(Box::new(|| Some(known)));
    }

    /// Replaces the baseline by the result of `work`, which turns the results of a verified plan
    /// into a carried baseline. It starts with [`Self::start_carrying`], or when it is waited for.
    pub fn carry(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        self.replace_carried(Box::new(|| contained::run(work).ok().map(Arc::new)));
    }

    fn replace_carried(&mut self, work: Box<dyn FnOnce() -> Option<Arc<T>> + Send>) {
        let mut held = lock(&self.held);
        held.plan += 1;
        let before = held.carried.replace(Arc::new(LazyLock::new(work)));
        drop(held);
        free(before);
    }

    /// The carried baseline of the last plan; `None` if there is a computed one already.
    pub fn carried(&self) -> Option<CarriedBaseline<T>> {
        lock(&self.held).carried.clone().map(CarriedBaseline)
    }

    /// Starts the work of the last [`Self::carry`], if it has not started.
    pub fn start_carrying(&mut self) {
        drop(made(&self.held));
    }

    /// Keeps the computed baseline of an earlier plan if that is still valid; otherwise starts `work` once
    /// nothing was requested for a while. Computations run one at a time, and are skipped if a later one
    /// was requested meanwhile.
    pub fn compute(&mut self, work: impl Computation<T>) {
        let before = self.computing.take();
        self.urgent.send_replace(self.requested);
        self.requested += 1;
        let number = self.requested;
        let mut held = lock(&self.held);
        let plan = held.plan;
        let skipped =
            held.pending.replace(PendingComputation { number, plan, work: Arc::new(work) });
        drop(held);
        free(skipped);
        let urgent = self.urgent.subscribe();
        let requested = Instant::now();
        let held = self.held.clone();
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                drop(before.task.await);
            }
            compute_when_quiet(held, number, requested, urgent).await;
        });
        self.computing = Some(Computing { plan, task });
    }

    /// Waits until [`Self::computed`] has no need to wait. May be cancelled.
    pub async fn until_computed(&mut self) {
        let plan = lock(&self.held).plan;
        // A computation for an earlier plan gives nothing to wait for.
        if let Some(computing) = self.computing.as_mut().filter(|it| it.plan == plan) {
            self.urgent.send_replace(self.requested);
            drop((&mut computing.task).await);
            self.computing = None;
        }
    }

    /// The computed baseline of the plan, if it was not returned before; with `wait`, waits for it.
    pub async fn computed(&mut self, wait: bool) -> Option<Arc<T>> {
        if wait {
            self.until_computed().await;
        }
        let mut held = lock(&self.held);
        let plan = held.plan;
        let computed = held.computed.as_mut().filter(|it| it.plan == plan && !it.is_returned)?;
        computed.is_returned = true;
        Some(computed.baseline.clone())
    }

    /// The best baseline available now.
    pub async fn latest(&mut self) -> Option<Arc<T>> {
        let known = lock(&self.held).of_plan();
        match known {
            Some(known) => Some(known),
            None => made(&self.held).await.ok().flatten(),
        }
    }
}

/// The carried baseline of a plan, for another task, which should drop it soon: it holds its memory.
pub struct CarriedBaseline<T>(Arc<Carried<T>>);

impl<T: Send + Sync + 'static> CarriedBaseline<T> {
    /// The baseline; `None` if its work failed.
    pub async fn made(self) -> Option<Arc<T>> {
        spawn_preparation(move || LazyLock::force(&self.0).clone()).await.ok().flatten()
    }
}

impl<T> HeldPlan<T> {
    /// The computed baseline of the plan.
    fn of_plan(&self) -> Option<Arc<T>> {
        let computed = self.computed.as_ref().filter(|computed| computed.plan == self.plan)?;
        Some(computed.baseline.clone())
    }

    /// The computed baseline of an earlier plan.
    fn of_earlier_plan(&self) -> Option<Arc<T>> {
        let computed = self.computed.as_ref().filter(|computed| computed.plan < self.plan)?;
        Some(computed.baseline.clone())
    }

    /// The carried baseline, which is made.
    fn made(&self) -> Option<Arc<T>> {
        self.carried.as_ref().and_then(|carried| LazyLock::force(carried).clone())
    }

    /// The time without a new plan after which the baseline is computed.
    fn quiet(&self) -> Duration {
        MAX_QUIET.min(self.duration * QUIET_FACTOR)
    }

    /// The work of the pending computation with this number; `None` if it is not needed any more.
    fn work(&self, number: u64) -> Option<Arc<dyn Computation<T>>> {
        let pending = self.pending.as_ref()?;
        (pending.number == number && pending.plan == self.plan).then(|| pending.work.clone())
    }

    /// Keeps the computed baseline of a plan, and returns what is not needed any more.
    fn keep(&mut self, plan: u64, baseline: Arc<T>) -> Unneeded<T> {
        debug_assert!(plan <= self.plan, "a baseline is computed for a plan that was provided");
        let computed = self.computed.replace(Computed { plan, baseline, is_returned: false });
        // That of an earlier plan may be valid for the present one.
        let is_present = plan == self.plan;
        Unneeded { _computed: computed, _carried: self.carried.take_if(|_| is_present) }
    }
}

/// Baselines that are not needed any more. To free them takes a while.
struct Unneeded<T> {
    _computed: Option<Computed<T>>,
    _carried: Option<Arc<Carried<T>>>,
}

/// Keeps the computed baseline of an earlier plan if it is valid for the pending computation `number`,
/// which is done then. Otherwise frees it, unless nothing else is known.
fn keep_earlier<T: 'static>(held: &Mutex<HeldPlan<T>>, number: u64) {
    let now = lock(held);
    let Some(work) = now.work(number) else { return };
    let Some(earlier) = now.of_earlier_plan() else { return };
    drop(now);
    let is_valid = work.is_still_valid(&earlier);
    let mut now = lock(held);
    if now.work(number).is_none() {
        return;
    }
    let plan = now.plan;
    let unneeded = if is_valid {
        now.pending = None;
        now.keep(plan, earlier)
    } else {
        drop(earlier);
        let is_known = now.made().is_some();
        Unneeded { _computed: now.computed.take_if(|_| is_known), _carried: None }
    };
    drop(now);
    drop((unneeded, work));
}

/// Computes the baseline of the computation `number` if it is needed. `urgent`: see [`BaselineCache::urgent`].
async fn compute_when_quiet<T: Send + Sync + 'static>(
    held: Arc<Mutex<HeldPlan<T>>>,
    number: u64,
    requested: Instant,
    mut urgent: watch::Receiver<u64>,
) {
    drop(made(&held).await);
    let checked = held.clone();
    drop(spawn_preparation(move || keep_earlier(&checked, number)).await);
    if lock(&held).work(number).is_none() {
        return;
    }
    let quiet = requested + lock(&held).quiet();
    drop(timeout_at(quiet, urgent.wait_for(|&urgent| urgent >= number)).await);
    let start = Instant::now();
    let computed = held.clone();
    let is_done = spawn_idle(move || compute(&computed, number)).await;
    if is_done.is_ok_and(|is_done| is_done) {
        lock(&held).duration = start.elapsed();
    }
}

/// Computes the baseline of the pending computation `number`. False if it is not needed any more.
fn compute<T: 'static>(held: &Mutex<HeldPlan<T>>, number: u64) -> bool {
    let mut now = lock(held);
    let Some(work) = now.work(number) else { return false };
    now.pending = None;
    let plan = now.plan;
    let last = now.of_plan().or_else(|| now.made()).or_else(|| now.of_earlier_plan());
    drop(now);
    let Some(computed) = work.compute(last.as_deref()) else { return true };
    drop((work, last));
    let mut now = lock(held);
    let unneeded = now.keep(plan, Arc::new(computed));
    drop(now);
    drop(unneeded);
    true
}

/// Frees something of a large fabric, which takes a while, on another thread.
fn free<T: Send + 'static>(unused: Option<T>) {
    if unused.is_some() {
        drop(spawn_low_priority(move || drop(unused)));
    }
}

/// The carried baseline, when its work is done on another thread.
fn made<T: Send + Sync + 'static>(held: &Mutex<HeldPlan<T>>) -> JoinHandle<Option<Arc<T>>> {
    let carried = lock(held).carried.clone();
    spawn_preparation(move || carried.and_then(|carried| LazyLock::force(&carried).clone()))
}

fn lock<T>(held: &Mutex<HeldPlan<T>>) -> MutexGuard<'_, HeldPlan<T>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
