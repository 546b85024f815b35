//! [`EditLock`]: one edit of a file at a time, over all processes.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for another edit, which takes milliseconds, or longer while `vmcp init` asks a person.
/// Then the edit goes on alone.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const INTERVAL: Duration = Duration::from_millis(10);

/// The lock of a file that commands and servers edit: an advisory lock (`flock`) of the folder that has it,
/// so that no file is made for it. Of two edits at once, the later one would undo the earlier one. Released
/// when dropped, and when its process ends.
#[derive(Debug)]
pub(crate) struct EditLock {
    _folder: File,
}

impl EditLock {
    /// Waits until no other process edits the file at `path`, which may be absent. `None` where the folder is
    /// absent or cannot be locked, and after [`MAX_WAIT`].
    pub(crate) fn wait(path: &Path) -> Option<EditLock> {
        EditLock::wait_for(path, MAX_WAIT)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "commands have no runtime, and servers edit on a blocking thread"
    )]
    fn wait_for(path: &Path, most: Duration) -> Option<EditLock> {
        let folder = File::open(folder_of(path)?).ok()?;
        let begin = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Some(EditLock { _folder: folder }),
                Err(TryLockError::WouldBlock) if begin.elapsed() < most => std::thread::sleep(INTERVAL),
                Err(_) => return None,
            }
        }
    }
}

/// Returns the folder of the file behind links; of an absent file, the folder of its path.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().or_else(|_| std::path::absolute(path)).ok()?;
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_edit_waits_and_no_file_is_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("vmcp.yaml");
        let held = EditLock::wait(&file).unwrap();
        assert!(EditLock::wait_for(&file, Duration::from_millis(30)).is_none(), "the first edit goes on");
        let path = file.clone();
        let second = std::thread::spawn(move || EditLock::wait(&path).is_some());
        drop(held);
        assert!(second.join().unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(EditLock::wait(&dir.path().join("absent/vmcp.yaml")).is_none());
    }
}
