//! The threads of the process. The loop has some, the desks have one of their own, so that they
//! answer while the loop compares the tables of thousands of switches; [`super::clerks`] help
//! when much is asked. Planning has all cores, behind them ([`super::priority`]).

use super::clerks::Clerks;
use super::launch::Failure;
use super::priority;
use crate::cli::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// How long the threads have to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where the desks work.
#[derive(Debug, Default)]
pub struct Desks {
    /// Their thread; without one they work where the loop does.
    pub thread: Option<Handle>,
    /// Who helps them.
    pub clerks: Clerks,
}

/// The threads.
pub struct Threads {
    main: Runtime,
    desks: Runtime,
}

impl Threads {
    /// Starts them.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn start() -> Result<Self, Failure> {
        priority::put_planners_behind();
        let start = |name: &str, count| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(count).thread_name(name).enable_time().build()
        };
        let threads =
            start("loop", 2).and_then(|main| start("desks", 1).map(|desks| Self { main, desks }));
        threads.map_err(|error| failure(&error))
    }

    /// Where the loop runs.
    pub fn main(&self) -> &Runtime {
        &self.main
    }

    /// Where the desks work.
    ///
    /// # Errors
    /// The kernel gives no threads for clerks.
    pub fn desks(&self) -> Result<Desks, Failure> {
        let clerks = Clerks::new().map_err(|error| failure(&error))?;
        Ok(Desks { thread: Some(self.desks.handle().clone()), clerks })
    }

    /// Ends them; what does not end in time is left behind.
    pub fn end(self) {
        self.desks.shutdown_timeout(FAREWELL);
        self.main.shutdown_timeout(FAREWELL);
    }
}

fn failure(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::System, format!("threads: {error}"))
}
