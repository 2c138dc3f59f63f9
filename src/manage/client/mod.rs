//! The commands that talk to a running daemon: `torus-sm status`, `torus-sm events` and so on.
//!
//! * [`run`]: carries a command out; `instance`: finds the daemon; `http`: requests to it;
//! * `show`: `--json`, `--watch`, standard output; `wait`: results of actions;
//! * `status`, `replication`, `lists`, `path`, `top`, `perfmgr`: readable replies;
//! * `table`: columns of text; `values`: units and lists.

mod http;
mod instance;
mod lists;
mod path;
mod perfmgr;
mod replication;
pub mod run;
mod show;
mod status;
mod table;
mod top;
mod values;
mod wait;
