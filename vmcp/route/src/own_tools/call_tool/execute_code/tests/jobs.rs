//! Scripts whose Job does not start. Jobs themselves are tested in `vmcp-script-job`.

use std::sync::Arc;

use futures::future::BoxFuture;
use vmcp_script::ScriptLimits;
use vmcp_script::jobs::{JobSettings, ScriptJobs};
use vmcp_script::pool::{Interpreter, WorkerProgram};
use vmcp_script::protocol::Failure;

use super::*;

/// A cluster in which no pod runs.
#[derive(Debug)]
struct NoPods;

impl ScriptJobs for NoPods {
    fn launch<'a>(
        &'a self,
        _: &'a JobSettings,
        _: &'a ScriptLimits,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, Failure>> {
        Box::pin(async { Err(Failure::new("StartError", "no pod ran: the image cannot be pulled")) })
    }
}

/// Runs a script where this cluster has no pods, and the program of workers does not exist.
async fn run(jobs: Option<Arc<dyn ScriptJobs>>, job: &str) -> Value {
    let script_worker = Some(WorkerProgram { program: "/nonexistent".into(), arguments: Vec::new() });
    let options = Options { script_worker, script_jobs: jobs, ..Options::default() };
    let config = format!("{OFFERED}code: {{ engine: job, job: {{ {job} }} }}\n");
    let engine = engine_with(&backends(&[], &config), options).await;
    call(&engine, "optim.execute_code", json!({ "code": "1" })).await.unwrap()
}

#[tokio::test]
async fn a_worker_runs_the_script_of_a_job_that_does_not_start_where_that_is_allowed() {
    let pods = || Some(Arc::new(NoPods) as Arc<dyn ScriptJobs>);
    let refused = run(pods(), "cpuMillicores: 100").await;
    assert_eq!(refused["structuredContent"]["error_type"], "StartError", "{refused}");
    assert_eq!(refused["structuredContent"].get("warning"), None, "{refused}");
    let refused = run(None, "cpuMillicores: 100").await;
    assert!(refused.to_string().contains("scriptJobs.enabled"), "{refused}");
    for (jobs, why) in [(pods(), "the image cannot be pulled"), (None, "scriptJobs.enabled")] {
        let ran = run(jobs, "onStartFailure: worker").await;
        let answer = &ran["structuredContent"];
        assert_eq!(answer["error_type"], "WorkerError", "the worker was tried: {ran}");
        let warning = answer["warning"].as_str().unwrap_or_default();
        assert!(warning.starts_with("a worker ran the script") && warning.contains(why), "{ran}");
    }
}
