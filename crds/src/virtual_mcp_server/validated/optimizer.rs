//! Validates the optimizer and its source of vectors, in both of the forms in which a resource may write
//! them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;
use vmcp_config::raw::{RawProvider, StorageType};
use vmcp_config::{OnUnavailable, OptimTool};

use super::super::{
    Embeddings, FlatEmbeddingProvider, FlatOptimizer, Llm, Optimizer, Storage, StorageVolume, Tei,
    VirtualMCPServerSpec,
};
use crate::embedding_server::EmbeddingServerSpec;
use crate::fields::headers::SensitiveHeader;
use crate::fields::references::SecretKeyReference;
use crate::fields::workload::CACHE_VOLUME;
use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// An optimizer that is on.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidOptimizer {
    /// Size limit of the cache volume of a pod.
    pub cache_size: Quantity,
    /// Volume that outlives its pod; `None`: the cache ends with the pod.
    pub volume: Option<StorageVolume>,
    /// Source of vectors.
    pub embeddings: EmbeddingSource,
    /// Behavior of a search while the source fails.
    pub on_unavailable: OnUnavailable,
    /// Language model that ranks tools.
    pub llm: Option<Llm>,
    /// All other settings, in the form of `vmcp.yaml`.
    pub settings: Block,
    /// Field of the resource that the settings come from; paths of mistakes name it.
    pub(crate) written_as: WrittenAs,
}

impl ValidOptimizer {
    /// Makes the optimizer of a resource that has none: it offers the tools in `settings` alone.
    pub(in crate::virtual_mcp_server) fn without_search(settings: Block) -> ValidOptimizer {
        ValidOptimizer {
            cache_size: Storage::default().size_limit,
            volume: None,
            embeddings: EmbeddingSource::None,
            on_unavailable: OnUnavailable::Degrade,
            llm: None,
            settings,
            written_as: WrittenAs::Optimizer,
        }
    }

    /// Returns true if a tool is offered that changes servers.
    pub(super) fn adds_servers(&self) -> bool {
        let tools = self.settings.get("tools").and_then(Value::as_array);
        let is_of_servers =
            |tool: &Value| OptimTool::OF_SERVERS.iter().any(|of_servers| tool == of_servers.bare());
        tools.is_some_and(|tools| tools.iter().any(is_of_servers))
    }

    /// Returns true if a rule about servers names the image of a program.
    pub(super) fn names_images(&self) -> bool {
        let rules = self.settings.get("admin").and_then(|admin| admin.get("allow")).and_then(Value::as_array);
        let has_image = |rule: &Value| rule.get("image").is_some_and(Value::is_string);
        rules.is_some_and(|rules| rules.iter().any(has_image))
    }

    /// Takes away the language model, and the setting that needs one.
    pub fn remove_llm(&mut self) {
        self.llm = None;
        if let Some(Value::Object(discovery)) = self.settings.get_mut("discovery") {
            discovery.remove("llmFallback");
        }
    }
}

/// Field in which the optimizer was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenAs {
    /// `spec.optimizer`, or neither field.
    Optimizer,
    /// `spec.config.optimizer`, in ToolHive's flat form.
    Flat,
}

/// Source of vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingSource {
    /// No vectors: search by words alone.
    None,
    /// A small model inside vmcp, with the settings of `local`.
    Local(Block),
    /// HuggingFace Text Embeddings Inference.
    Tei {
        /// Location of the service.
        service: TeiService,
        /// Headers whose values are in Secrets.
        headers: Vec<SensitiveHeader>,
        /// All other settings, in the form of `vmcp.yaml`; `endpoint` is among them only with
        /// [`TeiService::Elsewhere`].
        settings: Block,
    },
    /// A service with OpenAI's `/v1/embeddings`.
    OpenAi {
        /// API key, sent as a bearer token.
        api_key: Option<SecretKeyReference>,
        /// Headers whose values are in Secrets.
        headers: Vec<SensitiveHeader>,
        /// All other settings, in the form of `vmcp.yaml`.
        settings: Block,
    },
}

impl EmbeddingSource {
    /// Returns the Secret keys that the source refers to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        let (key, headers) = match self {
            Self::None | Self::Local(_) => return Vec::new(),
            Self::Tei { headers, .. } => (None, headers),
            Self::OpenAi { api_key, headers, .. } => (api_key.clone(), headers),
        };
        let of_headers = headers.iter().map(|header| header.secret_key_ref.clone());
        key.into_iter().chain(of_headers).collect()
    }
}

/// Location of Text Embeddings Inference.
#[derive(Debug, Clone, PartialEq)]
pub enum TeiService {
    /// The `endpoint` among the settings.
    Elsewhere,
    /// Pods that the operator makes for this server.
    Managed(Box<EmbeddingServerSpec>),
    /// Pods of the EmbeddingServer of this name.
    Referenced(String),
}

/// Returns the optimizer; `None` if it is off or has a mistake.
pub(super) fn optimizer(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) -> Option<ValidOptimizer> {
    let flat = spec.config.as_ref().and_then(|config| config.optimizer.as_ref());
    let reference = spec.embedding_server_ref.as_ref().map(|server| server.name.as_str());
    match (&spec.optimizer, flat) {
        (Some(_), Some(_)) => {
            let message = "`spec.optimizer` is given too";
            problems.push(Problem::new(
                "spec.config.optimizer",
                message,
                "keep `spec.optimizer`, which can say all of it",
            ));
            None
        }
        (Some(optimizer), None) => {
            optimizer.enabled.then(|| from_optimizer_field(spec, optimizer, reference, problems)).flatten()
        }
        (None, Some(flat)) => {
            let key = spec.openai_key_of_pods();
            Some(from_flat_field(flat, reference, key, problems))
        }
        (None, None) => {
            reference.and_then(|_| from_optimizer_field(spec, &Optimizer::default(), reference, problems))
        }
    }
}

fn from_optimizer_field(
    spec: &VirtualMCPServerSpec,
    optimizer: &Optimizer,
    reference: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Option<ValidOptimizer> {
    let embeddings = optimizer.embeddings.clone();
    let Storage { kind: StorageType::Sqlite, size_limit, volume } =
        optimizer.storage.clone().unwrap_or_default();
    if volume.is_some() && spec.replaces_cache_volume() {
        problems.push(Problem::new(
            "spec.optimizer.storage.volume",
            "`spec.podTemplateSpec` has a volume `cache` too",
            "remove one of the two: each pod gets a claim of its own as its volume `cache`",
        ));
    }
    Some(ValidOptimizer {
        cache_size: size_limit,
        volume,
        on_unavailable: embeddings.as_ref().map_or(OnUnavailable::Degrade, |given| given.on_unavailable),
        embeddings: embedding_source(embeddings, reference, problems)?,
        llm: optimizer.llm.clone(),
        settings: optimizer.settings.clone(),
        written_as: WrittenAs::Optimizer,
    })
}

/// Returns the source of vectors; `None` if it has a mistake.
fn embedding_source(
    embeddings: Option<Embeddings>,
    reference: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Option<EmbeddingSource> {
    const PATH: &str = "spec.optimizer.embeddings";
    let given = embeddings.is_some();
    let Embeddings { provider, on_unavailable: _, tei, openai, local } = embeddings.unwrap_or_default();
    let provider = match (reference, provider) {
        (Some(_), provider) if given && provider != RawProvider::Tei => {
            let remedy = "set `provider: tei`, or remove `spec.embeddingServerRef`";
            problems.push(Problem::new(
                format!("{PATH}.provider"),
                "`spec.embeddingServerRef` is given too",
                remedy,
            ));
            return None;
        }
        (Some(_), _) => RawProvider::Tei,
        (None, provider) => provider,
    };
    for (name, its, is_given) in [
        ("tei", RawProvider::Tei, tei.is_some()),
        ("openai", RawProvider::OpenAi, openai.is_some()),
        ("local", RawProvider::Local, local.is_some()),
    ] {
        if is_given && provider != its {
            let remedy = format!("set `provider: {name}`, or remove this block");
            problems.push(Problem::new(format!("{PATH}.{name}"), "another provider is chosen", remedy));
        }
    }
    Some(match provider {
        RawProvider::None => EmbeddingSource::None,
        RawProvider::Local => EmbeddingSource::Local(local.unwrap_or_default()),
        RawProvider::Tei => {
            let Tei { managed, sensitive_headers, settings } = tei.unwrap_or_default();
            let elsewhere = settings.contains_key("endpoint");
            let service = match (elsewhere, managed, reference) {
                (true, None, None) => TeiService::Elsewhere,
                (false, Some(managed), None) => TeiService::Managed(Box::new(managed)),
                (false, None, Some(name)) => TeiService::Referenced(name.to_owned()),
                (false, None, None) => {
                    let remedy =
                        "give `endpoint`, or `managed: {}` to have one made, or `spec.embeddingServerRef`";
                    problems.push(Problem::new(format!("{PATH}.tei"), "there is no service", remedy));
                    return None;
                }
                _ => {
                    let remedy = "keep one of `endpoint`, `managed` and `spec.embeddingServerRef`";
                    problems.push(Problem::new(format!("{PATH}.tei"), "more than one service", remedy));
                    return None;
                }
            };
            check_headers(&settings, &sensitive_headers, &format!("{PATH}.tei"), problems);
            EmbeddingSource::Tei { service, headers: sensitive_headers, settings }
        }
        RawProvider::OpenAi => {
            let openai = openai.unwrap_or_default();
            check_headers(&openai.settings, &openai.sensitive_headers, &format!("{PATH}.openai"), problems);
            EmbeddingSource::OpenAi {
                api_key: openai.api_key_secret_ref,
                headers: openai.sensitive_headers,
                settings: openai.settings,
            }
        }
    })
}

fn check_headers(settings: &Block, sensitive: &[SensitiveHeader], path: &str, problems: &mut Vec<Problem>) {
    let Some(Value::Object(headers)) = settings.get("headers") else { return };
    for header in sensitive.iter().filter(|header| headers.contains_key(&header.name)) {
        let message = format!("`{}` is in `headers` too", header.name);
        problems.push(Problem::new(format!("{path}.sensitiveHeaders"), message, "keep one of the two"));
    }
}

/// Translates ToolHive's flat fields, which say the same by other names.
fn from_flat_field(
    flat: &FlatOptimizer,
    reference: Option<&str>,
    openai_key: Option<SecretKeyReference>,
    problems: &mut Vec<Problem>,
) -> ValidOptimizer {
    let FlatOptimizer {
        embedding_service,
        embedding_provider,
        embedding_model,
        embedding_service_timeout,
        embedding_headers,
        max_tools_to_return,
        hybrid_search_semantic_ratio,
        semantic_distance_threshold,
    } = flat.clone();
    let headers: Block = embedding_headers.into_iter().map(|(name, value)| (name, value.into())).collect();
    let mut service = block([
        ("endpoint", embedding_service.map(Value::from)),
        ("model", embedding_model.map(Value::from)),
        ("timeout", embedding_service_timeout.map(Value::from)),
        ("headers", (!headers.is_empty()).then_some(Value::Object(headers))),
    ]);
    let search = block([
        ("maxTools", max_tools_to_return.map(Value::from)),
        ("hybridSemanticRatio", hybrid_search_semantic_ratio.map(Value::from)),
        ("semanticDistanceThreshold", semantic_distance_threshold.map(Value::from)),
    ]);
    let has_endpoint = service.contains_key("endpoint");
    let embeddings = match (embedding_provider, reference) {
        (FlatEmbeddingProvider::OpenAi, reference) => {
            if reference.is_some() {
                let remedy = "remove `spec.embeddingServerRef`, or set `embeddingProvider: tei`";
                problems.push(Problem::new(
                    "spec.config.optimizer.embeddingProvider",
                    "an EmbeddingServer does not speak `openai`",
                    remedy,
                ));
            }
            EmbeddingSource::OpenAi { api_key: openai_key, headers: Vec::new(), settings: service }
        }
        // With both, ToolHive uses the reference; so do we.
        (FlatEmbeddingProvider::Tei, Some(name)) => {
            service.remove("endpoint");
            let name = TeiService::Referenced(name.to_owned());
            EmbeddingSource::Tei { service: name, headers: Vec::new(), settings: service }
        }
        (FlatEmbeddingProvider::Tei, None) if has_endpoint => {
            EmbeddingSource::Tei { service: TeiService::Elsewhere, headers: Vec::new(), settings: service }
        }
        (FlatEmbeddingProvider::Tei, None) => EmbeddingSource::Local(Block::new()),
    };
    ValidOptimizer {
        cache_size: Storage::default().size_limit,
        volume: None,
        embeddings,
        on_unavailable: OnUnavailable::Degrade,
        llm: None,
        settings: block([("search", (!search.is_empty()).then_some(Value::Object(search)))]),
        written_as: WrittenAs::Flat,
    }
}

impl VirtualMCPServerSpec {
    /// Returns the Secret of the API key of `config.optimizer` with `embeddingProvider: openai`: ToolHive has
    /// it as the variable `OPENAI_API_KEY` of the container in `podTemplateSpec`.
    pub fn openai_key_of_pods(&self) -> Option<SecretKeyReference> {
        let flat = self.config.as_ref()?.optimizer.as_ref()?;
        let named = |list: &Value, name: &str| {
            let is_it = |entry: &&Value| entry.get("name").is_some_and(|found| found == name);
            list.as_array()?.iter().find(is_it).cloned()
        };
        let container = named(self.pod_template_spec.get("spec")?.get("containers")?, "vmcp")?;
        let variable = named(container.get("env")?, "OPENAI_API_KEY")?;
        let secret = variable.pointer("/valueFrom/secretKeyRef")?;
        let text = |key: &str| Some(secret.get(key)?.as_str()?.to_owned());
        let reference = SecretKeyReference { name: text("name")?, key: text("key")? };
        (flat.embedding_provider == FlatEmbeddingProvider::OpenAi).then_some(reference)
    }
}

impl VirtualMCPServerSpec {
    /// Returns true if `podTemplateSpec` has a volume with the name of the cache's.
    fn replaces_cache_volume(&self) -> bool {
        let volumes = self.pod_template_spec.get("spec").and_then(|spec| spec.get("volumes"));
        let mut volumes = volumes.and_then(Value::as_array).into_iter().flatten();
        volumes.any(|volume| volume.get("name").is_some_and(|name| name == CACHE_VOLUME))
    }
}

/// Returns the entries that are given.
fn block<const N: usize>(entries: [(&str, Option<Value>); N]) -> Block {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
