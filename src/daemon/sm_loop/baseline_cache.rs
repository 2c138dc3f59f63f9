//! Baselines for the next plan, computed on other threads, so that planning rarely waits for them.
//!
//! After a plan has passed verification, its intermediate results become a *carried* baseline. That
//! takes tens of milliseconds in a large fabric, and starts when the plan is programmed, which needs
//! the cores before; the baseline may over-approximate dependencies.
//! Once the devices hold the plan, a baseline is *computed* in full from the acknowledged fabric,
//! which may take a second, and replaces the carried one when complete. If the fabric changes
//! before, the next plan uses the carried baseline.

use crate::daemon::process::priority::{spawn_idle, spawn_low_priority, spawn_preparation};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

type Task<T> = JoinHandle<Option<Arc<T>>>;

/// The work that makes a carried baseline.
type Carry<T> = Box<dyn FnOnce() -> T + Send + Sync>;

/// The work of a computation, from the last computed baseline. It holds a fabric and its plan.
type Compute<T> = Box<dyn FnOnce(Option<Arc<T>>) -> Option<Arc<T>> + Send>;

/// The baselines, and the tasks that compute them.
pub struct BaselineCache<T> {
    /// The baseline to use while no task has a newer one.
    known: Option<Arc<T>>,
    /// Work of [`Self::carry`] that has not started.
    to_carry: Option<Carry<T>>,
    carrying: Option<Task<T>>,
    computing: Option<Task<T>>,
    /// The unfinished computation for an earlier plan.
    superseded: Option<Task<T>>,
    /// The last computed baseline.
    computed: Option<Arc<T>>,
    /// The computation requested last, until it starts: of others that wait, nothing is kept.
    pending: Arc<Mutex<Option<Compute<T>>>>,
}

impl<T> Default for BaselineCache<T> {
    fn default() -> Self {
        let (known, to_carry, carrying, computing, superseded) = Default::default();
        let (computed, pending) = Default::default();
        Self { known, to_carry, carrying, computing, superseded, computed, pending }
    }
}

impl<T: Send + Sync + 'static> BaselineCache<T> {
    /// Uses a baseline that was computed elsewhere until there is a newer one.
    pub fn provide(&mut self, known: Arc<T>) {
        self.known = Some(known);
    }

    /// Replaces the baseline by the result of `work`, which turns the results of a verified plan
    /// into a carried baseline. It starts with [`Self::start_carrying`], or when it is waited for.
    pub fn carry(&mut self, work: impl FnOnce() -> T + Send + Sync + 'static) {
        if let Some(computing) = self.computing.take() {
            self.superseded = Some(computing);
        }
        self.known = None;
        self.carrying = None;
        self.to_carry = Some(Box::new(work));
    }

    /// Starts the work of the last [`Self::carry`], if it has not started.
    pub fn start_carrying(&mut self) {
        if let Some(work) = self.to_carry.take() {
            self.carrying = Some(spawn_preparation(move || Some(Arc::new(work()))));
        }
    }

    /// Starts `work`, which computes the baseline in full, or returns the last computed one, its
    /// argument, if that is still valid. Computations run one at a time, and are skipped if a
    /// later one was requested meanwhile.
    pub fn compute(
        &mut self,
        work: impl FnOnce(Option<Arc<T>>) -> Option<Arc<T>> + Send + 'static,
    ) {
        let before = self.computing.take().or(self.superseded.take());
        let mut last = self.computed.clone();
        let pending = self.pending.clone();
        let skipped = exchange(&pending, Some(Box::new(work)));
        if skipped.is_some() {
            // To free a large fabric takes a while.
            drop(spawn_low_priority(move || drop(skipped)));
        }
        self.computing = Some(tokio::spawn(async move {
            if let Some(Ok(Some(before))) = finished(before).await {
                last = Some(before);
            }
            match exchange(&pending, None) {
                Some(work) => spawn_idle(move || work(last)).await.ok().flatten(),
                // The task before this one did the work.
                None => last,
            }
        }));
    }

    /// Waits until [`Self::computed`] has no need to wait. May be cancelled.
    pub async fn until_computed(&mut self) {
        let Some(task) = self.computing.as_mut() else { return };
        let computed = task.await.ok().flatten();
        self.computing = Some(tokio::spawn(std::future::ready(computed)));
    }

    /// A computed baseline, if it was not returned before; with `wait`, waits for it.
    pub async fn computed(&mut self, wait: bool) -> Option<Arc<T>> {
        let computing = self.computing.take_if(|task| wait || task.is_finished())?;
        let computed = computing.await.ok().flatten()?;
        (self.known, self.computed) = (Some(computed.clone()), Some(computed.clone()));
        (self.to_carry, self.carrying) = (None, None);
        Some(computed)
    }

    /// The best baseline available now.
    pub async fn latest(&mut self) -> Option<Arc<T>> {
        if self.computed(false).await.is_none() {
            self.start_carrying();
            if let Some(carrying) = self.carrying.take() {
                self.known = carrying.await.ok().flatten();
            }
        }
        self.known.clone()
    }
}

/// Replaces the pending computation, and returns it.
fn exchange<T>(pending: &Mutex<Option<Compute<T>>>, by: Option<Compute<T>>) -> Option<Compute<T>> {
    let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut pending, by)
}

async fn finished<T>(task: Option<JoinHandle<T>>) -> Option<Result<T, tokio::task::JoinError>> {
    match task {
        Some(task) => Some(task.await),
        None => None,
    }
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
            assert_eq!(last, None);
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
            assert_eq!(last.as_deref(), Some(&"computed 1"));
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
