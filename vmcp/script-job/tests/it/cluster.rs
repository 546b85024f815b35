//! [`Cluster`]: the API server of a test, and the "kubelet" of its only pod.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use vmcp_script::jobs::{JobSettings, ScriptJobs as _};
use vmcp_script::pool::{Called, PoolSettings, Ran, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{CallEnd, HostCall, Raised, StartScript, ToolUse};
use vmcp_script::{ResourceBounds, ScriptLimits};
use vmcp_script_job::{JobLauncher, ServerPod};

/// UID that the API server gives the Job.
pub(crate) const JOB_UID: &str = "the-job";

/// The state of the cluster.
#[derive(Default)]
struct State {
    /// The Job that was created.
    job: Option<Value>,
    /// Its pod's process.
    process: Option<Child>,
    /// Status of the pod in place of a running one.
    status: Option<Value>,
    /// Status of the pod in the first answer about it.
    first_status: Option<Value>,
    /// Pods of others that carry the label of the Job; listed before its own.
    strangers: Vec<Value>,
    removed: bool,
}

/// A cluster with room for one Job.
#[derive(Clone, Default)]
pub(crate) struct Cluster(Arc<Mutex<State>>);

impl Cluster {
    /// A cluster whose pod has this status, and runs nothing.
    pub(crate) fn with_status(status: Value) -> Cluster {
        let cluster = Cluster::default();
        cluster.0.lock().status = Some(status);
        cluster
    }

    /// A cluster whose pod has this status at first, and then runs.
    pub(crate) fn with_first_status(status: Value) -> Cluster {
        let cluster = Cluster::default();
        cluster.0.lock().first_status = Some(status);
        cluster
    }

    /// Adds a pod of another owner, which carries the label of the Job.
    pub(crate) fn add_stranger(&self, pod: Value) {
        self.0.lock().strangers.push(pod);
    }

    /// Gives the pod this status from now on.
    pub(crate) fn set_status(&self, status: Value) {
        self.0.lock().status = Some(status);
    }

    /// Returns the Job that was created.
    pub(crate) fn job(&self) -> Value {
        self.0.lock().job.clone().expect("a Job")
    }

    /// Waits until the process of the pod has ended by itself.
    pub(crate) async fn process_ends(&self) {
        let mut process = self.0.lock().process.take().expect("a pod");
        process.wait().await.unwrap();
    }

    /// Waits until the Job is removed.
    pub(crate) async fn is_removed(&self) {
        while !self.0.lock().removed {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let path = head.uri.path().to_owned();
        let answer = match (head.method, path.rsplit('/').next().unwrap()) {
            (Method::POST, "jobs") => {
                let mut job: Value = serde_json::from_slice(&body).unwrap();
                job["metadata"]["uid"] = json!(JOB_UID);
                let mut state = self.0.lock();
                if state.status.is_none() {
                    state.process = Some(start(&job));
                }
                state.job = Some(job.clone());
                job
            }
            (Method::GET, "pods") => {
                let mut state = self.0.lock();
                let running = json!({ "phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [{
                    "name": "script", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                    "state": { "running": {} },
                }]});
                let first = state.first_status.take();
                let status = first.or_else(|| state.status.clone()).unwrap_or(running);
                let mut pods = state.strangers.clone();
                if !status.is_null() {
                    pods.push(json!({ "metadata": owned_by_job(JOB_UID), "status": status }));
                }
                json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods })
            }
            (Method::GET, "events") => {
                json!({ "apiVersion": "v1", "kind": "EventList", "metadata": {}, "items": [{
                    "metadata": {}, "involvedObject": {}, "message": "pods \"x\" is forbidden: exceeded quota: small",
                }]})
            }
            (Method::DELETE, _) => {
                self.0.lock().removed = true;
                json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" })
            }
            other => panic!("{other:?}"),
        };
        let body = Body::from(answer.to_string().into_bytes());
        Ok(Response::builder().header("content-type", "application/json").body(body).unwrap())
    }
}

/// Returns the metadata of a pod whose controller is a Job with this UID.
pub(crate) fn owned_by_job(uid: &str) -> Value {
    json!({ "ownerReferences": [
        { "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": true },
    ]})
}

/// Starts the program of a Job's pod.
fn start(job: &Value) -> Child {
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let words: Vec<&str> =
        container["command"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    for variable in container["env"].as_array().unwrap() {
        command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    command.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
    // In place of the pod's own `/tmp`.
    let name = job["metadata"]["name"].as_str().unwrap();
    command.env("TMPDIR", std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    command.spawn().expect("python3 on the search path")
}

/// A host whose tools echo, fail, ask or do not exist.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) called: Mutex<Vec<String>>,
}

impl ToolHost for Host {
    type Asking = ();

    async fn call(&self, call: HostCall) -> Called<()> {
        let raised = |kind, message: &str| CallEnd::Raised { kind, message: message.to_owned() };
        let HostCall::Tool { server, tool, arguments } = call else {
            return Called::Ended(CallEnd::Value(serde_json::to_value(&call).unwrap()));
        };
        self.called.lock().push(tool.clone());
        Called::Ended(match tool.as_str() {
            "echo" => CallEnd::Value(json!({ "server": server, "args": arguments })),
            "rows" => CallEnd::Value((0..10_000).map(|n| json!({ "n": n })).collect()),
            "fail" => raised(Raised::Failed, "it is broken"),
            "hang" => std::future::pending().await,
            "ask" => return Called::Asks(()),
            _ => raised(Raised::Unknown, "no such tool"),
        })
    }

    async fn go_on(&self, (): ()) -> Called<()> {
        panic!("a script in a Job never waits")
    }

    async fn check(&self, uses: Vec<ToolUse>) -> Vec<Option<String>> {
        let mistake = |named: ToolUse| (named.tool == "missing").then(|| "no tool fs.missing".to_owned());
        uses.into_iter().map(mistake).collect()
    }
}

/// Returns settings under which a pod has 20 s to start.
pub(crate) fn job_settings() -> JobSettings {
    JobSettings {
        image: "python:3".to_owned(),
        image_pull_secrets: Vec::new(),
        runtime_class_name: None,
        cpu_millicores: 500,
        memory: 64 << 20,
        ephemeral_storage: 1 << 20,
        start_timeout: Duration::from_secs(20),
        max_timeout: Duration::from_secs(30),
    }
}

/// Runs a script as a Job of the cluster.
pub(crate) async fn run(cluster: &Cluster, host: &Host, code: &str, timeout: Duration) -> Ran {
    run_with(cluster, host, code, &job_settings(), timeout).await
}

/// Runs a script with other settings of its Job.
pub(crate) async fn run_with(
    cluster: &Cluster,
    host: &Host,
    code: &str,
    settings: &JobSettings,
    timeout: Duration,
) -> Ran {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let name = |name: &str| name.to_owned();
    let pod = ServerPod {
        name: name("x-1"),
        namespace: name("n"),
        uid: name("u"),
        server: name("x"),
        script_user: None,
        script_port: port,
    };
    let api = cluster.clone();
    let service = tower::service_fn(move |request| api.clone().answer(request));
    let jobs = JobLauncher::new(pod, Client::new(service, "n"));
    let limits = ScriptLimits {
        timeout,
        calls: 3,
        output_bytes: 1_000,
        result_bytes: 2_000,
        ..ScriptLimits::default()
    };
    let script = StartScript {
        code: code.to_owned(),
        context: Some(json!({ "who": "me" })),
        namespaces: vec!["github".to_owned(), "fs".to_owned()],
        tool_script: None,
        limits: limits.clone(),
    };
    let pool =
        Arc::new(WorkerPool::new(WorkerProgram { program: "/nonexistent".into(), arguments: Vec::new() }));
    let bounds = ResourceBounds { memory: 64 << 20, cpu_seconds: 60 };
    let pool_settings = PoolSettings { warm: 1, running: 1, running_per_principal: 1, bounds };
    let launch = jobs.launch(settings, &limits);
    match pool.run_in(&"me", pool_settings, launch, Script::New(script), host).await {
        ScriptEnd::Ended(ran) => ran,
        ScriptEnd::Waits(waiting) => panic!("{waiting:?}"),
    }
}
