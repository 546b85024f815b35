//! Views: the part of the catalog that one identity may list, find and call. Code that acts for a client goes
//! through a view; [`admits`] alone decides what a view contains.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_config::{Config, Exposure};
use vmcp_model::catalog::{Catalog, CatalogPrompt, CatalogTool, ResourceTarget};
use vmcp_model::tokens;
use vmcp_search::Visible;
use vmcp_wire::lists::pages;
use vmcp_wire::translate::{Hints, Scope};

use super::list::{ListEntry, PagedList};
use super::user_interfaces::interfaces;
use crate::access::identity::Identity;
use crate::optim::definitions::{Definition, definitions};
use crate::optim::names::NameStyle;

/// Lifetime of a list in a client's cache, in milliseconds. A client that follows `list_changed` drops its
/// copy at once; any other is behind by no more than this.
const LIST_TTL_MS: u64 = 1000;

/// An item of the catalog that an identity may or may not see.
#[derive(Debug, Clone, Copy)]
#[expect(
    dead_code,
    reason = "nobody is denied any of them yet; whoever denies needs to know what is asked for"
)]
enum CatalogItem<'a> {
    Backend(&'a str),
    Tool(&'a CatalogTool),
    Prompt(&'a CatalogPrompt),
    Resource(ResourceTarget<'a>),
}

/// True if an identity may see an item. The only place of this decision.
fn admits(identity: &Identity, item: CatalogItem<'_>) -> bool {
    match (identity, item) {
        (_, CatalogItem::Tool(tool)) => tool.listed,
        (_, CatalogItem::Backend(_) | CatalogItem::Prompt(_) | CatalogItem::Resource(_)) => true,
    }
}

/// The lists that an identity gets, and the tools that it may find and call.
#[derive(Debug)]
pub struct View {
    identity: Identity,
    catalog: Arc<Catalog>,
    /// `tools/list` with our own tools spelled `optim.find_tool`.
    dotted: Arc<PagedList>,
    /// `tools/list` with our own tools spelled `optim_find_tool`.
    underscore: Arc<PagedList>,
    prompts: Arc<PagedList>,
    resources: Arc<PagedList>,
    templates: Arc<PagedList>,
    /// Backends of tools' user interfaces, by URI.
    interfaces: HashMap<Box<str>, Arc<str>>,
    /// Tools that may be found and called, by position in [`Catalog::tools`]; the lists may show fewer.
    pub visible: Arc<Visible>,
    /// Number of visible tools.
    pub visible_tools: usize,
    /// Tokens that listing every visible tool costs.
    pub baseline_tokens: u64,
    /// Tokens that the definitions of our own tools cost.
    pub optimizer_tokens: u64,
}

impl View {
    /// Builds the view of `identity` on a catalog. Lists that are the same as in `before` are shared with it.
    pub(super) fn new(
        identity: &Identity,
        catalog: &Arc<Catalog>,
        config: &Config,
        before: Option<&View>,
    ) -> View {
        let sees = |item| admits(identity, item);
        let usable = || catalog.tools.iter().enumerate().filter(|(_, tool)| sees(CatalogItem::Tool(tool)));
        let visible: Visible = usable().map(|(position, _)| position).collect();
        let optimizer = &config.optimizer;
        let own = |style| if optimizer.enabled { Vec::from(definitions(style, config)) } else { Vec::new() };
        let (dotted, underscore) = (own(NameStyle::Dotted), own(NameStyle::Underscore));
        let sizes = |own: &[Definition]| own.iter().map(|definition| definition.size).collect::<Vec<_>>();
        let all = usable().map(|(_, tool)| tool.size);
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
            let own = own.iter().map(|own| ListEntry::new(&own.name, own.raw.clone().into()));
            let backends = usable().filter(|(_, tool)| shows(tool));
            let backends = backends.map(|(_, tool)| ListEntry::tool(&tool.name, Arc::clone(&tool.raw)));
            own.chain(backends).collect()
        };
        let entry = |key: &str, raw: &RawValue| ListEntry::new(key, raw.to_owned().into());
        let prompts = catalog.prompts.iter().filter(|prompt| sees(CatalogItem::Prompt(prompt)));
        let resources = catalog.resources.iter();
        let resources =
            resources.filter(|resource| sees(CatalogItem::Resource(ResourceTarget::Resource(resource))));
        let templates = catalog.templates.iter();
        let templates =
            templates.filter(|template| sees(CatalogItem::Resource(ResourceTarget::Template(template))));
        // A list for anonymous clients is the same for everyone, so shared caches may keep it.
        let scope = if *identity == Identity::Anonymous { Scope::Public } else { Scope::Private };
        let list = |kind, entries, before: Option<&Arc<PagedList>>| {
            let list = PagedList::new(kind, entries, Hints { ttl_ms: LIST_TTL_MS, scope });
            match before {
                Some(before) => list.or_same(before),
                None => Arc::new(list),
            }
        };
        View {
            dotted: list(pages::List::Tools, tools(&dotted), before.map(|before| &before.dotted)),
            underscore: list(pages::List::Tools, tools(&underscore), before.map(|before| &before.underscore)),
            prompts: list(
                pages::List::Prompts,
                prompts.map(|prompt| ListEntry::new(&prompt.name, Arc::clone(&prompt.raw))).collect(),
                before.map(|before| &before.prompts),
            ),
            resources: list(
                pages::List::Resources,
                resources.map(|r| entry(&r.definition.uri, &r.definition.raw)).collect(),
                before.map(|before| &before.resources),
            ),
            templates: list(
                pages::List::ResourceTemplates,
                templates.map(|t| entry(&t.definition.uri_template, &t.definition.raw)).collect(),
                before.map(|before| &before.templates),
            ),
            interfaces: interfaces(usable().map(|(_, tool)| tool)),
            visible_tools: visible.len(),
            visible: Arc::new(visible),
            baseline_tokens: tokens::estimate(usable().map(|(_, tool)| tool.size)),
            optimizer_tokens: tokens::estimate(sizes(&dotted)),
            catalog: Arc::clone(catalog),
            identity: identity.clone(),
        }
    }

    /// Returns a list, with our own tools spelled as the client can take them.
    pub fn list(&self, kind: pages::List, style: NameStyle) -> &PagedList {
        match (kind, style) {
            (pages::List::Tools, NameStyle::Dotted) => &self.dotted,
            (pages::List::Tools, NameStyle::Underscore) => &self.underscore,
            (pages::List::Prompts, _) => &self.prompts,
            (pages::List::Resources, _) => &self.resources,
            (pages::List::ResourceTemplates, _) => &self.templates,
        }
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.catalog.tool(name).filter(|tool| self.sees(CatalogItem::Tool(tool)))
    }

    /// Returns all tools of this identity, sorted by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.catalog.tools.iter().filter(|tool| self.sees(CatalogItem::Tool(tool)))
    }

    /// Returns the tools whose name is this one but for letter case.
    pub fn tools_like(&self, name: &str) -> Vec<&Arc<CatalogTool>> {
        let like = self.catalog.tools.iter().filter(|tool| tool.name.eq_ignore_ascii_case(name));
        like.filter(|tool| self.sees(CatalogItem::Tool(tool))).collect()
    }

    /// Returns the tools of `backend` that `name` may mean: one, unless several differ only in letter case.
    pub fn tools_of(&self, backend: &str, name: &str) -> Vec<&Arc<CatalogTool>> {
        let found = self.catalog.tool_of(backend, name);
        found.into_iter().filter(|tool| self.sees(CatalogItem::Tool(tool))).collect()
    }

    /// Returns the tool that the index has under this number.
    pub fn document(&self, number: usize) -> Option<&Arc<CatalogTool>> {
        self.catalog.tools.get(number).filter(|_| self.visible.contains(number))
    }

    /// Returns the prompt with this name.
    pub fn prompt(&self, name: &str) -> Option<&Arc<CatalogPrompt>> {
        self.catalog.prompt(name).filter(|prompt| self.sees(CatalogItem::Prompt(prompt)))
    }

    /// Returns the resource or template that serves a URI.
    pub fn resource(&self, uri: &str) -> Option<ResourceTarget<'_>> {
        self.catalog.resources_for(uri).find(|target| self.sees(CatalogItem::Resource(*target)))
    }

    /// True if a backend serves a URI, but not for this identity. Then no other way to this URI may be tried
    /// either.
    pub fn hides(&self, uri: &str) -> bool {
        self.catalog.resources_for(uri).next().is_some() && self.resource(uri).is_none()
    }

    /// Returns the backend whose tool names a URI as its user interface.
    pub fn interface(&self, uri: &str) -> Option<&Arc<str>> {
        self.interfaces.get(uri)
    }

    /// Returns the resource template with this URI template.
    pub fn template(&self, template: &str) -> Option<ResourceTarget<'_>> {
        let template = self.catalog.templates.iter().find(|t| t.definition.uri_template == template)?;
        Some(ResourceTarget::Template(template)).filter(|target| self.sees(CatalogItem::Resource(*target)))
    }

    /// True if this identity may know of the backend.
    pub fn has_backend(&self, name: &str) -> bool {
        self.sees(CatalogItem::Backend(name))
    }

    fn sees(&self, item: CatalogItem<'_>) -> bool {
        admits(&self.identity, item)
    }

    /// Returns which lists differ from those of `before`: tools, resources (or templates), prompts.
    pub(in crate::engine) fn changed_since(&self, before: &View) -> [bool; 3] {
        let is_new = |list: fn(&View) -> &Arc<PagedList>| !Arc::ptr_eq(list(self), list(before));
        [is_new(|v| &v.dotted), is_new(|v| &v.resources) || is_new(|v| &v.templates), is_new(|v| &v.prompts)]
    }
}
