//! Lowers a validated VirtualMCPServer, with the objects it refers to, to the text of `vmcp.yaml`.
//!
//! The text holds no secret. It refers to files, one a value, which the operator mounts from a Secret. The
//! text is checked by the validator of the server itself, so that pods accept every mounted text.

mod document;
mod guards;
mod identity;
mod incoming_auth;
mod pod_layout;
mod prune_missing_backends;
mod referenced_objects;
mod resource_paths;
mod secret_files;
mod tool_configs;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vmcp_config::{Config, ReferenceSources, SETTINGS_AT_START};

use self::document::Document;
pub use self::identity::Identity;
pub use self::pod_layout::{
    ADDED_BY_LABEL, ADDED_PROGRAMS_VARIABLE, ADDED_SERVERS_API_VARIABLE, ADDED_SERVERS_GROUP_VARIABLE,
    ADDED_SERVERS_OWNER_VARIABLE, ADDED_SERVERS_VARIABLE, ADMIN_PORT, ADMIN_TOKEN, CACHE_DIR, CLIENT_PORT,
    EVENTS_PORT, METRICS_TOKEN, POD_IDENTITY_VARIABLES, POD_IP_VARIABLE, SCRIPT_APP_NAME,
    SCRIPT_JOBS_VARIABLE, SCRIPT_PORT, SCRIPT_USER_VARIABLE, SECRETS_DIR, SESSION_KEY, TRUSTED_TOOLS,
};
pub use self::referenced_objects::{
    Backend, ClusterIssuer, EmbeddingService, HeaderValue, PolicyCheck, ReferencedCompositeTool,
    ReferencedObjects,
};
use self::secret_files::SecretFiles;
pub use self::webhooks::{ReferencedWebhooks, WebhookScope, webhook_path};
use crate::fields::references::SecretKeyReference;
use crate::problem::{Invalid, Problem};
use crate::shared_settings::mcp_oidc_config::KubernetesServiceAccount;
use crate::virtual_mcp_server::{Validated, authz};

/// The text of `vmcp.yaml`, and the further files of a pod.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Content of the file. The same input gives the same text.
    pub text: String,
    /// Secret key for each file of [`SECRETS_DIR`] but [`ADMIN_TOKEN`], [`METRICS_TOKEN`], [`SESSION_KEY`]
    /// and [`TRUSTED_TOOLS`].
    pub secrets: BTreeMap<String, SecretKeyReference>,
    /// Certificates of authorities, as PEM, and key sets of issuers, for each further file of
    /// [`SECRETS_DIR`].
    pub certificates: BTreeMap<String, String>,
    /// Configuration that a server reads from the text; secrets are placeholders.
    pub config: Config,
    /// Settings that probably mean something else than their author thinks.
    pub warnings: Vec<Problem>,
}

impl Lowered {
    /// Returns the time that a pod needs to end: `shutdownDelay`, `drainTimeout` and 10 seconds.
    pub fn termination_grace_period(&self) -> Duration {
        grace_period(&self.config)
    }

    /// Checks the text with the real values of its secrets, as a pod will. A wrong value outside of backends
    /// makes the file invalid as a whole, and keeps a new pod from starting. Returns the reason for each
    /// backend that a pod switches off because of a wrong value.
    pub fn check_values<'a>(
        &self,
        value: impl Fn(&SecretKeyReference) -> Option<&'a [u8]>,
    ) -> Result<Vec<String>, Invalid> {
        let read = |path: &str| {
            let file = path.rsplit('/').next().unwrap_or_default();
            let Some(value) = self.secrets.get(file).and_then(&value) else {
                return secret_files::placeholder(path);
            };
            match std::str::from_utf8(value) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err("its value is not text".to_owned()),
            }
        };
        match vmcp_config::load_with_files(&self.text, "vmcp.yaml", &|_| None, &read) {
            Ok(loaded) => Ok(loaded.config.unavailable.into_values().collect()),
            Err(problems) => Err(Invalid(problems.list)),
        }
    }
}

/// Returns [`Lowered::termination_grace_period`] of a text that was lowered before; `None` if it cannot be
/// read any more.
pub fn termination_grace_period(text: &str) -> Option<Duration> {
    let loaded =
        vmcp_config::load_with_files(text, "vmcp.yaml", &|_| None, &secret_files::placeholder).ok()?;
    Some(grace_period(&loaded.config))
}

fn grace_period(config: &Config) -> Duration {
    config.server.shutdown_delay + config.server.drain_timeout + Duration::from_secs(10)
}

/// Returns the names of the backends in a text that [`Validated::lower`] made.
pub fn backends_of(text: &str) -> BTreeSet<String> {
    let Ok(file) = serde_saphyr::from_str::<serde_json::Value>(text) else { return BTreeSet::new() };
    let backends = file.get("backends").and_then(serde_json::Value::as_array);
    let name = |backend: &serde_json::Value| Some(backend.get("name")?.as_str()?.to_owned());
    backends.into_iter().flatten().filter_map(name).collect()
}

/// Switches off backends in a text that [`Validated::lower`] made; `None` if it cannot be read.
pub fn without_backends(text: &str, names: &BTreeSet<String>) -> Option<String> {
    let mut file = serde_saphyr::from_str::<serde_json::Value>(text).ok()?;
    let backends = file.get_mut("backends").and_then(serde_json::Value::as_array_mut)?;
    for backend in backends.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        let name = backend.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        if names.contains(name) {
            backend.insert("enabled".to_owned(), false.into());
        }
    }
    serde_saphyr::to_string(&file).ok()
}

/// Returns the settings of a text that a server reads at its start only, by path; null where the text has
/// none.
pub fn settings_at_start(text: &str) -> [(&'static str, serde_json::Value); SETTINGS_AT_START.len()] {
    let file = serde_saphyr::from_str::<serde_json::Value>(text).unwrap_or_default();
    SETTINGS_AT_START.map(|path| {
        let setting = path.split('.').try_fold(&file, |block, name| block.get(name));
        (path, setting.cloned().unwrap_or_default())
    })
}

impl Validated {
    /// Renders and checks `vmcp.yaml`.
    ///
    /// Settings about backends that do not exist are left out with a warning: backends come and go, and the
    /// absence of one must not keep the others from being configured.
    ///
    /// ```
    /// use vmcp_crds::VirtualMCPServer;
    /// use vmcp_crds::lower::ReferencedObjects;
    ///
    /// let manifest = "
    /// apiVersion: toolhive.stacklok.com/v1alpha1
    /// kind: VirtualMCPServer
    /// metadata: { name: tools }
    /// spec: {}
    /// ";
    /// let server: VirtualMCPServer = serde_saphyr::from_str(manifest).unwrap();
    /// let lowered = server.validate().unwrap().lower(&ReferencedObjects::default()).unwrap();
    /// assert!(lowered.text.contains("[::]:4483"));
    /// assert!(lowered.secrets.is_empty());
    /// ```
    pub fn lower(&self, referenced: &ReferencedObjects<'_>) -> Result<Lowered, Invalid> {
        let accounts = referenced.oidc.and_then(|config| config.kubernetes_service_account.as_ref());
        if let Some(field) = accounts.and_then(KubernetesServiceAccount::empty_restriction) {
            let message = format!("`{field}` of its MCPOIDCConfig is empty, which names no ServiceAccount");
            let remedy = "give it a value; or remove it, and every ServiceAccount is let in";
            return Err(Invalid(vec![Problem::new("spec.incomingAuth.oidcConfigRef", message, remedy)]));
        }
        let mut secrets = SecretFiles::default();
        let mut warnings = Vec::new();
        let incoming_auth = authz::lowered(
            self.settings.incoming_auth.clone(),
            referenced.authz,
            referenced.authz_file,
            &self.name,
        );
        let incoming_auth = incoming_auth.map_err(|problem| Invalid(vec![problem]))?;
        let document = Document {
            server: self,
            incoming_auth,
            referenced,
            secrets: &mut secrets,
            warnings: &mut warnings,
        };
        let Ok(text) = serde_saphyr::to_string(&document.render()) else {
            let remedy = "report this as a mistake of the operator";
            return Err(Invalid(vec![Problem::new("spec", "cannot be written as YAML", remedy)]));
        };
        let none = &|_: &str| Err("no stored secrets are read here".to_owned());
        let sources = ReferenceSources {
            variables: &|_| None,
            settings: &|_| None,
            files: &secret_files::placeholder,
            secrets: none,
        };
        let check = |config: &Config| {
            config.authz.iter().flat_map(|authz| (referenced.policies.0)(authz)).collect::<Vec<_>>()
        };
        match vmcp_config::load_from(&text, "vmcp.yaml", sources, &check) {
            Ok(loaded) => {
                warnings.extend(
                    loaded
                        .warnings
                        .into_iter()
                        .map(|found| resource_paths::of_resource(self, referenced, found)),
                );
                let SecretFiles { files, certificates } = secrets;
                Ok(Lowered { text, secrets: files, certificates, config: loaded.config, warnings })
            }
            Err(problems) => {
                let mapped = problems
                    .list
                    .into_iter()
                    .map(|found| resource_paths::of_resource(self, referenced, found));
                Err(Invalid(mapped.collect()))
            }
        }
    }
}
