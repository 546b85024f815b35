//! [`Adapter`]: the state machine between an MCP client and one app server of Codex. It gets the messages of
//! both as JSON, and returns [`Effect`]s in the order in which they are to be carried out.
//!
//! ```text
//! initialize            → initialize, initialized
//! tools/call codex      → working directory → thread/start or thread/resume → turn/start → turn/completed
//! notifications/cancelled → turn/interrupt
//! elicitation/create    ← approvals
//! ```

mod calls;
mod client_side;
mod codex_side;

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::calls::{AwaitedReply, Call, OpenQuestion};

/// Calls under way on one connection; one more is refused.
const MAX_CALLS: usize = 64;
/// Questions to the client that are open at once; one more is declined.
const MAX_QUESTIONS: usize = 64;

/// Settings of an adapter.
#[derive(Debug, Clone)]
pub struct AdapterSettings {
    /// Version of vmcp, told to both sides.
    pub version: String,
    /// True if a call may ask for `dangerFullAccess`.
    pub allow_dangerous: bool,
    /// Directories that a turn may work in or below; the first one is the default. An adapter gets them
    /// without symbolic links: [`serve`](crate::serve()) resolves them.
    pub workspaces: Vec<PathBuf>,
}

/// An action that the caller of an [`Adapter`] carries out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Sends a message to the MCP client.
    ToClient(Value),
    /// Sends a message to Codex.
    ToCodex(Value),
    /// Resolves the symbolic links of a path, and hands the result to [`Adapter::located`] with this number.
    Locate(u64, PathBuf),
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Adapter {
    settings: AdapterSettings,
    /// Number of the last call, request or question.
    last: u64,
    is_initialized: bool,
    /// True if the client takes elicitations.
    can_ask: bool,
    calls: HashMap<u64, Call>,
    /// Requests to Codex that wait for their replies.
    awaited: HashMap<u64, AwaitedReply>,
    /// Questions to the client that wait for their answers.
    questions: HashMap<u64, OpenQuestion>,
    effects: Vec<Effect>,
}

impl Adapter {
    /// Makes an adapter whose client has not begun.
    pub(crate) fn new(settings: AdapterSettings) -> Adapter {
        Adapter {
            settings,
            last: 0,
            is_initialized: false,
            can_ask: false,
            calls: HashMap::new(),
            awaited: HashMap::new(),
            questions: HashMap::new(),
            effects: Vec::new(),
        }
    }

    /// Takes a message of the MCP client.
    pub(crate) fn take_from_client(&mut self, message: &Value) -> Vec<Effect> {
        self.on_client(message);
        std::mem::take(&mut self.effects)
    }

    /// Takes a message of Codex.
    pub(crate) fn take_from_codex(&mut self, message: &Value) -> Vec<Effect> {
        self.on_codex(message);
        std::mem::take(&mut self.effects)
    }

    /// Takes the path of [`Effect::Locate`] without symbolic links, or the reason of its failure.
    pub(crate) fn located(&mut self, call: u64, path: Result<PathBuf, String>) -> Vec<Effect> {
        self.on_located(call, path);
        std::mem::take(&mut self.effects)
    }

    /// Ends all calls: Codex is gone. A turn that it was in the middle of can be continued by its thread.
    pub(crate) fn codex_ended(&mut self) -> Vec<Effect> {
        for number in self.calls.keys().copied().collect::<Vec<_>>() {
            self.fail(
                number,
                "Codex ended before the call was complete; to go on, call again with thread_id",
            );
        }
        std::mem::take(&mut self.effects)
    }

    fn next_number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    fn tell_client(&mut self, message: Value) {
        self.effects.push(Effect::ToClient(message));
    }

    /// Sends a request to Codex, and remembers who waits for the reply.
    fn ask_codex(&mut self, method: &str, params: &Value, awaited: AwaitedReply) {
        let id = self.next_number();
        self.awaited.insert(id, awaited);
        self.effects.push(Effect::ToCodex(json!({"id": id, "method": method, "params": params})));
    }
}

#[cfg(test)]
mod tests;
