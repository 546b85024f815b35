//! The handler of set_context: keeps what the client is busy with, by its session, or by a handle for a
//! client without one.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::{Exposure, OptimTool};

use super::own_answer::{self, Refusal};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
pub(crate) use vmcp_engine::context_key::ContextKey;
pub(crate) use vmcp_engine::engine::snapshot::contextual::{choose, topics};
pub(crate) use vmcp_engine::search::context::Context;
use vmcp_engine::search::context::learning_mode;
use vmcp_engine::telemetry::calls::Origin;

/// Sets the context, and answers with the changes.
pub(super) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let recorder = context.start_own_record(Origin::Own(OptimTool::SetContext), arguments);
    own_answer::told(recorder, set(context, arguments).await, ContextSet::text)
}

/// The answer of set_context.
#[derive(Serialize)]
struct ContextSet {
    success: bool,
    query: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<String>,
    /// The handle of a client without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
    /// Confidence in the knowledge about such tasks, 0 to 1.
    confidence: f64,
    /// Topics of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    contexts: Vec<String>,
    /// Tools that are listed now, beside vmcp's own; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    listed_tools: Option<usize>,
    /// Reason why the context chooses no tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded_reason: Option<String>,
}

impl ContextSet {
    /// Returns the text for the model.
    fn text(&self) -> String {
        let mut lines = vec!["Context updated.".to_owned(), format!("Query: {}", self.query)];
        lines.extend(self.intent.as_ref().map(|intent| format!("Intent: {intent}")));
        lines.extend(
            self.context_id.as_ref().map(|id| format!("Pass context_id {id} with searches and calls.")),
        );
        if let Some(listed) = self.listed_tools {
            lines.push(format!("The list now has the {listed} tools that fit."));
        }
        lines.join("\n")
    }
}

async fn set(context: CallContext<'_>, arguments: &RawValue) -> Result<ContextSet, Refusal> {
    let CallContext { engine, snapshot, view, caller } = context;
    let arguments = OwnArguments::parse(arguments)?;
    let optimizer = &snapshot.config.optimizer;
    let limit = optimizer.limits.description_chars;
    let query = arguments.required(&["query"], limit)?.trim().to_owned();
    let intent = arguments.text(&["intent"], limit)?;
    let given = arguments.context_handle()?;

    let (embedding, degraded_reason) = match engine.embed_context(snapshot, &query).await {
        Ok(embedding) => (embedding, None),
        Err(degraded) => {
            tracing::warn!(error = %degraded, "a context could not be embedded; nothing is learned in it");
            (None, Some(degraded.to_string()))
        }
    };
    let set = Context {
        query: query.as_str().into(),
        embedding,
        learns: optimizer.learning.enabled,
        mode: learning_mode(optimizer.learning.mode),
        stores_text: optimizer.learning.store_query_text,
        ..Context::default()
    };
    let principal = caller.principal.key();
    let new = || caller.session.map_or_else(|| ContextKey::Handle(random()), ContextKey::Session);
    let key = given.as_deref().and_then(ContextKey::of_handle).or(caller.context).unwrap_or_else(new);
    let key = if engine.contexts().set(key, principal, set.clone()) {
        key
    } else {
        // Another client's handle is answered like an unknown handle.
        let own = new();
        engine.contexts().set(own, principal, set);
        own
    };
    // Read back, because the latest calls are taken over from the context before.
    let set = engine.contexts().with(key, principal, |context| Context::clone(context)).unwrap_or_default();
    let choice = choose(snapshot, view, &engine.learner().learned(), principal, &set);
    let shows = view.exposure() == Exposure::Contextual;
    if shows {
        engine.contexts().announce(key);
    }
    Ok(ContextSet {
        success: true,
        query,
        intent,
        context_id: key.handle(),
        confidence: (f64::from(choice.confidence) * 1e4).round() / 1e4,
        contexts: topics(snapshot, view, &set),
        listed_tools: choice.documents.filter(|_| shows).map(|documents| documents.len()),
        degraded_reason,
    })
}

/// Returns a number that cannot be guessed: a handle stands for its context.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness no handle is unique; the system is broken then, and sessions fail before.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::error!("the operating system gives no random bytes");
    }
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests;
