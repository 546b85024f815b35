//! [`ClientError`]: failure of a request.

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not a base URL.
    #[error("`{0}` is not the base URL of a server, such as http://127.0.0.1:4483")]
    Address(String),
    /// The server did not answer, or not as documented.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The server refused the request.
    #[error("{status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// A call over MCP failed.
    #[error("{0}")]
    Mcp(String),
}
