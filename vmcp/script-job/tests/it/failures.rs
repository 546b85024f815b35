//! The end of scripts whose pod does not start, is killed, or belies the protocol, and of the Jobs of all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_script::jobs::JobSettings;

use super::cluster::{Cluster, Host, JOB_UID, job_settings, owned_by_job, run, run_with};

const LONG: Duration = Duration::from_secs(30);

fn with_state(state: &Value) -> Value {
    json!({ "containerStatuses": [{
        "name": "script", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    }]})
}

async fn failure(cluster: &Cluster, code: &str, timeout: Duration) -> (String, String) {
    let ran = run(cluster, &Host::default(), code, timeout).await;
    let failure = ran.finished.end.expect_err(code);
    (failure.error_type, failure.error)
}

#[tokio::test]
async fn a_job_is_removed_after_its_script() {
    let cluster = Cluster::default();
    run(&cluster, &Host::default(), "1", LONG).await.finished.end.unwrap();
    cluster.is_removed().await;
    let job = cluster.job();
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "u");
}

#[tokio::test]
async fn a_script_beyond_its_time_loses_its_pod() {
    for code in ["while True: pass", "fs.hang()", "import time\ntime.sleep(60)"] {
        let cluster = Cluster::default();
        let (kind, error) = failure(&cluster, code, Duration::from_secs(1)).await;
        assert_eq!(kind, "TimeoutError");
        assert_eq!(error, "Code execution timed out after 1 seconds");
        // The driver notices the end of its connection, with an API server or without.
        cluster.process_ends().await;
        cluster.is_removed().await;
    }
}

#[tokio::test]
async fn a_pod_that_is_killed_says_why() {
    let code = "fs.echo()\nimport os\nos._exit(3)";
    let cluster = Cluster::default();
    let ended = cluster.clone();
    let host = Host::default();
    let (out, ()) = tokio::join!(run(&cluster, &host, code, LONG), async {
        while host.called.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        ended.set_status(with_state(&json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } })));
    });
    let failure = out.finished.end.unwrap_err();
    assert_eq!(failure.error_type, "MemoryError", "{failure:?}");
    assert_eq!(failure.limit, Some(64 << 20));
    cluster.is_removed().await;
}

#[tokio::test]
async fn a_pod_that_does_not_start_says_the_remedy() {
    let pull = json!({ "waiting": { "reason": "ErrImageNeverPull", "message": "python:3 not found" } });
    let cluster = Cluster::with_status(with_state(&pull));
    let (kind, error) = failure(&cluster, "1", LONG).await;
    assert_eq!(kind, "StartError");
    assert!(error.contains("not found") && error.contains("code.job.image"), "{error}");
    cluster.is_removed().await;

    let cluster = Cluster::with_status(Value::Null);
    let (kind, error) = failure(&cluster, "1", LONG).await;
    assert_eq!(kind, "StartError");
    assert!(error.contains("exceeded quota") && error.contains("ResourceQuota"), "{error}");
    cluster.is_removed().await;

    let cluster = Cluster::with_status(json!({}));
    let settings = JobSettings { start_timeout: Duration::from_millis(300), ..job_settings() };
    let ran = run_with(&cluster, &Host::default(), "1", &settings, LONG).await;
    let error = ran.finished.end.unwrap_err().error;
    assert!(error.contains("no pod ran within 0.3 seconds"), "{error}");
    cluster.is_removed().await;
}

#[tokio::test]
async fn an_image_is_pulled_again_after_a_failure() {
    let pull = with_state(&json!({ "waiting": { "reason": "ImagePullBackOff", "message": "reset" } }));
    let cluster = Cluster::with_first_status(pull.clone());
    let ran = run(&cluster, &Host::default(), "1 + 1", LONG).await;
    assert_eq!(ran.finished.end, Ok(json!(2)));

    let cluster = Cluster::with_status(pull);
    let settings = JobSettings { start_timeout: Duration::from_millis(300), ..job_settings() };
    let ran = run_with(&cluster, &Host::default(), "1", &settings, LONG).await;
    let error = ran.finished.end.unwrap_err().error;
    assert!(error.contains("reset") && error.contains("code.job.image"), "{error}");
}

/// A pod that dies before it listens is noticed long before the start timeout of 20 s.
#[tokio::test]
async fn a_pod_that_dies_before_it_listens_says_why() {
    let mut running = with_state(&json!({ "running": {} }));
    running["podIP"] = json!("127.0.0.1");
    let cluster = Cluster::with_status(running);
    let ended = cluster.clone();
    let started = Instant::now();
    let ((kind, error), ()) = tokio::join!(failure(&cluster, "1", LONG), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        ended.set_status(with_state(&json!({ "terminated": { "reason": "Error", "exitCode": 127 } })));
    });
    assert!(kind == "WorkerError" && error.contains("exit code 127"), "{kind}: {error}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    cluster.is_removed().await;
}

#[tokio::test]
async fn an_unreachable_pod_keeps_its_address_to_itself() {
    let mut running = with_state(&json!({ "running": {} }));
    running["podIP"] = json!("127.0.0.1");
    let cluster = Cluster::with_status(running);
    let settings = JobSettings { start_timeout: Duration::from_millis(300), ..job_settings() };
    let ran = run_with(&cluster, &Host::default(), "1", &settings, LONG).await;
    let error = ran.finished.end.unwrap_err().error;
    assert!(error.contains("runs and cannot be reached") && !error.contains("127.0.0.1"), "{error}");
}

/// A person who may create pods may give one the label of a Job. The server sends it no token and no script.
#[tokio::test]
async fn a_pod_of_a_stranger_gets_no_script() {
    let status = json!({ "phase": "Failed", "reason": "Evicted", "message": "a stranger" });
    let mut guest = owned_by_job(JOB_UID);
    guest["ownerReferences"][0]["controller"] = json!(false);
    let cluster = Cluster::default();
    for metadata in [json!({}), owned_by_job("another-job"), guest] {
        cluster.add_stranger(json!({ "metadata": metadata, "status": status }));
    }
    let ran = run(&cluster, &Host::default(), "1 + 1", LONG).await;
    assert_eq!(ran.finished.end, Ok(json!(2)));
}

/// A script may write frames of its own: it has the whole process.
#[tokio::test]
async fn forged_frames_gain_nothing() {
    let forge = |frame: &str| {
        format!(
            "import gc, socket, struct\n\
             s = [o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() > 0][0]\n\
             def send(text):\n    data = text.encode()\n    s.sendall(struct.pack('>I', len(data)) + data)\n\
             {frame}\nimport time\ntime.sleep(60)"
        )
    };
    let large = forge(r#"send('{"finished":{"end":{"Ok":"' + 'x' * 5000 + '"},"output":""}}')"#);
    assert_eq!(failure(&Cluster::default(), &large, LONG).await.0, "ResultLimitError");
    let huge = forge("s.sendall(struct.pack('>I', 2**31))");
    let (kind, error) = failure(&Cluster::default(), &huge, LONG).await;
    assert_eq!(kind, "WorkerError");
    assert!(error.contains("a frame of 2147483648 bytes, the limit is"), "{error}");
    let calls = forge(r#"send('{"calls":[' + ','.join(['{"describe":{"name":"a"}}'] * 4) + ']}')"#);
    assert_eq!(failure(&Cluster::default(), &calls, LONG).await.0, "CallLimitError");
    let resumed = forge(r#"send('"resumed"')"#);
    let (kind, error) = failure(&Cluster::default(), &resumed, LONG).await;
    assert!(kind == "WorkerError" && error.contains("unexpected frame"), "{kind}: {error}");
}
