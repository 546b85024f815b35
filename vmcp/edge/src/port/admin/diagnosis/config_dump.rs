//! `GET /admin/config_dump`: the configuration in force, with the source of each value.

use axum::extract::State;
use axum::response::{Json, Response};
use serde::{Deserialize, Serialize};
use vmcp_config::{Config, EffectiveSetting};

use crate::port::admin::Admin;
use crate::port::off_thread;

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
    off_thread(move || Json(ConfigDump::new(&config))).await
}
