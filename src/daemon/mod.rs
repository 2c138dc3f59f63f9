//! The daemon: one loop that owns the state, and the desks around it.
//!
//! ```text
//!                         ┌────────────── manager (one task, owns everything) ───────────┐
//!  port ─► intake ─► SMPs │ observe ─► plan ─► verify ─► apply ─► publish                │
//!    ▲        │           └───▲──────────────────────────────────────│───────────────────┘
//!    │        ├─► front desk ─┘ events (traps, SM roles)             ▼ snapshot
//!    │        └─► SA desk ◄────────────────────────────────── watch<Arc<Subnet>>
//!    └────────────────┘ replies, reports └─► membership events to the manager
//! ```
//!
//! * [`manager`]: the loop: events in, sweeps out; [`agenda`]: what is to be done next;
//! * [`surroundings`]: what it is placed in; [`sweeping`]: one pass through the stages,
//!   with [`planning`] beside the loop, which builds on what [`groundwork`] has ready, and [`policy`]; a
//!   short one where only multicast groups changed;
//! * [`partitions`]: who may talk to whom, as configured;
//! * [`transitions`]: what it took to change the tables of a fabric at work;
//! * [`front_desk`]: answers SMInfo, represses traps, tells the manager what is news;
//! * [`sa_desk`]: answers SA requests from the published snapshot, without waiting for sweeps, and
//!   reports notices; [`queue`]: requests that wait, port by port, known by their [`name`];
//!   [`clerks`]: threads that help with long answers; [`hatch`]: where short ones are given by those who bring the requests; [`archive`]: the
//!   registry on disk;
//! * [`joins`]: when changes of multicast groups are planned, and when they are answered;
//! * [`files`]: the files that a pass reads and writes; [`scribe`]: writes them beside the loop;
//! * [`signals`]: HUP, USR1, INT, TERM; [`logging`]: the log, [`tell`]: its well-known lines;
//! * [`start`]: puts the desks together; [`launch`]: the process, its [`threads`] and their
//!   [`priority`], and
//!   [`background`] for `-B`;

pub mod launch;
pub mod messages;
pub mod process;
pub mod sa_server;
pub mod sm_loop;
pub mod start;
