//! A validated VirtualMCPServer and its surroundings → the text of `vmcp.yaml`.
//!
//! The text holds no secret: it refers to files, one a value, which the operator fills. It is checked here by the validator
//! that the server itself uses, so that what is mounted is what will be put in force.

mod absent;
mod document;
mod paths;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vmcp_config::Config;

use self::document::Document;
use self::secrets::Secrets;
pub use self::secrets::{ADMIN_TOKEN, SECRETS_DIR, SESSION_KEY};
use crate::mcp_server_entry::RemoteTransport;
use crate::mcp_telemetry_config::MCPTelemetryConfigSpec;
use crate::problem::{Invalid, Problem};
use crate::references::SecretKeyReference;
use crate::virtual_mcp_server::Validated;

/// The client port.
pub const CLIENT_PORT: u16 = 4483;
/// The admin port.
pub const ADMIN_PORT: u16 = 9090;
/// Where the cache volume is mounted.
pub const CACHE_DIR: &str = "/var/lib/vmcp/cache";

/// An MCP server behind a VirtualMCPServer: an MCPServer or an MCPServerEntry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The resource's name.
    pub name: String,
    /// Its endpoint.
    pub url: String,
    /// How it speaks.
    pub transport: RemoteTransport,
    /// Sent with every request.
    pub headers: BTreeMap<String, HeaderValue>,
    /// `false`: listed, but neither connected nor searched nor called, and without its secret headers; for one that refers
    /// to a Secret that is not there.
    pub enabled: bool,
}

/// The value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Anybody may read it.
    Plain(String),
    /// It is in a Secret.
    Secret(SecretKeyReference),
}

/// The service that makes a server's vectors, when the operator runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingService {
    /// Its base URL.
    pub endpoint: String,
    /// The model that it serves.
    pub model: Option<String>,
}

/// What else `vmcp.yaml` is made of.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    /// The backends, in any order; each name once.
    pub backends: &'a [Backend],
    /// What the server's MCPTelemetryConfig says.
    pub telemetry: Option<&'a MCPTelemetryConfigSpec>,
    /// With a managed or referenced embedding service.
    pub embedding_service: Option<&'a EmbeddingService>,
}

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
    let loaded = vmcp_config::load_with_files(text, "vmcp.yaml", &|_| None, &secrets::placeholder).ok()?;
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
        let mut secrets = Secrets::default();
        let mut warnings = Vec::new();
        let document = Document { server: self, around, secrets: &mut secrets, warnings: &mut warnings };
        let Ok(text) = serde_saphyr::to_string(&document.render()) else {
            let remedy = "report this as a mistake of the operator";
            return Err(Invalid(vec![Problem::new("spec", "cannot be written as YAML", remedy)]));
        };
        match vmcp_config::load_with_files(&text, "vmcp.yaml", &|_| None, &secrets::placeholder) {
            Ok(loaded) => {
                warnings
                    .extend(loaded.warnings.into_iter().map(|found| paths::of_resource(self, around, found)));
                Ok(Lowered { text, secrets: secrets.files, config: loaded.config, warnings })
            }
            Err(problems) => {
                let mapped = problems.list.into_iter().map(|found| paths::of_resource(self, around, found));
                Err(Invalid(mapped.collect()))
            }
        }
    }
}
