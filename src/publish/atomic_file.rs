//! Replaces files atomically: the text goes to a temporary file in the same directory, which is
//! then renamed, so that readers see either the old or the new content. Files that other programs
//! watch are written by [`dump_file`](super::dump_file).

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Mode of world-readable files, before the umask is applied.
pub(super) const PUBLIC_MODE: u32 = 0o666;
/// Mode of files that contain keys.
pub(super) const PRIVATE_MODE: u32 = 0o600;
/// Size of the write buffer in bytes.
const BUFFER_SIZE: usize = 1 << 16;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}{}", path.display(), remedy(path, source))]
pub struct FileWriteError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// The action that lets the next attempt succeed, as the end of the message.
fn remedy(path: &Path, error: &io::Error) -> String {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("; create the directory {directory}"),
        io::ErrorKind::NotADirectory => format!("; {directory} must be a directory"),
        io::ErrorKind::PermissionDenied => {
            format!("; give this process write permission in {directory}")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("; remount the file system of {directory} read-write, or configure another one")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("; free space in the file system of {directory}")
        }
        _ => String::new(),
    }
}

/// Replaces the content of a file. With `sync`, fsync(2) is called before the rename.
///
/// # Errors
/// The first failing system call, with the path of the file.
pub fn replace(path: &Path, text: &str, sync: bool) -> Result<(), FileWriteError> {
    replace_with(path, sync, PUBLIC_MODE, |file| file.write_all(text.as_bytes()))
}

/// Like [`replace`], with read permission for the owner only: for files that contain keys.
///
/// # Errors
/// As [`replace`].
pub fn replace_private(path: &Path, text: &str, sync: bool) -> Result<(), FileWriteError> {
    replace_with(path, sync, PRIVATE_MODE, |file| file.write_all(text.as_bytes()))
}

/// Like [`replace_private`], for a file that is no text, without fsync(2).
///
/// # Errors
/// As [`replace`].
pub fn replace_private_bytes(path: &Path, bytes: &[u8]) -> Result<(), FileWriteError> {
    replace_with(path, false, PRIVATE_MODE, |file| file.write_all(bytes))
}

fn replace_with(
    path: &Path,
    sync: bool,
    mode: u32,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), FileWriteError> {
    through_temporary(path, sync, mode, fill, |_, temporary| fs::rename(temporary, path))
}

/// Writes a temporary file beside `path`, which `put` then puts in the place of `path`: it gets the
/// open file and its name.
pub(super) fn through_temporary(
    path: &Path,
    sync: bool,
    mode: u32,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    put: impl FnOnce(fs::File, &Path) -> io::Result<()>,
) -> Result<(), FileWriteError> {
    let Some(name) = path.file_name() else {
        let source = io::ErrorKind::IsADirectory.into();
        return Err(FileWriteError { path: path.to_owned(), source });
    };
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = create(&temporary, sync, mode, fill).and_then(|file| put(file, &temporary));
    written.map_err(|source| {
        // The write error is reported; a failure to clean up after it adds nothing.
        let _ = fs::remove_file(&temporary);
        FileWriteError { path: path.to_owned(), source }
    })
}

fn create(
    path: &Path,
    sync: bool,
    mode: u32,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(mode).open(path)?;
    let mut file = io::BufWriter::with_capacity(BUFFER_SIZE, file);
    fill(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    if sync {
        file.sync_all()?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file_and_the_missing_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let missing = dir.path().join("missing");
        let error = replace(&missing.join("guid2lid"), "", false).expect_err("no directory");
        let missing = missing.display();
        let error = error.to_string();
        assert!(error.starts_with(&format!("cannot write {missing}/guid2lid: No such")), "{error}");
        assert!(error.ends_with(&format!("; create the directory {missing}")), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_completed_keeps_its_contents() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("guid2lid");
        replace(&path, "good", true).expect("written");
        let error = replace_with(&path, false, PUBLIC_MODE, full)
            .expect_err("the file system is full")
            .to_string();
        assert!(error.contains("; free space in the file system of "), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("the file is there"), "good");
        assert_eq!(
            fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "no other file is left"
        );
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        let error = replace(Path::new("/"), "", false).expect_err("a directory").to_string();
        assert!(error.starts_with("cannot write /: "), "{error}");
    }

    fn full(file: &mut dyn io::Write) -> Result<(), io::Error> {
        file.write_all(&[b'x'; 2 * BUFFER_SIZE])?;
        Err(io::ErrorKind::StorageFull.into())
    }
}
