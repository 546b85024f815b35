//! The connector: a task that makes and replaces the connection of one backend. States: configured →
//! connecting → connected or failed; failed backends are tried again on use and on a timer.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{sleep, timeout};
use vmcp_config::status::BackendState;

use crate::connection::Connection;
use crate::connection::EraHint;
use crate::policy::backoff;
use crate::sharing::core::{BackendCore, ConnectRounds};
use crate::transport::LinkError;
use crate::upkeep::{attempt, idle_stop, notification_stream};

/// Lifetime from which a connection counts as stable. One that ends sooner is a crash, and crashes in a row
/// are answered with exponential backoff.
const MIN_STABLE_LIFETIME: Duration = Duration::from_secs(30);

pub(crate) struct Connector {
    shared: Arc<BackendCore>,
    /// The era of the last connection, so that a reconnect need not probe again.
    hint: EraHint,
    /// Crashes in a row.
    crashes: u32,
    /// Time that the last connection took, without the wait for a slot.
    start: Duration,
}

impl Connector {
    pub(crate) fn new(shared: Arc<BackendCore>) -> Self {
        Self { shared, hint: EraHint::Unknown, crashes: 0, start: Duration::ZERO }
    }

    /// Runs until the backend is stopped, then closes the connection.
    pub(crate) async fn run(mut self) {
        let stop = self.shared.facts.stop.clone();
        let _ = Box::pin(stop.run_until_cancelled(self.keep_connected())).await;
        self.shared.sessions.end_all().await;
        if let Some(connection) = self.shared.current.swap(None) {
            connection.close().await;
        }
        self.set_state(BackendState::Configured);
    }

    async fn keep_connected(&mut self) {
        let retries = self.shared.facts.settings().max_connection_retries;
        // Rounds in a row that failed.
        let mut given_up = 0;
        loop {
            self.wait_for_demand(given_up).await;
            // A backend that was given up gets one attempt at a time.
            let mut round = self.round(if given_up > 0 { 0 } else { retries }).await;
            if round.is_some() {
                given_up = 0;
            }
            let mut idle = false;
            while let Some(connection) = round {
                let since = Instant::now();
                idle = tokio::select! {
                    () = connection.channel.closed.cancelled() => false,
                    () = idle_stop::until_idle(&self.shared, &connection, self.start) => true,
                };
                if idle {
                    tracing::info!("stopped: no call needed it of late; the next one starts it again");
                    connection.close().await;
                    self.set_state(BackendState::Configured);
                    break;
                }
                if let Some(detail) = connection.channel.link.end_reason() {
                    let error = LinkError::Gone { detail };
                    tracing::info!(error = error.detail(), "connection ended");
                    self.shared.remember_error(error.detail());
                }
                self.shared.forget(&connection);
                let forgotten = connection.is_forgotten();
                drop(connection);
                self.set_state(BackendState::Connecting);
                if !forgotten {
                    self.pause_after_crash(since.elapsed()).await;
                }
                round = self.round(retries).await;
            }
            given_up = if idle { 0 } else { given_up + 1 };
        }
    }

    /// Waits until a call needs the backend or, if it was given up, until it is time to try again.
    async fn wait_for_demand(&self, given_up: u32) {
        let ended = self.shared.rounds.borrow().ended;
        let mut wanted = self.shared.wanted.subscribe();
        let demand = wanted.wait_for(|wanted| *wanted > ended);
        if given_up > 0 {
            let facts = &self.shared.facts;
            // Trying a remote server costs little; starting a broken program again and again does not.
            let failures = if facts.spec.starts_process() { given_up } else { 1 };
            let pause = backoff::delay(facts.settings().retry_failed_every, failures);
            let _ = timeout(pause, demand).await;
        } else {
            let _ = demand.await;
        }
    }

    /// Makes one attempt and up to `retries` more, with exponential backoff between them. The outcome is
    /// published to the calls that wait.
    async fn round(&mut self, retries: u32) -> Option<Arc<Connection>> {
        self.set_state(BackendState::Connecting);
        let mut failures = 0;
        let result = loop {
            let error = match self.attempt().await {
                Ok((connection, start)) => {
                    self.start = start;
                    break Ok(Arc::new(connection));
                }
                Err(error) => error,
            };
            failures += 1;
            self.hint = self.hint_after(&error);
            tracing::warn!(error = error.detail(), attempt = failures, "cannot connect");
            self.shared.facts.observe_failed_connect(error.connect_reason());
            self.shared.remember_error(error.detail());
            if failures > retries || !worth_retrying(&error) {
                break Err(error);
            }
            sleep(backoff::delay(self.shared.facts.settings().first_pause, failures)).await;
        };
        let error = result.as_ref().err().cloned();
        match &result {
            Ok(connection) => self.adopt(connection),
            Err(_) => self.set_state(BackendState::Failed),
        }
        self.shared.rounds.send_modify(|rounds| *rounds = ConnectRounds { ended: rounds.ended + 1, error });
        result.ok()
    }

    async fn attempt(&self) -> Result<(Connection, Duration), LinkError> {
        let known = self.shared.discovered.borrow().is_some();
        attempt::connect(&self.shared.facts, self.hint, known).await
    }

    /// A program that ended by itself did so twice: when it was probed, and when it was initialized. The next
    /// attempt spares the probe, so that a broken program is started once an attempt.
    fn hint_after(&self, error: &LinkError) -> EraHint {
        let ended = matches!(error, LinkError::Gone { .. } | LinkError::Closed { .. });
        if ended && self.shared.facts.spec.starts_process() { EraHint::Legacy } else { EraHint::Unknown }
    }

    fn adopt(&mut self, connection: &Arc<Connection>) {
        let server = &connection.server;
        self.hint = server.hint;
        tracing::info!(era = server.era().as_str(), revision = server.revision.as_str(), "connected");
        {
            let mut live = self.shared.live.lock();
            let now = Some(SystemTime::now());
            // The round that made the connection has put the state to `Connecting`.
            live.state = BackendState::Connected;
            live.since = now;
            live.connected_at = now;
            live.connections += 1;
            live.last_error = None;
            live.server = Some((server.revision, server.info.clone()));
        }
        self.shared.breaker.lock().reconnected();
        self.shared.current.store(Some(Arc::clone(connection)));
        self.shared.facts.observe_state(BackendState::Connected);
        self.shared.facts.changed.notify_one();
        notification_stream::start(&self.shared, connection);
    }

    async fn pause_after_crash(&mut self, lived: Duration) {
        self.crashes = if lived < MIN_STABLE_LIFETIME { self.crashes + 1 } else { 0 };
        // A single crash may be an unannounced restart: the first reconnect comes without a pause.
        if self.crashes > 1 {
            sleep(backoff::delay(self.shared.facts.settings().first_pause, self.crashes - 1)).await;
        }
    }

    fn set_state(&self, state: BackendState) {
        let is_new = {
            let mut live = self.shared.live.lock();
            let is_new = live.state != state;
            if is_new {
                live.state = state;
                live.since = Some(SystemTime::now());
            }
            live.connected_at = None;
            is_new
        };
        if is_new {
            self.shared.facts.observe_state(state);
        }
    }
}

/// False for refused credentials, which stay refused, and for a server that was silent for the whole timeout:
/// retrying would make every waiting call sit through it again. Both are tried again on use, and on the
/// timer.
fn worth_retrying(error: &LinkError) -> bool {
    !matches!(error, LinkError::Refused { .. } | LinkError::ConnectTimeout { .. } | LinkError::Stopped)
}
