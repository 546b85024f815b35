//! Catalog of everything that all backends offer, after filters, overrides and conflict resolution.
//!
//! `build` makes it, `composites` adds composite tools, `overrides` edits single definitions,
//! `conflict_resolution` gives each a name, and `uri_template` finds the backend of a URI.

mod build;
mod composites;
mod conflict_resolution;
mod overrides;
mod uri_template;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::definition::{Annotations, Prompt, Resource, ResourceTemplate, Tool};
use crate::hash::SchemaHash;
use crate::issue::Issue;
use crate::tokens;

/// Tool as vmcp offers it.
#[derive(Debug, Clone)]
pub struct CatalogTool {
    /// Resolved name.
    pub name: String,
    /// Name after overrides and before the conflict strategy: the tool's name among those of its backend.
    pub own_name: String,
    /// Backend that offers it.
    pub backend: Arc<str>,
    /// Definition as the backend sent it; calls use its `name`, because the backend knows no other name.
    pub definition: Arc<Tool>,
    /// Definition as listed: renamed and overridden, else byte for byte the backend's, unless clients would
    /// refuse the list over it ([`crate::fitness`]). An `inputSchema` of `{"type":"object"}` is added where
    /// the backend sent none.
    pub raw: Arc<RawValue>,
    /// Effective description, sanitized.
    pub description: String,
    /// Effective title, sanitized.
    pub title: Option<String>,
    /// Effective hints.
    pub annotations: Annotations,
    /// Hash of the backend's definition; overrides do not change it.
    pub hash: SchemaHash,
    /// Characters that the tool adds to a list; see [`tokens::size`].
    pub size: u32,
    /// Tokens that the tool costs by itself.
    pub tokens: u32,
    /// True if clients may see, find and call it. False: only vmcp itself may route to it (workflows,
    /// scripts).
    pub listed: bool,
    /// False: a client or a model API would refuse a list with this definition. Lists leave the tool out;
    /// clients find and call it.
    pub in_lists: bool,
    /// Tools that the steps of a composite tool call, each once; empty for a tool of a backend.
    pub steps: Vec<Arc<CatalogTool>>,
}

/// Resource as vmcp offers it; URI and definition are the backend's.
#[derive(Debug, Clone)]
pub struct CatalogResource {
    /// Backend that offers it.
    pub backend: Arc<str>,
    /// Its definition.
    pub definition: Arc<Resource>,
}

/// Resource template as vmcp offers it; template and definition are the backend's.
#[derive(Debug, Clone)]
pub struct CatalogTemplate {
    /// Backend that offers it.
    pub backend: Arc<str>,
    /// Its definition.
    pub definition: Arc<ResourceTemplate>,
}

/// Prompt as vmcp offers it.
#[derive(Debug, Clone)]
pub struct CatalogPrompt {
    /// Resolved name.
    pub name: String,
    /// Backend that offers it.
    pub backend: Arc<str>,
    /// Definition as the backend sent it; calls use its `name`, because the backend knows no other name.
    pub definition: Arc<Prompt>,
    /// Definition as listed: renamed, else byte for byte the backend's.
    pub raw: Arc<RawValue>,
}

/// Everything that all backends offer. Immutable; the same input gives the same catalog, in whatever order it
/// comes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Tools, hidden ones too, sorted by resolved name.
    pub tools: Vec<Arc<CatalogTool>>,
    /// Resources, sorted by URI. A URI that several backends offer belongs to the first by name.
    pub resources: Vec<Arc<CatalogResource>>,
    /// Resource templates, sorted by template; a template that several backends offer belongs to the first by
    /// name.
    pub templates: Vec<Arc<CatalogTemplate>>,
    /// Prompts, sorted by resolved name.
    pub prompts: Vec<Arc<CatalogPrompt>>,
    /// Definitions that were left out or renamed, each with the reason.
    pub issues: Vec<Issue>,
    /// Positions in `tools` by resolved name.
    by_name: HashMap<String, usize>,
    /// Positions in `tools` by backend, sorted by the backend's own name for the tool.
    by_backend: HashMap<Arc<str>, Vec<usize>>,
}

impl Catalog {
    /// Hides tools from clients: they are neither listed nor found nor callable. Returns their number.
    pub fn hide(&mut self, is_hidden: impl Fn(&CatalogTool) -> bool) -> usize {
        let mut hidden = 0;
        for tool in &mut self.tools {
            if tool.listed && is_hidden(tool) {
                hidden += 1;
                Arc::make_mut(tool).listed = false;
            }
        }
        hidden
    }
}

/// Target of a URI: the backend that serves it.
#[derive(Debug, Clone, Copy)]
pub enum ResourceTarget<'a> {
    /// The URI is listed.
    Resource(&'a CatalogResource),
    /// The URI is not listed but fits this template.
    Template(&'a CatalogTemplate),
}

impl<'a> ResourceTarget<'a> {
    /// Returns the backend that serves the URI.
    pub fn backend(self) -> &'a Arc<str> {
        match self {
            ResourceTarget::Resource(resource) => &resource.backend,
            ResourceTarget::Template(template) => &template.backend,
        }
    }
}

impl Catalog {
    /// Returns the tool with this resolved name, hidden or not: a caller that acts for a client must check
    /// `listed`.
    pub fn tool(&self, resolved: &str) -> Option<&Arc<CatalogTool>> {
        self.tools.get(*self.by_name.get(resolved)?)
    }

    /// Returns the position of a tool in `tools`, by its resolved name.
    pub fn position(&self, resolved: &str) -> Option<usize> {
        self.by_name.get(resolved).copied()
    }

    /// Returns the tool that `backend` calls `name`, or that is listed under `name` and belongs to `backend`.
    /// An exact name wins; else all names that differ only in case are returned. Hidden tools are found too.
    pub fn tool_of(&self, backend: &str, name: &str) -> Vec<&Arc<CatalogTool>> {
        let own = self.by_backend.get(backend).map(Vec::as_slice).unwrap_or_default();
        let name_at = |at: &usize| self.tools.get(*at).map(|tool| tool.definition.name.as_str());
        let exact = own.binary_search_by(|at| name_at(at).cmp(&Some(name)));
        let exact = exact.ok().and_then(|at| self.tools.get(*own.get(at)?));
        if let Some(tool) = exact.or_else(|| self.tool(name).filter(|tool| &*tool.backend == backend)) {
            return vec![tool];
        }
        let backends = self.by_backend.keys().filter(|key| key.eq_ignore_ascii_case(backend));
        let mut fits: Vec<_> = backends
            .flat_map(|backend| self.tools_of(backend))
            .filter(|tool| {
                tool.definition.name.eq_ignore_ascii_case(name) || tool.name.eq_ignore_ascii_case(name)
            })
            .collect();
        fits.sort_by_key(|tool| &tool.name);
        fits
    }

    /// Yields all tools of one backend, hidden ones too, sorted by the backend's own names.
    pub fn tools_of(&self, backend: &str) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.by_backend.get(backend).into_iter().flatten().filter_map(|at| self.tools.get(*at))
    }

    /// Yields the tools that clients may see, sorted by resolved name.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.tools.iter().filter(|tool| tool.listed)
    }

    /// Returns the tokens that a list of all of [`Catalog::listed`] costs.
    pub fn tokens(&self) -> u64 {
        tokens::estimate(self.listed().map(|tool| tool.size))
    }

    /// Yields the targets that may serve `uri`: the resource with that URI or, without one, the templates
    /// that it fits.
    pub fn resources_for(&self, uri: &str) -> impl Iterator<Item = ResourceTarget<'_>> {
        let at = self.resources.binary_search_by(|resource| resource.definition.uri.as_str().cmp(uri)).ok();
        let resource = at.and_then(|at| self.resources.get(at));
        let templates = if resource.is_some() { &[][..] } else { &self.templates };
        let fits = move |template: &&Arc<CatalogTemplate>| {
            uri_template::matches(&template.definition.uri_template, uri)
        };
        let templates = templates.iter().filter(fits);
        let resource = resource.into_iter().map(|resource| ResourceTarget::Resource(resource));
        resource.chain(templates.map(|template| ResourceTarget::Template(template)))
    }

    /// Returns the prompt with this resolved name.
    pub fn prompt(&self, resolved: &str) -> Option<&Arc<CatalogPrompt>> {
        let at = self.prompts.binary_search_by(|prompt| prompt.name.as_str().cmp(resolved)).ok()?;
        self.prompts.get(at)
    }
}

#[cfg(test)]
mod tests;
