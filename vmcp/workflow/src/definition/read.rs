//! Reads a definition as a whole: names, dependencies, what may be missing.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::steps::{self, ReadAction};
use super::{CompositeTool, Hints, MAX_STEPS, Output, RUN_TIMEOUT, Step, graph, parameters};
use crate::mistakes::{Mistake, Mistakes};
use crate::raw::{RawCompositeTool, RawErrorAction, RawStep};

/// Most characters of a name: the length that model APIs take.
const MAX_NAME: usize = 64;

pub(super) fn read(raw: &RawCompositeTool) -> Result<CompositeTool, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    if !is_name(&raw.name) {
        let remedy = format!("use letters, digits, `_` and `-`, at most {MAX_NAME}");
        mistakes.add("name", format!("`{}` is no name for a tool", raw.name), remedy);
    }
    if let Some(written) = &raw.parameters {
        parameters::check(written, &mut mistakes);
    }
    if raw.steps.is_empty() {
        mistakes.add("steps", "missing", "add at least one step");
    }
    if raw.steps.len() > MAX_STEPS {
        let remedy = "split the tool, or use `forEach`";
        mistakes.add("steps", format!("{} steps; at most {MAX_STEPS} are run", raw.steps.len()), remedy);
        return mistakes.or(None);
    }
    let ids = ids(&raw.steps, &mut mistakes);
    let mut read_steps = Vec::new();
    for (index, step) in raw.steps.iter().enumerate() {
        read_steps.push(read_step(step, &format!("steps[{index}]"), &ids, &mut mistakes));
    }
    let output = raw.output.as_ref().map(|output| Output::read(output, &mut mistakes));
    for step in output.iter().flat_map(Output::steps).filter(|step| !ids.contains_key(step.as_str())) {
        mistakes.add(
            "output",
            format!("a template refers to step `{step}`, which does not exist"),
            known(&ids),
        );
    }
    check_circles(&raw.steps, &read_steps, &mut mistakes);
    check_defaults(&raw.steps, &read_steps, &mut mistakes);
    let timeout = steps::timeout(raw.timeout.as_ref(), RUN_TIMEOUT, "timeout", &mut mistakes);
    let steps: Option<Vec<_>> = read_steps.into_iter().map(|step| Some(step?.step)).collect();
    let hash = Sha256::digest(serde_json::to_vec(raw).unwrap_or_default()).into();
    mistakes.or(steps.map(|steps| CompositeTool {
        name: raw.name.clone(),
        description: raw.description.clone(),
        timeout,
        hints: raw.annotations.as_ref().map(Hints::from).unwrap_or_default(),
        hash,
        parameters: raw.parameters.clone().unwrap_or_default(),
        steps,
        output,
    }))
}

fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_allowed)
}

/// Returns the place of each step by its id.
fn ids<'a>(raw: &'a [RawStep], mistakes: &mut Mistakes) -> BTreeMap<&'a str, usize> {
    let mut ids = BTreeMap::new();
    for (index, step) in raw.iter().enumerate() {
        let path = format!("steps[{index}].id");
        if !is_name(&step.id) {
            let message =
                if step.id.is_empty() { "missing".to_owned() } else { format!("`{}` is no id", step.id) };
            mistakes.add(path, message, "use letters, digits, `_` and `-`");
        } else if ids.insert(step.id.as_str(), index).is_some() {
            mistakes.add(path, format!("`{}` is the id of another step, too", step.id), "choose another");
        }
    }
    ids
}

fn known(ids: &BTreeMap<&str, usize>) -> String {
    format!("name one of {}", ids.keys().copied().collect::<Vec<_>>().join(", "))
}

struct ReadStep {
    step: Step,
    /// Steps whose results its templates read.
    outputs: BTreeSet<String>,
}

fn read_step(
    raw: &RawStep,
    path: &str,
    ids: &BTreeMap<&str, usize>,
    mistakes: &mut Mistakes,
) -> Option<ReadStep> {
    let mut after = BTreeSet::new();
    for (index, id) in raw.depends_on.iter().enumerate() {
        match ids.get(id.as_str()) {
            Some(_) if *id == raw.id => {
                mistakes.add(format!("{path}.dependsOn[{index}]"), "the step itself", "remove it");
            }
            Some(step) => {
                after.insert(*step);
            }
            None => {
                let message = format!("there is no step `{id}`");
                mistakes.add(format!("{path}.dependsOn[{index}]"), message, known(ids));
            }
        }
    }
    let condition = raw.condition.as_deref().filter(|text| !text.is_empty());
    let condition_path = format!("{path}.condition");
    let condition = condition.map(|text| steps::template(text, &condition_path, mistakes));
    let read = steps::action(raw, path, mistakes);
    let condition = match condition {
        Some(condition) => Some(condition?),
        None => None,
    };
    let ReadAction { action, mut steps, mut outputs } = read?;
    if let Some(condition) = &condition {
        steps.extend(condition.steps.iter().cloned());
        outputs.extend(condition.outputs.iter().cloned());
    }
    for id in &steps {
        match ids.get(id.as_str()) {
            Some(_) if *id == raw.id => {
                mistakes.add(path, "a template refers to the step itself", "refer to an earlier step");
            }
            // A reference is a dependency: the result must be there.
            Some(step) => {
                after.insert(*step);
            }
            None => {
                let message = format!("a template refers to step `{id}`, which does not exist");
                mistakes.add(path, message, known(ids));
            }
        }
    }
    let action_on_error = raw.on_error.as_ref().and_then(|it| it.action);
    let step = Step {
        id: raw.id.clone(),
        after,
        condition,
        action,
        default_results: raw.default_results.clone(),
        may_fail: action_on_error == Some(RawErrorAction::Continue),
    };
    Some(ReadStep { step, outputs })
}

fn check_circles(raw: &[RawStep], read: &[Option<ReadStep>], mistakes: &mut Mistakes) {
    let after = |step: &Option<ReadStep>| step.as_ref().map(|it| it.step.after.clone()).unwrap_or_default();
    let after: Vec<_> = read.iter().map(after).collect();
    if let Some(circle) = graph::circle(&after) {
        let ids: Vec<_> = circle.iter().filter_map(|at| raw.get(*at)).map(|step| step.id.as_str()).collect();
        let message = format!("a circle of dependencies: {}", ids.join(" after "));
        mistakes.add("steps", message, "remove one of these dependencies or references");
    }
}

/// Reports steps that may end without a result of their own, which another step reads.
fn check_defaults(raw: &[RawStep], read: &[Option<ReadStep>], mistakes: &mut Mistakes) {
    for (index, step) in raw.iter().enumerate() {
        let continues = step.on_error.as_ref().and_then(|it| it.action) == Some(RawErrorAction::Continue);
        let is_skipped = step.condition.as_deref().is_some_and(|condition| !condition.is_empty());
        if step.default_results.is_some() || !(continues || is_skipped) {
            continue;
        }
        let reader = read.iter().flatten().find(|other| other.outputs.contains(&step.id));
        if let Some(reader) = reader {
            let why = if is_skipped { "may be skipped" } else { "may fail" };
            let message = format!("the step {why}, and `{}` reads its output", reader.step.id);
            mistakes.add(format!("steps[{index}].defaultResults"), message, "add the output for that case");
        }
    }
}
