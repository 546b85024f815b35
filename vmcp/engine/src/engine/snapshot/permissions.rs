//! [`Permissions`]: the items of a catalog that a client may list, find and call, as bitmaps. Clients with
//! equal permissions share one view.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use vmcp_config::{Backend, Config};
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_search::Visible;

use crate::access::policy::{Item, ListedRights};
use crate::optim::names::OptimTool;
use crate::optim::own_resources;

/// Sets of positions in a catalog's lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Permissions {
    pub(super) tools: Arc<Visible>,
    pub(super) prompts: Visible,
    pub(super) resources: Visible,
    pub(super) templates: Visible,
    /// Tools of vmcp's own.
    own: BTreeSet<OptimTool>,
    /// Backends that the client may know of; `None`: all.
    pub(super) backends: Option<BTreeSet<Arc<str>>>,
}

impl Permissions {
    /// Permits everything that is listed.
    pub(super) fn all(catalog: &Catalog) -> Permissions {
        Permissions {
            tools: Arc::new(positions(&catalog.tools, |tool| tool.listed)),
            prompts: positions(&catalog.prompts, |_| true),
            resources: positions(&catalog.resources, |_| true),
            templates: positions(&catalog.templates, |_| true),
            own: OptimTool::ALL.into(),
            backends: None,
        }
    }

    /// Asks about each item of a catalog. Computes: a question takes some microseconds.
    pub(super) fn ask(rights: &dyn ListedRights, catalog: &Catalog, config: &Config) -> Permissions {
        let may_call = |tool: &Arc<CatalogTool>| rights.could_allow(Item::Tool(tool), &tool.backend);
        // Of a composite tool, each step is a call of its own.
        let tools = positions(&catalog.tools, |tool| {
            tool.listed && may_call(tool) && tool.steps.iter().all(&may_call)
        });
        let prompts =
            positions(&catalog.prompts, |prompt| rights.could_allow(Item::Prompt(prompt), &prompt.backend));
        let resources = positions(&catalog.resources, |resource| {
            rights.could_allow(Item::Resource(&resource.definition.uri), &resource.backend)
        });
        let templates = positions(&catalog.templates, |template| {
            rights.could_allow(Item::Resource(&template.definition.uri_template), &template.backend)
        });
        let of = chosen(&catalog.tools, &tools).map(|tool| &tool.backend);
        let of = of.chain(chosen(&catalog.prompts, &prompts).map(|prompt| &prompt.backend));
        let of = of.chain(chosen(&catalog.resources, &resources).map(|resource| &resource.backend));
        let of = of.chain(chosen(&catalog.templates, &templates).map(|template| &template.backend));
        let mut backends: BTreeSet<Arc<str>> = of.map(Arc::clone).collect();
        let defining = LazyCell::new(|| defining_backends(catalog));
        for Backend { name, .. } in &config.backends {
            if backends.contains(name) {
                continue;
            }
            // A backend that was never listed, or is switched off, has no definition to ask about.
            let is_known = if defining.contains(&**name) {
                rights.could_allow(Item::Backend, name)
            } else {
                rights.could_know(name)
            };
            if is_known {
                backends.insert(Arc::clone(name));
            }
        }
        // The own resources are read by the right to the tools that tell the same.
        let of_resources = own_resources::RIGHTS.into_iter().filter(|_| config.optimizer.own_resources);
        let offered = config.optimizer.tools.iter().copied().chain(of_resources);
        let own = offered.filter(|tool| rights.could_allow(Item::OwnTool(tool.dotted()), "")).collect();
        let tools = Arc::new(tools);
        Permissions { tools, prompts, resources, templates, own, backends: Some(backends) }
    }

    /// True if this tool of a catalog is permitted.
    pub(super) fn has_tool(&self, catalog: &Catalog, tool: &CatalogTool) -> bool {
        catalog.position(&tool.name).is_some_and(|position| self.tools.contains(position))
    }

    /// True if an own tool is permitted.
    pub(super) fn has_own(&self, tool: OptimTool) -> bool {
        self.own.contains(&tool)
    }
}

/// Returns the names of the backends with definitions in a catalog.
fn defining_backends(catalog: &Catalog) -> HashSet<&str> {
    let tools = catalog.tools.iter().map(|tool| &tool.backend);
    let prompts = catalog.prompts.iter().map(|prompt| &prompt.backend);
    let resources = catalog.resources.iter().map(|resource| &resource.backend);
    let templates = catalog.templates.iter().map(|template| &template.backend);
    tools.chain(prompts).chain(resources).chain(templates).map(|name| &**name).collect()
}

/// Returns the positions of the items that `fits` takes.
fn positions<T>(items: &[T], fits: impl Fn(&T) -> bool) -> Visible {
    items.iter().enumerate().filter(|(_, item)| fits(item)).map(|(position, _)| position).collect()
}

/// Yields the items at these positions.
pub(super) fn chosen<'a, T>(items: &'a [T], positions: &Visible) -> impl Iterator<Item = &'a T> {
    items.iter().enumerate().filter(|(at, _)| positions.contains(*at)).map(|(_, item)| item)
}
