//! Makes the embedding provider that the configuration names.

use std::sync::Arc;

use vmcp_config::{Config, EmbeddingProvider, Headers};
use vmcp_embed::local::LocalSettings;
use vmcp_embed::{EmbedError, Embedder, EmbedderSettings, OpenAiSettings, TeiSettings};

use crate::folders::local_model;

/// Name of the provider that runs the model in this process.
pub(in crate::engine) const LOCAL: &str = "local";

/// Returns the provider's name as written in the configuration; `none` while the optimizer is disabled.
pub fn provider_name(config: &Config) -> &'static str {
    match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => "none",
        EmbeddingProvider::None => "none",
        EmbeddingProvider::Local { .. } => LOCAL,
        EmbeddingProvider::Tei { .. } => "tei",
        EmbeddingProvider::OpenAi { .. } => "openai",
    }
}

/// Makes the configured provider; `None` without a configured provider. Contacts no service and loads no
/// model yet.
pub fn embedder(config: &Config) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    let headers = |headers: &Headers| {
        headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect::<Vec<_>>()
    };
    let settings = match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => return Ok(None),
        EmbeddingProvider::None => return Ok(None),
        EmbeddingProvider::Local { .. } => {
            let (model, dir) = local_model(config);
            EmbedderSettings::Local(LocalSettings::new(model, dir))
        }
        EmbeddingProvider::Tei { endpoint, model, timeout, headers: sent } => {
            EmbedderSettings::Tei(TeiSettings {
                model: model.clone(),
                headers: headers(sent),
                timeout: *timeout,
                ..TeiSettings::new(endpoint.as_str())
            })
        }
        EmbeddingProvider::OpenAi { endpoint, model, api_key, dimensions, timeout, headers: sent } => {
            EmbedderSettings::OpenAi(OpenAiSettings {
                api_key: api_key.as_ref().map(|key| key.expose().to_owned()),
                headers: headers(sent),
                dimensions: dimensions.and_then(|width| usize::try_from(width).ok()),
                timeout: *timeout,
                ..OpenAiSettings::new(endpoint.as_str(), model)
            })
        }
    };
    settings.build().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_model_of_openai_is_that_of_its_client() {
        let config = crate::testing::config("optimizer: { embeddings: { provider: openai } }");
        let EmbeddingProvider::OpenAi { model, .. } = &config.optimizer.embeddings.provider else {
            panic!("{:?}", config.optimizer.embeddings.provider)
        };
        assert_eq!(model, OpenAiSettings::DEFAULT_MODEL);
    }
}
