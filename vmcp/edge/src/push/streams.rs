//! [`PushStream`]: a stream of messages that belong to no request.
//!
//! Two kinds: the GET stream of a legacy session ([`session_stream`]) and the answer to
//! `subscriptions/listen` of a modern client ([`listen_stream`]). Both take messages from a [`Mailbox`] and
//! add `list_changed` notifications when a new snapshot changes a list.

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
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc;
use vmcp_wire::{meta, methods};

use super::listen_filter::{self, ListenFilter, WatchedLists};
use super::mailbox::{Mailbox, NextMessage};
use super::server_push::ServerPush;
use super::session_registry::RegisteredSession;
use crate::session::peer::Peer;
use crate::session::sessions::SessionLife;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Generation, ListDigests};
use vmcp_route::{Caller, tasks};

/// Opens a push stream of a legacy session; it ends with the session or at shutdown.
pub(crate) fn session_stream(
    push: &Arc<ServerPush>,
    session: SessionId,
    principal: &Principal,
    life: SessionLife,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let generations = push.engine.generations();
    let registered = push.router.register(session, principal.key(), life, *generations.borrow());
    let mailbox = Arc::clone(&registered.mailbox);
    push.router.topics.renew_principal(mailbox.number, principal);
    let mut stream = PushStream::new(push, principal.clone(), mailbox, generations, CancellationToken::new());
    stream.lists = WatchedLists { tools: true, resources: true, prompts: true };
    registered.announce_listening(&push.engine.snapshot().backends);
    // The session may have been ended between the check of its id and the registration above.
    push.release_if_ended(session);
    stream.registered = Some(registered);
    stream.into_stream()
}

/// Opens the stream of a `subscriptions/listen` request: first an acknowledgement with the accepted part of
/// the filter in `params`, then messages, at last a result. Each carries `id`, the id of the request.
/// `cancel` ends the stream without a result.
pub(crate) fn listen_stream(
    push: &Arc<ServerPush>,
    peer: &Peer,
    params: &OwnedParams,
    id: &RawValue,
    cancel: CancellationToken,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let generations = push.engine.generations();
    let number = push.router.sessions.next_mailbox_number();
    let mailbox = Arc::new(Mailbox::new(number, Some(id.to_owned()), *generations.borrow()));
    let principal = peer.principal.clone();
    let mut stream = PushStream::new(push, principal, Arc::clone(&mailbox), generations, cancel);
    let mut wanted = ListenFilter::parse(params);
    stream.lists = wanted.lists;
    let caller = Caller {
        principal: peer.principal.clone(),
        forwarded: peer.forwarded.clone(),
        era: peer.era,
        client: peer.client.clone(),
        cancel: stream.cancel.clone(),
        ..Caller::default()
    };
    if !tasks::takes_tasks(&caller) {
        wanted.tasks.clear();
    }
    stream.opening = Some(listen_filter::accept(Arc::clone(push), caller, mailbox, wanted).boxed());
    stream.into_stream()
}

/// One open stream and the state of its messages.
struct PushStream {
    push: Arc<ServerPush>,
    /// The client, whose view of the lists counts.
    principal: Principal,
    /// The registration of the session; `None` for `subscriptions/listen`.
    registered: Option<Arc<RegisteredSession>>,
    mailbox: Arc<Mailbox>,
    /// The number of this stream in its mailbox.
    id: u64,
    lists: WatchedLists,
    generations: watch::Receiver<Generation>,
    /// Determines the accepted part of the filter; nothing is sent before it completes.
    opening: Option<BoxFuture<'static, ListenFilter>>,
    /// Messages to send before the mailbox is looked at again.
    queue: VecDeque<Bytes>,
    cancel: CancellationToken,
    /// True once the stream ends after `queue`.
    done: bool,
}

impl PushStream {
    fn new(
        push: &Arc<ServerPush>,
        principal: Principal,
        mailbox: Arc<Mailbox>,
        generations: watch::Receiver<Generation>,
        cancel: CancellationToken,
    ) -> Self {
        push.engine.metrics().client_streams.inc();
        Self {
            push: Arc::clone(push),
            principal,
            registered: None,
            id: mailbox.open_stream(),
            mailbox,
            lists: WatchedLists::default(),
            generations,
            opening: None,
            queue: VecDeque::new(),
            cancel,
            done: false,
        }
    }

    fn into_stream(self) -> impl Stream<Item = Bytes> + Send + use<> {
        stream::unfold(self, |mut stream| async move { stream.next().await.map(|message| (message, stream)) })
    }

    /// Returns the next message; `None` at the end of the stream.
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
            // Registered before `take` looks, so that a message posted in between wakes the `select!` below.
            let changed = mailbox.changed();
            match mailbox.take(self.id) {
                NextMessage::Message(message) => return Some(message),
                NextMessage::NoneYet => {}
                NextMessage::StreamClosed => {
                    self.finish();
                    continue;
                }
            }
            self.note_changes().await;
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

    /// Queues one `list_changed` for each watched list that changed since the client was last told, however
    /// many snapshots went by. A list counts as the client sees it: a hidden entry that changes is not told.
    async fn note_changes(&mut self) {
        let now = *self.generations.borrow_and_update();
        let Some(seen) = self.mailbox.catch_up(self.id, now) else { return };
        let is_new = now.number != seen.number || self.mailbox.known_lists().is_none();
        let lists = if is_new { lists_in_view(&self.push, &self.principal).await } else { None };
        let known = if is_new { self.mailbox.know_lists(lists) } else { None };
        let [tools, resources, prompts] = changed_lists((known, lists), (seen, now));
        let watched = self.lists;
        let kinds = [
            (watched.tools && tools, methods::TOOLS_CHANGED),
            (watched.resources && resources, methods::RESOURCES_CHANGED),
            (watched.prompts && prompts, methods::PROMPTS_CHANGED),
        ];
        for (_, method) in kinds.iter().filter(|(changed, _)| *changed) {
            let params =
                self.mailbox.subscription().map(|id| JsonRope::from(format!("{{{}}}", subscription_tag(id))));
            self.queue.push_back(rpc::notification(method, params).into());
        }
    }

    /// Ends the stream; `subscriptions/listen` gets its result first.
    fn finish(&mut self) {
        self.done = true;
        if let Some(id) = self.mailbox.subscription() {
            let result = format!(r#"{{"resultType":"complete",{}}}"#, subscription_tag(id));
            self.queue.push_back(rpc::response(id, JsonRope::from(result)).into());
        }
    }
}

impl Drop for PushStream {
    fn drop(&mut self) {
        self.push.engine.metrics().client_streams.dec();
        self.mailbox.close_stream(self.id);
        match self.registered.take() {
            None => self.push.router.topics.remove_all(self.mailbox.number),
            Some(registered) => {
                registered.announce_listening(&self.push.engine.snapshot().backends);
                self.push.router.forget_if_unused(registered);
            }
        }
    }
}

/// Returns which of tools, resources and prompts changed since a client was last told. Digests of both sides
/// decide alone, because the present ones may be of a snapshot whose generation is not announced yet. Without
/// them every change in the catalog counts.
fn changed_lists(
    (known, lists): (Option<ListDigests>, Option<ListDigests>),
    (seen, now): (Generation, Generation),
) -> [bool; 3] {
    match known.zip(lists) {
        Some((known, lists)) => {
            [known.tools != lists.tools, known.resources != lists.resources, known.prompts != lists.prompts]
        }
        None => [seen.tools != now.tools, seen.resources != now.resources, seen.prompts != now.prompts],
    }
}

/// Returns digests of the lists that a client sees now; `None` if nothing is hidden from the client.
async fn lists_in_view(push: &ServerPush, principal: &Principal) -> Option<ListDigests> {
    let snapshot = push.engine.snapshot();
    if !snapshot.policy.restricts(principal) {
        return None;
    }
    push.engine.prepare(&snapshot, principal).await;
    Some(snapshot.view(principal).digests())
}

/// Encodes the acknowledgement of `subscriptions/listen`.
fn acknowledged(mailbox: &Mailbox, accepted: &ListenFilter) -> Option<Bytes> {
    let id = mailbox.subscription()?;
    let params = format!(r#"{{"notifications":{},{}}}"#, accepted.to_json(), subscription_tag(id));
    Some(rpc::notification(methods::ACKNOWLEDGED, Some(JsonRope::from(params))).into())
}

/// Writes the `_meta` entry that names the subscription of a message.
fn subscription_tag(id: &RawValue) -> String {
    format!(r#""{}":{{"{}":{id}}}"#, meta::META, meta::SUBSCRIPTION_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_names_its_request() {
        let id = RawValue::from_string("\"s\"".into()).unwrap();
        let mailbox = Mailbox::new(1, Some(id), Generation::default());
        let accepted = ListenFilter {
            lists: WatchedLists { tools: true, ..WatchedLists::default() },
            ..ListenFilter::default()
        };
        assert_eq!(
            acknowledged(&mailbox, &accepted).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#
        );
    }
    #[test]
    fn a_client_is_told_of_a_list_if_its_own_view_of_the_list_changed() {
        let digests = |tools| Some(ListDigests { tools, resources: 1, prompts: 1 });
        let generation = |tools| Generation { number: tools, tools, ..Generation::default() };
        for (known, lists, seen, now, told) in [
            // A hidden tool changed.
            (digests(1), digests(1), 1, 2, false),
            (digests(1), digests(2), 1, 2, true),
            // The present lists are newer than their generation, which is announced next.
            (digests(1), digests(2), 1, 1, true),
            (digests(2), digests(2), 1, 2, false),
            (None, digests(1), 1, 2, true),
            (None, None, 1, 2, true),
            (None, None, 1, 1, false),
        ] {
            let changed = changed_lists((known, lists), (generation(seen), generation(now)));
            assert_eq!(changed, [told, false, false], "{known:?} {lists:?} {seen} {now}");
        }
    }
}
