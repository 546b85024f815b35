//! [`Selection`]: the tools of one answer, and the metadata that says how they were chosen.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::tokens;
use vmcp_model::topics::{ToolTags, Topics, best_fitting, fit};

use super::query::ToolsQuery;
use vmcp_engine::telemetry::topic_usage::AnswerSize;

/// A tool with its tags.
pub(super) type Tagged<'a> = (&'a CatalogTool, &'a ToolTags);

/// Reason for an answer that is not what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// Neither a context was given, nor a message that means one.
    NoContextDetected,
    /// No tool has the contexts, or the category.
    NoMatchingTools,
    /// The configuration switches filtering off.
    ContextFilteringDisabled,
    /// No context, but a language model chose.
    ContextualLlmSelection,
    /// No context, and a language model chose no tool.
    ContextualLlmNoneSuggested,
}

/// The tools of an answer.
pub(super) struct Selection<'a> {
    /// Chosen tools, best first.
    chosen: Vec<Tagged<'a>>,
    /// Tools among which they were chosen.
    visible: usize,
    /// Tokens of all visible tools.
    all_tokens: u64,
    /// Contexts by which they were chosen.
    contexts: Vec<String>,
    /// True if the contexts come from a message.
    detected: bool,
    reason: Option<Reason>,
}

impl<'a> Selection<'a> {
    /// Chooses among the visible tools.
    pub(super) fn choose(
        visible: &[Tagged<'a>],
        query: &ToolsQuery,
        topics: &Topics,
        filters: bool,
    ) -> Selection<'a> {
        let detected = query.contexts.is_empty();
        let message = query.message.as_deref().filter(|_| detected);
        let contexts = match message {
            Some(message) => topics.of_message(message).into_iter().map(str::to_owned).collect(),
            None => query.contexts.clone(),
        };
        let (chosen, reason) = if !filters {
            (visible.to_vec(), Some(Reason::ContextFilteringDisabled))
        } else if contexts.is_empty() {
            (Vec::new(), Some(Reason::NoContextDetected))
        } else {
            let chosen = choose(visible, &contexts, query);
            let reason = chosen.is_empty().then_some(Reason::NoMatchingTools);
            (chosen, reason)
        };
        let all_tokens = tokens::estimate(visible.iter().map(|(tool, _)| tool.size));
        let detected = detected && message.is_some();
        Selection { chosen, visible: visible.len(), all_tokens, contexts, detected, reason }
    }

    /// True if contexts or a language model chose the tools.
    fn is_filtered(&self) -> bool {
        !matches!(self.reason, Some(Reason::NoContextDetected | Reason::ContextFilteringDisabled))
    }

    /// True if nothing is chosen for want of a context.
    pub(super) fn found_no_context(&self) -> bool {
        self.reason == Some(Reason::NoContextDetected)
    }

    /// Chooses the tools that a language model named. `None`, without its answer, changes nothing.
    pub(super) fn choose_by_model(
        &mut self,
        visible: &[Tagged<'a>],
        names: Option<Vec<String>>,
        limit: Option<usize>,
    ) {
        let Some(names) = names else { return };
        let tool = |name: &String| visible.iter().find(|(tool, _)| tool.name == *name).copied();
        self.chosen = names.iter().filter_map(tool).take(limit.unwrap_or(usize::MAX)).collect();
        self.reason = Some(if self.chosen.is_empty() {
            Reason::ContextualLlmNoneSuggested
        } else {
            Reason::ContextualLlmSelection
        });
    }

    /// Returns the contexts of the request.
    pub(super) fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(String::as_str)
    }

    /// Returns the size of the answer; `None` if it has no tools.
    pub(super) fn size(&self) -> Option<AnswerSize> {
        let tokens = tokens::estimate(self.chosen.iter().map(|(tool, _)| tool.size));
        let size = AnswerSize { filtered: self.is_filtered(), tokens, all_tokens: self.all_tokens };
        (!self.chosen.is_empty()).then_some(size)
    }

    /// Returns the document of the answer.
    pub(super) fn answer(&self) -> ToolsAnswer<'_> {
        let tools = self.chosen.iter().map(|(tool, tags)| ToolAnswer {
            name: &tool.name,
            description: &tool.description,
            input_schema: Object::parse(&tool.raw).ok().and_then(|raw| raw.get("inputSchema")),
            tags,
        });
        let undetected = self.reason == Some(Reason::NoContextDetected);
        let original = if undetected { 0 } else { self.visible };
        let dropped = original.saturating_sub(self.chosen.len());
        let percent = if original == 0 { 0.0 } else { dropped as f64 / original as f64 * 100.0 };
        ToolsAnswer {
            tools: tools.collect(),
            metadata: Metadata {
                timestamp: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
                request_id: Uuid::new_v4(),
                filtered: self.is_filtered(),
                original_count: original,
                returned_count: self.chosen.len(),
                reduction_percent: percent.round() as u64,
                applied_context: Some(self.contexts.join(","))
                    .filter(|contexts| self.is_filtered() && !contexts.is_empty()),
                detected_contexts: self.detected.then_some(self.contexts.as_slice()),
                reason: self.reason,
            },
        }
    }
}

/// Returns the tools that have any of the contexts, and the category, the best fit first.
fn choose<'a>(visible: &[Tagged<'a>], contexts: &[String], query: &ToolsQuery) -> Vec<Tagged<'a>> {
    let in_category =
        |tags: &ToolTags| query.category.as_ref().is_none_or(|category| fit(&tags.categories, category) > 0);
    let of_category = visible.iter().filter(|(_, tags)| in_category(tags)).copied();
    let mut chosen = best_fitting(of_category, |(_, tags)| Some(tags), contexts);
    chosen.truncate(query.limit.unwrap_or(usize::MAX));
    chosen
}

/// The answer of `GET /tools`.
#[derive(Serialize)]
pub(super) struct ToolsAnswer<'a> {
    tools: Vec<ToolAnswer<'a>>,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolAnswer<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    #[serde(flatten)]
    tags: &'a ToolTags,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    timestamp: String,
    request_id: Uuid,
    filtered: bool,
    original_count: usize,
    returned_count: usize,
    reduction_percent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detected_contexts: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}
