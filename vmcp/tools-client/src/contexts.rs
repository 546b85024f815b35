//! Contexts that a message means.

use vmcp_model::topics::Topics;

/// Returns the contexts that a message means, each once, in the order of the built-in contexts.
pub fn extract_context_from_message(message: &str) -> Vec<String> {
    Topics::default().of_message(message).into_iter().map(str::to_owned).collect()
}
