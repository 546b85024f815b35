//! Tools as the [prior](crate::fusion) of a short query sees them: their effects and their servers.

use std::collections::HashMap;

use crate::document::Document;
use crate::evidence::Evidence;
use crate::fusion::{effect_gain, server_gains};
use crate::text::effect::{Effect, effect_of_tool, wanted_effect};

/// Effect and server of each document, by its number.
pub(super) struct ToolTraits {
    effects: Vec<Option<Effect>>,
    servers: Vec<usize>,
}

/// A short query as its prior needs it.
pub(super) struct ShortQuery<'a> {
    pub(super) text: &'a str,
    /// Words of the thesaurus for it.
    pub(super) expansion: &'a [&'static str],
    /// True if meaning takes part in the ranking, and the query does not have the words of a tool's name.
    pub(super) weighs_servers: bool,
}

impl ToolTraits {
    pub(super) fn new(documents: &[Document]) -> ToolTraits {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let servers = documents.iter().map(|document| {
            let next = numbers.len();
            *numbers.entry(document.server.as_str()).or_insert(next)
        });
        let servers = servers.collect();
        let effect = |document: &Document| effect_of_tool(&document.name, &document.description);
        ToolTraits { effects: documents.iter().map(effect).collect(), servers }
    }

    /// Returns what each of these documents gains for a short query, by position.
    pub(super) fn gains(&self, query: &ShortQuery<'_>, whole: &Evidence, documents: &[usize]) -> Vec<f32> {
        let mut gains = vec![0.0; documents.len()];
        if let Some(wanted) = wanted_effect(query.text, query.expansion) {
            for (gain, document) in gains.iter_mut().zip(documents) {
                *gain += effect_gain(wanted, self.effects.get(*document).copied().flatten());
            }
        }
        let known = whole.cosine.iter().flatten().count();
        if query.weighs_servers && known > 0 {
            let share = known as f32 / documents.len() as f32;
            let server = |document: &usize| self.servers.get(*document).copied().unwrap_or_default();
            let servers: Vec<usize> = documents.iter().map(server).collect();
            for (gain, more) in gains.iter_mut().zip(server_gains(&whole.cosine_normalized, &servers, share))
            {
                *gain += more;
            }
        }
        gains
    }
}
