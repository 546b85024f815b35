//! Calls of the API server, with the rights of the server's ServiceAccount: Jobs are created and removed,
//! pods and events are listed.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use vmcp_error_chain::error_chain;

/// Time of one call.
const CALL: Duration = Duration::from_secs(10);
/// Attempts to remove a Job, with a pause between two that doubles from [`PAUSE`]. Beyond them, its lifetime
/// after the end (`ttlSecondsAfterFinished`) removes it.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(250);
/// Events of one Job that are read.
const MAX_EVENTS: u32 = 20;

/// The Jobs of a namespace.
#[derive(Clone)]
pub(crate) struct ClusterJobs {
    jobs: Api<Job>,
    pods: Api<Pod>,
    events: Api<Event>,
}

/// Error of a call.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CallError {
    /// The error as one line.
    text: String,
    /// True if the API server has no such object.
    is_missing: bool,
}

impl ClusterJobs {
    pub(crate) fn new(client: Client, namespace: &str) -> ClusterJobs {
        ClusterJobs {
            jobs: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client, namespace),
        }
    }

    /// Creates a Job and returns its UID.
    pub(crate) async fn create(&self, job: &Job) -> Result<String, CallError> {
        let created = within(self.jobs.create(&PostParams::default(), job)).await?;
        created.metadata.uid.ok_or_else(|| CallError::new("the API server gave the Job no UID".to_owned()))
    }

    /// Returns the pod of a Job, once there is one: a pod whose controller is the Job with this UID. Any pod
    /// may carry the label with the name of the Job.
    pub(crate) async fn pod(&self, job: &str, uid: &str) -> Result<Option<Pod>, CallError> {
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        let pods = within(self.pods.list(&of_job)).await?.items;
        Ok(pods.into_iter().find(|pod| is_controlled_by(pod, uid)))
    }

    /// Returns why a Job has no pod, from its events: a quota, an admission policy, a missing RuntimeClass.
    pub(crate) async fn refusal(&self, job: &str) -> Option<String> {
        let fields = format!("involvedObject.kind=Job,involvedObject.name={job},reason=FailedCreate");
        let events = within(self.events.list(&ListParams::default().fields(&fields).limit(MAX_EVENTS))).await;
        events.ok()?.items.into_iter().find_map(|event| event.message)
    }

    /// Removes a Job and its pod; tries again after an error.
    pub(crate) async fn remove(&self, job: &str) {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            match within(self.jobs.delete(job, &parameters)).await {
                Ok(_) => return,
                Err(error) if error.is_missing => return,
                Err(error) if attempt == ATTEMPTS => {
                    tracing::warn!(job, %error, "the Job of a script could not be removed; it ends by itself");
                }
                Err(_) => {
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }
}

impl CallError {
    fn new(text: String) -> CallError {
        CallError { text, is_missing: false }
    }
}

/// Returns true if the controller of a pod is the object with this UID.
fn is_controlled_by(pod: &Pod, uid: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Bounds a call.
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(CALL, call).await {
        Ok(answer) => answer.map_err(|error| match error {
            kube::Error::Api(status) => CallError {
                text: format!("{} ({})", status.message, status.reason),
                is_missing: status.code == 404,
            },
            other => CallError::new(error_chain(&other)),
        }),
        Err(_) => Err(CallError::new(format!("the API server gave no answer in {} s", CALL.as_secs()))),
    }
}
