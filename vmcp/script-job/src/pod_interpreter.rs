//! [`PodInterpreter`]: the connection to the pod of a script. The script may be anything that CPython can be,
//! so each frame is held to the limits here, whatever the driver in the pod has checked.

use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use vmcp_script::ScriptLimits;
use vmcp_script::jobs::JobSettings;
use vmcp_script::pool::Interpreter;
use vmcp_script::protocol::{Failure, Finished, FromWorker, ToWorker, streams};

use crate::cluster::ClusterJobs;
use crate::{drawn_pictures, pod_state};

/// Bytes of the arguments of all calls of one `parallel`.
const MAX_ARGUMENTS: usize = 4 << 20;
/// Longest text of a failure, in characters; a longer one is cut.
const MAX_ERROR: usize = 10_000;
/// Looks at a pod whose connection has ended, until its status says why.
const LOOKS: usize = 20;
/// Longest time of all looks together; beyond it, the failure names no cause.
const EXPLAIN: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Remedy of a script whose tool asks the user.
const NEVER_WAITS: &str = "a script in a Kubernetes Job cannot wait for the answer; call the tool outside of the \
                           script, with call_tool";

/// Returns the largest frame that a pod may send, in bytes.
pub(crate) fn max_frame(limits: &ScriptLimits) -> usize {
    // The limit of a result counts its JSON. The limit of the output counts plain text, in which a control
    // character of one byte becomes an escape of six, such as `\u0001`.
    // Arguments and pictures never share a frame.
    let largest = MAX_ARGUMENTS.max(drawn_pictures::MAX_FRAME_BYTES);
    largest + 2 * limits.result_bytes + 6 * limits.output_bytes
}

/// A Job; dropped, it is removed in the background.
pub(crate) struct RunningJob {
    cluster: ClusterJobs,
    name: String,
}

impl RunningJob {
    pub(crate) fn new(cluster: ClusterJobs, name: String) -> RunningJob {
        RunningJob { cluster, name }
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let (cluster, name) = (self.cluster.clone(), std::mem::take(&mut self.name));
        // Outside of a runtime the process ends, and the garbage collector removes the Job with the pod.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { cluster.remove(&name).await });
        }
    }
}

/// An interpreter in a pod. Dropped, the connection closes, which ends the pod, and the Job is removed.
pub(crate) struct PodInterpreter {
    pub(crate) stream: TcpStream,
    pub(crate) running: RunningJob,
    /// UID of the Job.
    pub(crate) uid: String,
    pub(crate) settings: JobSettings,
    pub(crate) limits: ScriptLimits,
    /// Largest frame of the pod, in bytes.
    pub(crate) most: usize,
}

impl Interpreter for PodInterpreter {
    fn read(&mut self) -> BoxFuture<'_, io::Result<FromWorker>> {
        Box::pin(async {
            let frame = streams::read(&mut self.stream, self.most).await?;
            Ok(match frame {
                FromWorker::Finished(finished) => FromWorker::Finished(bounded(finished, &self.limits)),
                other => other,
            })
        })
    }

    fn write<'a>(&'a mut self, frame: &'a ToWorker) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(streams::write(&mut self.stream, frame))
    }

    fn never_waits(&self) -> Option<&'static str> {
        Some(NEVER_WAITS)
    }

    fn explain(self: Box<Self>) -> BoxFuture<'static, Failure> {
        Box::pin(async move {
            let cause = timeout(EXPLAIN, self.cause_of_end()).await;
            cause.ok().flatten().unwrap_or_else(|| pod_state::worker_error("its connection ended"))
        })
    }
}

impl PodInterpreter {
    /// Looks at the pod until its status says why it ended; `None` after [`LOOKS`] looks.
    async fn cause_of_end(&self) -> Option<Failure> {
        let RunningJob { cluster, name } = &self.running;
        for _ in 0..LOOKS {
            match cluster.pod(name, &self.uid).await {
                Ok(Some(pod)) => {
                    if let Some(failure) = pod_state::end(&pod, &self.settings) {
                        return Some(failure);
                    }
                }
                Ok(None) => return Some(pod_state::removed()),
                Err(_) => {}
            }
            sleep(LOOK).await;
        }
        None
    }
}

/// Holds the end of a script to its limits.
fn bounded(finished: Finished, limits: &ScriptLimits) -> Finished {
    let Finished { end, mut output, pictures } = finished;
    let most = limits.output_bytes;
    if output.len() > most {
        output.truncate(output.floor_char_boundary(most));
    }
    let end = match end {
        Ok(value) if value.to_string().len() > limits.result_bytes => {
            let most = limits.result_bytes;
            let error =
                format!("the result is longer than {most} bytes; return less, such as a count or a part");
            Err(Failure::new("ResultLimitError", error).with_limit(most))
        }
        Err(failure) => Err(Failure {
            error_type: failure.error_type.chars().take(100).collect(),
            error: failure.error.chars().take(MAX_ERROR).collect(),
            ..failure
        }),
        ok => ok,
    };
    Finished { end, output, pictures: drawn_pictures::bounded(pictures) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_has_room_for_an_output_of_control_characters() {
        let limits = ScriptLimits { output_bytes: 4 << 20, ..ScriptLimits::default() };
        let output = json!("\u{1}".repeat(limits.output_bytes)).to_string();
        assert!(output.len() <= max_frame(&limits), "{}", output.len());
    }

    #[test]
    fn a_pod_cannot_exceed_the_limits_of_its_script() {
        let limits = ScriptLimits { output_bytes: 3, result_bytes: 8, ..ScriptLimits::default() };
        let finished = |end, output: &str| Finished { end, output: output.to_owned(), pictures: Vec::new() };
        let Finished { end, output, .. } = bounded(finished(Ok(json!("123456789")), "aü€"), &limits);
        assert_eq!(end.unwrap_err().error_type, "ResultLimitError");
        assert_eq!(output, "aü");
        let fits = bounded(finished(Ok(json!("1")), ""), &limits);
        assert_eq!(fits.end, Ok(json!("1")));
        let failure = Failure::new("E", "x".repeat(20_000));
        let failed = bounded(finished(Err(failure), ""), &limits);
        assert_eq!(failed.end.unwrap_err().error.len(), MAX_ERROR);
    }
}
