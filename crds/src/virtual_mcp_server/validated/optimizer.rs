//! The optimizer and its source of vectors, validated.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;
use vmcp_config::OnUnavailable;
use vmcp_config::raw::{RawProvider, StorageType};

use super::super::{
    Embeddings, FlatEmbeddingProvider, FlatOptimizer, Optimizer, Storage, Tei, VirtualMCPServerSpec,
};
use crate::embedding_server::EmbeddingServerSpec;
use crate::fields::headers::SensitiveHeader;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::Block;
use crate::problem::Problem;

/// The optimizer, turned on.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidOptimizer {
    /// How large the pod's cache volume may grow.
    pub cache_size: Quantity,
    /// Who makes vectors.
    pub embeddings: EmbeddingSource,
    /// What a search does while that fails.
    pub on_unavailable: OnUnavailable,
    /// All other settings, as `vmcp.yaml` has them.
    pub settings: Block,
    /// Which field of the resource they come from.
    pub(crate) written_as: WrittenAs,
}

/// Which of the two fields the optimizer was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenAs {
    /// `spec.optimizer`, or neither.
    Optimizer,
    /// `spec.config.optimizer`.
    Flat,
}

/// Who makes vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingSource {
    /// Nobody.
    None,
    /// A small model in the process, with the settings of `local`.
    Local(Block),
    /// Text Embeddings Inference.
    Tei {
        /// Where it is.
        service: TeiService,
        /// Headers whose values are in Secrets.
        headers: Vec<SensitiveHeader>,
        /// Its other settings, as `vmcp.yaml` has them; `endpoint` is one of them with [`TeiService::Elsewhere`] only.
        settings: Block,
    },
    /// A service with OpenAI's `/v1/embeddings`.
    OpenAi {
        /// The key that is sent as a bearer token.
        api_key: Option<SecretKeyReference>,
        /// Headers whose values are in Secrets.
        headers: Vec<SensitiveHeader>,
        /// Its other settings, as `vmcp.yaml` has them.
        settings: Block,
    },
}

/// Where Text Embeddings Inference is.
#[derive(Debug, Clone, PartialEq)]
pub enum TeiService {
    /// At the endpoint among the settings.
    Elsewhere,
    /// In pods that the operator makes for this server.
    Managed(Box<EmbeddingServerSpec>),
    /// In those of the EmbeddingServer of this name.
    Referenced(String),
}

/// `None` when it is off, or when there is a problem.
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
        (Some(optimizer), None) => optimizer.enabled.then(|| ours(optimizer, reference, problems)).flatten(),
        (None, Some(flat)) => Some(from_flat(flat, reference, problems)),
        (None, None) => reference.and_then(|_| ours(&Optimizer::default(), reference, problems)),
    }
}

fn ours(
    optimizer: &Optimizer,
    reference: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Option<ValidOptimizer> {
    let embeddings = optimizer.embeddings.clone();
    let Storage { kind: StorageType::Sqlite, size_limit } = optimizer.storage.clone().unwrap_or_default();
    Some(ValidOptimizer {
        cache_size: size_limit,
        on_unavailable: embeddings.as_ref().map_or(OnUnavailable::Degrade, |given| given.on_unavailable),
        embeddings: source(embeddings, reference, problems)?,
        settings: optimizer.settings.clone(),
        written_as: WrittenAs::Optimizer,
    })
}

/// `None` when there is a problem.
fn source(
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

/// ToolHive's flat fields say the same with other names.
fn from_flat(flat: &FlatOptimizer, reference: Option<&str>, problems: &mut Vec<Problem>) -> ValidOptimizer {
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
            EmbeddingSource::OpenAi { api_key: None, headers: Vec::new(), settings: service }
        }
        // As in ToolHive, the reference wins.
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
        embeddings,
        on_unavailable: OnUnavailable::Degrade,
        settings: block([("search", (!search.is_empty()).then_some(Value::Object(search)))]),
        written_as: WrittenAs::Flat,
    }
}

/// Those of the entries that are given.
fn block<const N: usize>(entries: [(&str, Option<Value>); N]) -> Block {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
