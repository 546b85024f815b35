//! Start, stop, restart and status of a VirtualMCPServer: `spec.suspend`, an annotation that replaces the
//! pods, and the status that the operator writes.

mod report;

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use self::report::{changed, human_text, to_json};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, progress};
use crate::cli::kubernetes::GROUP;
use crate::cli::kubernetes::cluster_server::ClusterServer;
use crate::cli::kubernetes::server_resource::ServerResource;
use crate::cli::options::GlobalOptions;

/// Time that pods have to start or to be replaced: an image is pulled, and a model read.
const ROLLOUT_TIMEOUT: Duration = Duration::from_mins(5);
/// Interval at which the status is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `vmcp start --kubernetes`.
pub(super) fn start(
    server: &ClusterServer,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    super::report::print(format, bring_up(server), |report| {
        if report["already_running"] == true {
            notes::note(&format!("{} runs already; {} shows it", server.name(), server.words_for("status")));
        } else {
            notes::note(&format!("{} serves {}", server.name(), report["url"].as_str().unwrap_or_default()));
        }
    })
}

/// Runs `vmcp stop --kubernetes`.
pub(super) fn stop(
    server: &ClusterServer,
    timeout: Option<Duration>,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    super::report::print(format, suspend(server, timeout.unwrap_or(ROLLOUT_TIMEOUT)), |report| {
        if report["not_running"] == true {
            notes::note(&format!("{} is suspended already", server.name()));
        } else {
            let name = server.name();
            notes::note(&format!(
                "{name} is suspended: no pods run; {} starts them",
                server.words_for("start")
            ));
        }
    })
}

/// Runs `vmcp restart --kubernetes`.
pub(super) fn restart(
    server: &ClusterServer,
    timeout: Option<Duration>,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    super::report::print(format, replace_pods(server, timeout.unwrap_or(ROLLOUT_TIMEOUT)), |_| {
        notes::note(&format!("every pod of {} is a new one", server.name()));
    })
}

/// Runs `vmcp status --kubernetes`.
pub(super) fn status(
    server: &ClusterServer,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    let resource = server.read()?;
    output::print(format, &to_json(&resource), || human_text(&resource))?;
    Ok(Exit::Done)
}

/// Ends the suspension, and waits until a pod serves.
fn bring_up(server: &ClusterServer) -> Result<(Value, Exit), CommandFailure> {
    let before = server.read()?;
    if !before.spec.suspend && before.is_ready() {
        let mut report = changed(&before, pod(server).as_deref(), "Daemon is already running");
        if let Some(report) = report.as_object_mut() {
            report.insert("success".to_owned(), false.into());
            report.insert("already_running".to_owned(), true.into());
        }
        return Ok((report, Exit::Done));
    }
    let wanted = if before.spec.suspend { patch_suspend(server, false)? } else { before };
    let generation = wanted.metadata.generation;
    let is_over = |resource: &ServerResource| resource.is_ready_at(generation);
    let resource = wait(server, (generation, None), ROLLOUT_TIMEOUT, is_over)?;
    Ok((changed(&resource, pod(server).as_deref(), "Daemon started successfully"), Exit::Done))
}

/// Suspends it, and waits until the last pod is gone.
fn suspend(server: &ClusterServer, limit: Duration) -> Result<(Value, Exit), CommandFailure> {
    let before = server.read()?;
    if before.spec.suspend && before.is_suspended_at(before.metadata.generation) {
        let report = json!({ "success": false, "not_running": true, "message": "Daemon is not running" });
        return Ok((report, Exit::Unreachable));
    }
    let wanted = if before.spec.suspend { before } else { patch_suspend(server, true)? };
    let generation = wanted.metadata.generation;
    let is_over = |resource: &ServerResource| resource.is_suspended_at(generation);
    let resource = wait(server, (generation, None), limit, is_over)?;
    Ok((changed(&resource, None, "Daemon stopped successfully"), Exit::Done))
}

/// Replaces the pods, one after the other; a suspended server is started.
fn replace_pods(server: &ClusterServer, limit: Duration) -> Result<(Value, Exit), CommandFailure> {
    let restart = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let annotation = format!("{GROUP}/restarted-at");
    let metadata = json!({ "annotations": { annotation: restart } });
    let change = if server.read()?.spec.suspend {
        json!({ "metadata": metadata, "spec": { "suspend": false } })
    } else {
        json!({ "metadata": metadata })
    };
    let generation = server.patch(&change)?.metadata.generation;
    let is_over = |resource: &ServerResource| resource.is_restarted(&restart, generation);
    let resource = wait(server, (generation, Some(&restart)), limit, is_over)?;
    Ok((changed(&resource, pod(server).as_deref(), "Daemon restarted successfully"), Exit::Done))
}

/// Returns a pod that serves; `None` also without the right to list pods, which a start does not need.
fn pod(server: &ClusterServer) -> Option<String> {
    server.ready_pod().ok().flatten()
}

fn patch_suspend(server: &ClusterServer, is_suspended: bool) -> Result<ServerResource, CommandFailure> {
    server.patch(&json!({ "spec": { "suspend": is_suspended } }))
}

/// Reads the resource again and again until `is_over`; shows the progress. The change is known by the
/// generation of its spec, and a restart by its annotation, which belongs to no generation.
#[expect(clippy::disallowed_methods, reason = "no runtime is running")]
fn wait(
    server: &ClusterServer,
    (generation, restart): (i64, Option<&str>),
    limit: Duration,
    is_over: impl Fn(&ServerResource) -> bool,
) -> Result<ServerResource, CommandFailure> {
    let name = server.name();
    let spinner = progress::spinner(format!("{name}: waiting for the operator"));
    let started = Instant::now();
    loop {
        let resource = server.read()?;
        if is_over(&resource) {
            spinner.finish_and_clear();
            return Ok(resource);
        }
        let is_begun = restart.is_none_or(|restart| resource.status.restarted_at.as_deref() == Some(restart));
        // A suspended resource may be stalled for another reason; its pods end all the same.
        let stalled = resource.stalled(generation).filter(|_| is_begun && !resource.spec.suspend);
        let reason = if let Some(stalled) = stalled {
            Some(stalled.to_owned())
        } else if started.elapsed() >= limit {
            let seconds = limit.as_secs();
            Some(format!("after {seconds} seconds: {}", resource.progress(generation)))
        } else {
            None
        };
        if let Some(reason) = reason {
            spinner.finish_and_clear();
            return Err(CommandFailure::new(format!("{name}: the change is not in force: {reason}"))
                .exit(Exit::Unreachable)
                .remedy(format!(
                    "{} shows its conditions; the operator goes on",
                    server.words_for("status")
                )));
        }
        spinner.set_message(format!("{name}: {}", resource.progress(generation)));
        std::thread::sleep(POLL_INTERVAL);
    }
}
