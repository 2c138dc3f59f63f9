//! Baselines for the next plan, computed on other threads, so that planning rarely waits for them.
//!
//! After a plan has passed verification, its intermediate results become a *carried* baseline. That
//! takes tens of milliseconds in a large fabric; the baseline may over-approximate dependencies.
//! Once the devices hold the plan, a baseline is *computed* in full from the acknowledged fabric,
//! which may take a second, and replaces the carried one when complete. If the fabric changes
//! before, the next plan uses the carried baseline.

use crate::daemon::process::priority::{spawn_idle, spawn_low_priority};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;

type Task<T> = JoinHandle<Option<Arc<T>>>;

/// The baselines, and the tasks that compute them.
pub struct BaselineCache<T> {
    /// The baseline to use while no task has a newer one.
    known: Option<Arc<T>>,
    carrying: Option<Task<T>>,
    computing: Option<Task<T>>,
    /// The unfinished computation for an earlier plan.
    superseded: Option<Task<T>>,
    /// The last computed baseline.
    computed: Option<Arc<T>>,
    /// Number of computations requested.
    requested: Arc<AtomicU64>,
}

impl<T> Default for BaselineCache<T> {
    fn default() -> Self {
        let (known, computed, requested) = (None, None, Arc::default());
        Self { known, carrying: None, computing: None, superseded: None, computed, requested }
    }
}

impl<T: Send + Sync + 'static> BaselineCache<T> {
    /// Uses a baseline that was computed elsewhere until there is a newer one.
    pub fn provide(&mut self, known: Arc<T>) {
        self.known = Some(known);
    }

    /// Starts `work`, which turns the results of a verified plan into a carried baseline.
    pub fn carry(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        if let Some(computing) = self.computing.take() {
            self.superseded = Some(computing);
        }
        self.known = None;
        self.carrying = Some(spawn_low_priority(move || Some(Arc::new(work()))));
    }

    /// Starts `work`, which computes the baseline in full, or returns the last computed one, its
    /// argument, if that is still valid. Computations run one at a time, and are skipped if a
    /// later one was requested meanwhile.
    pub fn compute(
        &mut self,
        work: impl FnOnce(Option<Arc<T>>) -> Option<Arc<T>> + Send + 'static,
    ) {
        let before = self.computing.take().or(self.superseded.take());
        let (mut last, requested) = (self.computed.clone(), self.requested.clone());
        let number = requested.fetch_add(1, Ordering::Relaxed) + 1;
        self.computing = Some(tokio::spawn(async move {
            if let Some(Ok(Some(before))) = finished(before).await {
                last = Some(before);
            }
            if requested.load(Ordering::Relaxed) != number {
                return last;
            }
            spawn_idle(move || work(last)).await.ok().flatten()
        }));
    }

    /// A computed baseline, if it was not returned before; with `wait`, waits for it.
    pub async fn computed(&mut self, wait: bool) -> Option<Arc<T>> {
        let computing = self.computing.take_if(|task| wait || task.is_finished())?;
        let computed = computing.await.ok().flatten()?;
        (self.known, self.computed) = (Some(computed.clone()), Some(computed.clone()));
        self.carrying = None;
        Some(computed)
    }

    /// The best baseline available now.
    pub async fn latest(&mut self) -> Option<Arc<T>> {
        if self.computed(false).await.is_none()
            && let Some(carrying) = self.carrying.take()
        {
            self.known = carrying.await.ok().flatten();
        }
        self.known.clone()
    }
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

    #[tokio::test]
    async fn a_failed_computation_leaves_the_carried_baseline() {
        let mut baselines = BaselineCache::default();
        baselines.carry(|| 1);
        baselines.compute(|_| None);
        assert_eq!(baselines.computed(true).await, None);
        assert_eq!(baselines.latest().await.as_deref(), Some(&1));
    }
}
