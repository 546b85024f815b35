//! `GET /admin/config_dump`: the configuration in force, with the source of each value.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::{Deserialize, Serialize};
use vmcp_config::{Config, EffectiveSetting};

use crate::port::admin::Admin;

/// The configuration in force, secrets masked.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConfigDump {
    /// Every setting, in the order of the reference.
    pub settings: Vec<EffectiveSetting>,
}

impl ConfigDump {
    /// Dumps a configuration.
    pub fn new(config: &Config) -> ConfigDump {
        ConfigDump { settings: config.effective_settings() }
    }
}

/// Answers `GET /admin/config_dump`.
pub(in crate::port::admin) async fn show(State(Admin(inner)): State<Admin>) -> Response {
    let config = inner.engine.snapshot().config.clone();
    // Thousands of backends take a while.
    let dump = tokio::task::spawn_blocking(move || ConfigDump::new(&config)).await;
    match dump {
        Ok(dump) => Json(dump).into_response(),
        // Not reached: the task neither panics nor is aborted.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
