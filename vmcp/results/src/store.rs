//! The store of results: bounded by bytes in all and per owner, by number per owner and by time. The least
//! recently used result goes first.
//!
//! A result is found by the SHA-256 of its owner and its random id. A reference in other hands leads to
//! another digest, so it reads as unknown. With a folder, contents are files, sealed by the key
//! ring; without one they are in memory. Calls block on the disk.

mod files;
mod reference;
mod sealed;
mod table;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use vmcp_wire::sealed::{KeyRing, Nonce};

use crate::content::Content;
use files::Files;
use table::{Entry, Place, Table};

pub use reference::{ID_BYTES, Reference};
pub use sealed::{SealedName, SealedResult};
pub use table::Usage;

/// Results of one owner; beyond it the least recently used one goes.
pub const MAX_RESULTS_PER_OWNER: usize = 1_000;

/// The owner of results, as a digest of the caller.
pub type Owner = [u8; 32];

/// The origin of a result: its owner may read it while the owner may call this tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The tool's name in the catalog.
    pub tool: String,
}

/// A kept result.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// Its origin.
    pub origin: Origin,
    /// The content.
    pub content: Content,
    /// Expiry, in seconds since the Unix epoch.
    pub expires: u64,
}

/// Bounds of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes of one owner.
    pub per_owner: u64,
    /// Most bytes of all owners.
    pub total: u64,
}

/// Randomness, clock and keys of one call.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Seals and opens files.
    pub ring: &'a KeyRing,
    /// Seconds since the Unix epoch.
    pub now: u64,
}

/// A result to keep.
#[derive(Debug, Clone)]
pub struct Keep {
    /// The owner.
    pub owner: Owner,
    /// The result.
    pub stored: Arc<StoredResult>,
    /// A random id, used once.
    pub id: [u8; ID_BYTES],
    /// A random nonce, used once.
    pub nonce: Nonce,
    /// True if the keys outlive the process: the result may be a file.
    pub at_rest: bool,
}

impl Keep {
    /// Returns the reference of the result.
    pub fn reference(&self) -> Reference {
        Reference::new(self.id)
    }

    /// Seals the result, for a store that other processes read. `nonce` must not be used again.
    pub fn seal(&self, ring: &KeyRing) -> serde_json::Result<SealedResult> {
        let name = SealedName::new(&self.owner, &self.reference());
        sealed::seal(name, &self.stored, ring, &self.nonce)
    }
}

impl Bounds {
    /// Refuses a result that is larger than the bounds by itself.
    pub fn check(&self, bytes: u64) -> Result<(), KeepError> {
        let limit = self.per_owner.min(self.total);
        if bytes > limit { Err(KeepError::TooLarge { bytes, limit }) } else { Ok(()) }
    }
}

/// Errors of keeping a result.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The result alone is larger than the bounds.
    #[error(
        "a result of {bytes} bytes is larger than optimizer.largeResults.maxBytesPerPrincipal or maxBytes ({limit})"
    )]
    TooLarge {
        /// Bytes that it takes.
        bytes: u64,
        /// The smaller bound.
        limit: u64,
    },
    /// The process is going down.
    #[error("the result was not kept: the process is going down")]
    Interrupted,
}

/// The results of this process.
#[derive(Debug)]
pub struct ResultStore {
    table: Mutex<Table>,
    files: Option<Files>,
}

impl ResultStore {
    /// Opens the store. `folder` is made when the first result is written there; results in it are found
    /// again.
    pub fn open(folder: Option<PathBuf>, now: u64) -> ResultStore {
        let files = folder.map(Files::new);
        let mut table = Table::default();
        for file in files.iter().flat_map(|files| files.scan(now)) {
            table.insert(
                file.key,
                Entry { owner: file.owner, bytes: file.bytes, expires: file.expires, place: Place::File },
            );
        }
        ResultStore { table: Mutex::new(table), files }
    }

    /// Keeps a result, and lets go of results over the bounds.
    pub fn keep(&self, keep: Keep, bounds: Bounds, moment: Moment<'_>) -> Result<(), KeepError> {
        bounds.check(keep.stored.content.len() as u64)?;
        let SealedName { owner, key } = SealedName::new(&keep.owner, &keep.reference());
        let expires = keep.stored.expires;
        let written = self.files.as_ref().filter(|_| keep.at_rest).and_then(|files| {
            let sealed = keep.seal(moment.ring).map_err(io::Error::from);
            let written = sealed.and_then(|sealed| files.write(&sealed, expires));
            written
                .inspect_err(
                    |error| tracing::warn!(%error, "a large result is kept in memory: it cannot be written"),
                )
                .ok()
        });
        let stored = keep.stored;
        let (bytes, place) = match written {
            Some(bytes) => (bytes, Place::File),
            None => (stored.content.len() as u64, Place::Memory(stored)),
        };
        let removed = {
            let mut table = self.table.lock();
            let mut removed = table.remove_expired(moment.now);
            table.insert(key, Entry { owner, bytes, expires, place });
            removed.extend(table.shrink(&owner, bounds));
            removed
        };
        self.remove_files(&removed);
        if removed.iter().any(|(gone, _)| *gone == key) {
            let limit = bounds.per_owner.min(bounds.total);
            return Err(KeepError::TooLarge { bytes, limit });
        }
        Ok(())
    }

    /// Returns a result of this owner; `None` for an unknown or expired result, and for another's.
    pub fn get(&self, owner: &Owner, reference: &str, moment: Moment<'_>) -> Option<Arc<StoredResult>> {
        let name = SealedName::of(owner, reference)?;
        let place = self.table.lock().touch(&name.key, moment.now);
        match place {
            Some(Place::Memory(stored)) => Some(stored),
            // A file that this process has not seen may be another process's with the same folder and keys.
            Some(Place::File) | None => {
                let stored = self.files.as_ref()?.read(&name, moment.ring, moment.now)?;
                Some(Arc::new(stored))
            }
        }
    }

    /// Lets go of expired results.
    pub fn sweep(&self, now: u64) {
        let expired = self.table.lock().remove_expired(now);
        self.remove_files(&expired);
    }

    /// Returns the results and bytes that are kept, and the number that gave way so far.
    pub fn usage(&self) -> Usage {
        self.table.lock().usage()
    }

    fn remove_files(&self, removed: &[(Key, Entry)]) {
        for (key, entry) in removed {
            if let (Some(files), Place::File) = (&self.files, &entry.place) {
                files.remove(key, &entry.owner);
            }
        }
    }
}

/// Digest by which a result is found.
pub type Key = [u8; 32];

/// Returns the digest of an owner in names of folders.
fn owner_digest(owner: &Owner) -> Owner {
    use sha2::{Digest, Sha256};
    Sha256::new().chain_update(b"vmcp owner of results\0").chain_update(owner).finalize().into()
}

#[cfg(test)]
mod tests;
