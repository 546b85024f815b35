//! [`ModelFile`]: a file of a local model, with its pinned size and hash.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// One pinned file of a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelFile {
    /// Name in the model folder.
    pub name: &'static str,
    /// Path in the model's repository on the hub.
    pub hub_path: &'static str,
    /// Path in the package that carries the file.
    pub package_path: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hex.
    pub sha256: &'static str,
}

impl ModelFile {
    /// Returns true if `path` holds exactly this file. Reads it in pieces, so that it need not fit in
    /// memory.
    pub(super) fn verify(&self, path: &Path) -> io::Result<bool> {
        self.matches_file(&File::open(path)?)
    }

    /// Returns true if an open file is exactly this one, as [`verify`](ModelFile::verify) does. Leaves the
    /// position at its end.
    pub(super) fn matches_file(&self, mut file: &File) -> io::Result<bool> {
        if file.metadata()?.len() != self.bytes {
            return Ok(false);
        }
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        while let read @ 1.. = file.read(&mut buffer)? {
            hash.update(buffer.get(..read).unwrap_or_default());
        }
        Ok(hex::encode(hash.finalize()) == self.sha256)
    }

    /// Returns true if `bytes` are exactly this file.
    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.bytes && hex::encode(Sha256::digest(bytes)) == self.sha256
    }
}
