//! The commands that talk to a running daemon: `torus-sm status`, `torus-sm events` and so on.
//!
//! * [`run`]: carries a command out; `instance`: finds the daemon; `http`: requests to it;
//! * `show`: `--json`, `--watch`, standard output; `act`: actions; `wait`: their results; `stop`;
//! * `check`: the state in one line, for monitoring plug-ins;
//! * `status`, `incidents`, `replication`, `lists`, `events`, `path`, `top`, `perfmgr`: readable replies; `port`: names of ports;
//! * [`candidates`]: names for completions; `table`: columns of text; `values`: units and lists.

mod act;
mod adaptive;
pub mod candidates;
mod check;
mod events;
mod http;
mod incidents;
mod instance;
mod lists;
mod path;
mod perfmgr;
mod port;
mod replication;
pub mod run;
mod show;
mod status;
mod stop;
mod table;
mod top;
mod values;
mod wait;
