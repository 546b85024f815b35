//! Why a program behind the bridge does not answer. Its container runs all the while, so that the cluster cannot tell.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_model::{sanitize, status::StatusReport};

use super::build::CONTAINER;
use crate::{
    runtime::chain,
    workload::{
        admin::AdminClient,
        health::{Health, State},
    },
};

/// How long until a bridge is asked again, as nothing else tells that its program fares otherwise.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What the bridge of one pod says about its program; the other pods run the same.
pub(super) async fn explain(client: &AdminClient, pods: &[Arc<Pod>], health: Health) -> Health {
    let Some(pod) = pods.iter().max_by_key(|pod| pod.creation_timestamp().map(|at| at.0)) else {
        return health;
    };
    match client.ask(pod, None).await {
        Ok(report) => judge(&report, pod, health),
        Err(error) => {
            tracing::debug!(pod = pod.name_any(), error = %chain(&error), "a bridge did not say how it is");
            health
        }
    }
}

fn judge(report: &StatusReport, pod: &Pod, health: Health) -> Health {
    let Some(error) = report.backends.first().and_then(|program| program.last_error.as_deref()) else {
        return health;
    };
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let message = format!(
        "the program in pod {name} does not answer: {}; see `kubectl logs -n {namespace} {name} -c {CONTAINER}`",
        sanitize::text(error)
    );
    Health { state: State::Failed, reason: "ProgramFailing".to_owned(), message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_error_is_told_and_silence_is_none() {
        let health =
            Health { state: State::NotAnswering, reason: "NotAnswering".to_owned(), message: String::new() };
        let pod = serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "n" } })).unwrap();
        let report = |error: Option<&str>| {
            serde_json::from_value(json!({ "backends": [{ "lastError": error }] })).unwrap()
        };
        assert_eq!(judge(&report(None), &pod, health.clone()), health);
        let failing = judge(&report(Some("exit status 1: no API key")), &pod, health);
        assert_eq!(failing.state, State::Failed);
        assert!(
            failing.message.contains("no API key; see `kubectl logs -n n p -c mcp`"),
            "{}",
            failing.message
        );
    }
}
