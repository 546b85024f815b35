//! A validated VirtualMCPServer and its surroundings → the text of `vmcp.yaml`.
//!
//! The text holds no secret: it refers to files, one a value, which the operator fills. It is checked here by the validator
//! that the server itself uses, so that what is mounted is what will be put in force.

mod document;
mod pod_layout;
mod prune_missing_backends;
mod resource_paths;
mod secret_files;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vmcp_config::Config;

use self::document::Document;
pub use self::pod_layout::{ADMIN_PORT, ADMIN_TOKEN, CACHE_DIR, CLIENT_PORT, SECRETS_DIR, SESSION_KEY};
use self::secret_files::SecretFiles;
pub use self::surroundings::{Backend, EmbeddingService, HeaderValue, Surroundings};
use crate::fields::references::SecretKeyReference;
use crate::problem::{Invalid, Problem};
use crate::virtual_mcp_server::Validated;

/// `vmcp.yaml`, and what it needs.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// The file. The same input gives the same text.
    pub text: String,
    /// What each file of [`SECRETS_DIR`] must hold, besides [`ADMIN_TOKEN`] and [`SESSION_KEY`].
    pub secrets: BTreeMap<String, SecretKeyReference>,
    /// What the server will make of it; its secrets are placeholders.
    pub config: Config,
    /// What is probably not meant.
    pub warnings: Vec<Problem>,
}

impl Lowered {
    /// How long a pod may take to end: as long as connections are taken and drained, and what comes after.
    pub fn grace(&self) -> Duration {
        grace_of(&self.config)
    }
}

/// [`Lowered::grace`] of a text that was lowered before; `None` if it cannot be read any more.
pub fn grace(text: &str) -> Option<Duration> {
    let loaded =
        vmcp_config::load_with_files(text, "vmcp.yaml", &|_| None, &secret_files::placeholder).ok()?;
    Some(grace_of(&loaded.config))
}

fn grace_of(config: &Config) -> Duration {
    config.server.shutdown_delay + config.server.drain_timeout + Duration::from_secs(10)
}

/// The names of the backends in a text that [`Validated::lower`] made.
pub fn backends_of(text: &str) -> BTreeSet<String> {
    let Ok(file) = serde_saphyr::from_str::<serde_json::Value>(text) else { return BTreeSet::new() };
    let backends = file.get("backends").and_then(serde_json::Value::as_array);
    let name = |backend: &serde_json::Value| Some(backend.get("name")?.as_str()?.to_owned());
    backends.into_iter().flatten().filter_map(name).collect()
}

impl Validated {
    /// Renders and checks `vmcp.yaml`. Settings about backends that are not there are left out, and warned about: backends
    /// come and go by themselves, and their absence must not keep the others from being configured.
    pub fn lower(&self, around: &Surroundings<'_>) -> Result<Lowered, Invalid> {
        let mut secrets = SecretFiles::default();
        let mut warnings = Vec::new();
        let document = Document { server: self, around, secrets: &mut secrets, warnings: &mut warnings };
        let Ok(text) = serde_saphyr::to_string(&document.render()) else {
            let remedy = "report this as a mistake of the operator";
            return Err(Invalid(vec![Problem::new("spec", "cannot be written as YAML", remedy)]));
        };
        match vmcp_config::load_with_files(&text, "vmcp.yaml", &|_| None, &secret_files::placeholder) {
            Ok(loaded) => {
                warnings.extend(
                    loaded.warnings.into_iter().map(|found| resource_paths::of_resource(self, around, found)),
                );
                Ok(Lowered { text, secrets: secrets.files, config: loaded.config, warnings })
            }
            Err(problems) => {
                let mapped =
                    problems.list.into_iter().map(|found| resource_paths::of_resource(self, around, found));
                Err(Invalid(mapped.collect()))
            }
        }
    }
}
