//! What the next plan builds on, made beside the loop so that nothing waits for it long.
//!
//! Right after a plan has passed, what was found on the way is put together for the next one: that is
//! *carried*, takes tens of milliseconds in a large fabric, and may know of more than there is. When the
//! devices hold the plan, all is *laid* anew from the picture that they acknowledged, which may take
//! a second, and goes before what was carried as soon as it is there. If the fabric changes before,
//! the next plan builds on what was carried.

use crate::daemon::process::priority::{spawn_idle, spawn_low_priority};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;

type Work<T> = JoinHandle<Option<Arc<T>>>;

/// Foundations, and the work on them.
pub struct BaselineCache<T> {
    /// What the next plan builds on if the work brings nothing newer.
    known: Option<Arc<T>>,
    carrying: Option<Work<T>>,
    laying: Option<Work<T>>,
    /// Work for an earlier plan that has not come to its end.
    abandoned: Option<Work<T>>,
    /// The last one that was laid anew.
    laid: Option<Arc<T>>,
    /// How many were begun to be laid.
    begun: Arc<AtomicU64>,
}

impl<T> Default for BaselineCache<T> {
    fn default() -> Self {
        let (known, laid, begun) = (None, None, Arc::default());
        Self { known, carrying: None, laying: None, abandoned: None, laid, begun }
    }
}

impl<T: Send + Sync + 'static> BaselineCache<T> {
    /// A plan has passed: `work` carries what was found forward.
    pub fn carry(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        if let Some(laying) = self.laying.take() {
            self.abandoned = Some(laying);
        }
        self.known = None;
        self.carrying = Some(spawn_low_priority(move || Some(Arc::new(work()))));
    }

    /// The devices hold the plan: `work` lays the foundation anew, or takes the last one that was laid
    /// if it is good enough. Such work is done one at a time, and left out where there is a later
    /// plan already.
    pub fn lay(&mut self, work: impl FnOnce(Option<Arc<T>>) -> Option<Arc<T>> + Send + 'static) {
        let before = self.laying.take().or(self.abandoned.take());
        let (mut last, begun) = (self.laid.clone(), self.begun.clone());
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.laying = Some(tokio::spawn(async move {
            if let Some(Ok(Some(before))) = wait(before).await {
                last = Some(before);
            }
            if begun.load(Ordering::Relaxed) != number {
                return last;
            }
            spawn_idle(move || work(last)).await.ok().flatten()
        }));
    }

    /// What was laid anew, if that has not been asked for before; `must` says to wait for it.
    pub async fn laid(&mut self, must: bool) -> Option<Arc<T>> {
        let laying = self.laying.take_if(|work| must || work.is_finished())?;
        let laid = laying.await.ok().flatten()?;
        (self.known, self.laid) = (Some(laid.clone()), Some(laid.clone()));
        self.carrying = None;
        Some(laid)
    }

    /// The best there is for a plan that is made now.
    pub async fn latest(&mut self) -> Option<Arc<T>> {
        if self.laid(false).await.is_none()
            && let Some(carrying) = self.carrying.take()
        {
            self.known = carrying.await.ok().flatten();
        }
        self.known.clone()
    }
}

async fn wait<T>(work: Option<JoinHandle<T>>) -> Option<Result<T, tokio::task::JoinError>> {
    match work {
        Some(work) => Some(work.await),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn plans_build_on_what_was_carried_until_all_is_laid_anew() {
        let mut baselines = BaselineCache::default();
        assert_eq!(baselines.latest().await, None);
        baselines.carry(|| "carried 1");
        let (go, gate) = mpsc::channel::<()>();
        let (begin, begun) = oneshot::channel();
        baselines.lay(move |last| {
            assert_eq!(last, None);
            begin.send(()).ok()?;
            gate.recv().ok()?;
            Some(Arc::new("laid 1"))
        });
        begun.await.expect("it begins");
        // Nobody has opened the gate.
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
        baselines.carry(|| "carried 2");
        assert_eq!(baselines.laid(true).await, None);
        baselines.lay(|_| unreachable!("there is a third plan"));
        baselines.carry(|| "carried 3");
        baselines.lay(|last| {
            assert_eq!(last.as_deref(), Some(&"laid 1"));
            Some(Arc::new("laid 3"))
        });
        assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 3"));
        go.send(()).expect("it waits");
        assert_eq!(baselines.laid(true).await.as_deref(), Some(&"laid 3"));
        assert_eq!(baselines.latest().await.as_deref(), Some(&"laid 3"));
    }

    #[tokio::test]
    async fn what_cannot_be_laid_leaves_what_was_carried() {
        let mut baselines = BaselineCache::default();
        baselines.carry(|| 1);
        baselines.lay(|_| None);
        assert_eq!(baselines.laid(true).await, None);
        assert_eq!(baselines.latest().await.as_deref(), Some(&1));
    }
}
