//! Why the pods of a workload do not run, in words for the person who has to act.
//!
//! The kubelet and the scheduler know; they write it into fields that nobody looks at. This reads them and adds the remedy.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use vmcp_config::sanitize;

#[cfg(test)]
mod tests;

/// Characters of a message of the kubelet, or of what a program printed last, that are repeated.
const LONGEST: usize = 400;

/// What keeps a workload from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble, the condition's reason.
    pub reason: Reason,
    /// What happened and what to do.
    pub message: String,
}

/// Kinds of trouble, from the least to the most pressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// On its way, nothing is wrong yet.
    Starting,
    /// The program runs and does not answer.
    NotAnswering,
    /// What a volume is made of is not there, or cannot be had.
    VolumeMissing,
    /// No node takes the pod.
    Unschedulable,
    /// The node threw the pod out.
    Evicted,
    /// The container cannot be made from what the pod says.
    ContainerConfigInvalid,
    /// The image cannot be had.
    ImagePullFailed,
    /// The program ends, again and again.
    Crashing,
    /// The cluster refuses to make the pod.
    PodRefused,
}

impl Reason {
    /// Whether it stays so until somebody does something.
    pub fn needs_somebody(self) -> bool {
        !matches!(
            self,
            Self::Starting | Self::NotAnswering | Self::VolumeMissing | Self::Unschedulable | Self::Evicted
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The most pressing trouble of the newest generation of `pods`; `None` when all of them are ready, or there are none.
/// `main` is the container that does the work.
pub fn of_pods(pods: &[Arc<Pod>], main: &str) -> Option<Trouble> {
    newest_generation(pods)
        .into_iter()
        .filter_map(|pod| of_pod(pod, main))
        .max_by(|a, b| a.reason.cmp(&b.reason).then_with(|| b.message.cmp(&a.message)))
}

/// Pods of an older generation may still be about, healthy or not; what somebody last asked for is what they want to know about.
fn newest_generation(pods: &[Arc<Pod>]) -> Vec<&Pod> {
    let generation = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref()?;
        labels.get("pod-template-hash").or_else(|| labels.get("controller-revision-hash")).cloned()
    };
    let mut alive: Vec<&Pod> =
        pods.iter().map(Arc::as_ref).filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    alive.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0));
    let newest = alive.last().map(|pod| generation(pod));
    alive.retain(|pod| newest.as_ref() == Some(&generation(pod)));
    alive
}

fn of_pod(pod: &Pod, main: &str) -> Option<Trouble> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &pod.status else {
        return Some(starting(name, "is waiting for the scheduler"));
    };
    if let Some(message) = unscheduled(status) {
        let remedy = match () {
            () if message.contains("persistentvolumeclaim") && message.contains("not found") => {
                "create the claim, or correct the reference"
            }
            () if message.contains("PersistentVolumeClaim") => {
                "`kubectl describe pvc` tells what the claim waits for"
            }
            () => "lower spec.resources.requests or add nodes",
        };
        return Some(Trouble {
            reason: Reason::Unschedulable,
            message: format!("no node takes pod {name}: {message}; {remedy}"),
        });
    }
    if status.phase.as_deref() == Some("Failed") && status.container_statuses.is_none() {
        let why = quoted(status.message.as_deref().or(status.reason.as_deref()).unwrap_or("no reason given"));
        return Some(Trouble {
            reason: Reason::Evicted,
            message: format!("pod {name} was thrown out by its node: {why}; a new one is made"),
        });
    }
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut troubled = all.filter_map(|container| of_container(pod, container, container.name == main));
    // Containers start in this order, so that the first one which does not run keeps the others from running.
    troubled.next().or_else(|| not_ready(name, status, main))
}

fn unscheduled(status: &PodStatus) -> Option<String> {
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    let refused = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    refused.then(|| quoted(scheduled.message.as_deref().unwrap_or("no reason given")))
}

fn of_container(pod: &Pod, container: &ContainerStatus, is_main: bool) -> Option<Trouble> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let message = waiting.message.as_deref().unwrap_or_default();
        match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull"
            | "ImageInspectError" => {
                return Some(image_pull(name, &container.image, reason, message));
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                return Some(container_config(name, &container.name, message));
            }
            "CrashLoopBackOff" => {}
            _ if container.restart_count == 0 => return None,
            _ => {}
        }
    }
    // Between two crashes the container is waiting, has just ended, or runs for a moment.
    let ended = ended(state).or_else(|| container.last_state.as_ref().and_then(ended))?;
    let crashing = ended.exit_code != 0 || is_main;
    let up = state.running.is_some() && container.ready;
    (crashing && !up).then(|| crash(pod, container, ended))
}

fn ended(state: &ContainerState) -> Option<&ContainerStateTerminated> {
    state.terminated.as_ref()
}

fn image_pull(pod: &str, image: &str, reason: &str, message: &str) -> Trouble {
    let remedy = match reason {
        "InvalidImageName" => "write spec.image as registry/repository:tag",
        "ErrImageNeverPull" => "the pull policy is Never: put the image on the node or change the policy",
        _ => {
            "check that spec.image exists and is spelled right, and that \
             spec.podTemplateSpec.spec.imagePullSecrets names credentials if its registry wants them"
        }
    };
    let why = match cause(message) {
        "" => reason.to_owned(),
        cause => quoted(cause),
    };
    Trouble {
        reason: Reason::ImagePullFailed,
        message: format!("pod {pod} cannot get image {image}: {why}; {remedy}"),
    }
}

/// The kubelet alternates between a cause and the same cause behind a preface; without the preface the message stays put.
fn cause(message: &str) -> &str {
    match message.split_once("ErrImagePull: ") {
        Some((_, cause)) => cause,
        None if message.starts_with("Back-off pulling image") => "",
        None => message,
    }
}

fn container_config(pod: &str, container: &str, message: &str) -> Trouble {
    let remedy = if message.contains("runAsNonRoot") {
        "; set runAsUser to a number that the image can run as, or runAsNonRoot to false, in \
         spec.podTemplateSpec.spec.securityContext"
    } else if message.contains("not found") {
        "; create it, or correct the reference"
    } else {
        ""
    };
    Trouble {
        reason: Reason::ContainerConfigInvalid,
        message: format!("container {container} of pod {pod} cannot be started: {}{remedy}", quoted(message)),
    }
}

/// A pod whose containers are not started before its volumes are there.
pub(super) fn unmounted(pod: &str, why: &str) -> Trouble {
    let remedy = if why.contains("not found") { "; create it, or correct the reference" } else { "" };
    Trouble {
        reason: Reason::VolumeMissing,
        message: format!("pod {pod} waits for its volumes: {}{remedy}", quoted(why)),
    }
}

fn crash(pod: &Pod, container: &ContainerStatus, ended: &ContainerStateTerminated) -> Trouble {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let how = match (ended.reason.as_deref(), ended.signal) {
        (Some("OOMKilled"), _) => "was killed for using more memory than its limit".to_owned(),
        (_, Some(signal)) if signal != 0 => format!("was ended by signal {signal}"),
        _ => format!("ended with exit code {}", ended.exit_code),
    };
    let times = match container.restart_count {
        0 => String::new(),
        count => format!(" (restarts: {count})"),
    };
    let last_words = ended.message.as_deref().map(tail).unwrap_or_default();
    let said = if last_words.is_empty() { String::new() } else { format!(", saying: {last_words}") };
    let remedy = remedy(ended, &last_words).map_or_else(
        || format!("see `kubectl logs -n {namespace} {name} -c {} --previous`", container.name),
        str::to_owned,
    );
    Trouble {
        reason: Reason::Crashing,
        message: format!("container {} of pod {name} {how}{times}{said}; {remedy}", container.name),
    }
}

/// What to do about an end whose cause is known, by the words of the runtime: `exec PATH: …` is all that is left of a program
/// that the kernel did not run.
fn remedy(ended: &ContainerStateTerminated, last_words: &str) -> Option<&'static str> {
    let not_run = last_words.starts_with("exec ");
    let never_started = matches!(ended.reason.as_deref(), Some("StartError" | "ContainerCannotRun"));
    Some(match ended.exit_code {
        _ if ended.reason.as_deref() == Some("OOMKilled") => "raise spec.resources.limits.memory",
        _ if (not_run || never_started) && last_words.contains("exec format error") => {
            "the image is made for another architecture than the node has: choose one for it, or choose the node by \
             spec.podTemplateSpec.spec.nodeSelector"
        }
        _ if never_started && last_words.contains("permission denied") => {
            "the user of the container may not run that file, or the node mounts the volume that it is in with noexec"
        }
        _ if not_run && last_words.contains("no such file") => {
            "the image lacks the interpreter or the loader that this program wants"
        }
        126 | 127 => "check that the command in spec exists in the image",
        _ if never_started => "check that the command in spec exists in the image",
        _ => return None,
    })
}

fn not_ready(pod: &str, status: &PodStatus, main: &str) -> Option<Trouble> {
    let is_true = |type_: &str| {
        status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    if is_true("Ready") {
        return None;
    }
    let running = |container: &&ContainerStatus| {
        container.name == main && container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    if !status.container_statuses.iter().flatten().any(|container| running(&container)) {
        return Some(starting(pod, "is being started"));
    }
    Some(Trouble {
        reason: Reason::NotAnswering,
        message: format!("container {main} of pod {pod} runs and does not answer its readiness probe yet"),
    })
}

fn starting(pod: &str, what: &str) -> Trouble {
    Trouble { reason: Reason::Starting, message: format!("pod {pod} {what}") }
}

/// A message of the cluster on one line.
pub(super) fn quoted(message: &str) -> String {
    let text = sanitize::text(message);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.trim_end_matches('.').to_owned(),
    }
}

/// The end of what a program printed, on one line: the cause of its end comes last.
fn tail(message: &str) -> String {
    let text = sanitize::text(message.get(floor(message)..).unwrap_or_default());
    match text.char_indices().rev().nth(LONGEST) {
        Some((start, _)) => format!("…{}", text.get(start..).unwrap_or_default()),
        None => text,
    }
}

/// Where the last bytes begin that [`sanitize::text`] takes whole.
fn floor(message: &str) -> usize {
    let from = message.len().saturating_sub(sanitize::MAX_BYTES);
    (from..message.len()).find(|at| message.is_char_boundary(*at)).unwrap_or(from)
}
