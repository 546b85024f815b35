//! Streams of what belongs to no request: the GET stream of a legacy session, and `subscriptions/listen`.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_wire::object::Object;
use vmcp_wire::rpc;
use vmcp_wire::splice::Spliced;
use vmcp_wire::{meta, methods};

use super::listen_filter::{self, Accepted, Lists, Wanted};
use super::mailbox::{Found, Mailbox};
use super::server_push::ServerPush;
use super::session_registry::Kept;
use crate::edge::session::peer::Peer;
use crate::engine::Generation;
use crate::route::{Caller, tasks};

/// What a legacy session hears on a stream, from now on until it ends or the server closes.
pub(crate) fn of_session(
    push: &Arc<ServerPush>,
    session: SessionId,
    expires: u64,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let generations = push.engine.generations();
    let kept = push.listeners.keep(session, expires, *generations.borrow());
    let mailbox = Arc::clone(&kept.mailbox);
    let mut listener = Listener::new(push, mailbox, generations, CancellationToken::new());
    listener.lists = Lists { tools: true, resources: true, prompts: true };
    kept.announce(&push.engine.snapshot().backends);
    // It may have been ended while it opened the stream.
    push.release_if_ended(session);
    listener.kept = Some(kept);
    listener.into_stream()
}

/// What a modern client hears on `subscriptions/listen`: first what was accepted of the filter in `params`, at last a
/// result, all of it tagged with the `id` of the request. `cancel` ends it without one.
pub(crate) fn subscription(
    push: &Arc<ServerPush>,
    peer: &Peer,
    params: &Object<'_>,
    id: &RawValue,
    cancel: CancellationToken,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let generations = push.engine.generations();
    let number = push.listeners.sessions.number();
    let mailbox = Arc::new(Mailbox::new(number, Some(id.to_owned()), *generations.borrow()));
    let mut listener = Listener::new(push, Arc::clone(&mailbox), generations, cancel);
    let mut wanted = Wanted::read(params);
    listener.lists = wanted.lists;
    let caller = Caller {
        identity: peer.identity,
        era: peer.era,
        client: peer.client.clone(),
        cancel: listener.cancel.clone(),
        ..Caller::default()
    };
    if !tasks::takes_tasks(&caller) {
        wanted.tasks.clear();
    }
    listener.opening = Some(listen_filter::accept(Arc::clone(push), caller, mailbox, wanted).boxed());
    listener.into_stream()
}

struct Listener {
    push: Arc<ServerPush>,
    /// None for `subscriptions/listen`.
    kept: Option<Arc<Kept>>,
    mailbox: Arc<Mailbox>,
    stream: u64,
    lists: Lists,
    generations: watch::Receiver<Generation>,
    /// Finds out what can be accepted. Nothing is sent before.
    opening: Option<BoxFuture<'static, Accepted>>,
    queue: VecDeque<Bytes>,
    cancel: CancellationToken,
    done: bool,
}

impl Listener {
    fn new(
        push: &Arc<ServerPush>,
        mailbox: Arc<Mailbox>,
        generations: watch::Receiver<Generation>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            push: Arc::clone(push),
            kept: None,
            stream: mailbox.open_stream(),
            mailbox,
            lists: Lists::default(),
            generations,
            opening: None,
            queue: VecDeque::new(),
            cancel,
            done: false,
        }
    }

    fn into_stream(self) -> impl Stream<Item = Bytes> + Send + use<> {
        stream::unfold(self, |mut listener| async move {
            listener.next().await.map(|message| (message, listener))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        let mailbox = Arc::clone(&self.mailbox);
        let closing = self.push.closing.clone();
        loop {
            if let Some(message) = self.queue.pop_front() {
                return Some(message);
            }
            if self.done {
                return None;
            }
            if let Some(opening) = &mut self.opening {
                tokio::select! {
                    biased;
                    () = closing.cancelled() => self.finish(),
                    () = self.cancel.cancelled() => self.done = true,
                    accepted = opening => self.queue.extend(acknowledged(&mailbox, &accepted)),
                }
                self.opening = None;
                continue;
            }
            let changed = mailbox.changed();
            match mailbox.take(self.stream) {
                Found::Message(message) => return Some(message),
                Found::Nothing => {}
                Found::End => {
                    self.finish();
                    continue;
                }
            }
            self.note_changes();
            if !self.queue.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = closing.cancelled() => self.finish(),
                () = self.cancel.cancelled() => self.done = true,
                () = changed => {}
                changed = self.generations.changed() => if changed.is_err() {
                    self.finish();
                },
            }
        }
    }

    /// However many generations went by, a client hears once about each list that changed.
    fn note_changes(&mut self) {
        let now = *self.generations.borrow_and_update();
        let Some(seen) = self.mailbox.catch_up(self.stream, now) else { return };
        let kinds = [
            (self.lists.tools && now.tools != seen.tools, methods::TOOLS_CHANGED),
            (self.lists.resources && now.resources != seen.resources, methods::RESOURCES_CHANGED),
            (self.lists.prompts && now.prompts != seen.prompts, methods::PROMPTS_CHANGED),
        ];
        for (_, method) in kinds.iter().filter(|(changed, _)| *changed) {
            let params = self.mailbox.subscription().map(|id| Spliced::from(format!("{{{}}}", tag(id))));
            self.queue.push_back(rpc::notification(method, params).into());
        }
    }

    fn finish(&mut self) {
        self.done = true;
        if let Some(id) = self.mailbox.subscription() {
            let result = format!(r#"{{"resultType":"complete",{}}}"#, tag(id));
            self.queue.push_back(rpc::response(id, Spliced::from(result)).into());
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.mailbox.close_stream(self.stream);
        match self.kept.take() {
            None => self.push.listeners.topics.forget(self.mailbox.number),
            Some(kept) => {
                kept.announce(&self.push.engine.snapshot().backends);
                self.push.listeners.tidy(kept);
            }
        }
    }
}

fn acknowledged(mailbox: &Mailbox, accepted: &Accepted) -> Option<Bytes> {
    let id = mailbox.subscription()?;
    let params = format!(r#"{{"notifications":{},{}}}"#, accepted.to_json(), tag(id));
    Some(rpc::notification(methods::ACKNOWLEDGED, Some(Spliced::from(params))).into())
}

/// The `_meta` entry that says which subscription a message belongs to.
fn tag(id: &RawValue) -> String {
    format!(r#""{}":{{"{}":{id}}}"#, meta::META, meta::SUBSCRIPTION_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_names_its_request() {
        let id = RawValue::from_string("\"s\"".into()).unwrap();
        let mailbox = Mailbox::new(1, Some(id), Generation::default());
        let accepted = Accepted { lists: Lists { tools: true, ..Lists::default() }, ..Accepted::default() };
        assert_eq!(
            acknowledged(&mailbox, &accepted).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#
        );
    }
}
