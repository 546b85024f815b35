//! [`EmbedError`]: failures between a text and its vector.

use std::path::PathBuf;
use std::time::Duration;

/// A call that returned no vectors.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EmbedError {
    /// The settings cannot work, whatever the service does.
    #[error("embeddings: {0}")]
    Settings(String),
    /// No connection, or a broken one, even after retries.
    #[error("embedding service {endpoint} is unreachable: {reason}")]
    Unreachable {
        /// Scheme, host and port; never a path, a query or credentials.
        endpoint: String,
        /// The error of the transport, with its causes.
        reason: String,
    },
    /// No answer within the timeout.
    #[error("embedding service {endpoint} did not answer within {} s", after.as_secs_f32())]
    Timeout {
        /// Scheme, host and port.
        endpoint: String,
        /// The configured timeout of one request.
        after: Duration,
    },
    /// An error status; for 429 and 5xx even after retries.
    #[error("embedding service {endpoint} answered {status}: {message}")]
    Status {
        /// Scheme, host and port.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// The first line of the service's own message, at most 300 characters, or the target of a redirect.
        message: String,
        /// Wait that the service asks for (`Retry-After`), at most an hour.
        retry_after: Option<Duration>,
    },
    /// A success status without the vectors that were asked for.
    #[error("embedding service {endpoint} gave an unusable answer: {reason}")]
    Answer {
        /// Scheme, host and port, or the name of the local model.
        endpoint: String,
        /// The defect of the answer.
        reason: String,
    },
    /// The service has another model than the model that embedded the tools.
    #[error("the embedding service has another model than before: {model}")]
    ModelChanged {
        /// Its name for the model.
        model: String,
    },
    /// The files of the local model are not there.
    #[error(
        "the local embedding model is not in {}; run `vmcp model pull {model}`, or set optimizer.embeddings.provider to tei, openai or none",
        dir.display()
    )]
    ModelMissing {
        /// Name of the model.
        model: &'static str,
        /// The model folder.
        dir: PathBuf,
    },
    /// A file of the local model differs from the pinned one.
    #[error("{} is damaged or not the pinned file; run `vmcp model pull` to replace it", file.display())]
    ModelCorrupt {
        /// The offending file.
        file: PathBuf,
    },
    /// The local model could not be loaded or run.
    #[error("local embedding model: {0}")]
    Model(String),
}

impl EmbedError {
    /// Returns a short stable name, used as metric label, event reason and condition reason.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Status { status: 401 | 403, .. } => "unauthorized",
            Self::Status { status: 429 | 503, .. } => "overloaded",
            Self::Status { .. } => "status",
            Self::Answer { .. } => "answer",
            Self::ModelChanged { .. } => "model_changed",
            Self::ModelMissing { .. } => "model_missing",
            Self::ModelCorrupt { .. } => "model_corrupt",
            Self::Model(_) => "model",
        }
    }
    /// Returns the wait that an overloaded service asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
