//! Makes a catalog from what was discovered.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_json::text;

use super::{Catalog, CatalogPrompt, CatalogResource, CatalogTemplate, CatalogTool};
use crate::definition::Tool;
use crate::discovered::{Discovered, Kind};
use crate::edit::{self, EditError};
use crate::issue::{Issue, Reason};
use crate::overrides::{self, Listed};
use crate::resolve::{Claim, resolve};
use crate::tokens;
use vmcp_config::rules::{Aggregation, NamePattern, ToolOverride, ToolRules};
use vmcp_config::sanitize;

/// By name: the order in which backends come must not matter.
type Backends<'a> = BTreeMap<&'a Arc<str>, &'a Discovered>;

impl Catalog {
    /// Aggregates what `backends` offer by `rules`. Takes some microseconds a tool; never fails, but reports in `issues`.
    pub fn build(backends: &[(Arc<str>, Arc<Discovered>)], rules: &Aggregation) -> Catalog {
        let backends: Backends<'_> =
            backends.iter().map(|(name, discovered)| (name, &**discovered)).collect();
        let mut issues = Vec::new();
        for (backend, discovered) in &backends {
            issues.extend(discovered.rejected.iter().map(|rejected| {
                Issue::new(
                    Reason::RejectedDefinition,
                    backend,
                    rejected.kind,
                    &rejected.name,
                    &rejected.reason,
                )
            }));
        }
        let tools = tools(&backends, rules, &mut issues);
        let prompts = prompts(&backends, rules, &mut issues);
        let resources = first_of_each(&backends, Kind::Resource, |d| &d.resources, |r| &r.uri, &mut issues)
            .map(|(backend, definition)| Arc::new(CatalogResource { backend, definition }))
            .collect();
        let templates = first_of_each(
            &backends,
            Kind::ResourceTemplate,
            |d| &d.templates,
            |t| &t.uri_template,
            &mut issues,
        )
        .map(|(backend, definition)| Arc::new(CatalogTemplate { backend, definition }))
        .collect();

        let by_name = tools.iter().enumerate().map(|(at, tool)| (tool.name.clone(), at)).collect();
        let mut by_backend: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        for (at, tool) in tools.iter().enumerate() {
            by_backend.entry(Arc::clone(&tool.backend)).or_default().push(at);
        }
        for positions in by_backend.values_mut() {
            positions.sort_by_key(|at| tools.get(*at).map(|tool| &tool.definition.name));
        }
        Catalog { tools, resources, templates, prompts, issues, by_name, by_backend }
    }
}

/// A tool with the rules that concern it.
struct Candidate<'a> {
    backend: &'a Arc<str>,
    tool: &'a Arc<Tool>,
    change: &'a ToolOverride,
}

impl<'a> Candidate<'a> {
    /// The name after overrides.
    fn wanted(&self) -> &'a str {
        self.change.name.as_deref().unwrap_or(&self.tool.name)
    }
}

fn tools(backends: &Backends<'_>, rules: &Aggregation, issues: &mut Vec<Issue>) -> Vec<Arc<CatalogTool>> {
    let (no_rules, no_change) = (ToolRules::default(), ToolOverride::default());
    let mut candidates = Vec::new();
    for (backend, discovered) in backends {
        let own_rules = rules.per_backend.get(*backend).unwrap_or(&no_rules);
        let own = distinct(backend, Kind::Tool, &discovered.tools, |tool| &tool.name, issues);
        let first = candidates.len();
        candidates.extend(own.iter().map(|(name, tool)| {
            let change = own_rules.overrides.get(*name).unwrap_or(&no_change);
            Candidate { backend, tool, change }
        }));
        let names: Vec<_> = candidates.iter().skip(first).map(Candidate::wanted).collect();
        report_idle_rules(backend, own_rules, &own, &names, issues);
    }
    let claims: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let Candidate { backend, tool, .. } = candidate;
            let wanted = candidate.wanted();
            Claim { backend, original: &tool.name, wanted, listed: rules.lists(backend, wanted) }
        })
        .collect();
    let names = resolve(&claims, Kind::Tool, &rules.strategy, issues);

    let mut tools = Vec::with_capacity(candidates.len());
    for ((candidate, claim), name) in candidates.iter().zip(&claims).zip(names) {
        let Some(name) = name else { continue };
        match catalog_tool(candidate, name, claim.listed) {
            Ok(tool) => tools.push(Arc::new(tool)),
            Err(error) => {
                issues.push(unreadable(candidate.backend, Kind::Tool, &candidate.tool.name, &error));
            }
        }
    }
    tools.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    tools
}

/// Rules that concern none of the backend's tools, most likely because a name is misspelt or has changed.
fn report_idle_rules(
    backend: &Arc<str>,
    rules: &ToolRules,
    tools: &BTreeMap<&str, &Arc<Tool>>,
    wanted: &[&str],
    issues: &mut Vec<Issue>,
) {
    for name in rules.overrides.keys().filter(|name| !tools.contains_key(name.as_str())) {
        let message = "there is an override for it, but the backend has no tool of this name";
        issues.push(Issue::new(Reason::UnknownOverride, backend, Kind::Tool, name, message));
    }
    let idle = |pattern: &&NamePattern| !wanted.iter().any(|name| pattern.matches(name));
    for pattern in rules.filter.iter().chain(&rules.exclude).filter(idle) {
        let message =
            "a filter or exclusion names it, but no tool of the backend has such a name after overrides";
        issues.push(Issue::new(Reason::UnmatchedPattern, backend, Kind::Tool, pattern.as_str(), message));
    }
}

fn catalog_tool(candidate: &Candidate<'_>, name: String, listed: bool) -> Result<CatalogTool, EditError> {
    let Candidate { backend, tool, change } = candidate;
    let Listed { raw, description, title, annotations } = overrides::apply(tool, &name, change)?;
    let size = tokens::size(&name, description, tool.schema_characters);
    Ok(CatalogTool {
        size,
        tokens: size.div_ceil(4),
        description: sanitize::paragraphs(description),
        title: title.map(sanitize::text),
        annotations,
        hash: tool.hash,
        raw: raw.into(),
        definition: Arc::clone(tool),
        backend: Arc::clone(backend),
        own_name: candidate.wanted().to_owned(),
        name,
        listed,
    })
}

fn prompts(backends: &Backends<'_>, rules: &Aggregation, issues: &mut Vec<Issue>) -> Vec<Arc<CatalogPrompt>> {
    let mut candidates = Vec::new();
    for (backend, discovered) in backends {
        let own = distinct(backend, Kind::Prompt, &discovered.prompts, |prompt| &prompt.name, issues);
        candidates.extend(own.into_values().map(|prompt| (*backend, prompt)));
    }
    let claims: Vec<_> = candidates
        .iter()
        .map(|(backend, prompt)| Claim {
            backend,
            original: &prompt.name,
            wanted: &prompt.name,
            listed: true,
        })
        .collect();
    let names = resolve(&claims, Kind::Prompt, &rules.strategy, issues);

    let mut prompts = Vec::with_capacity(candidates.len());
    for ((backend, prompt), name) in candidates.iter().zip(names) {
        let Some(name) = name else { continue };
        match renamed(&prompt.raw, &prompt.name, &name) {
            Ok(raw) => prompts.push(Arc::new(CatalogPrompt {
                name,
                backend: Arc::clone(backend),
                definition: Arc::clone(prompt),
                raw: raw.into(),
            })),
            Err(error) => issues.push(unreadable(backend, Kind::Prompt, &prompt.name, &error)),
        }
    }
    prompts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    prompts
}

fn renamed(raw: &RawValue, before: &str, after: &str) -> Result<Box<RawValue>, EditError> {
    if before == after {
        return Ok(raw.to_owned());
    }
    edit::set(raw, &[("name", text::quoted(after))])
}

fn unreadable(backend: &Arc<str>, kind: Kind, name: &str, error: &EditError) -> Issue {
    Issue::new(Reason::RejectedDefinition, backend, kind, name, &format!("it could not be renamed: {error}"))
}

/// The definitions of one backend by name or URI; of those that repeat one, the first.
fn distinct<'a, T>(
    backend: &Arc<str>,
    kind: Kind,
    definitions: &'a [Arc<T>],
    key: fn(&T) -> &String,
    issues: &mut Vec<Issue>,
) -> BTreeMap<&'a str, &'a Arc<T>> {
    let mut distinct = BTreeMap::new();
    for definition in definitions {
        let name = key(definition).as_str();
        if distinct.contains_key(name) {
            let message = "the backend lists it more than once; the first definition counts";
            issues.push(Issue::new(Reason::DuplicateDefinition, backend, kind, name, message));
        } else {
            distinct.insert(name, definition);
        }
    }
    distinct
}

/// The definitions of all backends by URI, sorted; of backends that offer the same one, the first has it.
fn first_of_each<'a, T: 'a>(
    backends: &Backends<'a>,
    kind: Kind,
    definitions: fn(&Discovered) -> &Vec<Arc<T>>,
    key: fn(&T) -> &String,
    issues: &mut Vec<Issue>,
) -> impl Iterator<Item = (Arc<str>, Arc<T>)> + use<'a, T> {
    let mut first: BTreeMap<&'a str, (&'a Arc<str>, &'a Arc<T>)> = BTreeMap::new();
    for (backend, discovered) in backends {
        for (uri, definition) in distinct(backend, kind, definitions(discovered), key, issues) {
            match first.get(uri) {
                None => {
                    first.insert(uri, (backend, definition));
                }
                Some((winner, _)) => {
                    let message = format!("backend {winner} offers it too and comes first by name");
                    issues.push(Issue::new(Reason::Shadowed, backend, kind, uri, &message));
                }
            }
        }
    }
    first.into_values().map(|(backend, definition)| (Arc::clone(backend), Arc::clone(definition)))
}
