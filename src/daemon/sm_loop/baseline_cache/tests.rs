//! Which baseline serves, when one is computed, and what is freed.

use super::*;
use std::sync::mpsc;
use tokio::sync::oneshot;

type TestBaselines = BaselineCache<&'static str>;

/// A computation with a fixed result.
struct Given {
    /// The baseline of an earlier plan that is still valid.
    valid: &'static str,
    /// The baseline that it must start from.
    last: Option<&'static str>,
    result: Option<&'static str>,
}

impl Computation<&'static str> for Given {
    fn is_still_valid(&self, earlier: &&'static str) -> bool {
        *earlier == self.valid
    }

    fn compute(&self, last: Option<&&'static str>) -> Option<&'static str> {
        assert_eq!(last.copied(), self.last);
        self.result
    }
}

fn given(last: Option<&'static str>, result: &'static str) -> Given {
    Given { valid: "", last, result: Some(result) }
}

/// A computation that another one replaces.
struct Skipped;

impl Computation<&'static str> for Skipped {
    fn is_still_valid(&self, _: &&'static str) -> bool {
        false
    }

    fn compute(&self, _: Option<&&'static str>) -> Option<&'static str> {
        unreachable!("another one was requested");
    }
}

/// A computation that tells its start, and ends when it may.
struct Gated {
    begin: Mutex<Option<oneshot::Sender<()>>>,
    gate: Mutex<mpsc::Receiver<()>>,
    result: &'static str,
}

impl Computation<&'static str> for Gated {
    fn is_still_valid(&self, _: &&'static str) -> bool {
        false
    }

    fn compute(&self, _: Option<&&'static str>) -> Option<&'static str> {
        let begin = self.begin.lock().expect("no panic").take()?;
        begin.send(()).ok()?;
        self.gate.lock().expect("no panic").recv().ok()?;
        Some(self.result)
    }
}

fn gated(result: &'static str) -> (Gated, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (begin, begins) = oneshot::channel();
    let (go, gate) = mpsc::channel();
    let (begin, gate) = (Mutex::new(Some(begin)), Mutex::new(gate));
    (Gated { begin, gate, result }, begins, go)
}

#[tokio::test(start_paused = true)]
async fn the_carried_baseline_serves_until_one_is_computed() {
    let mut baselines = TestBaselines::default();
    assert_eq!(baselines.latest().await, None);
    baselines.provide(Arc::new("provided"));
    assert_eq!(baselines.latest().await.as_deref(), Some(&"provided"));
    baselines.carry(|| "carried 1");
    baselines.start_carrying();
    baselines.start_carrying();
    let (first, begins, go) = gated("computed 1");
    baselines.compute(first);
    begins.await.expect("the computation starts");
    assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
    assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 1"));
    baselines.carry(|| "carried 2");
    assert_eq!(baselines.computed(true).await, None);
    baselines.compute(Skipped);
    baselines.carry(|| "carried 3");
    baselines.compute(given(Some("carried 3"), "computed 3"));
    assert_eq!(baselines.latest().await.as_deref(), Some(&"carried 3"));
    go.send(()).expect("the computation waits");
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed 3"));
    assert_eq!(baselines.latest().await.as_deref(), Some(&"computed 3"));
}

#[tokio::test(start_paused = true)]
async fn a_baseline_is_computed_when_the_fabric_is_quiet_or_it_is_waited_for() {
    let mut baselines = TestBaselines::default();
    lock(&baselines.held).duration = Duration::from_millis(500);
    let quiet = Duration::from_millis(1500);
    let start = Instant::now();
    for _ in 0..3 {
        baselines.carry(|| "carried");
        baselines.compute(Skipped);
        tokio::time::sleep(quiet / 2).await;
    }
    let (work, begins, go) = gated("computed");
    baselines.compute(work);
    begins.await.expect("the computation starts");
    assert!(start.elapsed() >= quiet / 2 * 3 + quiet, "{:?}", start.elapsed());
    go.send(()).expect("the computation waits");
    baselines.until_computed().await;
    lock(&baselines.held).duration = Duration::from_secs(60);
    let start = Instant::now();
    baselines.compute(given(Some("computed"), "renewed"));
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"renewed"));
    assert!(start.elapsed() < quiet / 2, "{:?}", start.elapsed());
    let (work, begins, go) = gated("computed again");
    lock(&baselines.held).duration = Duration::from_secs(60);
    baselines.compute(work);
    begins.await.expect("the computation starts");
    assert!(start.elapsed() < 2 * MAX_QUIET, "{:?}", start.elapsed());
    go.send(()).expect("the computation waits");
    baselines.until_computed().await;
}

#[tokio::test(start_paused = true)]
async fn a_baseline_that_is_still_valid_is_kept_at_once() {
    let mut baselines = TestBaselines::default();
    baselines.carry(|| "carried 1");
    baselines.compute(given(Some("carried 1"), "computed 1"));
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed 1"));
    baselines.carry(|| "carried 2");
    lock(&baselines.held).duration = MAX_QUIET;
    let start = Instant::now();
    baselines.compute(Given { valid: "computed 1", ..given(None, "unneeded") });
    while lock(&baselines.held).pending.is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(start.elapsed() < MAX_QUIET, "{:?}", start.elapsed());
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed 1"));
    assert_eq!(baselines.latest().await.as_deref(), Some(&"computed 1"));
}

/// A computed baseline takes memory that the next plans need.
#[tokio::test(start_paused = true)]
async fn the_baseline_of_an_earlier_plan_is_freed_when_the_next_one_is_carried() {
    let mut baselines = TestBaselines::default();
    baselines.carry(|| "carried 1");
    baselines.compute(given(Some("carried 1"), "computed 1"));
    let computed = baselines.computed(true).await.expect("a baseline");
    let freed = Arc::downgrade(&computed);
    drop(computed);
    baselines.carry(|| "carried 2");
    lock(&baselines.held).duration = MAX_QUIET;
    let start = Instant::now();
    baselines.compute(given(Some("carried 2"), "computed 2"));
    while freed.strong_count() > 0 {
        assert!(start.elapsed() < MAX_QUIET, "it is kept");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed 2"));
}

/// A fabric that changes faster than its baseline is computed must not fill the memory.
#[tokio::test]
async fn nothing_is_kept_of_skipped_computations() {
    struct OfFabric(Arc<()>);

    impl Computation<&'static str> for OfFabric {
        fn is_still_valid(&self, _: &&'static str) -> bool {
            false
        }

        fn compute(&self, _: Option<&&'static str>) -> Option<&'static str> {
            (Arc::strong_count(&self.0) == 2).then_some("the last")
        }
    }

    let mut baselines = TestBaselines::default();
    let (first, begins, go) = gated("first");
    baselines.compute(first);
    tokio::select! {
        begins = begins => begins.expect("the computation starts"),
        () = baselines.until_computed() => unreachable!("it waits"),
    }
    let fabric = Arc::new(());
    for _ in 0..20 {
        baselines.carry(|| "carried");
        baselines.compute(OfFabric(fabric.clone()));
    }
    let start = Instant::now();
    while Arc::strong_count(&fabric) > 2 {
        assert!(start.elapsed().as_secs() < 30, "{} are held", Arc::strong_count(&fabric) - 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    go.send(()).expect("the computation waits");
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"the last"));
    assert_eq!(Arc::strong_count(&fabric), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_computation_may_be_cancelled() {
    let mut baselines = TestBaselines::default();
    baselines.until_computed().await;
    let (work, _begins, go) = gated("computed");
    baselines.compute(work);
    for _ in 0..3 {
        tokio::select! {
            () = baselines.until_computed() => unreachable!("it waits"),
            () = tokio::task::yield_now() => {}
        }
    }
    go.send(()).expect("the computation waits");
    baselines.until_computed().await;
    baselines.until_computed().await;
    assert_eq!(baselines.computed(true).await.as_deref(), Some(&"computed"));
    assert_eq!(baselines.computed(true).await, None, "returned once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_computation_leaves_the_carried_baseline() {
    let mut baselines = TestBaselines::default();
    baselines.carry(|| "carried");
    baselines.compute(Given { result: None, ..given(Some("carried"), "") });
    assert_eq!(baselines.computed(true).await, None);
    assert_eq!(baselines.latest().await.as_deref(), Some(&"carried"));
}
