//! Reads from a worker's status and last words why it died.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr};
use tokio::time::timeout;

use crate::protocol::Failure;

/// Bytes of a worker's standard error that are read.
const MAX_TEXT: u64 = 4 << 10;
/// Time that a worker whose pipe is closed has to end; then it is killed.
const END: Duration = Duration::from_millis(300);

/// Returns the failure of a script whose worker has closed its pipe. `memory` is the worker's limit.
pub(super) async fn explain(child: &mut Child, stderr: Option<ChildStderr>, memory: u64) -> Failure {
    let text = text(stderr).await;
    let status = timeout(END, child.wait()).await.ok().and_then(Result::ok);
    let failure = failure(&text, status, memory);
    if failure.error_type == "WorkerError" {
        tracing::warn!(?status, last_words = text, "the worker of a script died");
    }
    failure
}

/// Returns the first bytes of a worker's standard error.
pub(super) async fn text(stderr: Option<ChildStderr>) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = stderr {
        // A worker that is alive says no more than it has said.
        let _ = timeout(END, stderr.take(MAX_TEXT).read_to_end(&mut text)).await;
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn failure(text: &str, status: Option<ExitStatus>, memory: u64) -> Failure {
    const OUT_OF_MEMORY: [&str; 3] = ["memory allocation of", "out of memory", "capacity overflow"];
    if OUT_OF_MEMORY.iter().any(|sign| text.contains(sign)) {
        let error = format!("the script needed more than {memory} bytes of memory");
        return Failure { limit: Some(memory), ..Failure::new("MemoryError", error) };
    }
    if text.contains("overflowed its stack") {
        return Failure::new("RecursionError", "the script is nested too deep");
    }
    let how = match status {
        Some(status) => format!("ended ({status})"),
        None => "was ended".to_owned(),
    };
    super::died(&how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_name_the_limit() {
        let kind = |text| failure(text, None, 9).error_type;
        assert_eq!(kind("memory allocation of 10 bytes failed"), "MemoryError");
        assert_eq!(kind("thread 'main' has overflowed its stack"), "RecursionError");
        let other = failure("", None, 9);
        assert_eq!(other.error_type, "WorkerError");
        assert_eq!(other.error, "the worker process was ended; the next script gets a new one");
    }
}
