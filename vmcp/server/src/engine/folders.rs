//! Folders on disk: the cache and the local model.

use std::env;
use std::path::PathBuf;

use vmcp_config::{Config, EmbeddingProvider};
use vmcp_embed::local::MODEL_NAME;

/// Returns the folder for data that can be made or fetched again: `$XDG_CACHE_HOME/vmcp`, or `~/.cache/vmcp`;
/// without a home directory, one in the folder for temporary files.
pub fn cache_dir() -> PathBuf {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.unwrap_or_else(env::temp_dir).join("vmcp")
}

/// Returns the folder of `embeddings.db`.
pub fn storage_dir(config: &Config) -> PathBuf {
    config.optimizer.storage_dir.clone().unwrap_or_else(cache_dir)
}

/// Returns the folder of the local model, into which `vmcp model pull` downloads it.
pub fn model_dir(config: &Config) -> PathBuf {
    match &config.optimizer.embeddings.provider {
        EmbeddingProvider::Local { model_dir: Some(dir), .. } => dir.clone(),
        _ => default_model_dir(),
    }
}

/// Returns the folder of the local model when none is configured.
pub fn default_model_dir() -> PathBuf {
    cache_dir().join("models").join(MODEL_NAME)
}
