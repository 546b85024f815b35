//! Results as files: `OWNER/KEY`, both digests in hex. A file begins with its expiry in the clear, for the
//! sweep; the same expiry and the content are sealed behind it, bound to owner and key.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use vmcp_wire::sealed::KeyRing;

use super::{Key, Owner, SealedName, SealedResult, StoredResult};

/// Files that are found again after a restart; further ones stay until they are asked for or expire.
const MAX_SCANNED: usize = 100_000;
/// Extension of a file that is being written.
const PART: &str = "part";
/// Age of a part that no process writes any more: an hour, in seconds.
const LEFT_PART_SECONDS: u64 = 3_600;
/// Rights of folders and files: the user's alone.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The folder of results.
#[derive(Debug)]
pub(super) struct Files(PathBuf);

/// A file that was found.
pub(super) struct FoundFile {
    pub(super) owner: Owner,
    pub(super) key: Key,
    pub(super) bytes: u64,
    pub(super) expires: u64,
}

impl Files {
    pub(super) fn new(folder: PathBuf) -> Files {
        Files(folder)
    }

    fn path(&self, key: &Key, owner: &Owner) -> PathBuf {
        self.0.join(hex::encode(owner)).join(hex::encode(key))
    }

    /// Writes a result whole or not at all; returns the file's bytes.
    pub(super) fn write(&self, sealed: &SealedResult, expires: u64) -> io::Result<u64> {
        let SealedResult { name: SealedName { owner, key }, bytes: sealed } = sealed;
        let path = self.path(key, owner);
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        }
        let part = path.with_extension(PART);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        let written = file.write_all(&expires.to_be_bytes()).and_then(|()| file.write_all(sealed));
        let written = written.and_then(|()| fs::rename(&part, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        Ok(8 + sealed.len() as u64)
    }

    /// Reads a result; `None` without a file, or if the keys do not open it.
    pub(super) fn read(&self, name: &SealedName, ring: &KeyRing, now: u64) -> Option<StoredResult> {
        let path = self.path(&name.key, &name.owner);
        let bytes = fs::read(&path).ok()?;
        let stored = name.open(bytes.get(8..)?, ring, now)?;
        // The order of use outlives a restart as far as the file system keeps times.
        let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(stored)
    }

    pub(super) fn remove(&self, key: &Key, owner: &Owner) {
        let path = self.path(key, owner);
        if let Err(error) = fs::remove_file(&path).or_else(absent_is_removed) {
            tracing::warn!(%error, "a large result cannot be removed");
        }
        // Fails, and should, while the owner has other results.
        let _ = path.parent().map(fs::remove_dir);
    }

    /// Finds the files, the least recently used one first; removes expired ones, and parts that a killed
    /// process left.
    pub(super) fn scan(&self, now: u64) -> Vec<FoundFile> {
        let mut found: Vec<(SystemTime, FoundFile)> = Vec::new();
        for folder in entries(&self.0) {
            let Some(owner) = digest(&folder) else { continue };
            for path in entries(&folder) {
                let Some(key) = digest(&path) else {
                    if is_left_part(&path, now) {
                        let _ = fs::remove_file(&path).and_then(|()| fs::remove_dir(&folder));
                    }
                    continue;
                };
                let Ok((expires, bytes, used)) = header(&path) else { continue };
                if now >= expires {
                    self.remove(&key, &owner);
                } else if found.len() < MAX_SCANNED {
                    found.push((used, FoundFile { owner, key, bytes, expires }));
                }
            }
        }
        found.sort_by_key(|(used, _)| *used);
        found.into_iter().map(|(_, file)| file).collect()
    }
}

fn absent_is_removed(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Returns the digest that a path's last part names.
fn digest(path: &Path) -> Option<[u8; 32]> {
    hex::decode(path.file_name()?.to_str()?).ok()?.try_into().ok()
}

/// True for a part that was begun long ago.
fn is_left_part(path: &Path, now: u64) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let begun = changed.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    path.extension().is_some_and(|extension| extension == PART)
        && begun.is_some_and(|begun| now.saturating_sub(begun.as_secs()) >= LEFT_PART_SECONDS)
}

/// Returns expiry, size and last use of a file.
fn header(path: &Path) -> io::Result<(u64, u64, SystemTime)> {
    let mut file = File::open(path)?;
    let mut expires = [0; 8];
    file.read_exact(&mut expires)?;
    let metadata = file.metadata()?;
    Ok((u64::from_be_bytes(expires), metadata.len(), metadata.modified()?))
}
