//! Lookups of images' programs in tasks of their own: a reconcile reads the last answer and never waits for
//! a registry. Single flight: one lookup of an image at a time, however many servers want it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use super::{ImageProgram, ImageReference, PullCredentials, RegistryClient, RegistryError};

/// The time for which an answer is taken again.
const ANSWER_TTL: Duration = Duration::from_mins(10);
/// The time until a failed lookup is repeated; also the interval at which such a server is reconciled.
pub(crate) const FAILURE_TTL: Duration = Duration::from_secs(30);
/// The most lookups at the same time; others wait for their turn.
const MAX_LOOKUPS: usize = 8;
/// Answers that are kept; beyond it, expired ones are dropped.
const MAX_ANSWERS: usize = 4096;

/// The last that is known of an image's program.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    /// The registry is being asked.
    Pending,
    /// The registry answered, or the lookup failed.
    Done(Result<ImageProgram, RegistryError>),
}

/// An image and a digest of the credentials for its registry: the entrypoint is known to those credentials
/// alone.
type Key = (ImageReference, [u8; 32]);

/// One image.
enum State {
    /// A lookup is under way; these futures run after it.
    Pending(Vec<BoxFuture<'static, ()>>),
    Done(Answer),
}

struct Answer {
    program: Result<ImageProgram, RegistryError>,
    at: Instant,
}

impl Answer {
    fn is_fresh(&self) -> bool {
        let ttl = if self.program.is_ok() { ANSWER_TTL } else { FAILURE_TTL };
        self.at.elapsed() < ttl
    }
}

/// All lookups, by image.
pub(crate) struct ProgramLookups {
    client: RegistryClient,
    states: Mutex<HashMap<Key, State>>,
    slots: Semaphore,
}

impl ProgramLookups {
    /// Makes lookups that ask through `client`.
    pub(crate) fn new(client: RegistryClient) -> Arc<Self> {
        Arc::new(Self { client, states: Mutex::default(), slots: Semaphore::new(MAX_LOOKUPS) })
    }

    /// Returns the last that is known of an image. Without a fresh answer a lookup begins, and `done` runs
    /// after it.
    pub(crate) fn program(
        self: &Arc<Self>,
        image: ImageReference,
        credentials: PullCredentials,
        done: BoxFuture<'static, ()>,
    ) -> Lookup {
        let key = (image, credentials.digest());
        let mut states = self.states.lock();
        match states.get_mut(&key) {
            Some(State::Done(answer)) if answer.is_fresh() => return Lookup::Done(answer.program.clone()),
            Some(State::Pending(waiting)) => {
                waiting.push(done);
                return Lookup::Pending;
            }
            _ => {}
        }
        if states.len() >= MAX_ANSWERS {
            states.retain(|_, state| match state {
                State::Pending(_) => true,
                State::Done(answer) => answer.is_fresh(),
            });
        }
        states.insert(key.clone(), State::Pending(vec![done]));
        drop(states);
        tokio::spawn(self.clone().look_up(key, credentials));
        Lookup::Pending
    }

    async fn look_up(self: Arc<Self>, key: Key, credentials: PullCredentials) {
        // The semaphore is never closed.
        let slot = self.slots.acquire().await;
        let program = self.client.program(&key.0, &credentials).await;
        drop(slot);
        if let Err(error) = &program {
            tracing::info!(image = %key.0, %error, "cannot look up what an image starts");
        }
        let answer = Answer { program, at: Instant::now() };
        let before = self.states.lock().insert(key, State::Done(answer));
        if let Some(State::Pending(waiting)) = before {
            for done in waiting {
                done.await;
            }
        }
    }
}
