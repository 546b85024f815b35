//! One line for an error and its causes, for log lines, conditions and answers to callers.
//!
//! Crates made for it print a cause a line, and libraries repeat their cause in their own text; a Kubernetes
//! condition or a log field wants one line that says each thing once.

use std::error::Error;

/// Joins `error` and its sources with `: `, from the outermost to the root cause. A source that the text
/// already contains is left out.
///
/// # Examples
///
/// ```
/// #[derive(Debug, thiserror::Error)]
/// #[error("cannot listen at {address}")]
/// struct ListenError {
///     address: &'static str,
///     source: std::io::Error,
/// }
/// let error = ListenError { address: "0.0.0.0:8080", source: std::io::Error::other("address in use") };
/// assert_eq!(vmcp_error_chain::error_chain(&error), "cannot listen at 0.0.0.0:8080: address in use");
/// ```
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
