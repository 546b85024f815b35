//! The router: from the name or URI in a request to its [`Target`], within the caller's view.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use vmcp_model::catalog::{CatalogPrompt, CatalogTool, ResourceTarget};
use vmcp_model::names::COMPOSITE;
use vmcp_results::envelope::URI_PREFIX;
use vmcp_wire::methods;
use vmcp_workflow::CompositeTool;

use super::caller::CallContext;
use vmcp_engine::access::policy::Item;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::optim::names::{OptimTool, OwnName, own_name};
use vmcp_engine::optim::own_resources::{self, OwnResource};

/// Schemes of URIs that many servers read, some by a template for every URI of the scheme.
const SHARED_SCHEMES: [&str; 3] = ["file", "http", "https"];

/// The target of `tools/call`.
///
/// A composite tool is one of the catalog's, too: its way ends in a run of its steps in place of a server.
#[derive(Debug)]
pub(super) enum Target<'a> {
    /// A tool of vmcp's own.
    Optim(OptimTool),
    /// A tool of a backend.
    Backend(BackendTarget<'a>),
}

/// An item of a backend, and how a request for it is sent.
#[derive(Debug, Clone)]
pub(crate) struct BackendTarget<'a> {
    /// The backend.
    pub(crate) backend: &'a Arc<str>,
    /// The MCP method.
    pub(crate) method: Cow<'static, str>,
    /// The item that the request is about.
    pub(crate) item: Item<'a>,
    /// Time that the backend has to answer.
    pub(crate) deadline: Duration,
    /// True if the request may be repeated after a lost connection.
    pub(crate) idempotent: bool,
}

impl<'a> BackendTarget<'a> {
    /// Makes the target of a call of a tool.
    pub(super) fn tool(snapshot: &Snapshot, tool: &'a Arc<CatalogTool>) -> BackendTarget<'a> {
        let composite = composite_definition(snapshot, tool);
        let deadline = composite.map_or_else(|| snapshot.tool_timeout(&tool.backend), |tool| tool.timeout);
        BackendTarget {
            backend: &tool.backend,
            method: Cow::Borrowed(methods::TOOLS_CALL),
            item: Item::Tool(tool),
            deadline,
            idempotent: may_repeat(tool),
        }
    }

    /// Makes the target of a request that only reads, and so may be repeated.
    pub(super) fn read(
        snapshot: &Snapshot,
        backend: &'a Arc<str>,
        method: &'static str,
        item: Item<'a>,
    ) -> BackendTarget<'a> {
        let deadline = snapshot.tool_timeout(backend);
        BackendTarget { backend, method: Cow::Borrowed(method), item, deadline, idempotent: true }
    }

    /// Returns the name, URI or task of the request in the backend's spelling.
    pub(super) fn subject(&self) -> Option<&'a str> {
        match self.item {
            Item::Tool(tool) => Some(&tool.definition.name),
            Item::Prompt(prompt) => Some(&prompt.definition.name),
            Item::Resource(text) | Item::Task { id: text, .. } => Some(text),
            Item::OwnTool(name) => Some(name),
            Item::Backend => None,
        }
    }
}

/// Returns the definition of a composite tool; `None` for a tool of a backend.
pub(crate) fn composite_definition<'a>(
    snapshot: &'a Snapshot,
    tool: &CatalogTool,
) -> Option<&'a Arc<CompositeTool>> {
    if &*tool.backend != COMPOSITE {
        return None;
    }
    snapshot.config.composite_tools.iter().find(|composite| composite.name == tool.own_name)
}

/// True if a call of the tool may be repeated: it only reads, or a second call changes nothing more.
pub(crate) fn may_repeat(tool: &CatalogTool) -> bool {
    let hints = &tool.definition.annotations;
    hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)
}

/// Finds a tool. A name of an own tool is never a backend's if it is reserved; a bare one is an own tool's
/// only while no backend's tool has it.
pub(super) fn tool<'a>(context: CallContext<'a>, name: &str) -> Option<Target<'a>> {
    let optimizer = &context.snapshot.config.optimizer;
    let theirs =
        context.view.tool(name).or_else(|| composite(context.view, name)).or_else(|| codex(context, name));
    let offers = |own: &OptimTool| optimizer.tools.contains(own);
    match own_name(name).filter(|_| optimizer.enabled) {
        Some(OwnName::Reserved(own)) if offers(&own) => return Some(Target::Optim(own)),
        Some(OwnName::Bare(own)) if optimizer.legacy_aliases && theirs.is_none() && offers(&own) => {
            return Some(Target::Optim(own));
        }
        Some(OwnName::Reserved(_) | OwnName::Bare(_) | OwnName::Unknown) | None => {}
    }
    theirs.map(|tool| Target::Backend(BackendTarget::tool(context.snapshot, tool)))
}

/// Finds a composite tool by another of its names: `composite_NAME`, as clients list it whose models take no
/// dots, or NAME alone, as ToolHive lists it.
fn composite<'a>(view: &'a View, name: &str) -> Option<&'a Arc<CatalogTool>> {
    let own = name.strip_prefix(COMPOSITE).and_then(|rest| rest.strip_prefix('_'));
    let named = |own: &str| view.tool(&format!("{COMPOSITE}.{own}"));
    own.and_then(named).or_else(|| named(name))
}

/// Finds a tool of Codex by `optim.codex`, `optim_codex` or `codex` alone (and `codex_list_threads`,
/// `codex_archive_thread`), if the caller sees it on one backend only.
fn codex<'a>(context: CallContext<'a>, name: &str) -> Option<&'a Arc<CatalogTool>> {
    let prefixed = name.strip_prefix("optim.").or_else(|| name.strip_prefix("optim_"));
    let own = prefixed.unwrap_or(name);
    if !vmcp_codex::TOOLS.contains(&own) {
        return None;
    }
    let backends = context.snapshot.config.backends.iter().filter(|backend| backend.codex.is_some());
    let mut found = backends.flat_map(|backend| context.view.tools_of(&backend.name, own));
    found.next().filter(|_| found.next().is_none())
}

/// Finds a prompt.
pub(super) fn prompt<'a>(context: CallContext<'a>, name: &str) -> Option<&'a CatalogPrompt> {
    context.view.prompt(name).map(AsRef::as_ref)
}

/// Returns the reference in a URI of a kept result, if such results are kept here.
pub(crate) fn kept_reference<'a>(context: CallContext<'_>, uri: &'a str) -> Option<&'a str> {
    let optimizer = &context.snapshot.config.optimizer;
    let keeps = optimizer.enabled && optimizer.large_results.enabled;
    uri.strip_prefix(URI_PREFIX).filter(|_| keeps)
}

/// Returns the own resource of a URI, if such resources are served.
pub(crate) fn own_resource<'a>(context: CallContext<'_>, uri: &'a str) -> Option<OwnResource<'a>> {
    OwnResource::parse(uri).filter(|_| own_resources::are_served(&context.snapshot.config))
}

/// True if a link leads to the backend that gave it. A URI that another backend lists, or has a template for,
/// belongs to that one, unless both do: a link is a backend's text, and must not draw requests for others to
/// itself.
fn may_lead_to(context: CallContext<'_>, backend: &str, uri: &str) -> bool {
    let Some(serving) = context.view.resource(uri) else { return true };
    if **serving.backend() == *backend {
        return true;
    }
    if let ResourceTarget::Template(other) = serving {
        let is_of_other =
            context.view.has_backend(&other.backend) && owns_scheme(&other.definition.uri_template, uri);
        return !is_of_other || context.view.serves(backend, uri);
    }
    let linking = context.snapshot.backends.get(backend);
    let own = linking.and_then(|linking| linking.discovered().borrow().clone());
    own.is_some_and(|own| own.resources.iter().any(|resource| resource.uri == uri))
}

/// True if a template is for URIs of this scheme, and the scheme is one of a server's own: files and pages
/// are read by many servers.
fn owns_scheme(template: &str, uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    let is_named = template.strip_prefix(scheme).is_some_and(|rest| rest.starts_with(':'));
    is_named && !SHARED_SCHEMES.iter().any(|shared| shared.eq_ignore_ascii_case(scheme))
}

/// Finds the backend of a resource: the one that linked to it in a result to this client, else the one that
/// lists it or has a template for it, else the one whose tool names it as its user interface, else the only
/// backend that has resources.
pub(super) fn resource<'a>(context: CallContext<'a>, uri: &str) -> Option<&'a Arc<str>> {
    let view = context.view;
    // A kept result and vmcp's own state belong to vmcp, whatever a backend says.
    let is_own = kept_reference(context, uri).is_some() || own_resource(context, uri).is_some();
    if view.hides(uri) || is_own {
        return None;
    }
    let linked = context.snapshot.links.get(context.caller.link_owner(), uri);
    let linked = linked.filter(|backend| view.has_backend(backend) && may_lead_to(context, backend, uri));
    if let Some((backend, _)) = linked.and_then(|backend| context.snapshot.backends.get_key_value(&backend)) {
        return Some(backend);
    }
    if let Some(listed) = view.resource(uri) {
        return Some(listed.backend());
    }
    if let Some(backend) = view.interface(uri) {
        return Some(backend);
    }
    // Of all backends, not of those in the view: else a URI of a hidden one could be told from an unknown
    // one.
    let declared = context.snapshot.declared_capabilities(context.snapshot.whole_view());
    let mut declared = declared.filter(|(_, capabilities)| capabilities.has_resources());
    match (declared.next(), declared.next()) {
        (Some((only, _)), None) => Some(only).filter(|only| view.has_backend(only)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_owns_the_scheme_that_it_names_unless_many_servers_read_it() {
        for (template, uri, owns) in [
            ("github://{owner}/{repo}", "github://a/b", true),
            ("{+uri}", "github://a/b", false),
            ("git{+rest}", "github://a/b", false),
            ("file:///{+path}", "file:///etc/hosts", false),
            ("https://{+page}", "HTTPS://a.example/", false),
            ("{+uri}", "no uri", false),
        ] {
            assert_eq!(owns_scheme(template, uri), owns, "{template} {uri}");
        }
    }
}
