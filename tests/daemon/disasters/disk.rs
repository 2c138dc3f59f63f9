//! Errors of the file system: the daemon's cache folder is not there, is not a folder, is full, or
//! has folders in the place of its files. The files must be right once the errors are over.

use std::fs;
use std::path::{Path, PathBuf};
use torus_sm::config::guid2lid;
use torus_sm::fabric::Fabric;
use torus_sm::ids::{Guid, Lid};

/// Events of this kind, without the prefix `disk `.
pub(super) const ERRORS: [&str; 4] = ["gone", "not-a-folder", "full", "blocked"];
/// The event that ends all errors.
pub(super) const REPAIRED: &str = "disk repaired";

/// Files in the cache folder.
const FILES: [&str; 3] = ["guid2lid", "guid2mkey", "neighbors"];

/// A cache folder with errors.
pub(super) struct CacheDisk {
    folder: PathBuf,
    aside: PathBuf,
}

impl CacheDisk {
    /// Creates the folder.
    pub(super) fn new(folder: PathBuf) -> Self {
        fs::create_dir(&folder).expect("a new folder");
        let aside = folder.with_extension("aside");
        Self { folder, aside }
    }

    /// Ends the errors before, and begins another one of [`ERRORS`].
    pub(super) fn event(&self, event: &str) {
        self.repair();
        match event {
            "gone" => self.put_aside(),
            "not-a-folder" => {
                self.put_aside();
                fs::write(&self.folder, "").expect("a file");
            }
            "full" => {
                // The next write fails; the daemon then removes its temporary file.
                let temporary = format!("guid2lid.{}.tmp", std::process::id());
                std::os::unix::fs::symlink("/dev/full", self.folder.join(temporary))
                    .expect("a link");
            }
            "blocked" => FILES.iter().for_each(|file| {
                let path = self.folder.join(file);
                let _ = fs::remove_file(&path);
                fs::create_dir(path).expect("a folder");
            }),
            _ => {}
        }
    }

    fn put_aside(&self) {
        fs::rename(&self.folder, &self.aside).expect("the folder is there");
    }

    fn repair(&self) {
        if self.folder.is_dir() && self.aside.exists() {
            // The daemon has made the folder again.
            fs::remove_dir_all(&self.aside).expect("the folder was put aside");
        } else if self.aside.exists() {
            let _ = fs::remove_file(&self.folder);
            fs::rename(&self.aside, &self.folder).expect("the folder was put aside");
        }
        for entry in fs::read_dir(&self.folder).expect("the folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                fs::remove_dir(path).expect("an empty folder");
            } else if path.is_symlink() {
                fs::remove_file(path).expect("a link");
            }
        }
    }

    /// End ports whose LID is not that of guid2lid.
    pub(super) fn faults(&self, fabric: &Fabric, lmc: u8) -> Vec<String> {
        let stored = stored(&self.folder.join("guid2lid"), lmc);
        let port = |id| (fabric.port(id).guid, fabric.port(id).info().map(|info| info.lid()));
        let ports = fabric.end_ports().map(port).filter(|(_, lid)| lid.is_some());
        let wrong = ports.filter(|&(guid, lid)| stored(guid) != lid);
        let text = |(guid, lid)| format!("guid2lid: {guid} has {:?}, not {lid:?}", stored(guid));
        wrong.map(text).collect()
    }
}

/// The LIDs in a file guid2lid.
fn stored(path: &Path, lmc: u8) -> impl Fn(Guid) -> Option<Lid> + use<> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let (lids, _) = guid2lid::parse(path, &text, lmc);
    move |guid| lids.get(&guid).map(|range| range.0)
}
