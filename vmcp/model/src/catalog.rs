//! What all backends offer together, after filters, overrides and conflict resolution.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::definition::{Annotations, Prompt, Resource, ResourceTemplate, Tool};
use crate::hash::SchemaHash;
use crate::issue::Issue;
use crate::{tokens, uri_template};

mod build;

/// A tool as this server offers it.
#[derive(Debug, Clone)]
pub struct CatalogTool {
    /// The resolved name.
    pub name: String,
    /// The name after overrides and before the conflict strategy: what the tool is called among its backend's own.
    pub own_name: String,
    /// The backend that has it.
    pub backend: Arc<str>,
    /// The definition as the backend sent it; its `name` is the one that the backend understands.
    pub definition: Arc<Tool>,
    /// The definition as listed: renamed and overridden, else byte for byte the backend's. The one addition is an
    /// `inputSchema` of `{"type":"object"}` where the backend sent none, because clients refuse lists without it.
    pub raw: Arc<RawValue>,
    /// The effective description, sanitized.
    pub description: String,
    /// The effective title, sanitized.
    pub title: Option<String>,
    /// The effective hints.
    pub annotations: Annotations,
    /// The hash of the backend's definition; overrides do not change it.
    pub hash: SchemaHash,
    /// What the tool adds to a list; see [`tokens::size`].
    pub size: u32,
    /// What the tool costs by itself.
    pub tokens: u32,
    /// Whether clients may see, find and call it. `false`: only code of ours may route to it (workflows, scripts).
    pub listed: bool,
}

/// A resource as this server offers it; its URI and definition are the backend's.
#[derive(Debug, Clone)]
pub struct CatalogResource {
    /// The backend that has it.
    pub backend: Arc<str>,
    /// Its definition.
    pub definition: Arc<Resource>,
}

/// A resource template as this server offers it; its template and definition are the backend's.
#[derive(Debug, Clone)]
pub struct CatalogTemplate {
    /// The backend that has it.
    pub backend: Arc<str>,
    /// Its definition.
    pub definition: Arc<ResourceTemplate>,
}

/// A prompt as this server offers it.
#[derive(Debug, Clone)]
pub struct CatalogPrompt {
    /// The resolved name.
    pub name: String,
    /// The backend that has it.
    pub backend: Arc<str>,
    /// The definition as the backend sent it; its `name` is the one that the backend understands.
    pub definition: Arc<Prompt>,
    /// The definition as listed: renamed, else byte for byte the backend's.
    pub raw: Arc<RawValue>,
}

/// What all backends offer together. Immutable; the same input gives the same catalog, in whatever order it comes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// All tools, hidden ones too, sorted by resolved name.
    pub tools: Vec<Arc<CatalogTool>>,
    /// All resources, sorted by URI. Of backends that offer the same URI, the first by name has it.
    pub resources: Vec<Arc<CatalogResource>>,
    /// All resource templates, sorted by template; the first backend by name has each.
    pub templates: Vec<Arc<CatalogTemplate>>,
    /// All prompts, sorted by resolved name.
    pub prompts: Vec<Arc<CatalogPrompt>>,
    /// What was left out or renamed, and why.
    pub issues: Vec<Issue>,
    /// Positions in `tools` by resolved name.
    by_name: HashMap<String, usize>,
    /// Positions in `tools` by backend, sorted by the backend's own name for the tool.
    by_backend: HashMap<Arc<str>, Vec<usize>>,
}

/// The backend that serves a URI.
#[derive(Debug, Clone, Copy)]
pub enum ResourceTarget<'a> {
    /// The URI is listed.
    Resource(&'a CatalogResource),
    /// The URI is not listed but fits this template.
    Template(&'a CatalogTemplate),
}

impl<'a> ResourceTarget<'a> {
    /// The backend that serves the URI.
    pub fn backend(self) -> &'a Arc<str> {
        match self {
            ResourceTarget::Resource(resource) => &resource.backend,
            ResourceTarget::Template(template) => &template.backend,
        }
    }
}

impl Catalog {
    /// The tool with this resolved name, hidden or not: whoever acts for a client checks `listed`.
    pub fn tool(&self, resolved: &str) -> Option<&Arc<CatalogTool>> {
        self.tools.get(*self.by_name.get(resolved)?)
    }

    /// The tool that `backend` calls `name`, or that is listed under `name` and belongs to `backend`. Exact names win;
    /// else all that differ only in case (GMT-21). Hidden tools are found too.
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

    /// All tools of one backend, hidden ones too, sorted by the backend's own names.
    pub fn tools_of(&self, backend: &str) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.by_backend.get(backend).into_iter().flatten().filter_map(|at| self.tools.get(*at))
    }

    /// The tools that clients may see, sorted by resolved name.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.tools.iter().filter(|tool| tool.listed)
    }

    /// What listing all of [`Catalog::listed`] costs.
    pub fn tokens(&self) -> u64 {
        tokens::estimate(self.listed().map(|tool| tool.size))
    }

    /// Who may serve `uri`: the resource with that URI, and only without one the templates that it fits.
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

    /// The prompt with this resolved name.
    pub fn prompt(&self, resolved: &str) -> Option<&Arc<CatalogPrompt>> {
        let at = self.prompts.binary_search_by(|prompt| prompt.name.as_str().cmp(resolved)).ok()?;
        self.prompts.get(at)
    }
}

#[cfg(test)]
mod tests;
