//! [`ModelStatus`]: the check of a model's folder against its pinned files.

use std::path::{Path, PathBuf};

use super::files::ModelFile;
use super::models::LocalModel;

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
