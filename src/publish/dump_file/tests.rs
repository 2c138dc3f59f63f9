use super::*;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The events of a watch on `path` while `act` runs.
fn events(path: &Path, watched: AddWatchFlags, act: impl FnOnce()) -> Vec<InotifyEvent> {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
    watch.add_watch(path, watched).expect("a watch");
    act();
    // Without an event the queue is empty (EAGAIN).
    watch.read_events().unwrap_or_default()
}

fn dump() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("opensm-subnet.lst");
    write(&path, "old lines\n").expect("written");
    (dir, path)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a dump")
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("a file").ino()
}

fn has_close_write(events: &[InotifyEvent]) -> bool {
    events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_CLOSE_WRITE))
}

#[test]
fn a_watch_on_a_dump_sees_each_new_one() {
    let (dir, path) = dump();
    for content in ["longer than the lines before\n", "short\n"] {
        let seen = events(&path, AddWatchFlags::IN_ALL_EVENTS, || {
            write(&path, content).expect("written");
        });
        assert!(has_close_write(&seen), "{seen:?}");
        assert!(!seen.iter().any(|event| event.mask.contains(AddWatchFlags::IN_IGNORED)));
        assert_eq!(text(&path), content);
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "no other file is left");
}

#[test]
fn a_watch_on_the_folder_sees_the_name_of_the_dump() {
    let (dir, path) = dump();
    let name = path.file_name().expect("a name").to_owned();
    for is_new in [false, true] {
        if is_new {
            fs::remove_file(&path).expect("removed");
        }
        let seen = events(dir.path(), AddWatchFlags::IN_CLOSE_WRITE, || {
            write(&path, "new\n").expect("written");
        });
        let names: Vec<&OsStr> = seen.iter().filter_map(|event| event.name.as_deref()).collect();
        assert!(names.contains(&&*name), "{seen:?}");
    }
}

/// A file that is truncated before it is written is empty for a moment.
#[test]
fn readers_find_no_half_file() {
    const LENGTH: usize = 100_000;
    let (_dir, path) = dump();
    write(&path, &"a".repeat(LENGTH)).expect("written");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(text(&path).len(), LENGTH);
            }
        });
        for letter in ["b", "c", "d", "e"].iter().cycle().take(200) {
            write(&path, &letter.repeat(LENGTH)).expect("written");
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().expect("no half file");
    });
}

#[test]
fn only_plain_files_of_this_user_keep_their_inode() {
    let (dir, path) = dump();
    let first = inode(&path);
    write(&path, "again\n").expect("written");
    assert_eq!(inode(&path), first);

    let other = dir.path().join("other");
    fs::hard_link(&path, &other).expect("a link");
    write(&path, "new\n").expect("written");
    assert_eq!((text(&path).as_str(), text(&other).as_str()), ("new\n", "again\n"));

    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&other, &path).expect("a link");
    write(&path, "newer\n").expect("written");
    assert_eq!((text(&path).as_str(), text(&other).as_str()), ("newer\n", "again\n"));
    assert!(fs::symlink_metadata(&path).expect("a file").is_file());
}

#[test]
fn private_content_never_goes_to_a_file_that_others_can_read() {
    let (_dir, path) = dump();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("owned");
    // Another program has opened the readable file, and keeps it open.
    let mut opened = File::open(&path).expect("readable");
    write_private(&path, "a key\n", false).expect("written");
    let mut seen = String::new();
    io::Read::read_to_string(&mut opened, &mut seen).expect("readable");
    assert_eq!((seen.as_str(), text(&path).as_str()), ("old lines\n", "a key\n"));
    let first = inode(&path);
    let status = fs::metadata(&path).expect("a file");
    assert_eq!(status.mode() & 0o777, 0o600);
    write_private(&path, "another key\n", true).expect("written");
    assert_eq!((inode(&path), text(&path).as_str()), (first, "another key\n"));
}
