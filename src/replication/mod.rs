//! Shared state: instances of torus-sm on one subnet keep what a successor of the master needs.
//!
//! ```text
//! master                                              standby
//! SA server ── Page ──►┐                          ┌──► SA server (Importer)
//! manager ─ StateFiles ┴─► session ══ TLS ══► session ─► cache folder, next takeover
//!                             ◄════ Hello: role, configuration ════►
//! ```
//!
//! Every instance connects to all its peers and accepts their connections ([`service`]). On each
//! connection, a [`session`] sends who this instance is and how it is configured; both sides
//! compare the configurations ([`comparison`]). A standby follows the session with the SM that it
//! stands by for: that one sends the registrations of SA clients as they change, and the contents
//! of guid2lid, guid2mkey and neighbors.
//!
//! The election and the fabric know nothing of this: who is master is decided by SMInfo alone.
//! Without a connection a standby keeps what it has got; the sessions run on a thread of their own,
//! and neither the manager nor the SA server waits for one.
//!
//! * [`protocol`]: messages and their framing; [`network`]: byte streams between instances;
//!   [`tls`]: those of a real network
//! * [`local`]: what the daemon and the sessions share
//! * [`status`]: what the management interface shows

pub mod comparison;
pub mod local;
pub mod network;
pub mod protocol;
pub mod service;
pub mod session;
pub mod status;
pub mod tls;
