//! Folders on disk: the cache and the local model.

use std::env;
use std::path::PathBuf;

use vmcp_config::{Config, EmbeddingProvider};
use vmcp_embed::local::MODEL_NAME;

/// Where vmcp keeps what can be made or fetched again: `$XDG_CACHE_HOME/vmcp`, or `~/.cache/vmcp`. Without a home, a folder
/// among the temporary files.
pub fn cache_dir() -> PathBuf {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.unwrap_or_else(env::temp_dir).join("vmcp")
}

/// The folder of `embeddings.db`.
pub fn storage_dir(config: &Config) -> PathBuf {
    config.optimizer.storage_dir.clone().unwrap_or_else(cache_dir)
}

/// The folder of the local model; also where `vmcp model pull` puts it.
pub fn model_dir(config: &Config) -> PathBuf {
    match &config.optimizer.embeddings.provider {
        EmbeddingProvider::Local { model_dir: Some(dir), .. } => dir.clone(),
        _ => default_model_dir(),
    }
}

/// The folder of the local model when none is configured.
pub fn default_model_dir() -> PathBuf {
    cache_dir().join("models").join(MODEL_NAME)
}
