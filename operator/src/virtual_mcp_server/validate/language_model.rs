//! Checks the key of the language model.

use vmcp_crds::virtual_mcp_server::{EmbeddingSource, Validated, YamlBlocks};

use super::{ConfigurationRefusal, References, secret_values};

/// Returns why the key of the language model cannot be used.
pub(super) fn unusable(server: &Validated, references: &References) -> Option<ConfigurationRefusal> {
    let wanted = server.optimizer.as_ref()?.llm.as_ref()?.api_key_secret_ref.clone();
    let mut alone =
        Validated { telemetry: None, console: None, settings: YamlBlocks::default(), ..server.clone() };
    if let Some(optimizer) = &mut alone.optimizer {
        optimizer.embeddings = EmbeddingSource::None;
    }
    secret_values::refusal(&alone, wanted.into_iter().collect(), references)
}
