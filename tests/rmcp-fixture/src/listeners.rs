//! Registry of clients that want to hear of changes: listening streams of modern clients, sessions of legacy
//! ones.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};

use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};

/// A legacy session.
#[derive(Default)]
pub(crate) struct Session {
    /// Connection to its client; set once the session is initialized.
    pub peer: OnceLock<Peer<RoleServer>>,
    /// URIs of the resources that it watches.
    pub watched: Mutex<HashSet<String>>,
    /// Lowest level of log messages that it wants; `None` until it says so.
    pub level: Mutex<Option<LoggingLevel>>,
}

/// A change that clients are told about.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The resource with this URI.
    Resource(&'static str),
}

/// All clients that are told about changes.
#[derive(Default)]
pub(crate) struct Listeners {
    streams: Mutex<HashMap<u64, SubscriptionSink>>,
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Listeners {
    /// Serves one listening stream until its client leaves.
    pub(crate) async fn listen(&self, context: SubscriptionContext) {
        let key = {
            let mut streams = self.streams.lock();
            let key = streams.keys().max().map_or(0, |last| last + 1);
            streams.insert(key, context.sink().clone());
            key
        };
        context.cancelled().await;
        self.streams.lock().remove(&key);
    }

    /// Registers a session by a weak reference: it leaves the registry with its last owner.
    pub(crate) fn add(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// Tells every listening client. A client may be gone by now.
    pub(crate) async fn tell(&self, change: Change) {
        let streams: Vec<_> = self.streams.lock().values().cloned().collect();
        for stream in streams {
            // A stream of a modern client drops messages that its filter does not name.
            let _unwanted_or_gone = match change {
                Change::Tools => stream.notify_tool_list_changed().await,
                Change::Prompts => stream.notify_prompt_list_changed().await,
                Change::Resource(uri) => stream.notify_resource_updated(uri).await,
            };
        }
        let sessions: Vec<_> = self.sessions.lock().iter().filter_map(Weak::upgrade).collect();
        for session in sessions {
            let Some(peer) = session.peer.get() else { continue };
            let _gone = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Resource(uri) if session.watched.lock().contains(uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                }
                Change::Resource(_) => Ok(()),
            };
        }
    }
}
