//! Baselines for the next plan, computed on other threads, so that planning rarely waits for them.
//!
//! After a plan has passed verification, its intermediate results become a *carried* baseline. That
//! takes tens of milliseconds in a large fabric, and starts when the plan is programmed, which needs
//! the cores before; the baseline may over-approximate dependencies.
//! Once the devices hold the plan, a baseline is *computed* in full from the acknowledged fabric,
//! which may take a second, and replaces the carried one when complete. If the fabric changes
//! before, the next plan uses the carried baseline.
//!
//! The baseline of a large fabric takes tens of megabytes. So a computation may free the last computed
//! one ([`Last`]), and what a complete one replaces is freed at once.

use crate::contained;
use crate::daemon::process::priority::{spawn_idle, spawn_low_priority, spawn_preparation};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// A carried baseline, made when it is first needed; `None` if that failed.
type Carried<T> = LazyLock<Option<Arc<T>>, Box<dyn FnOnce() -> Option<Arc<T>> + Send>>;

/// The work of a computation. It holds a fabric and its plan.
type Compute<T> = Box<dyn FnOnce(Last<T>) -> Option<Arc<T>> + Send>;

/// The baselines that a computation may start from.
#[derive(PartialEq, Eq, Debug)]
pub struct Last<T> {
    /// The last computed one, of the same plan or of an earlier one. The cache does not keep it.
    pub computed: Option<Arc<T>>,
    /// The carried one, if there is no computed one of its plan.
    pub carried: Option<Arc<T>>,
}

/// The baselines, and the tasks that compute them.
pub struct BaselineCache<T> {
    held: Arc<Mutex<HeldPlan<T>>>,
    /// The last computation, which waits for the ones before it.
    computing: Option<Computing>,
}

/// A computation in progress.
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
    /// The computation requested last, until it starts, with the number of its plan: of others that
    /// wait, nothing is kept.
    pending: Option<(u64, Compute<T>)>,
}

struct Computed<T> {
    plan: u64,
    baseline: Arc<T>,
    /// [`BaselineCache::computed`] has returned it.
    is_returned: bool,
}

impl<T> Default for BaselineCache<T> {
    fn default() -> Self {
        let held = HeldPlan { plan: 0, carried: None, computed: None, pending: None };
        Self { held: Arc::new(Mutex::new(held)), computing: None }
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

    /// Starts `work`, which computes the baseline in full, or returns the last computed one if that
    /// is still valid. Computations run one at a time, and are skipped if a later one was requested
    /// meanwhile.
    pub fn compute(&mut self, work: impl FnOnce(Last<T>) -> Option<Arc<T>> + Send + 'static) {
        let before = self.computing.take();
        let mut held = lock(&self.held);
        let plan = held.plan;
        let skipped = held.pending.replace((plan, Box::new(work)));
        drop(held);
        free(skipped);
        let held = self.held.clone();
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                drop(before.task.await);
            }
            let carried = made(&held).await.ok().flatten();
            // Without a pending one, the task before this one did the work.
            let pending = lock(&held).pending.take();
            if let Some((plan, work)) = pending {
                let last = Last { computed: take_computed(&held), carried };
                let idle = spawn_idle(move || {
                    let Some(computed) = work(last) else { return };
                    let mut held = lock(&held);
                    let before = held.keep(plan, computed);
                    let carried = held.take_replaced();
                    drop(held);
                    // These take a while.
                    drop(before);
                    drop(carried);
                });
                drop(idle.await);
            }
        });
        self.computing = Some(Computing { plan, task });
    }

    /// Waits until [`Self::computed`] has no need to wait. May be cancelled.
    pub async fn until_computed(&mut self) {
        let plan = lock(&self.held).plan;
        // A computation for an earlier plan gives nothing to wait for.
        if let Some(computing) = self.computing.as_mut().filter(|it| it.plan == plan) {
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

    /// Keeps the result of a computation, and returns the one before it. That for an earlier plan serves
    /// [`Last::computed`] only.
    fn keep(&mut self, plan: u64, baseline: Arc<T>) -> Option<Computed<T>> {
        debug_assert!(plan <= self.plan, "a baseline is computed for a plan that was provided");
        self.computed.replace(Computed { plan, baseline, is_returned: false })
    }

    /// Takes the carried baseline if there is a computed one.
    fn take_replaced(&mut self) -> Option<Arc<Carried<T>>> {
        self.of_plan().and_then(|_| self.carried.take())
    }
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

/// Takes the last computed baseline; a copy if it is that of the plan, which needs it until there is
/// another one.
fn take_computed<T>(held: &Mutex<HeldPlan<T>>) -> Option<Arc<T>> {
    let mut held = lock(held);
    held.of_plan().or_else(|| held.computed.take().map(|computed| computed.baseline))
}

fn lock<T>(held: &Mutex<HeldPlan<T>>) -> MutexGuard<'_, HeldPlan<T>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn the_carried_baseline_serves_until_one_is_computed() {
        let mut baselines = BaselineCache::default();
        assert_eq!(baselines.latest().await, None);
        baselines.provide(Arc::new("provided"));
        assert_eq!(baselines.latest().await.as_deref(), Some(&"provided"));
        baselines.carry(|| "carried 1");
        baselines.start_carrying();
        baselines.start_carrying();
        let (go, gate) = mpsc::channel::<()>();
        let (begin, begins) = oneshot::channel();
        baselines.compute(move |last| {
            assert_eq!(last.computed, None);
            assert_eq!(last.carried.as_deref(), Some(&"carried 1"));
            begin.send(()).ok()?;
            gate.recv().ok()?;
            Some(Arc::new("computed 1"))
        });
        begins.await.expect("the computation starts");
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
        baselines.carry(|| "carried 2");
        assert_eq!(baselines.computed(true).await, None);
        baselines.compute(|_| unreachable!("a third one is requested"));
        baselines.carry(|| "carried 3");
        baselines.compute(|last| {
            assert_eq!(last.computed.as_deref(), Some(&"computed 1"));
            assert_eq!(last.carried.as_deref(), Some(&"carried 3"));
            Some(Arc::new("computed 3"))
        });
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 3"));
        go.send(()).expect("the computation waits");
        assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed 3"));
        assert_eq!(baselines.latest().await.as_deref(), Some(&"computed 3"));
    }

    /// A fabric that changes faster than its baseline is computed must not fill the memory.
    #[tokio::test]
    async fn nothing_is_kept_of_skipped_computations() {
        let mut baselines = BaselineCache::default();
        let (go, gate) = mpsc::channel::<()>();
        let (begin, begins) = oneshot::channel();
        baselines.compute(move |_| {
            begin.send(()).ok()?;
            gate.recv().ok()?;
            Some(Arc::new(0))
        });
        begins.await.expect("the computation starts");
        let fabric = Arc::new(());
        for number in 1..=20 {
            let fabric = fabric.clone();
            baselines.carry(|| -1);
            baselines.compute(move |_| {
                drop(fabric);
                Some(Arc::new(number))
            });
        }
        let start = tokio::time::Instant::now();
        while Arc::strong_count(&fabric) > 2 {
            assert!(start.elapsed().as_secs() < 30, "{} are held", Arc::strong_count(&fabric) - 1);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        go.send(()).expect("the computation waits");
        assert_eq!(baselines.computed(true).await.as_deref(), Some(&20));
        assert_eq!(Arc::strong_count(&fabric), 1);
    }

    #[tokio::test]
    async fn waiting_for_a_computation_may_be_cancelled() {
        let mut baselines = BaselineCache::default();
        baselines.until_computed().await;
        let (go, gate) = mpsc::channel::<()>();
        baselines.compute(move |_| {
            gate.recv().ok()?;
            Some(Arc::new(1))
        });
        for _ in 0..3 {
            tokio::select! {
                () = baselines.until_computed() => unreachable!("it waits"),
                () = tokio::task::yield_now() => {}
            }
        }
        go.send(()).expect("the computation waits");
        baselines.until_computed().await;
        baselines.until_computed().await;
        assert_eq!(baselines.computed(true).await.as_deref(), Some(&1));
        assert_eq!(baselines.computed(true).await, None, "returned once");
    }

    #[tokio::test]
    async fn a_failed_computation_leaves_the_carried_baseline() {
        let mut baselines = BaselineCache::default();
        baselines.carry(|| 1);
        baselines.compute(|_| None);
        assert_eq!(baselines.computed(true).await, None);
        assert_eq!(baselines.latest().await.as_deref(), Some(&1));
    }
}
