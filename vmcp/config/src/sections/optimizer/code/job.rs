//! `code.engine` and `code.job`: scripts in Kubernetes Jobs, in place of worker processes.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{Report, item};
use crate::values::duration::{self, RawDuration};

/// Range of the start timeout.
const START: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_mins(30);
/// Image of scripts that the configuration does not name: CPython's official one.
const DEFAULT_IMAGE: &str = "docker.io/library/python:3.13-slim";
/// Least memory of a script in a Job, in MiB: CPython itself takes some 20.
const MIN_MEMORY: u32 = 32;
/// Longest name of an object of Kubernetes, in characters.
const MAX_NAME: usize = 253;

/// Engine that runs scripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CodeEngine")]
pub enum RawCodeEngine {
    /// A confined process beside the server, in a subset of Python. Starts in milliseconds, and a script may
    /// wait for an answer of the user.
    #[default]
    Worker,
    /// A Kubernetes Job for each script, in CPython; only in a cluster. Starts in seconds.
    Job,
}

/// End of a script whose Job did not start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CodeStartFailure")]
pub enum RawStartFailure {
    /// An error, which names the cause and the setting to correct.
    #[default]
    Error,
    /// The script runs in a worker process of the server, in its subset of Python and in its sandbox.
    Worker,
}

/// Jobs of scripts; for `engine: job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CodeJob")]
pub struct RawCodeJob {
    /// Image with `python3` (CPython 3.9 or newer) on its search path; it must run as any user. A digest
    /// (`…@sha256:…`) pins it.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Names of Secrets with credentials for the registry of the image. At most 16.
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<String>,
    /// RuntimeClass of the pods, such as `gvisor`. Default: the cluster's own runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// Processor time of a script, in thousandths of a processor.
    #[schemars(range(min = 50, max = 64_000))]
    pub cpu_millicores: u32,
    /// MiB that a script may write below `/tmp`; beyond them, the kubelet evicts its pod.
    #[schemars(range(min = 1, max = 10_240))]
    pub ephemeral_storage_mebibytes: u32,
    /// Time until the pod of a script must run: its node, the pull of its image. It does not count as the
    /// script's own.
    #[schemars(extend("x-range" = duration::words(&START)))]
    pub start_timeout: RawDuration,
    /// End of a script whose Job did not start: an error, or a run in a worker process.
    pub on_start_failure: RawStartFailure,
}

/// Validated settings of the Jobs of scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeJob {
    /// Image with `python3`.
    pub image: String,
    /// Secrets with credentials for its registry.
    pub image_pull_secrets: Vec<String>,
    /// RuntimeClass of the pods.
    pub runtime_class_name: Option<String>,
    /// Thousandths of a processor.
    pub cpu_millicores: u32,
    /// MiB that a script may write.
    pub ephemeral_storage_mebibytes: u32,
    /// Time until the pod must run.
    pub start_timeout: Duration,
    /// True if a script whose Job did not start runs in a worker process.
    pub falls_back: bool,
}

impl Default for RawCodeJob {
    fn default() -> Self {
        Self {
            image: DEFAULT_IMAGE.to_owned(),
            image_pull_secrets: Vec::new(),
            runtime_class_name: None,
            cpu_millicores: 1_000,
            ephemeral_storage_mebibytes: 64,
            start_timeout: "1m".into(),
            on_start_failure: RawStartFailure::default(),
        }
    }
}

/// Validates the settings of the Jobs; `None` with the engine `worker`. `memory` is that of a script, in MiB.
pub(super) fn validate(
    engine: RawCodeEngine,
    job: Option<&RawCodeJob>,
    memory: u32,
    report: &mut Report,
) -> Option<CodeJob> {
    if engine == RawCodeEngine::Worker {
        if job.is_some() {
            report.problem("code.job", "is for another engine", "add `engine: job` to `code`, or remove it");
        }
        return None;
    }
    let job = job.cloned().unwrap_or_default();
    if memory < MIN_MEMORY {
        let message = format!("{memory} MiB, less than CPython takes");
        report.problem("code.memoryMebibytes", message, format!("raise it to {MIN_MEMORY} or more"));
    }
    if job.image.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let remedy = "write it as `registry/name:tag` or `registry/name@sha256:…`";
        report.problem("code.job.image", "has white space", remedy);
    }
    let class = job.runtime_class_name.iter().map(|name| ("code.job.runtimeClassName".to_owned(), name));
    let secrets = job.image_pull_secrets.iter().enumerate();
    let secrets = secrets.map(|(place, name)| (item("code.job.imagePullSecrets", place), name));
    for (path, name) in class.chain(secrets) {
        if !is_object_name(name) {
            let remedy = "use lower-case letters, digits, `-` and `.`, with a letter or digit at both ends";
            report.problem(&path, format!("`{name}` is no name of an object of Kubernetes"), remedy);
        }
    }
    Some(CodeJob {
        start_timeout: job.start_timeout.validate("code.job.startTimeout", &START, report),
        image: job.image,
        image_pull_secrets: job.image_pull_secrets,
        runtime_class_name: job.runtime_class_name,
        cpu_millicores: job.cpu_millicores,
        ephemeral_storage_mebibytes: job.ephemeral_storage_mebibytes,
        falls_back: job.on_start_failure == RawStartFailure::Worker,
    })
}

/// Returns true for a subdomain of DNS (RFC 1123), as Kubernetes names objects.
fn is_object_name(name: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_NAME
        && name.starts_with(is_alphanumeric)
        && name.ends_with(is_alphanumeric)
        && name.chars().all(|c| is_alphanumeric(c) || c == '-' || c == '.')
}

#[cfg(test)]
mod tests {
    fn load(text: &str) -> Result<crate::Code, String> {
        let loaded = crate::load(text, "vmcp.yaml", &|_| None);
        loaded.map(|loaded| loaded.config.code).map_err(|problems| problems.to_string())
    }

    #[test]
    fn jobs_have_defaults() {
        assert_eq!(load("backends: []").unwrap().job, None);
        let job = load("code: { engine: job }").unwrap().job.unwrap();
        assert_eq!(job.image, "docker.io/library/python:3.13-slim");
        assert_eq!((job.cpu_millicores, job.start_timeout.as_secs(), job.falls_back), (1_000, 60, false));
        let falls_back = load("code: { engine: job, job: { onStartFailure: worker } }").unwrap().job.unwrap();
        assert!(falls_back.falls_back);
        let job = load("code: { engine: job, job: { runtimeClassName: gvisor } }").unwrap().job.unwrap();
        assert_eq!(job.runtime_class_name.as_deref(), Some("gvisor"));
    }

    #[test]
    fn mistakes_are_named() {
        for (code, expected) in [
            ("{ job: {} }", "code.job: is for another engine; add `engine: job`"),
            ("{ engine: job, memoryMebibytes: 16 }", "code.memoryMebibytes: 16 MiB, less than CPython takes"),
            ("{ engine: job, job: { image: 'a b' } }", "code.job.image: has white space"),
            ("{ engine: job, job: { runtimeClassName: '-x' } }", "`-x` is no name"),
            (
                "{ engine: job, job: { imagePullSecrets: [a, B] } }",
                "code.job.imagePullSecrets[1]: `B` is no name",
            ),
            ("{ engine: job, job: { startTimeout: 1s } }", "code.job.startTimeout"),
            ("{ engine: jobs }", "code.engine"),
            ("{ engine: job, job: { onStartFailure: retry } }", "code.job.onStartFailure"),
        ] {
            let problems = load(&format!("code: {code}")).unwrap_err();
            assert!(problems.contains(expected), "{code}: {problems}");
        }
    }
}
