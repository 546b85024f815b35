//! Views: the part of the catalog that clients with the same [`Permissions`] may list, find and call. Code
//! that acts for a client goes through a view.

pub(super) mod views;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use vmcp_config::{Config, Exposure, NoContext};
use vmcp_json::object::Object;
use vmcp_model::catalog::{Catalog, CatalogPrompt, CatalogTool, ResourceTarget};
use vmcp_model::names::COMPOSITE;
use vmcp_model::tokens;
use vmcp_search::Visible;
use vmcp_wire::lists::pages;
use vmcp_wire::translate::{Hints, Scope};

use super::list::{ListEntry, PagedList};
use super::permissions::{Permissions, chosen};
use super::user_interfaces::interfaces;
use crate::optim::definitions::{Definition, definitions};
use crate::optim::names::{NameStyle, OwnName, own_name};
use crate::optim::own_resources::{self, OwnResource};

/// Lifetime of a list in a client's cache, in milliseconds. A client that follows `list_changed` drops its
/// copy at once; any other is behind by no more than this.
const LIST_TTL_MS: u64 = 1000;

/// Key in `_meta` of the rank of a tool, from 1, in the list of a client that has set a context.
const RANK_KEY: &str = "vmcp/rank";

/// Digests of the lists of one view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListDigests {
    /// Of `tools/list`.
    pub tools: u64,
    /// Of `resources/list` and `resources/templates/list`.
    pub resources: u64,
    /// Of `prompts/list`.
    pub prompts: u64,
}

/// The lists that an identity gets, and the tools that it may find and call.
#[derive(Debug)]
pub struct View {
    permissions: Arc<Permissions>,
    exposure: Exposure,
    scope: Scope,
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
    /// [`View::digests`], once they have been asked for.
    digests: OnceLock<ListDigests>,
    /// Number of visible tools.
    pub visible_tools: usize,
    /// Tokens that listing every visible tool costs.
    pub baseline_tokens: u64,
    /// Tokens that the definitions of our own tools cost.
    pub optimizer_tokens: u64,
}

/// Returns the entry of a tool; a composite one is spelled as the client can take it.
fn entry_of(tool: &CatalogTool, raw: Arc<RawValue>, style: NameStyle) -> ListEntry {
    if &*tool.backend == COMPOSITE && style == NameStyle::Underscore {
        let name = format!("{COMPOSITE}_{}", tool.own_name);
        let renamed = Object::parse(&raw).ok().and_then(|definition| {
            let mut edit = definition.edit();
            edit.set("name", vmcp_json::text::quoted(&name));
            RawValue::from_string(edit.finish().into_cow().into_owned()).ok()
        });
        if let Some(renamed) = renamed {
            return ListEntry::tool(&name, renamed.into());
        }
    }
    ListEntry::tool(&tool.name, raw)
}

/// Returns a definition with the tool's rank in its `_meta`. The list itself is sorted by name.
fn with_rank(raw: &RawValue, rank: usize) -> Option<Arc<RawValue>> {
    let definition = Object::parse(raw).ok()?;
    let meta = definition.text("_meta").and_then(|meta| Object::parse_valid(meta).ok()).unwrap_or_default();
    let mut inner = meta.edit();
    inner.set(RANK_KEY, rank.to_string());
    let mut edit = definition.edit();
    edit.set("_meta", inner.finish().into_cow().into_owned());
    edit.finish().into_raw().ok().map(Arc::from)
}

impl View {
    /// Builds the view with `permissions` on a catalog. Lists that are the same as in `before` are shared
    /// with it; `scope` says if caches may share them too.
    pub(super) fn new(
        permissions: &Arc<Permissions>,
        exposure: Exposure,
        scope: Scope,
        catalog: &Arc<Catalog>,
        config: &Config,
        before: Option<&View>,
    ) -> View {
        let usable = || chosen(&catalog.tools, &permissions.tools);
        let optimizer = &config.optimizer;
        let own = |style, hides_tools| own_definitions(style, config, permissions, hides_tools);
        let sizes = |own: &[Definition]| own.iter().map(|definition| definition.size).collect::<Vec<_>>();
        let all = usable().map(|tool| tool.size);
        let mut in_full = None;
        let lists_everything = !optimizer.enabled
            || match exposure {
                Exposure::All => true,
                Exposure::MetaOnly => false,
                Exposure::Contextual => optimizer.contextual.no_context == NoContext::All,
                Exposure::Auto => {
                    // The size does not depend on hidden tools.
                    let own = in_full.insert(own(NameStyle::Dotted, false));
                    tokens::estimate(all.chain(sizes(own))) <= u64::from(optimizer.auto_token_budget)
                }
            };
        let dotted = in_full.filter(|_| lists_everything);
        let dotted = dotted.unwrap_or_else(|| own(NameStyle::Dotted, !lists_everything));
        let underscore = own(NameStyle::Underscore, !lists_everything);
        let shows = |tool: &CatalogTool| {
            tool.in_lists && (lists_everything || optimizer.pinned_tools.contains(&tool.name))
        };
        let tools = |own: &[Definition], style| {
            let own = own.iter().map(|own| ListEntry::new(&own.name, own.raw.clone().into()));
            let backends = usable().filter(|tool| shows(tool));
            own.chain(backends.map(|tool| entry_of(tool, Arc::clone(&tool.raw), style))).collect()
        };
        let entry = |key: &str, raw: &RawValue| ListEntry::new(key, raw.to_owned().into());
        let prompts = chosen(&catalog.prompts, &permissions.prompts);
        // A backend cannot take the place of vmcp's own.
        let is_own = |uri: &str| own_resources::are_served(config) && OwnResource::parse(uri).is_some();
        let resources = chosen(&catalog.resources, &permissions.resources);
        let resources = resources.filter(|resource| !is_own(&resource.definition.uri));
        let templates = chosen(&catalog.templates, &permissions.templates);
        let list = |kind, entries, before: Option<&Arc<PagedList>>| {
            let list = PagedList::new(kind, entries, Hints { ttl_ms: LIST_TTL_MS, scope });
            match before {
                Some(before) => list.or_same(before),
                None => Arc::new(list),
            }
        };
        View {
            dotted: list(
                pages::List::Tools,
                tools(&dotted, NameStyle::Dotted),
                before.map(|before| &before.dotted),
            ),
            underscore: list(
                pages::List::Tools,
                tools(&underscore, NameStyle::Underscore),
                before.map(|before| &before.underscore),
            ),
            prompts: list(
                pages::List::Prompts,
                prompts.map(|prompt| ListEntry::new(&prompt.name, Arc::clone(&prompt.raw))).collect(),
                before.map(|before| &before.prompts),
            ),
            resources: list(
                pages::List::Resources,
                own_resources::resources(config, |tool| permissions.has_own(tool))
                    .into_iter()
                    .map(|(uri, raw)| ListEntry::new(&uri, raw.into()))
                    .chain(resources.map(|r| entry(&r.definition.uri, &r.definition.raw)))
                    .collect(),
                before.map(|before| &before.resources),
            ),
            templates: list(
                pages::List::ResourceTemplates,
                own_resources::templates(config, |tool| permissions.has_own(tool))
                    .into_iter()
                    .map(|(uri, raw)| ListEntry::new(&uri, raw.into()))
                    .chain(templates.map(|t| entry(&t.definition.uri_template, &t.definition.raw)))
                    .collect(),
                before.map(|before| &before.templates),
            ),
            interfaces: interfaces(usable()),
            digests: OnceLock::new(),
            visible_tools: permissions.tools.len(),
            baseline_tokens: tokens::estimate(usable().map(|tool| tool.size)),
            optimizer_tokens: tokens::estimate(sizes(&dotted)),
            catalog: Arc::clone(catalog),
            permissions: Arc::clone(permissions),
            exposure,
            scope,
        }
    }

    /// The tools that are listed: those of the client's profile, or the server's.
    pub fn exposure(&self) -> Exposure {
        self.exposure
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

    /// Makes a list of tools for one client: vmcp's own, the pinned ones, and those of these documents with
    /// their ranks; without documents, all tools of this view.
    pub(in crate::engine) fn chosen_list(
        &self,
        style: NameStyle,
        config: &Config,
        best_first: Option<&[usize]>,
    ) -> PagedList {
        let own = own_definitions(style, config, &self.permissions, true);
        let own = own.into_iter().map(|own| ListEntry::new(&own.name, own.raw.into()));
        let pinned = self.tools().filter(|tool| config.optimizer.pinned_tools.contains(&tool.name));
        let best = best_first.unwrap_or_default().iter().filter_map(|at| self.document(*at));
        let ranks: HashMap<&str, usize> =
            best.clone().zip(1..).map(|(tool, rank)| (tool.name.as_str(), rank)).collect();
        let all = best_first.is_none().then(|| self.tools()).into_iter().flatten();
        let mut tools: Vec<_> = best.chain(all).chain(pinned).collect();
        tools.retain(|tool| tool.in_lists);
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|one, other| one.name == other.name);
        let tools = tools.into_iter().map(|tool| {
            let ranked = ranks.get(tool.name.as_str()).and_then(|rank| with_rank(&tool.raw, *rank));
            entry_of(tool, ranked.unwrap_or_else(|| Arc::clone(&tool.raw)), style)
        });
        let hints = Hints { ttl_ms: LIST_TTL_MS, scope: Scope::Private };
        PagedList::new(pages::List::Tools, own.chain(tools).collect(), hints)
    }

    /// Returns digests of the lists: equal ones say that a client would read the same lists again.
    pub fn digests(&self) -> ListDigests {
        *self.digests.get_or_init(|| ListDigests {
            tools: self.dotted.digest(),
            resources: self.resources.digest() ^ self.templates.digest().rotate_left(1),
            prompts: self.prompts.digest(),
        })
    }

    /// Returns the documents of all tools of this view.
    pub fn documents(&self) -> Vec<usize> {
        (0..self.catalog.tools.len()).filter(|at| self.permissions.tools.contains(*at)).collect()
    }

    /// The permissions that this view shows.
    pub(super) fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }

    /// Says if the lists are the same for everyone, so that shared caches may keep them.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Tools that may be found and called, by position in [`Catalog::tools`]; the lists may show fewer.
    pub fn visible(&self) -> &Arc<Visible> {
        &self.permissions.tools
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.document(self.catalog.position(name)?)
    }

    /// Returns all tools of this view, sorted by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        chosen(&self.catalog.tools, &self.permissions.tools)
    }

    /// Returns the tools whose name is this one but for letter case.
    pub fn tools_like(&self, name: &str) -> Vec<&Arc<CatalogTool>> {
        self.tools().filter(|tool| tool.name.eq_ignore_ascii_case(name)).collect()
    }

    /// Returns the tools of `backend` that `name` may mean: one, unless several differ only in letter case.
    pub fn tools_of(&self, backend: &str, name: &str) -> Vec<&Arc<CatalogTool>> {
        let found = self.catalog.tool_of(backend, name);
        found.into_iter().filter(|tool| self.permissions.has_tool(&self.catalog, tool)).collect()
    }

    /// Returns the tool that the index has under this number.
    pub fn document(&self, number: usize) -> Option<&Arc<CatalogTool>> {
        self.catalog.tools.get(number).filter(|_| self.permissions.tools.contains(number))
    }

    /// Returns the prompt with this name.
    pub fn prompt(&self, name: &str) -> Option<&Arc<CatalogPrompt>> {
        let at = self.catalog.prompts.binary_search_by(|prompt| prompt.name.as_str().cmp(name)).ok()?;
        self.catalog.prompts.get(at).filter(|_| self.permissions.prompts.contains(at))
    }

    /// Returns the resource or template that serves a URI. A template counts if it is listed or not: policies
    /// are asked about the URI.
    pub fn resource(&self, uri: &str) -> Option<ResourceTarget<'_>> {
        self.catalog.resources_for(uri).find(|target| match target {
            ResourceTarget::Resource(_) => {
                let at =
                    self.catalog.resources.binary_search_by(|other| other.definition.uri.as_str().cmp(uri));
                at.is_ok_and(|at| self.permissions.resources.contains(at))
            }
            ResourceTarget::Template(_) => true,
        })
    }

    /// Returns the resource with this URI, if it is listed.
    pub fn listed_resource(&self, uri: &str) -> Option<ResourceTarget<'_>> {
        let resources = &self.catalog.resources;
        let at = resources.binary_search_by(|other| other.definition.uri.as_str().cmp(uri)).ok()?;
        let resource = resources.get(at).filter(|_| self.permissions.resources.contains(at))?;
        Some(ResourceTarget::Resource(resource))
    }

    /// True if a backend serves an unlisted URI by one of its templates.
    pub fn serves(&self, backend: &str, uri: &str) -> bool {
        self.catalog.resources_for(uri).any(|target| **target.backend() == *backend)
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
        let permitted = chosen(&self.catalog.templates, &self.permissions.templates);
        let mut named = permitted.filter(|other| other.definition.uri_template == template);
        Some(ResourceTarget::Template(named.next()?))
    }

    /// True if this identity may know of the backend.
    pub fn has_backend(&self, name: &str) -> bool {
        self.permissions.backends.as_ref().is_none_or(|backends| backends.contains(name))
    }

    /// True if this identity may know of every backend.
    pub(super) fn has_all_backends(&self) -> bool {
        self.permissions.backends.is_none()
    }

    /// Returns which lists differ from those of `before`: tools, resources (or templates), prompts.
    pub(in crate::engine) fn changed_since(&self, before: &View) -> [bool; 3] {
        let is_new = |list: fn(&View) -> &Arc<PagedList>| !Arc::ptr_eq(list(self), list(before));
        [is_new(|v| &v.dotted), is_new(|v| &v.resources) || is_new(|v| &v.templates), is_new(|v| &v.prompts)]
    }
}

/// Returns the definitions of the own tools that the permissions include, for a list that has all tools or,
/// if `hides_tools`, some of them.
fn own_definitions(
    style: NameStyle,
    config: &Config,
    permissions: &Permissions,
    hides_tools: bool,
) -> Vec<Definition> {
    let own = if config.optimizer.enabled { definitions(style, config, hides_tools) } else { Vec::new() };
    let permitted = |own: &Definition| match own_name(&own.name) {
        Some(OwnName::Reserved(tool) | OwnName::Bare(tool)) => permissions.has_own(tool),
        Some(OwnName::Unknown) | None => false,
    };
    own.into_iter().filter(permitted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_added_to_the_meta_that_a_definition_has() {
        for (definition, expected) in [
            (r#"{"name":"a"}"#, r#"{"name":"a","_meta":{"vmcp/rank":3}}"#),
            (r#"{"_meta":{"ui":{}},"name":"a"}"#, r#"{"_meta":{"ui":{},"vmcp/rank":3},"name":"a"}"#),
            (r#"{"name":"a","_meta":{"vmcp/rank":9}}"#, r#"{"name":"a","_meta":{"vmcp/rank":3}}"#),
        ] {
            let raw: &RawValue = serde_json::from_str(definition).unwrap();
            assert_eq!(with_rank(raw, 3).unwrap().get(), expected);
        }
    }
}
