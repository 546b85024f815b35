//! Limits and settings of scripts, from the configuration.

use vmcp_config::{Code, CodeJob, Config};
use vmcp_results::dataset::MAX_RESULT_BYTES;
use vmcp_script::jobs::JobSettings;
use vmcp_script::pool::PoolSettings;
use vmcp_script::{ResourceBounds, ScriptLimits};

use super::call_arguments::CodeArguments;
use crate::own_tools::arguments::dialect::Dialect;

/// Returns the Job that runs a script; `None`: a worker runs it. Scripts of ToolHive are Python to workers
/// alone.
pub(super) fn job_of(config: &Config, dialect: Dialect) -> Option<&CodeJob> {
    config.code.job.as_ref().filter(|_| dialect == Dialect::Python)
}

/// Returns the limits of a script.
pub(super) fn limits(config: &Config, arguments: &CodeArguments) -> ScriptLimits {
    let code = &config.code;
    ScriptLimits {
        timeout: arguments.timeout,
        calls: code.max_calls,
        parallel: code.max_parallel,
        output_bytes: code.max_output_bytes,
        // A large result of an operation on rows is kept, and does not reach the model.
        result_bytes: if arguments.is_over_rows { MAX_RESULT_BYTES } else { code.max_result_bytes },
        ..ScriptLimits::default()
    }
}

/// Returns the settings of the Job of one script.
pub(super) fn job_settings(code: &Code, job: &CodeJob) -> JobSettings {
    JobSettings {
        image: job.image.clone(),
        image_pull_secrets: job.image_pull_secrets.clone(),
        runtime_class_name: job.runtime_class_name.clone(),
        cpu_millicores: job.cpu_millicores,
        memory: u64::from(code.memory_mebibytes) << 20,
        ephemeral_storage: u64::from(job.ephemeral_storage_mebibytes) << 20,
        start_timeout: job.start_timeout,
        max_timeout: code.max_timeout,
    }
}

/// Returns the bounds of the workers, and the places of scripts.
pub(super) fn pool_settings(config: &Config) -> PoolSettings {
    let code = &config.code;
    let bounds = ResourceBounds {
        memory: u64::from(code.memory_mebibytes) << 20,
        // A script that computes all the time reaches its deadline first.
        cpu_seconds: code.max_timeout.as_secs() + 1,
    };
    PoolSettings {
        warm: code.warm_workers,
        running: code.max_running,
        running_per_principal: code.max_running_per_client,
        bounds,
    }
}
