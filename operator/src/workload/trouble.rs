//! Diagnosis of pods that do not run, in words for the person who has to act.
//!
//! The kubelet and the scheduler write the cause into fields of the pod's status; this reads them and adds
//! the remedy. Of several causes the most pressing one is told.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use vmcp_config::sanitize;

#[cfg(test)]
mod tests;

/// The most characters of a kubelet's message, or of a program's last output, that are quoted; the rest
/// becomes `…`.
const MAX_QUOTED_CHARS: usize = 400;

/// The cause that keeps a workload from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The kind of trouble, which is the condition's reason.
    pub reason: TroubleReason,
    /// The cause and the remedy.
    pub message: String,
}

/// Kinds of trouble, from the least to the most pressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TroubleReason {
    /// The pod is starting; nothing is wrong yet.
    Starting,
    /// The program runs and its readiness probe does not succeed.
    NotAnswering,
    /// A volume cannot be mounted: a Secret, ConfigMap or claim is missing.
    VolumeMissing,
    /// No node fits the pod.
    Unschedulable,
    /// The node evicted the pod.
    Evicted,
    /// The container cannot be created from the pod's settings.
    ContainerConfigInvalid,
    /// The image cannot be pulled.
    ImagePullFailed,
    /// The program ends again and again.
    Crashing,
    /// The cluster refuses to create the pod.
    PodRefused,
}

impl TroubleReason {
    /// Returns true if the trouble lasts until a person acts.
    pub(super) fn needs_person(self) -> bool {
        !matches!(
            self,
            Self::Starting | Self::NotAnswering | Self::VolumeMissing | Self::Unschedulable | Self::Evicted
        )
    }
}

impl fmt::Display for TroubleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns the most pressing trouble of the newest generation of `pods`; `None` if all of them are ready, or
/// `pods` is empty. `main` is the container that does the work.
pub(super) fn of_pods(pods: &[Arc<Pod>], main: &str) -> Option<Trouble> {
    newest_generation(pods)
        .into_iter()
        .filter_map(|pod| of_pod(pod, main))
        .max_by(|a, b| a.reason.cmp(&b.reason).then_with(|| b.message.cmp(&a.message)))
}

/// Returns the pods of the newest template. Older pods may still exist, healthy or not; the person who made
/// the last edit wants to know about that edit.
///
/// Times of creation are whole seconds: where pods of two templates were created in the newest second, either
/// may be the newer one, and both count. The older ones are replaced soon after.
fn newest_generation(pods: &[Arc<Pod>]) -> Vec<&Pod> {
    let generation = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref()?;
        labels.get("pod-template-hash").or_else(|| labels.get("controller-revision-hash")).cloned()
    };
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let mut alive: Vec<&Pod> =
        pods.iter().map(Arc::as_ref).filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    let newest = alive.iter().map(|pod| created(pod)).max();
    let newest: BTreeSet<_> =
        alive.iter().filter(|pod| Some(created(pod)) == newest).map(|pod| generation(pod)).collect();
    alive.retain(|pod| newest.contains(&generation(pod)));
    alive
}

/// Diagnoses one pod, in the order of its life: scheduled, admitted by the node, containers started, ready.
fn of_pod(pod: &Pod, main: &str) -> Option<Trouble> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &pod.status else {
        return Some(starting(name, "waits for the scheduler"));
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
            reason: TroubleReason::Unschedulable,
            message: format!("pod {name} cannot be scheduled: {message}; {remedy}"),
        });
    }
    if status.phase.as_deref() == Some("Failed") && status.container_statuses.is_none() {
        let why = quoted(status.message.as_deref().or(status.reason.as_deref()).unwrap_or("no reason given"));
        return Some(Trouble {
            reason: TroubleReason::Evicted,
            message: format!("pod {name} was evicted by its node: {why}; a new one is created"),
        });
    }
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut troubled = all.filter_map(|container| of_container(pod, container, container.name == main));
    // Init containers start before the others, one after the other: the first that does not run keeps the
    // rest from running.
    troubled.next().or_else(|| not_ready(name, status, main))
}

/// Returns the scheduler's words if it found no node.
fn unscheduled(status: &PodStatus) -> Option<String> {
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    let refused = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    refused.then(|| quoted(scheduled.message.as_deref().unwrap_or("no reason given")))
}

/// Diagnoses one container that waits or has ended.
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
    // Between two crashes the container waits, has just ended, or runs for a moment: the last end is the
    // cause in all three. A helper container that ended with 0 has done its work.
    let ended = ended(state).or_else(|| container.last_state.as_ref().and_then(ended))?;
    let crashing = ended.exit_code != 0 || is_main;
    let up = state.running.is_some() && container.ready;
    (crashing && !up).then(|| crash(pod, container, ended))
}

fn ended(state: &ContainerState) -> Option<&ContainerStateTerminated> {
    state.terminated.as_ref()
}

/// Explains an image that cannot be pulled.
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
        reason: TroubleReason::ImagePullFailed,
        message: format!("pod {pod} cannot pull image {image}: {why}; {remedy}"),
    }
}

/// Returns the cause of a failed pull. The kubelet alternates between a cause and the same cause behind a
/// preface; without the preface the message, and with it the status, stays the same.
fn cause(message: &str) -> &str {
    match message.split_once("ErrImagePull: ") {
        Some((_, cause)) => cause,
        None if message.starts_with("Back-off pulling image") => "",
        None => message,
    }
}

/// Explains a container that cannot be created.
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
        reason: TroubleReason::ContainerConfigInvalid,
        message: format!("container {container} of pod {pod} cannot be started: {}{remedy}", quoted(message)),
    }
}

/// Explains a pod that waits for its volumes; no container starts before they are mounted.
pub(super) fn volume_missing(pod: &str, why: &str) -> Trouble {
    let remedy = match () {
        () if why.contains("CSI drivers") => {
            "; install the CSI driver on the nodes, or remove the volume from spec.podTemplateSpec"
        }
        () if why.to_ascii_lowercase().contains("secretproviderclass") => {
            "; correct the SecretProviderClass, or its name in the volume of spec.podTemplateSpec"
        }
        () if why.contains("not found") => "; create it, or correct the reference",
        () => "",
    };
    Trouble {
        reason: TroubleReason::VolumeMissing,
        message: format!("pod {pod} waits for its volumes: {}{remedy}", quoted(why)),
    }
}

/// Explains a container that ended, with the last lines that it printed.
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
        reason: TroubleReason::Crashing,
        message: format!("container {} of pod {name} {how}{times}{said}; {remedy}", container.name),
    }
}

/// Returns what to do about an end whose cause is known from the container runtime's words: `exec PATH: …` is
/// all that is left of a program that the kernel did not run.
fn remedy(ended: &ContainerStateTerminated, last_words: &str) -> Option<&'static str> {
    let not_run = last_words.starts_with("exec ");
    let never_started = matches!(ended.reason.as_deref(), Some("StartError" | "ContainerCannotRun"));
    Some(match ended.exit_code {
        _ if ended.reason.as_deref() == Some("OOMKilled") => "raise spec.resources.limits.memory",
        _ if (not_run || never_started) && last_words.contains("exec format error") => {
            "the image is built for another CPU architecture than the node's: choose another image, or another node by \
             spec.podTemplateSpec.spec.nodeSelector"
        }
        _ if never_started && last_words.contains("permission denied") => {
            "the container's user may not execute that file, or the node mounts its volume with noexec"
        }
        _ if not_run && last_words.contains("no such file") => {
            "the image lacks the interpreter or the loader of this program"
        }
        126 | 127 => "check that the command in spec exists in the image",
        _ if never_started => "check that the command in spec exists in the image",
        _ => return None,
    })
}

/// Explains a pod whose containers all run, or will, and that is not ready.
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
        return Some(starting(pod, "is starting"));
    }
    Some(Trouble {
        reason: TroubleReason::NotAnswering,
        message: format!("container {main} of pod {pod} runs and does not answer its readiness probe yet"),
    })
}

fn starting(pod: &str, what: &str) -> Trouble {
    Trouble { reason: TroubleReason::Starting, message: format!("pod {pod} {what}") }
}

/// Returns a message of the cluster on one line, cut to [`MAX_QUOTED_CHARS`], without the full stop at its
/// end.
pub(super) fn quoted(message: &str) -> String {
    let text = sanitize::text(message);
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.trim_end_matches('.').to_owned(),
    }
}

/// Returns the end of a program's output on one line, cut at the front: the cause of a crash comes last.
fn tail(message: &str) -> String {
    let text = sanitize::text(message.get(floor(message)..).unwrap_or_default());
    match text.char_indices().rev().nth(MAX_QUOTED_CHARS) {
        Some((start, _)) => format!("…{}", text.get(start..).unwrap_or_default()),
        None => text,
    }
}

/// Returns where the last [`sanitize::MAX_BYTES`] of a message begin, at a character boundary:
/// [`sanitize::text`] cuts at the end.
fn floor(message: &str) -> usize {
    let from = message.len().saturating_sub(sanitize::MAX_BYTES);
    (from..message.len()).find(|at| message.is_char_boundary(*at)).unwrap_or(from)
}
