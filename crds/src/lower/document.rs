//! Renders the content of `vmcp.yaml`, block by block.

use serde_json::{Value, json};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::raw::RawProvider;

use super::incoming_auth;
use super::pod_layout::{
    ADMIN_PORT, ADMIN_TOKEN, CACHE_DIR, CLIENT_PORT, EVENTS_PORT, METRICS_TOKEN, POD_IP_VARIABLE,
    SECRETS_DIR, SESSION_KEY, TRUSTED_TOOLS,
};
use super::prune_missing_backends::MissingBackends;
use super::referenced_objects::{Backend, EmbeddingService, HeaderValue, ReferencedObjects};
use super::secret_files::{self, SecretFiles};
use super::tool_configs;
use super::webhooks;
use crate::fields::headers::SensitiveHeader;
use crate::fields::pending;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::{Block, escape};
use crate::problem::Problem;
use crate::shared_settings::mcp_telemetry_config::{MCPTelemetryConfigSpec, OpenTelemetry};
use crate::virtual_mcp_server::{
    DEFAULT_SHUTDOWN_DELAY, EmbeddingSource, Llm, SessionStorage, TeiService, ValidOptimizer, Validated,
};

/// Renderer of one file.
pub(super) struct Document<'a> {
    pub(super) server: &'a Validated,
    /// Block `incomingAuth`.
    pub(super) incoming_auth: Block,
    pub(super) referenced: &'a ReferencedObjects<'a>,
    pub(super) secrets: &'a mut SecretFiles,
    pub(super) warnings: &'a mut Vec<Problem>,
}

impl Document<'_> {
    pub(super) fn render(mut self) -> Value {
        let mut settings = self.server.settings.clone();
        tool_configs::merge(&mut settings.aggregation, self.referenced.backends);
        pending::remove("config.audit", &mut settings.audit);
        pending::remove("config.operational", &mut settings.operational);
        // Before rules of absent backends are pruned: a backend that is away for a moment keeps its trust.
        let quarantines = quarantines(&settings.aggregation);
        let mut absent = MissingBackends {
            backends: self.referenced.backends.iter().map(|backend| backend.name.as_str()).collect(),
            warnings: self.warnings,
        };
        absent.aggregation(&mut settings.aggregation);
        absent.proxy(&mut settings.proxy);
        absent.operational(&mut settings.operational);
        let mut file = Block::new();
        for (key, value) in [
            ("backends", self.backends()),
            ("aggregation", escape(settings.aggregation.into())),
            ("optimizer", self.optimizer()),
            ("proxy", escape(settings.proxy.into())),
            ("operational", escape(settings.operational.into())),
            ("profiles", escape(settings.profiles.into())),
            ("audit", escape(settings.audit.into())),
            ("rateLimiting", escape(settings.rate_limiting.into())),
            ("code", escape(settings.code.into())),
            ("compositeTools", self.composite_tools()),
            ("sessionStorage", self.session_storage()),
            ("telemetry", self.telemetry()),
            (
                "incomingAuth",
                incoming_auth::render(
                    std::mem::take(&mut self.incoming_auth),
                    self.referenced,
                    &self.server.namespace,
                    self.secrets,
                ),
            ),
            ("authServer", self.auth_server()),
            ("outgoingAuth", self.outgoing_auth()),
            ("passthroughHeaders", self.server.passthrough_headers.clone().into()),
            ("webhooks", webhooks::render(self.referenced.webhooks, self.secrets)),
            ("server", self.server(settings.server, quarantines)),
        ] {
            if value.as_object().is_none_or(|block| !block.is_empty()) {
                file.insert(key.to_owned(), value);
            }
        }
        file.into()
    }

    fn backends(&mut self) -> Value {
        let mut backends: Vec<&Backend> = self.referenced.backends.iter().collect();
        backends.sort_by_key(|backend| &backend.name);
        backends.into_iter().map(|backend| self.backend(backend)).collect()
    }

    fn backend(&mut self, backend: &Backend) -> Value {
        let Backend {
            name,
            url,
            transport,
            headers,
            ca_bundle,
            addresses,
            auth: _,
            tool_config: _,
            isolation,
            protocol_era,
            questions,
            enabled,
        } = backend;
        let mut entry = Block::new();
        entry.insert("name".to_owned(), name.as_str().into());
        entry.insert("url".to_owned(), escape(url.as_str().into()));
        entry.insert("transport".to_owned(), json!(transport));
        if let Some(pem) = ca_bundle {
            entry.insert("caBundlePath".to_owned(), self.secrets.certificates(pem).into());
        }
        if *addresses != ReachableAddresses::Any {
            entry.insert("addresses".to_owned(), json!(addresses));
        }
        if let Some(isolation) = isolation {
            entry.insert("isolation".to_owned(), json!(isolation));
        }
        if let Some(era) = protocol_era {
            entry.insert("protocolEra".to_owned(), json!(era));
        }
        if !questions {
            entry.insert("questions".to_owned(), false.into());
        }
        let mut sent = Block::new();
        for (header, value) in headers {
            let value = match value {
                HeaderValue::Plain(value) => escape(value.as_str().into()),
                HeaderValue::Secret(secret) if *enabled => self.secrets.refer(secret),
                HeaderValue::Secret(_) => continue,
            };
            sent.insert(header.clone(), value);
        }
        if !sent.is_empty() {
            entry.insert("headers".to_owned(), sent.into());
        }
        if !enabled {
            entry.insert("enabled".to_owned(), false.into());
        }
        entry.into()
    }

    /// Returns the tools of the resource, and after them the referenced ones.
    fn composite_tools(&self) -> Value {
        let own = self.server.settings.composite_tools.iter();
        let referenced = self.referenced.composite_tools.iter().map(|tool| &tool.definition);
        let tools: Vec<_> = own.chain(referenced).map(|tool| escape(tool.clone().into())).collect();
        if tools.is_empty() { Block::new().into() } else { tools.into() }
    }

    fn outgoing_auth(&mut self) -> Value {
        let enabled = self.referenced.backends.iter().filter(|backend| backend.enabled);
        let mut backends = Block::new();
        for Backend { name, auth, .. } in enabled {
            if let Some(auth) = auth {
                backends.insert(name.clone(), auth.lower(&mut |secret| self.secrets.refer(secret)));
            }
        }
        backends.sort_keys();
        if backends.is_empty() { Block::new().into() } else { json!({ "backends": backends }) }
    }

    fn auth_server(&mut self) -> Value {
        let server = self.server.auth_server.as_ref();
        let block = server.map(|server| server.lower(&mut |secret| self.secrets.refer(secret)));
        block.unwrap_or_else(|| Block::new().into())
    }

    fn session_storage(&mut self) -> Value {
        let Some(SessionStorage { provider, address, db, key_prefix, password_ref }) =
            &self.server.session_storage
        else {
            return Block::new().into();
        };
        let mut storage = Block::new();
        storage.insert("provider".to_owned(), json!(provider));
        if let Some(address) = address {
            storage.insert("address".to_owned(), escape(address.as_str().into()));
        }
        storage.insert("db".to_owned(), json!(db));
        let own = || format!("{}/{}:", self.server.namespace, self.server.name);
        let prefix = key_prefix.clone().unwrap_or_else(own);
        storage.insert("keyPrefix".to_owned(), escape(prefix.into()));
        if let Some(password) = password_ref {
            storage.insert("password".to_owned(), self.secrets.refer(password));
        }
        storage.into()
    }

    fn optimizer(&mut self) -> Value {
        let Some(optimizer) = &self.server.optimizer else {
            return json!({ "enabled": false });
        };
        let ValidOptimizer { embeddings, on_unavailable, llm, settings, .. } = optimizer;
        let mut block = Block::new();
        block.insert("enabled".to_owned(), true.into());
        if let Value::Object(settings) = escape(settings.clone().into()) {
            block.extend(settings);
        }
        block.insert("storage".to_owned(), json!({ "type": "sqlite", "dir": CACHE_DIR }));
        let (provider, name, service) = match embeddings {
            EmbeddingSource::None => (RawProvider::None, "none", Block::new()),
            EmbeddingSource::Local(settings) => (RawProvider::Local, "local", self.service(&[], settings)),
            EmbeddingSource::Tei { service, headers, settings } => {
                (RawProvider::Tei, "tei", self.tei(service, headers, settings))
            }
            EmbeddingSource::OpenAi { api_key, headers, settings } => {
                let mut service = self.service(headers, settings);
                self.add_api_key(&mut service, api_key.as_ref());
                (RawProvider::OpenAi, "openai", service)
            }
        };
        let mut embeddings = Block::new();
        embeddings.insert("provider".to_owned(), json!(provider));
        embeddings.insert("onUnavailable".to_owned(), json!(on_unavailable));
        if !service.is_empty() {
            embeddings.insert(name.to_owned(), service.into());
        }
        block.insert("embeddings".to_owned(), embeddings.into());
        if let Some(Llm { api_key_secret_ref, settings }) = llm {
            let mut llm = self.service(&[], settings);
            self.add_api_key(&mut llm, api_key_secret_ref.as_ref());
            block.insert("llm".to_owned(), llm.into());
        }
        block.into()
    }

    fn add_api_key(&mut self, service: &mut Block, key: Option<&SecretKeyReference>) {
        if let Some(key) = key {
            service.insert("apiKey".to_owned(), self.secrets.refer(key));
        }
    }

    fn tei(&mut self, service: &TeiService, headers: &[SensitiveHeader], settings: &Block) -> Block {
        let mut tei = self.service(headers, settings);
        if *service != TeiService::Elsewhere
            && let Some(EmbeddingService { endpoint, model }) = self.referenced.embedding_service
        {
            tei.insert("endpoint".to_owned(), endpoint.as_str().into());
            if let (false, Some(model)) = (tei.contains_key("model"), model) {
                tei.insert("model".to_owned(), model.as_str().into());
            }
        }
        tei
    }

    /// Returns the block of a service, with its secret headers among the others.
    fn service(&mut self, headers: &[SensitiveHeader], settings: &Block) -> Block {
        let mut service: Block =
            settings.clone().into_iter().map(|(key, value)| (key, escape(value))).collect();
        self.add_headers(&mut service, headers);
        service
    }

    fn add_headers(&mut self, block: &mut Block, headers: &[SensitiveHeader]) {
        if headers.is_empty() {
            return;
        }
        let all = block.entry("headers").or_insert_with(|| Block::new().into());
        if let Value::Object(all) = all {
            for SensitiveHeader { name, secret_key_ref } in headers {
                all.insert(name.clone(), self.secrets.refer(secret_key_ref));
            }
        }
    }

    fn telemetry(&mut self) -> Value {
        let Some(reference) = &self.server.telemetry else { return Block::new().into() };
        let MCPTelemetryConfigSpec { open_telemetry, prometheus } =
            self.referenced.telemetry.cloned().unwrap_or_default();
        let mut telemetry = Block::new();
        let service = reference.service_name.as_ref().unwrap_or(&self.server.name);
        telemetry.insert("serviceName".to_owned(), escape(service.as_str().into()));
        if let Some(open_telemetry) = open_telemetry.filter(|block| block.enabled) {
            let OpenTelemetry {
                enabled: _,
                endpoint,
                protocol,
                insecure,
                headers,
                sensitive_headers,
                ca_bundle_ref,
                tracing,
                metrics,
                resource_attributes,
                pending: _,
            } = open_telemetry;
            let tracing = tracing.unwrap_or_default();
            if let Some(endpoint) = endpoint {
                telemetry.insert("endpoint".to_owned(), escape(endpoint.into()));
            }
            if let Some(protocol) = protocol {
                telemetry.insert("protocol".to_owned(), json!(protocol));
            }
            telemetry.insert("insecure".to_owned(), insecure.into());
            telemetry.insert("tracingEnabled".to_owned(), tracing.enabled.into());
            telemetry.insert("samplingRate".to_owned(), escape(tracing.sampling_rate.into()));
            if !headers.is_empty() {
                telemetry.insert("headers".to_owned(), escape(json!(headers)));
            }
            self.add_headers(&mut telemetry, &sensitive_headers);
            if let (Some(_), Some(pem)) = (ca_bundle_ref, self.referenced.telemetry_certificates) {
                telemetry.insert("caBundlePath".to_owned(), self.secrets.certificates(pem).into());
            }
            if let Some(metrics) = metrics {
                telemetry.insert("metrics".to_owned(), json!({ "enabled": metrics.enabled }));
            }
            if !resource_attributes.is_empty() {
                telemetry.insert("resourceAttributes".to_owned(), escape(json!(resource_attributes)));
            }
        }
        if let Some(prometheus) = prometheus {
            telemetry.insert("metricsEnabled".to_owned(), prometheus.enabled.into());
        }
        telemetry.into()
    }

    /// Returns the block `server`: addresses, keys and tokens are the same in every pod; the rest is as the
    /// resource says.
    fn server(&mut self, settings: Block, quarantines: bool) -> Value {
        let Validated { name, namespace, metrics_token, console, events, .. } = self.server;
        let mut server = Block::new();
        // Both families of addresses, or IPv4 where IPv6 is off.
        server.insert("listen".to_owned(), format!("[::]:{CLIENT_PORT}").into());
        server.insert("adminListen".to_owned(), format!("[::]:{ADMIN_PORT}").into());
        if events.enabled {
            // Only then: an earlier vmcp does not know the setting.
            server.insert("eventsListen".to_owned(), format!("[::]:{EVENTS_PORT}").into());
        }
        server.insert("sessionKeys".to_owned(), json!([secret_files::reference(SESSION_KEY)]));
        server.insert("peerAddress".to_owned(), format!("${{{POD_IP_VARIABLE}:-}}").into());
        // The headless Service has the address of each ready pod.
        server.insert("peers".to_owned(), json!([format!("vmcp-{name}-peers.{namespace}.svc:{ADMIN_PORT}")]));
        server.insert("adminTokens".to_owned(), json!([secret_files::reference(ADMIN_TOKEN)]));
        if *metrics_token {
            server.insert("metricsTokens".to_owned(), json!([secret_files::reference(METRICS_TOKEN)]));
        }
        if let Some(console) = console {
            // Behind the token of the operator: replicas ask each other with the first one.
            let of_people =
                console.operator_token_secret_refs.iter().map(|secret| self.secrets.refer(secret));
            let own = secret_files::reference(ADMIN_TOKEN);
            server.insert("adminTokens".to_owned(), std::iter::once(own).chain(of_people).collect());
            server.extend(console.lower(&mut |secret| self.secrets.refer(secret)));
        }
        if quarantines {
            // Only then: an earlier vmcp does not know the setting.
            server.insert("trustedToolsPath".to_owned(), format!("{SECRETS_DIR}/{TRUSTED_TOOLS}").into());
        }
        if let Value::Object(settings) = escape(settings.into()) {
            for (key, value) in settings {
                server.entry(key).or_insert(value);
            }
        }
        server.entry("shutdownDelay").or_insert(DEFAULT_SHUTDOWN_DELAY.into());
        server.into()
    }
}

/// Returns true if a changed definition of some backend waits for an approval.
fn quarantines(aggregation: &Block) -> bool {
    let is_quarantine =
        |rules: &Block| rules.get("onToolChange").and_then(Value::as_str) == Some("Quarantine");
    let mut of_backends = aggregation.get("tools").and_then(Value::as_array).into_iter().flatten();
    is_quarantine(aggregation) || of_backends.any(|rules| rules.as_object().is_some_and(is_quarantine))
}
