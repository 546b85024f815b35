//! [`Filler`]: values of inputs, from a person's answers and the entry's defaults.

use std::collections::{BTreeMap, BTreeSet};

use vmcp_config::secret_signs::is_secret_name;

use super::PlanError;
use super::text::{Part, Text};
use crate::inputs::{Input, InputFormat};

/// An input of which a person may give the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Name by which it is answered.
    pub label: String,
    /// True if its value must not be shown.
    pub is_secret: bool,
    /// The input.
    pub input: Input,
}

/// Collects questions while values are filled in.
pub(super) struct Filler<'a> {
    answers: &'a BTreeMap<String, String>,
    /// Labels that the entry marks as secret, in any of the inputs that share the label.
    secret_labels: &'a mut BTreeSet<String>,
    pub(super) questions: Vec<Question>,
    pub(super) missing: Vec<String>,
}

impl<'a> Filler<'a> {
    /// `secret_labels` carries the labels of an earlier pass over the same entry.
    pub(super) fn new(
        answers: &'a BTreeMap<String, String>,
        secret_labels: &'a mut BTreeSet<String>,
    ) -> Self {
        Self { answers, secret_labels, questions: Vec::new(), missing: Vec::new() }
    }

    /// Returns the value of an input; `None` if it has none, and notes a required one as missing.
    pub(super) fn text(&mut self, label: &str, input: &Input) -> Result<Option<Text>, PlanError> {
        match &input.value {
            Some(template) => self.template(template, input),
            None => Ok(self.answer(label, input, input.is_secret)?.map(|part| Text(vec![part]))),
        }
    }

    /// Fills `{NAME}` of the known variables in; other braces stay as they are.
    fn template(&mut self, template: &str, input: &Input) -> Result<Option<Text>, PlanError> {
        let mut parts = Vec::new();
        let mut fixed = String::new();
        let mut rest = template;
        let mut is_complete = true;
        while let Some((before, behind)) = rest.split_once('{') {
            fixed.push_str(before);
            let Some((name, after)) = behind.split_once('}') else {
                fixed.push('{');
                rest = behind;
                continue;
            };
            let Some(variable) = input.variables.get(name) else {
                fixed.push('{');
                rest = behind;
                continue;
            };
            let is_needed = input.is_required || variable.is_required;
            let variable = Input { is_required: is_needed, ..variable.clone() };
            let is_secret = input.is_secret || variable.is_secret;
            let value = match &variable.value {
                Some(value) => Some(Part::Fixed(value.clone())),
                None => self.answer(name, &variable, is_secret)?,
            };
            is_complete &= value.is_some();
            parts.extend((!fixed.is_empty()).then(|| Part::Fixed(std::mem::take(&mut fixed))));
            parts.extend(value);
            rest = after;
        }
        fixed.push_str(rest);
        parts.extend((!fixed.is_empty()).then_some(Part::Fixed(fixed)));
        Ok(is_complete.then_some(Text(parts)))
    }

    /// Returns the value of a label. An answer is a secret also by the label's name (`GITHUB_TOKEN`), because
    /// publishers forget the mark; the entry's own default is published, and a secret by the mark only.
    fn answer(&mut self, label: &str, input: &Input, is_marked: bool) -> Result<Option<Part>, PlanError> {
        if is_marked {
            self.secret_labels.insert(label.to_owned());
        }
        let is_marked = self.secret_labels.contains(label);
        let is_secret = is_marked || is_secret_by_name(label, input);
        match self.questions.iter_mut().find(|question| question.label == label) {
            Some(question) => question.is_secret |= is_secret,
            None => {
                self.questions.push(Question { label: label.to_owned(), is_secret, input: input.clone() });
            }
        }
        let (value, is_secret) = match (self.answers.get(label), &input.default) {
            (Some(answer), _) if is_reference(answer) => return Ok(Some(Part::Reference(answer.clone()))),
            (Some(answer), _) => {
                check(label, input, answer)?;
                (answer, is_secret)
            }
            (None, Some(default)) => (default, is_marked),
            (None, None) => {
                if input.is_required && !self.missing.iter().any(|known| known == label) {
                    self.missing.push(label.to_owned());
                }
                return Ok(None);
            }
        };
        let value = value.clone();
        Ok(Some(if is_secret { Part::Secret { label: label.to_owned(), value } } else { Part::Value(value) }))
    }
}

/// True for a free text whose label names a secret. Numbers (`MAX_TOKENS`), switches, paths and published
/// choices (`AUTH_TYPE`) stay plain.
fn is_secret_by_name(label: &str, input: &Input) -> bool {
    input.format == InputFormat::Text && input.choices.is_empty() && is_secret_name(label)
}

/// True for one reference and nothing else: `${NAME}`, `${secret:NAME}`, `${file:/path}`.
fn is_reference(answer: &str) -> bool {
    let inner = answer.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['$', '{', '}']))
}

fn check(label: &str, input: &Input, value: &str) -> Result<(), PlanError> {
    let fault = |reason: String| Err(PlanError::Value { label: label.to_owned(), reason });
    if value.contains('\0') {
        return fault("the value has a NUL character".to_owned());
    }
    if input.is_required && value.is_empty() {
        return fault("the value is empty".to_owned());
    }
    if !input.choices.is_empty() && !input.choices.iter().any(|choice| choice == value) {
        return fault(format!("the value is not among {}", input.choices.join(", ")));
    }
    match input.format {
        InputFormat::Number if value.parse::<f64>().is_err() => fault("the value is no number".to_owned()),
        InputFormat::Boolean if !matches!(value, "true" | "false") => {
            fault("the value is neither true nor false".to_owned())
        }
        _ => Ok(()),
    }
}
