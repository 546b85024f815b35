//! Streams that tell a client when lists change: the GET stream of a legacy session, and `subscriptions/listen`.

use std::time::Duration;

use futures::stream::{self, Stream};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{Interval, interval};
use tokio_util::sync::CancellationToken;
use vmcp_wire::object::Object;
use vmcp_wire::rpc;
use vmcp_wire::splice::Spliced;
use vmcp_wire::{meta, methods};

use super::Edge;
use crate::engine::Generation;

/// Proxies close what is silent for a minute; half of the usual shortest limit.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which lists a client wants to hear about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    tools: bool,
    resources: bool,
    prompts: bool,
}

impl Wanted {
    /// All of them: what a legacy stream carries.
    pub(super) const ALL: Wanted = Wanted { tools: true, resources: true, prompts: true };

    /// The filter of `subscriptions/listen`, as far as we can honour it.
    pub(super) fn read(params: &Object<'_>) -> Wanted {
        let filter =
            params.get("notifications").and_then(|filter| Object::parse(filter).ok()).unwrap_or_default();
        let asked = |key| filter.get(key).is_some_and(|value| value.get() == "true");
        Wanted {
            tools: asked("toolsListChanged"),
            resources: asked("resourcesListChanged"),
            prompts: asked("promptsListChanged"),
        }
    }

    fn accepted(self) -> String {
        let keys = [
            (self.tools, "toolsListChanged"),
            (self.resources, "resourcesListChanged"),
            (self.prompts, "promptsListChanged"),
        ];
        let accepted: Vec<String> =
            keys.iter().filter(|(wanted, _)| *wanted).map(|(_, key)| format!("\"{key}\":true")).collect();
        format!("{{{}}}", accepted.join(","))
    }
}

/// What a stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A JSON-RPC message.
    Message(Vec<u8>),
    /// Nothing; keeps the connection open.
    KeepAlive,
}

/// Notifications for one listener, from now until the server closes. With `subscription`, the id of a modern client's
/// request, they begin with an acknowledgement, are tagged, and end with a result.
pub(super) fn changes(
    edge: &Edge,
    wanted: Wanted,
    subscription: Option<Box<RawValue>>,
) -> impl Stream<Item = Item> + use<> {
    let mut generations = edge.engine().generations();
    let seen = *generations.borrow_and_update();
    let queue = subscription.as_deref().map(|id| acknowledge(id, wanted)).into_iter().collect();
    let closing = edge.closing.clone();
    let state = Listener {
        wanted,
        subscription,
        generations,
        seen,
        queue,
        closing,
        beat: interval(KEEP_ALIVE),
        done: false,
    };
    stream::unfold(state, |mut listener| async move { listener.next().await.map(|item| (item, listener)) })
}

struct Listener {
    wanted: Wanted,
    subscription: Option<Box<RawValue>>,
    generations: watch::Receiver<Generation>,
    seen: Generation,
    queue: Vec<Vec<u8>>,
    closing: CancellationToken,
    beat: Interval,
    done: bool,
}

impl Listener {
    async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(message) = self.queue.pop() {
                return Some(Item::Message(message));
            }
            if self.done {
                return None;
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => self.finish(),
                changed = self.generations.changed() => match changed {
                    Ok(()) => self.note_changes(),
                    Err(_) => self.finish(),
                },
                _ = self.beat.tick() => return Some(Item::KeepAlive),
            }
        }
    }

    /// However many generations went by, a client hears once about each list that changed.
    fn note_changes(&mut self) {
        let now = *self.generations.borrow_and_update();
        let kinds = [
            (self.wanted.prompts && now.prompts != self.seen.prompts, methods::PROMPTS_CHANGED),
            (self.wanted.resources && now.resources != self.seen.resources, methods::RESOURCES_CHANGED),
            (self.wanted.tools && now.tools != self.seen.tools, methods::TOOLS_CHANGED),
        ];
        for (_, method) in kinds.iter().filter(|(changed, _)| *changed) {
            let params = self.subscription.as_deref().map(|id| Spliced::from(format!("{{{}}}", tag(id))));
            self.queue.push(rpc::notification(method, params));
        }
        self.seen = now;
    }

    fn finish(&mut self) {
        self.done = true;
        if let Some(id) = self.subscription.as_deref() {
            let result = format!(r#"{{"resultType":"complete",{}}}"#, tag(id));
            self.queue.push(rpc::response(id, Spliced::from(result)));
        }
    }
}

fn acknowledge(id: &RawValue, wanted: Wanted) -> Vec<u8> {
    let params = format!(r#"{{"notifications":{},{}}}"#, wanted.accepted(), tag(id));
    rpc::notification(methods::ACKNOWLEDGED, Some(Spliced::from(params)))
}

/// The `_meta` entry that says which subscription a message belongs to.
fn tag(id: &RawValue) -> String {
    format!(r#""{}":{{"{}":{id}}}"#, meta::META, meta::SUBSCRIPTION_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_and_exists_is_accepted() {
        let params = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["x"]}}"#;
        let wanted = Wanted::read(&Object::parse_str(params).unwrap());
        assert_eq!(wanted, Wanted { tools: true, resources: false, prompts: false });
        let id = RawValue::from_string("\"s\"".into()).unwrap();
        assert_eq!(
            String::from_utf8(acknowledge(&id, wanted)).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#
        );
        assert_eq!(Wanted::read(&Object::default()).accepted(), "{}");
    }
}
