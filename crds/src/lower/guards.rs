//! Lowers the guards of an MCPServer to the file that its bridge reads (`vmcp bridge --guards`).
//!
//! The file has blocks of `vmcp.yaml`. A VirtualMCPServer with the same guards is lowered, and only the
//! blocks that a bridge follows are kept: both kinds understand the same fields alike.

use serde_json::{Map, Value};

use super::{Lowered, ReferencedObjects};
use crate::mcp_server::{MCPServer, MCPServerSpec};
use crate::problem::{Invalid, Problem};
use crate::virtual_mcp_server::{AuthServerConfig, Config, VirtualMCPServer, VirtualMCPServerSpec};

/// Blocks of `vmcp.yaml` that a bridge follows.
const FOLLOWED: [&str; 6] =
    ["incomingAuth", "authServer", "audit", "rateLimiting", "sessionStorage", "telemetry"];
/// Setting of the block `server` that a bridge follows: keys that seal what clients of an authorization
/// server carry.
const SESSION_KEYS: &str = "sessionKeys";
/// Beginnings of paths of a VirtualMCPServer, and those of an MCPServer in their place.
const PATHS: [(&str, &str); 5] = [
    ("spec.incomingAuth.", "spec."),
    ("spec.incomingAuth", "spec"),
    ("spec.config.", "spec."),
    ("spec.authServerConfig", "spec.authServerRef"),
    ("MCPAuthzConfig", "spec.authzConfigRef: MCPAuthzConfig"),
];

impl MCPServer {
    /// Renders and checks the guards; `None` if the server has none. `auth_server` is the authorization
    /// server that `authServerRef` leads to.
    pub fn lower_guards(
        &self,
        referenced: &ReferencedObjects<'_>,
        auth_server: Option<&AuthServerConfig>,
    ) -> Result<Option<Lowered>, Invalid> {
        if !self.spec.is_guarded() {
            return Ok(None);
        }
        let lowered = self.lower_as_virtual(referenced, auth_server);
        lowered.map(Some).map_err(|Invalid(problems)| Invalid(problems.into_iter().map(own_path).collect()))
    }

    fn lower_as_virtual(
        &self,
        referenced: &ReferencedObjects<'_>,
        auth_server: Option<&AuthServerConfig>,
    ) -> Result<Lowered, Invalid> {
        // Names of MCPServers may be longer than those of VirtualMCPServers.
        let mut server = VirtualMCPServer::new("guards", as_virtual(&self.spec, auth_server));
        server.metadata.namespace.clone_from(&self.metadata.namespace);
        let mut validated = server.validate()?;
        validated.name = self.metadata.name.clone().unwrap_or_default();
        let mut lowered = validated.lower(referenced)?;
        let mistake = |message: &str| {
            Invalid(vec![Problem::new("spec", message, "report this as a mistake of the operator")])
        };
        // Guards that cannot be read back refuse the server.
        let file = serde_saphyr::from_str::<Map<String, Value>>(&lowered.text)
            .map_err(|error| mistake(&format!("cannot be read back as YAML: {error}")))?;
        lowered.text =
            serde_saphyr::to_string(&followed(file)).map_err(|_| mistake("cannot be written as YAML"))?;
        Ok(lowered)
    }
}

/// Returns a VirtualMCPServer with the same guards.
fn as_virtual(spec: &MCPServerSpec, auth_server: Option<&AuthServerConfig>) -> VirtualMCPServerSpec {
    let mut incoming_auth = Map::new();
    let kind = if spec.asks_for_tokens() { "oidc" } else { "anonymous" };
    incoming_auth.insert("type".to_owned(), kind.into());
    let references = [
        ("oidcConfigRef", spec.oidc_config_ref.as_ref().map(serde_json::to_value)),
        ("authzConfigRef", spec.authz_config_ref.as_ref().map(serde_json::to_value)),
    ];
    for (key, value) in references {
        // A reference that was parsed from JSON always serializes.
        if let Some(Ok(value)) = value {
            incoming_auth.insert(key.to_owned(), value);
        }
    }
    if !spec.authz_config.is_empty() {
        incoming_auth.insert("authzConfig".to_owned(), spec.authz_config.clone().into());
    }
    VirtualMCPServerSpec {
        config: Some(Config {
            audit: spec.audit.clone(),
            rate_limiting: spec.rate_limiting.clone(),
            ..Config::default()
        }),
        incoming_auth,
        auth_server_config: auth_server.cloned(),
        session_storage: spec.session_storage.clone(),
        telemetry_config_ref: spec.telemetry_config_ref.clone(),
        ..VirtualMCPServerSpec::default()
    }
}

/// Returns the blocks of a file that a bridge follows.
fn followed(mut file: Map<String, Value>) -> Map<String, Value> {
    let keys = file.get_mut("server").and_then(|server| server.get_mut(SESSION_KEYS)).map(Value::take);
    file.retain(|key, _| FOLLOWED.contains(&key.as_str()));
    if let Some(keys) = keys {
        let server = Map::from_iter([(SESSION_KEYS.to_owned(), keys)]);
        file.insert("server".to_owned(), server.into());
    }
    file
}

/// Translates the path of a problem.
fn own_path(problem: Problem) -> Problem {
    let translated =
        PATHS.iter().find_map(|(theirs, own)| Some(format!("{own}{}", problem.path.strip_prefix(theirs)?)));
    Problem { path: translated.unwrap_or_else(|| problem.path.clone()), ..problem }
}
