//! The node name map (`node_name_map_name`): read at the start and on SIGHUP. Errors are logged with
//! their lines, and the previous names stay.

use crate::config::files;
use crate::config::options::Options;
use crate::daemon::process::operator_log;
use crate::fabric::node_names::NodeNames;
use crate::notes::counted;
use std::sync::Arc;
use tracing::{error, info};

/// The names as last read.
#[derive(Debug, Default)]
pub(super) struct NodeNameState {
    names: Arc<NodeNames>,
    is_read: bool,
}

impl NodeNameState {
    /// Reads the file again at the next [`Self::current`].
    pub(super) fn reload(&mut self) {
        self.is_read = false;
    }

    /// The names; reads the file if needed.
    pub(super) fn current(&mut self, options: &Options) -> Arc<NodeNames> {
        if !std::mem::replace(&mut self.is_read, true) {
            self.read(options);
        }
        self.names.clone()
    }

    fn read(&mut self, options: &Options) {
        match files::node_names(options) {
            Ok((names, notes)) => {
                notes.iter().for_each(operator_log::note);
                let names: NodeNames = names.into_iter().collect();
                if *self.names != names {
                    info!("the node name map names {}", counted(names.len(), "node", "nodes"));
                    self.names = Arc::new(names);
                }
            }
            Err(notes) => {
                notes.iter().for_each(operator_log::note);
                let consequence = match self.names.is_empty() {
                    true => "nodes have the names of their descriptions",
                    false => "the previous names stay",
                };
                error!("the node name map is invalid; {consequence}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    #[test]
    fn an_invalid_map_keeps_the_previous_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("names");
        let options =
            Options { node_name_map_name: Some(path.display().to_string()), ..Options::default() };
        let mut state = NodeNameState::default();
        assert!(state.current(&options).is_empty());
        let mut read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            state.reload();
            state.current(&options)
        };
        let name = |names: &NodeNames| names.get(Guid(5)).map(ToString::to_string);
        assert_eq!(name(&read("0x5 \"spine\"\n")).as_deref(), Some("spine"));
        assert_eq!(name(&read("spine 0x5\n")).as_deref(), Some("spine"));
        assert_eq!(name(&read("5 other\n")).as_deref(), Some("other"));
        assert!(read("").is_empty());
    }
}
