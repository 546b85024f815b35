//! The language model that is asked: the one of `optimizer.llm`, else the client's own, by sampling.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;
use vmcp_backend::RpcOutcome;
use vmcp_embed::ChatModel;
use vmcp_json::object::Object;
use vmcp_wire::methods;

use crate::call::ask_client;
use crate::caller::{CallContext, Caller};

/// Most tokens of a sampled answer; three choices with reasons need a third.
const MAX_TOKENS: u32 = 1000;
/// Most tokens of a sampled script.
pub(in crate::own_tools) const MAX_SCRIPT_TOKENS: u32 = 4000;

/// Most questions to the client's own model for one script or query: its user may be asked about each.
const MAX_CLIENT_TURNS: usize = 2;

/// Reason for which no language model can be asked.
pub(in crate::own_tools) const MISSING: &str =
    "there is no language model: optimizer.llm names none, and the client offers no sampling";

/// A language model that answers one prompt.
pub(in crate::own_tools) enum LanguageModel<'a> {
    /// The model of `optimizer.llm`.
    Configured(Arc<ChatModel>),
    /// The client's own model, which the client may let its user confirm.
    OfClient {
        caller: &'a Caller,
        /// Time limit of the client's answer.
        within: Duration,
    },
}

/// Writes a text in one line: a line break would begin another entry of a prompt, or another task.
pub(in crate::own_tools) fn in_one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if breaks(c) { ' ' } else { c }).collect()
}

impl<'a> LanguageModel<'a> {
    /// Returns the configured model; without one, the client's if `may_sample` and the client offers that.
    pub(in crate::own_tools) fn available(
        context: CallContext<'a>,
        may_sample: bool,
    ) -> Option<LanguageModel<'a>> {
        let CallContext { engine, snapshot, caller, .. } = context;
        if let Some(model) = engine.chat_model(snapshot) {
            return Some(LanguageModel::Configured(model));
        }
        let samples = may_sample && ask_client::can_ask(caller, methods::SAMPLE);
        let within = snapshot.config.proxy.tool_timeout;
        samples.then_some(LanguageModel::OfClient { caller, within })
    }

    /// Returns the most questions for one script or query: the first, and one for each that fails.
    pub(in crate::own_tools) fn max_turns(&self, context: CallContext<'_>) -> usize {
        let configured = context.snapshot.config.optimizer.llm.as_ref();
        match (self, configured) {
            (LanguageModel::Configured(_), Some(llm)) => llm.max_turns,
            _ => MAX_CLIENT_TURNS,
        }
    }

    /// Returns the answer to a prompt; an error in words without addresses.
    pub(in crate::own_tools) async fn ask(&self, system: &str, prompt: &str) -> Result<String, String> {
        self.ask_at_length(system, prompt, MAX_TOKENS).await
    }

    /// As [`LanguageModel::ask`], with at most `tokens` of a sampled answer.
    pub(in crate::own_tools) async fn ask_at_length(
        &self,
        system: &str,
        prompt: &str,
        tokens: u32,
    ) -> Result<String, String> {
        match self {
            LanguageModel::Configured(model) => {
                model.ask(system, prompt).await.map_err(|error| error.category().to_owned())
            }
            LanguageModel::OfClient { caller, within } => {
                sample(caller, *within, system, prompt, tokens).await
            }
        }
    }
}

/// Asks the client's model by `sampling/createMessage`.
async fn sample(
    caller: &Caller,
    within: Duration,
    system: &str,
    prompt: &str,
    tokens: u32,
) -> Result<String, String> {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "systemPrompt": system,
        "temperature": 0,
        "maxTokens": tokens,
    });
    let question = ask_client::ask(caller, methods::SAMPLE, to_raw_value(&params).ok()).await;
    let question = question.map_err(|why| format!("the client {why}"))?;
    let answer = tokio::select! {
        answer = timeout(within, question) => answer,
        () = caller.cancel.cancelled() => return Err("the request was cancelled".to_owned()),
    };
    match answer {
        Ok(Ok(RpcOutcome::Result(result))) => {
            text_of(&result).ok_or_else(|| "the client did not sample: its answer has no text".to_owned())
        }
        Ok(_) => Err("the client did not sample".to_owned()),
        Err(_) => Err(format!("the client did not sample within {} seconds", within.as_secs())),
    }
}

/// Returns the text of a `CreateMessageResult`, whose content is one block or several.
fn text_of(result: &RawValue) -> Option<String> {
    let result = Object::parse(result).ok()?;
    let content = result.get("content")?;
    let text = |block: &RawValue| Object::parse(block).ok()?.get_str("text").map(Cow::into_owned);
    match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        Ok(blocks) => blocks.into_iter().find_map(text),
        Err(_) => text(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_one_block_or_of_several_is_found() {
        let text = |json: &str| text_of(serde_json::from_str(json).unwrap());
        assert_eq!(text(r#"{"content":{"type":"text","text":"a\"b"}}"#).as_deref(), Some("a\"b"));
        let several = r#"{"content":[{"type":"image","data":""},{"type":"text","text":"c"}]}"#;
        assert_eq!(text(several).as_deref(), Some("c"));
        assert_eq!(text(r#"{"content":{"type":"image"}}"#), None);
        assert_eq!(text("[]"), None);
    }
}
