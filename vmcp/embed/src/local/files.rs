//! The files of local models: pinned sizes and hashes, and the check of a folder against them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::models::LocalModel;

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

/// The state of a model folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelStatus {
    /// A file is missing; `vmcp model pull` gets it.
    Missing,
    /// Each file is the pinned one.
    Present {
        /// Bytes of all files.
        bytes: u64,
    },
    /// A file is not the pinned one, or cannot be read.
    Corrupt {
        /// The path of that file.
        file: PathBuf,
    },
}

/// Checks the folder of a model by hashing its files (about 100 MB, some tenths of a second; blocks).
pub fn model_status(model: &'static LocalModel, dir: &Path) -> ModelStatus {
    let path = |file: &ModelFile| dir.join(file.name);
    let files = model.files();
    if files.iter().any(|file| !path(file).exists()) {
        return ModelStatus::Missing;
    }
    match files.iter().find(|file| !file.verify(&path(file)).unwrap_or(false)) {
        Some(file) => ModelStatus::Corrupt { file: path(file) },
        None => ModelStatus::Present { bytes: model.bytes() },
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelStatus, model_status};
    use crate::local::MODELS;

    #[test]
    fn an_empty_folder_is_missing_and_a_wrong_file_is_corrupt() {
        for model in &MODELS {
            let dir = tempfile::tempdir().unwrap();
            assert_eq!(model_status(model, &dir.path().join("nowhere")), ModelStatus::Missing);
            for file in model.files() {
                std::fs::write(dir.path().join(file.name), b"{}").unwrap();
            }
            assert_eq!(
                model_status(model, dir.path()),
                ModelStatus::Corrupt { file: dir.path().join("tokenizer.json") }
            );
        }
    }
}
