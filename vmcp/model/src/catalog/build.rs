//! Builds a catalog from the definitions of all backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_json::text;

use super::conflict_resolution::{Claim, resolve};
use super::overrides::{self, ListedTool};
use super::{Catalog, CatalogPrompt, CatalogResource, CatalogTemplate, CatalogTool};
use crate::definition::DefinitionKind;
use crate::definition::Tool;
use crate::discovered::Discovered;
use crate::edit::{self, EditError};
use crate::fitness::Fitness;
use crate::issue::{Issue, IssueReason};
use crate::tokens;
use vmcp_config::rules::{Aggregation, FaultyDefinitions, NamePattern, Strategy, ToolOverride, ToolRules};
use vmcp_config::sanitize;

/// Backends by name, because their order must not matter.
type Backends<'a> = BTreeMap<&'a Arc<str>, &'a Discovered>;

impl Catalog {
    /// Aggregates the definitions of `backends` by `rules`, in some microseconds a tool. It never fails: a
    /// definition that cannot be used is left out and reported in `issues`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use serde_json::value::RawValue;
    /// use vmcp_config::rules::{Aggregation, Strategy};
    /// use vmcp_model::catalog::Catalog;
    /// use vmcp_model::discovered::{Discovered, Listing};
    ///
    /// let backend = |name: &str| -> Result<_, serde_json::Error> {
    ///     let tools = vec![RawValue::from_string(r#"{"name":"search"}"#.to_owned())?];
    ///     Ok((Arc::<str>::from(name), Arc::new(Discovered::read(Listing { tools, ..Listing::default() }))))
    /// };
    /// let backends = [backend("github")?, backend("jira")?];
    ///
    /// // The default strategy prefixes every name, so that nothing clashes.
    /// let catalog = Catalog::build(&backends, &Aggregation::default());
    /// let names: Vec<_> = catalog.listed().map(|tool| tool.name.as_str()).collect();
    /// assert_eq!(names, ["github_search", "jira_search"]);
    ///
    /// // Strategy manual leaves a clash to overrides, and reports it until then.
    /// let manual = Aggregation { strategy: Strategy::Manual, ..Aggregation::default() };
    /// let catalog = Catalog::build(&backends, &manual);
    /// assert_eq!((catalog.tools.len(), catalog.issues.len()), (0, 2));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn build(backends: &[(Arc<str>, Arc<Discovered>)], rules: &Aggregation) -> Catalog {
        let backends: Backends<'_> =
            backends.iter().map(|(name, discovered)| (name, &**discovered)).collect();
        let mut issues = Vec::new();
        for (backend, discovered) in &backends {
            issues.extend(discovered.rejected.iter().map(|rejected| {
                Issue::new(
                    IssueReason::RejectedDefinition,
                    backend,
                    rejected.kind,
                    &rejected.name,
                    &rejected.reason,
                )
            }));
            issues.extend(discovered.faults.iter().map(|fault| {
                let (reason, message) = (IssueReason::IncompleteList, fault.message());
                Issue::new(reason, backend, fault.kind, fault.method(), &message)
            }));
        }
        let tools = tools(&backends, rules, &mut issues);
        let prompts = prompts(&backends, rules, &mut issues);
        let by_priority = by_priority(&backends, &rules.strategy);
        let resources =
            first_of_each(&by_priority, DefinitionKind::Resource, |d| &d.resources, |r| &r.uri, &mut issues)
                .map(|(backend, definition)| Arc::new(CatalogResource { backend, definition }))
                .collect();
        let templates = first_of_each(
            &by_priority,
            DefinitionKind::ResourceTemplate,
            |d| &d.templates,
            |t| &t.uri_template,
            &mut issues,
        )
        .map(|(backend, definition)| Arc::new(CatalogTemplate { backend, definition }))
        .collect();

        let mut catalog = Catalog { tools, resources, templates, prompts, issues, ..Catalog::default() };
        catalog.number();
        catalog
    }
}

/// Tool with the override that concerns it.
struct Candidate<'a> {
    backend: &'a Arc<str>,
    tool: &'a Arc<Tool>,
    change: &'a ToolOverride,
}

impl<'a> Candidate<'a> {
    /// Returns `readOnlyHint` after overrides.
    fn hints_read_only(&self) -> Option<bool> {
        self.change.annotations.read_only_hint.or(self.tool.annotations.read_only_hint)
    }

    /// Returns the name after overrides.
    fn wanted(&self) -> &'a str {
        self.change.name.as_deref().unwrap_or(&self.tool.name)
    }
}

fn tools(backends: &Backends<'_>, rules: &Aggregation, issues: &mut Vec<Issue>) -> Vec<Arc<CatalogTool>> {
    let (no_rules, no_change) = (ToolRules::default(), ToolOverride::default());
    let mut candidates = Vec::new();
    for (backend, discovered) in backends {
        let own_rules = rules.per_backend.get(*backend).unwrap_or(&no_rules);
        let own = distinct(backend, DefinitionKind::Tool, &discovered.tools, |tool| &tool.name, issues);
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
            let changes = candidate.hints_read_only() != Some(true);
            let listed = rules.lists(backend, wanted) && !(changes && rules.read_only.contains(*backend));
            Claim { backend, original: &tool.name, wanted, listed }
        })
        .collect();
    let names = resolve(&claims, DefinitionKind::Tool, rules, issues);

    let mut tools = Vec::with_capacity(candidates.len());
    for ((candidate, claim), name) in candidates.iter().zip(&claims).zip(names) {
        let Some(name) = name else { continue };
        let fitness = candidate.tool.fitness.as_deref();
        let fitness = fitness.filter(|_| rules.faulty_definitions == FaultyDefinitions::Mend);
        match catalog_tool(candidate, name, claim.listed, fitness) {
            Ok(tool) => {
                // Lists leave a hidden tool out anyway.
                issues.extend(fitness.filter(|_| claim.listed).map(|fitness| unfit(&tool, fitness)));
                tools.push(Arc::new(tool));
            }
            Err(error) => {
                issues.push(unreadable(
                    candidate.backend,
                    DefinitionKind::Tool,
                    &candidate.tool.name,
                    &error,
                ));
            }
        }
    }
    tools.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    tools
}

/// Reports rules that concern none of the backend's tools, most likely because a name is misspelled or has
/// changed.
fn report_idle_rules(
    backend: &Arc<str>,
    rules: &ToolRules,
    tools: &BTreeMap<&str, &Arc<Tool>>,
    wanted: &[&str],
    issues: &mut Vec<Issue>,
) {
    for name in rules.overrides.keys().filter(|name| !tools.contains_key(name.as_str())) {
        let message = "there is an override for it, but the backend has no tool of this name";
        issues.push(Issue::new(IssueReason::UnknownOverride, backend, DefinitionKind::Tool, name, message));
    }
    let idle = |pattern: &&NamePattern| !wanted.iter().any(|name| pattern.matches(name));
    for pattern in rules.filter.iter().chain(&rules.exclude).filter(idle) {
        let message =
            "a filter or exclusion names it, but no tool of the backend has such a name after overrides";
        issues.push(Issue::new(
            IssueReason::UnmatchedPattern,
            backend,
            DefinitionKind::Tool,
            pattern.as_str(),
            message,
        ));
    }
}

/// Returns the issue of a tool whose definition was mended for lists, or is left out of them.
fn unfit(tool: &CatalogTool, fitness: &Fitness) -> Issue {
    let (reason, message) = if fitness.refused.is_empty() {
        let mended = fitness.mended.text();
        (
            IssueReason::MendedDefinition,
            format!("clients or model APIs would refuse the whole list over it as it is: {mended}"),
        )
    } else {
        let faults = fitness.refused.text();
        (
            IssueReason::UnlistedDefinition,
            format!(
                "it is left out of lists, which clients or model APIs would refuse as a whole: {faults}; \
                 find_tool finds it and call_tool calls it (`aggregation.faultyDefinitions: PassThrough` lists it)"
            ),
        )
    };
    Issue::new(reason, &tool.backend, DefinitionKind::Tool, &tool.definition.name, &message)
}

fn catalog_tool(
    candidate: &Candidate<'_>,
    name: String,
    listed: bool,
    fitness: Option<&Fitness>,
) -> Result<CatalogTool, EditError> {
    let Candidate { backend, tool, change } = candidate;
    let edits = fitness.map(|fitness| fitness.edits.as_slice()).unwrap_or_default();
    let ListedTool { raw, description, title, annotations } = overrides::apply(tool, &name, change, edits)?;
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
        in_lists: fitness.is_none_or(|fitness| fitness.refused.is_empty()),
        steps: Vec::new(),
    })
}

fn prompts(backends: &Backends<'_>, rules: &Aggregation, issues: &mut Vec<Issue>) -> Vec<Arc<CatalogPrompt>> {
    let mut candidates = Vec::new();
    for (backend, discovered) in backends {
        let own =
            distinct(backend, DefinitionKind::Prompt, &discovered.prompts, |prompt| &prompt.name, issues);
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
    let names = resolve(&claims, DefinitionKind::Prompt, rules, issues);

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
            Err(error) => issues.push(unreadable(backend, DefinitionKind::Prompt, &prompt.name, &error)),
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

fn unreadable(backend: &Arc<str>, kind: DefinitionKind, name: &str, error: &EditError) -> Issue {
    Issue::new(
        IssueReason::RejectedDefinition,
        backend,
        kind,
        name,
        &format!("it could not be renamed: {error}"),
    )
}

/// Returns the definitions of one backend, without repetitions of a name or URI: the first counts.
fn distinct<'a, T>(
    backend: &Arc<str>,
    kind: DefinitionKind,
    definitions: &'a [Arc<T>],
    key: fn(&T) -> &String,
    issues: &mut Vec<Issue>,
) -> BTreeMap<&'a str, &'a Arc<T>> {
    let mut distinct = BTreeMap::new();
    for definition in definitions {
        let name = key(definition).as_str();
        if distinct.contains_key(name) {
            let message = "the backend lists it more than once; the first definition counts";
            issues.push(Issue::new(IssueReason::DuplicateDefinition, backend, kind, name, message));
        } else {
            distinct.insert(name, definition);
        }
    }
    distinct
}

/// Returns the backends in the order in which they get a URI that several of them offer: as `priorityOrder`
/// names them, the others by name.
fn by_priority<'a>(backends: &Backends<'a>, strategy: &Strategy) -> Vec<(&'a Arc<str>, &'a Discovered)> {
    let order = match strategy {
        Strategy::Priority { order, .. } => order.as_slice(),
        Strategy::Prefix { .. } | Strategy::Manual | Strategy::Passthrough => &[],
    };
    let mut backends: Vec<_> = backends.iter().map(|(name, discovered)| (*name, *discovered)).collect();
    let rank = |name: &str| order.iter().position(|first| **first == *name).unwrap_or(order.len());
    backends.sort_by_key(|(name, _)| rank(name));
    backends
}

/// Yields the definitions of all backends by URI, sorted; a URI that several backends offer belongs to the
/// first.
fn first_of_each<'a, T: 'a>(
    backends: &[(&'a Arc<str>, &'a Discovered)],
    kind: DefinitionKind,
    definitions: fn(&Discovered) -> &Vec<Arc<T>>,
    key: fn(&T) -> &String,
    issues: &mut Vec<Issue>,
) -> impl Iterator<Item = (Arc<str>, Arc<T>)> + use<'a, T> {
    let mut first: BTreeMap<&'a str, (&'a Arc<str>, &'a Arc<T>)> = BTreeMap::new();
    for &(backend, discovered) in backends {
        for (uri, definition) in distinct(backend, kind, definitions(discovered), key, issues) {
            match first.get(uri) {
                None => {
                    first.insert(uri, (backend, definition));
                }
                Some((winner, _)) => {
                    let message = format!("backend {winner} offers it too and comes first");
                    issues.push(Issue::new(IssueReason::Shadowed, backend, kind, uri, &message));
                }
            }
        }
    }
    first.into_values().map(|(backend, definition)| (Arc::clone(backend), Arc::clone(definition)))
}
