//! What changed from one catalog to the next (GOB-43, GOB-47, GOB-48).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::catalog::{Catalog, CatalogTool};
use crate::hash::SchemaHash;

/// What changed from one catalog to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogDiff {
    /// Changes of the backends' own definitions, for each backend that has or had tools. Overrides and renames by our
    /// configuration do not count here.
    pub backends: BTreeMap<Arc<str>, BackendDiff>,
    /// Clients see another list of tools: `notifications/tools/list_changed`.
    pub tools_changed: bool,
    /// Clients see another list of resources or templates: `notifications/resources/list_changed`.
    pub resources_changed: bool,
    /// Clients see another list of prompts: `notifications/prompts/list_changed`.
    pub prompts_changed: bool,
}

/// What changed in the tools of one backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendDiff {
    /// New tools.
    pub added: Vec<ToolChange>,
    /// Tools whose definition means something else than before; order of keys and white space do not count.
    pub updated: Vec<ToolChange>,
    /// Tools that are gone.
    pub removed: Vec<ToolChange>,
    /// How many tools stayed as they were.
    pub unchanged: usize,
}

/// A tool that was added, updated or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChange {
    /// The backend's name for it.
    pub tool: String,
    /// Its resolved name, the last one if it was removed.
    pub resolved: String,
    /// The hash before; `None` if it was added.
    pub before: Option<SchemaHash>,
    /// The hash after; `None` if it was removed. Equal to `before` if only keys changed that the hash does not cover.
    pub after: Option<SchemaHash>,
    /// Top-level keys of the definition that changed, sorted; empty if it was added or removed.
    pub keys: Vec<String>,
}

impl CatalogDiff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let CatalogDiff { backends, tools_changed, resources_changed, prompts_changed } = self;
        backends.values().all(BackendDiff::is_empty)
            && !(*tools_changed || *resources_changed || *prompts_changed)
    }
}

impl BackendDiff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.updated.is_empty() && self.removed.is_empty()
    }
}

impl Catalog {
    /// What changed from `before` to `after`. Quick for what is byte-equal; only other definitions are parsed.
    pub fn diff(before: &Catalog, after: &Catalog) -> CatalogDiff {
        let listed = |catalog: &Catalog| catalog.listed().cloned().collect::<Vec<_>>();
        CatalogDiff {
            backends: backends(before, after),
            tools_changed: differ(&listed(before), &listed(after), |a, b| same_json(&a.raw, &b.raw)),
            resources_changed: differ(&before.resources, &after.resources, |a, b| {
                same_json(&a.definition.raw, &b.definition.raw)
            }) || differ(&before.templates, &after.templates, |a, b| {
                same_json(&a.definition.raw, &b.definition.raw)
            }),
            prompts_changed: differ(&before.prompts, &after.prompts, |a, b| same_json(&a.raw, &b.raw)),
        }
    }
}

/// One tool of a backend in two catalogs.
#[derive(Default)]
struct Versions<'a> {
    before: Option<&'a CatalogTool>,
    after: Option<&'a CatalogTool>,
}

fn backends(before: &Catalog, after: &Catalog) -> BTreeMap<Arc<str>, BackendDiff> {
    let mut tools: BTreeMap<(&Arc<str>, &str), Versions<'_>> = BTreeMap::new();
    for tool in &before.tools {
        tools.entry((&tool.backend, &tool.definition.name)).or_default().before = Some(tool);
    }
    for tool in &after.tools {
        tools.entry((&tool.backend, &tool.definition.name)).or_default().after = Some(tool);
    }
    let mut backends: BTreeMap<Arc<str>, BackendDiff> = BTreeMap::new();
    for ((backend, _), versions) in tools {
        let diff = backends.entry(Arc::clone(backend)).or_default();
        match versions {
            Versions { before: None, after: None } => {}
            Versions { before: None, after: Some(new) } => diff.added.push(change(new, None, Some(new.hash))),
            Versions { before: Some(old), after: None } => {
                diff.removed.push(change(old, Some(old.hash), None));
            }
            Versions { before: Some(old), after: Some(new) } => {
                let keys = changed_keys(&old.definition.raw, &new.definition.raw);
                if keys.is_empty() {
                    diff.unchanged += 1;
                } else {
                    diff.updated.push(ToolChange { keys, ..change(new, Some(old.hash), Some(new.hash)) });
                }
            }
        }
    }
    backends
}

fn change(tool: &CatalogTool, before: Option<SchemaHash>, after: Option<SchemaHash>) -> ToolChange {
    let (tool, resolved) = (tool.definition.name.clone(), tool.name.clone());
    ToolChange { tool, resolved, before, after, keys: Vec::new() }
}

fn differ<T>(before: &[Arc<T>], after: &[Arc<T>], same: impl Fn(&T, &T) -> bool) -> bool {
    before.len() != after.len() || before.iter().zip(after).any(|(a, b)| !Arc::ptr_eq(a, b) && !same(a, b))
}

/// Whether two texts mean the same JSON.
fn same_json(before: &RawValue, after: &RawValue) -> bool {
    before.get() == after.get()
        || serde_json::from_str::<Value>(before.get())
            .is_ok_and(|old| serde_json::from_str::<Value>(after.get()).is_ok_and(|new| old == new))
}

fn changed_keys(before: &RawValue, after: &RawValue) -> Vec<String> {
    if before.get() == after.get() {
        return Vec::new();
    }
    let parse = |raw: &RawValue| serde_json::from_str::<Map<String, Value>>(raw.get()).unwrap_or_default();
    let (before, after) = (parse(before), parse(after));
    let mut keys: Vec<_> = before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .cloned()
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests;
