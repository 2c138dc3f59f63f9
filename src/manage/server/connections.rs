//! Counts connections: at most [`MAX_CONNECTIONS`], and of them at most [`MAX_PER_USER`] of a user,
//! so that no user keeps others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Maximum number of connections.
pub(super) const MAX_CONNECTIONS: usize = 128;

/// Maximum number of connections of a user; root may have all.
pub(super) const MAX_PER_USER: usize = 32;

/// Counts as the user of all clients of the TCP address: (uid_t) -1, which no user has.
pub(super) const NETWORK_USER: u32 = u32::MAX;

/// Connections that root alone may use.
const RESERVED_FOR_ROOT: usize = 32;

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    by_user: Mutex<HashMap<u32, usize>>,
    count: watch::Sender<usize>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { by_user: Mutex::default(), count: watch::Sender::new(0) }
    }
}

/// A place among the connections, given back when dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    connections: Arc<Connections>,
    uid: u32,
}

impl Connections {
    /// A place for a user; `None` above the limits.
    pub(super) fn take(self: &Arc<Self>, uid: u32) -> Option<ConnectionPlace> {
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        let total = self.count();
        let own = by_user.get(&uid).copied().unwrap_or(0);
        let is_free = match uid {
            0 => total < MAX_CONNECTIONS,
            _ => own < MAX_PER_USER && total < MAX_CONNECTIONS - RESERVED_FOR_ROOT,
        };
        if !is_free {
            return None;
        }
        by_user.insert(uid, own + 1);
        self.count.send_modify(|count| *count += 1);
        Some(ConnectionPlace { connections: self.clone(), uid })
    }

    /// Number of open connections.
    pub(super) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until no connection is open.
    pub(super) async fn all_closed(&self) {
        let _ = self.count.subscribe().wait_for(|&count| count == 0).await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let by_user = &self.connections.by_user;
        let mut by_user = by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = by_user.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                by_user.remove(&self.uid);
            }
        }
        self.connections.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_keeps_others_out() {
        let connections = Arc::<Connections>::default();
        let take = |uid: u32, count: usize| -> Vec<ConnectionPlace> {
            (0..count).map_while(|_| connections.take(uid)).collect()
        };
        let first = take(500, 200);
        assert_eq!(first.len(), MAX_PER_USER);
        let others: Vec<_> = (501..510).flat_map(|uid| take(uid, 200)).collect();
        assert_eq!(first.len() + others.len(), MAX_CONNECTIONS - RESERVED_FOR_ROOT);
        let root = take(0, 200);
        assert_eq!(root.len(), RESERVED_FOR_ROOT);
        assert_eq!(connections.count(), MAX_CONNECTIONS);
        drop((first, root));
        assert_eq!(take(500, 200).len(), MAX_PER_USER);
        drop(others);
        assert_eq!(connections.count(), 0);
    }
}
