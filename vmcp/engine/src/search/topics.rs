//! [`TaggedTools`]: the configured topics, and contexts and categories of every tool of a catalog.

use std::collections::{BTreeMap, BTreeSet};

use vmcp_config::{Config, ConfiguredTags, ContextSigns};
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::topics::{Pattern, ToolTags, Topic, Topics, best_fitting, server_context};

/// Returns the built-in and the configured topics.
pub fn topics(config: &Config) -> Topics {
    let topic = |(name, signs): (&String, &ContextSigns)| Topic {
        name: name.clone(),
        keywords: signs.keywords.iter().map(|word| word.to_lowercase()).collect(),
        patterns: signs.compiled().into_iter().map(Pattern::Regex).collect(),
    };
    Topics::default().with(config.optimizer.discovery.contexts.iter().map(topic))
}

/// Topics, and the tags of tools by document.
#[derive(Debug)]
pub struct TaggedTools {
    /// Known topics.
    pub topics: Topics,
    tags: Vec<ToolTags>,
}

impl TaggedTools {
    /// Tags the tools of a catalog.
    pub(crate) fn tag_all(config: &Config, catalog: &Catalog) -> TaggedTools {
        let topics = topics(config);
        // Decided server by server: the tags of one are independent of hidden ones.
        let of_server = |backend: &str| {
            let has = |text: &str, word: &str| text.to_lowercase().contains(word);
            let names = |tool: &CatalogTool, word: &str| {
                *tool.backend == *backend && (has(&tool.own_name, word) || has(&tool.description, word))
            };
            let names_product = |word: &str| {
                config.optimizer.discovery.contexts.contains_key(word)
                    || has(backend, word)
                    || catalog.tools.iter().any(|tool| names(tool, word))
            };
            topics.clone().without_absent_product(names_product)
        };
        let servers: BTreeSet<&str> = catalog.tools.iter().map(|tool| &*tool.backend).collect();
        let servers: BTreeMap<&str, Topics> =
            servers.into_iter().map(|server| (server, of_server(server))).collect();
        let tags = |tool: &CatalogTool| match config.optimizer.discovery.tags.get(&tool.name) {
            Some(ConfiguredTags { contexts, categories }) => {
                let (contexts, categories) = (contexts.clone(), categories.clone());
                ToolTags { contexts, categories, server: server_context(tool, &topics) }
            }
            None => ToolTags::of(tool, servers.get(&*tool.backend).unwrap_or(&topics)),
        };
        let tags = catalog.tools.iter().map(|tool| tags(tool)).collect();
        TaggedTools { topics, tags }
    }

    /// Returns the tags of a document.
    pub fn get(&self, document: usize) -> Option<&ToolTags> {
        self.tags.get(document)
    }

    /// Returns the documents among `visible` that have any topic of a text, the best fit first; `None` if the
    /// text means no topic, or none that a document has.
    pub(crate) fn documents_for(
        &self,
        text: &str,
        visible: impl Iterator<Item = usize>,
    ) -> Option<Vec<usize>> {
        let topics = self.topics.of_message(text);
        let fitting = best_fitting(visible, |document: &usize| self.get(*document), &topics);
        (!fitting.is_empty()).then_some(fitting)
    }
}
