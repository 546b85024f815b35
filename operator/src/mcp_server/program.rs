//! Why a program behind the bridge does not answer. Its container runs all the while, so that the cluster cannot tell.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_config::sanitize;
use vmcp_config::status::StatusReport;

use super::build::CONTAINER;
use crate::runtime::chain;
use crate::workload::admin::AdminClient;
use crate::workload::health::{Health, State};

/// How long until a bridge is asked again, as nothing else tells that its program fares otherwise.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What the bridge of one pod says about its program; the other pods run the same.
pub(super) async fn explain(client: &AdminClient, token: &[u8], pods: &[Arc<Pod>], health: Health) -> Health {
    let Some(pod) = pods.iter().max_by_key(|pod| pod.creation_timestamp().map(|at| at.0)) else {
        return health;
    };
    match client.ask(pod, token).await {
        Ok(report) => judge(&report, pod, health),
        Err(error) => {
            tracing::debug!(pod = pod.name_any(), error = %chain(&error), "a bridge did not say how it is");
            health
        }
    }
}

fn judge(report: &StatusReport, pod: &Pod, health: Health) -> Health {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let Some(error) = report.backends.first().and_then(|program| program.last_error.as_deref()) else {
        let message = format!(
            "the program in pod {name} was started and has not answered yet; npx and uvx fetch their packages first"
        );
        return Health { message, ..health };
    };
    let remedy = remedy(error).map(|remedy| format!("{remedy}; ")).unwrap_or_default();
    let message = format!(
        "the program in pod {name} does not answer: {}; {remedy}see `kubectl logs -n {namespace} {name} -c {CONTAINER}`",
        sanitize::text(error)
    );
    Health { state: State::Failed, reason: "ProgramFailing".to_owned(), message }
}

/// What to do about an error of the bridge whose cause it does not tell by itself.
fn remedy(error: &str) -> Option<&'static str> {
    const REMEDIES: [(&[&str], &str); 5] = [
        (
            &["cannot start", "(os error 2)"],
            "the image has no such program, or not the interpreter that it wants: correct spec.command or choose another image",
        ),
        (
            &["cannot start", "(os error 13)"],
            "the user of the container may not run it: see `runAsUser` in spec.podTemplateSpec",
        ),
        (
            &["cannot start", "(os error 8)"],
            "it is made for another architecture, or is a script that does not begin with `#!`",
        ),
        (
            &["exited with exit status: 0"],
            "a server on stdio runs until its input ends: does it want an argument such as `stdio`, or does it speak HTTP \
             (`transport: streamable-http`)?",
        ),
        (
            &["connection timeout"],
            "it runs and writes no MCP to its standard output: does it want an argument such as `stdio`, or does it listen on \
             a port (`transport: streamable-http` and `mcpPort`)?",
        ),
    ];
    let fits = |signs: &[&str]| signs.iter().all(|sign| error.contains(sign));
    REMEDIES.iter().find(|(signs, _)| fits(signs)).map(|(_, remedy)| *remedy)
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
        let waiting = judge(&report(None), &pod, health.clone());
        assert_eq!((waiting.state, waiting.reason.as_str()), (State::NotAnswering, "NotAnswering"));
        assert!(waiting.message.contains("has not answered yet"), "{}", waiting.message);
        let failing = judge(&report(Some("exit status 1: no API key")), &pod, health);
        assert_eq!(failing.state, State::Failed);
        assert!(
            failing.message.contains("no API key; see `kubectl logs -n n p -c mcp`"),
            "{}",
            failing.message
        );
    }

    #[test]
    fn what_a_person_would_not_know_is_said() {
        for (error, said) in [
            (
                "cannot connect: cannot start `uvx`: No such file or directory (os error 2)",
                "the image has no such program",
            ),
            ("cannot connect: cannot start `./s`: Permission denied (os error 13)", "`runAsUser`"),
            ("cannot connect: cannot start `./s`: Exec format error (os error 8)", "another architecture"),
            (
                "the connection ended before the answer: exited with exit status: 0",
                "an argument such as `stdio`",
            ),
            ("connection timeout after 120s", "`mcpPort`"),
        ] {
            assert!(remedy(error).is_some_and(|remedy| remedy.contains(said)), "{error}");
        }
        assert_eq!(
            remedy("exited with exit status: 1: cannot open db: No such file or directory (os error 2)"),
            None
        );
    }
}
