//! [`EditLock`]: one edit of a file at a time, over all processes of a person.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use vmcp_config::status::digest;
use vmcp_engine::folders;

use super::secret_store::{private, private_folder};

/// The lock of a file that commands and servers edit: an advisory lock (`flock`) on a file of the cache, so
/// that the edited file's own folder stays clean. Without it, the later of two edits at once would undo the
/// earlier one. Released when dropped, and when its process ends.
#[derive(Debug)]
pub(crate) struct EditLock {
    _file: File,
}

impl EditLock {
    /// Waits until no other process edits the file at `path`, which may be absent. `None` where no lock can
    /// be made, as in a read-only home: the edit goes on alone.
    pub(crate) fn wait(path: &Path) -> Option<EditLock> {
        EditLock::wait_below(&folders::cache_dir(), path)
    }

    fn wait_below(cache: &Path, path: &Path) -> Option<EditLock> {
        let folder = cache.join("edits");
        private_folder(&folder).ok()?;
        let name = format!("{}.lock", digest(&whole_path(path)?.to_string_lossy()));
        let file = private(OpenOptions::new().create(true).append(true)).open(folder.join(name)).ok()?;
        file.lock().ok()?;
        Some(EditLock { _file: file })
    }
}

/// Returns the path of the file behind links; of an absent file, in the folder behind links.
fn whole_path(path: &Path) -> Option<PathBuf> {
    if let Ok(target) = path.canonicalize() {
        return Some(target);
    }
    let path = std::path::absolute(path).ok()?;
    let folder = path.parent()?;
    Some(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_edit_of_the_file_waits_and_one_of_another_file_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("vmcp.yaml");
        let held = EditLock::wait_below(dir.path(), &file).unwrap();
        EditLock::wait_below(dir.path(), &dir.path().join("other.yaml")).unwrap();
        // The holder makes the file meanwhile.
        fs::write(&file, "").unwrap();
        let (folder, path) = (dir.path().to_owned(), file.clone());
        let second = std::thread::spawn(move || EditLock::wait_below(&folder, &path).is_some());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished());
        drop(held);
        assert!(second.join().unwrap());
        let unusable = EditLock::wait_below(&file, &file);
        assert!(unusable.is_none(), "a folder that cannot be made");
    }
}
