//! [`TaggedTools`]: the configured topics, and contexts and categories of every tool of a catalog.

use vmcp_config::{Config, ConfiguredTags, ContextSigns};
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::topics::{Pattern, ToolTags, Topic, Topics, best_fitting};

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
        let tags = |tool: &CatalogTool| match config.optimizer.discovery.tags.get(&tool.name) {
            Some(ConfiguredTags { contexts, categories }) => {
                ToolTags { contexts: contexts.clone(), categories: categories.clone() }
            }
            None => ToolTags::of(tool, &topics),
        };
        let tags = catalog.tools.iter().map(|tool| tags(tool)).collect();
        TaggedTools { topics, tags }
    }

    /// Returns the tags of a document.
    pub fn get(&self, document: usize) -> Option<&ToolTags> {
        self.tags.get(document)
    }

    /// Returns the documents among `visible` that have any topic of a text, the best fit first; `None` if the
    /// text means no topic.
    pub(crate) fn documents_for(
        &self,
        text: &str,
        visible: impl Iterator<Item = usize>,
    ) -> Option<Vec<usize>> {
        let topics = self.topics.of_message(text);
        if topics.is_empty() {
            return None;
        }
        Some(best_fitting(visible, |document: &usize| self.get(*document), &topics))
    }
}
