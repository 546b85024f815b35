//! What clients may list, find and call. One view serves everybody for now; an identity's rights will narrow it here and
//! nowhere else.

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::config::{Config, Exposure};
use vmcp_model::tokens;
use vmcp_search::Visible;
use vmcp_wire::era::Era;
use vmcp_wire::splice::Spliced;
use vmcp_wire::translate;

use crate::optim::definitions::{Definition, definitions};
use crate::optim::names::NameStyle;

/// The lists as clients get them, and what a search may find.
#[derive(Debug, Default)]
pub struct View {
    /// `tools/list` with our own tools spelled `optim.find_tool`.
    pub tools_dotted: List,
    /// `tools/list` with our own tools spelled `optim_find_tool`.
    pub tools_underscore: List,
    /// `resources/list`.
    pub resources: List,
    /// `resources/templates/list`.
    pub templates: List,
    /// `prompts/list`.
    pub prompts: List,
    /// Tools that may be found and called, by position in [`Catalog::tools`]; the lists may show fewer.
    pub visible: Arc<Visible>,
    /// Number of visible tools.
    pub visible_tools: usize,
    /// Whether the list shows every visible tool, or only our own and the pinned ones.
    pub lists_everything: bool,
    /// Tokens that listing every visible tool costs.
    pub baseline_tokens: u64,
    /// Tokens that the definitions of our own tools cost.
    pub optimizer_tokens: u64,
}

/// Entries of a list, sorted by key, so that a page can begin behind any key.
#[derive(Debug, Clone, Default)]
pub struct List {
    entries: Vec<Entry>,
}

/// One entry of a list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name or URI.
    pub key: String,
    /// The entry as it is sent.
    pub raw: Arc<RawValue>,
    /// The entry for clients of earlier revisions, where those would refuse it as it is.
    legacy: Option<Arc<RawValue>>,
}

impl Entry {
    /// An entry that is the same for all clients.
    fn new(key: &str, raw: Arc<RawValue>) -> Entry {
        Entry { key: key.to_owned(), raw, legacy: None }
    }

    fn tool(key: &str, raw: Arc<RawValue>) -> Entry {
        let legacy = translate::tool(&raw, Era::Legacy).ok().map(Spliced::into_cow);
        let legacy = legacy.filter(|text| text.as_ref() != raw.get());
        let legacy = legacy.and_then(|text| RawValue::from_string(text.into_owned()).ok()).map(Arc::from);
        Entry { legacy, ..Entry::new(key, raw) }
    }

    /// The entry for clients of an era.
    pub fn text(&self, era: Era) -> &str {
        let legacy = self.legacy.as_ref().filter(|_| era == Era::Legacy);
        legacy.unwrap_or(&self.raw).get()
    }
}

impl List {
    fn new(mut entries: Vec<Entry>) -> List {
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        List { entries }
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// At most `limit` entries behind the key `after` (from the start without one), and the key to go on behind when there
    /// are more. The key need not exist any more.
    pub fn page(&self, after: Option<&str>, limit: usize) -> (&[Entry], Option<&str>) {
        let start =
            after.map_or(0, |after| self.entries.partition_point(|entry| entry.key.as_str() <= after));
        let rest = self.entries.get(start..).unwrap_or_default();
        let page = rest.get(..limit.min(rest.len())).unwrap_or_default();
        let next = page.last().filter(|_| page.len() < rest.len()).map(|entry| entry.key.as_str());
        (page, next)
    }

    fn same_as(&self, other: &List) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(one, other)| Arc::ptr_eq(&one.raw, &other.raw) || one.raw.get() == other.raw.get())
    }
}

impl View {
    /// The view of somebody who may use everything that is listed.
    pub fn new(catalog: &Catalog, config: &Config) -> View {
        let listed = || catalog.tools.iter().enumerate().filter(|(_, tool)| tool.listed);
        let visible: Visible = listed().map(|(position, _)| position).collect();
        let optimizer = &config.optimizer;
        let own = |style| if optimizer.enabled { Vec::from(definitions(style, config)) } else { Vec::new() };
        let (dotted, underscore) = (own(NameStyle::Dotted), own(NameStyle::Underscore));
        let sizes = |own: &[Definition]| own.iter().map(|definition| definition.size).collect::<Vec<_>>();
        let all = listed().map(|(_, tool)| tool.size);
        let lists_everything = !optimizer.enabled
            || match optimizer.exposure {
                Exposure::All => true,
                Exposure::MetaOnly => false,
                Exposure::Auto => {
                    tokens::estimate(all.chain(sizes(&dotted))) <= u64::from(optimizer.auto_token_budget)
                }
            };
        let shows = |tool: &CatalogTool| lists_everything || optimizer.pinned_tools.contains(&tool.name);
        let tools = |own: &[Definition]| {
            let own = own.iter().map(|own| Entry::new(&own.name, own.raw.clone().into()));
            let backends = listed().filter(|(_, tool)| shows(tool));
            let backends = backends.map(|(_, tool)| Entry::tool(&tool.name, Arc::clone(&tool.raw)));
            List::new(own.chain(backends).collect())
        };
        let entry = |key: &str, raw: &RawValue| Entry::new(key, raw.to_owned().into());
        View {
            tools_dotted: tools(&dotted),
            tools_underscore: tools(&underscore),
            resources: List::new(
                catalog.resources.iter().map(|r| entry(&r.definition.uri, &r.definition.raw)).collect(),
            ),
            templates: List::new(
                catalog
                    .templates
                    .iter()
                    .map(|t| entry(&t.definition.uri_template, &t.definition.raw))
                    .collect(),
            ),
            prompts: List::new(
                catalog.prompts.iter().map(|p| Entry::new(&p.name, Arc::clone(&p.raw))).collect(),
            ),
            visible_tools: visible.len(),
            visible: Arc::new(visible),
            lists_everything,
            baseline_tokens: tokens::estimate(listed().map(|(_, tool)| tool.size)),
            optimizer_tokens: tokens::estimate(sizes(&dotted)),
        }
    }

    /// `tools/list` with our own tools spelled as this client can take them.
    pub fn tools(&self, style: NameStyle) -> &List {
        match style {
            NameStyle::Dotted => &self.tools_dotted,
            NameStyle::Underscore => &self.tools_underscore,
        }
    }

    /// Which lists differ from those of `before`: tools, resources (or templates), prompts.
    pub(super) fn changed_since(&self, before: &View) -> [bool; 3] {
        [
            !self.tools_dotted.same_as(&before.tools_dotted),
            !self.resources.same_as(&before.resources) || !self.templates.same_as(&before.templates),
            !self.prompts.same_as(&before.prompts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_clients_are_not_shown_an_output_schema_that_they_would_refuse() {
        let entry = |schema: &str| {
            let text = format!(r#"{{"name":"t","inputSchema":{{}},"outputSchema":{schema},"x":1e400}}"#);
            Entry::tool("t", RawValue::from_string(text).unwrap().into())
        };
        let list = entry(r#"{"type":"array"}"#);
        assert_eq!(list.text(Era::Legacy), r#"{"name":"t","inputSchema":{},"x":1e400}"#);
        assert_eq!(list.text(Era::Modern), list.raw.get());
        let object = entry(r#"{"type":"object"}"#);
        assert!(object.legacy.is_none(), "shared by both");
    }
}
