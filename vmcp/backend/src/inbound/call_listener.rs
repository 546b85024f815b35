//! Listeners of calls under way: they take messages that come before the answer, and hold the call's deadline
//! clock.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use vmcp_json::object::Object;
use vmcp_wire::level::Level;

use crate::request::{ClientFacts, Request, SharedCredentials};
use crate::request::{EventSender, SessionId};

/// The caller of one call: takes notifications and questions that come before the answer.
#[derive(Debug, Default)]
pub(crate) struct CallListener {
    pub(crate) clock: CallClock,
    pub(crate) events: Option<EventSender>,
    pub(crate) session: Option<SessionId>,
    pub(crate) client: ClientFacts,
    /// Credentials of the connection that is opened for the caller.
    pub(crate) credentials: Option<SharedCredentials>,
    /// Issued by vmcp itself; there is no client to forward questions to.
    pub(crate) ours: bool,
}

impl CallListener {
    pub(crate) fn of(request: &Request<'_>) -> Arc<Self> {
        Arc::new(Self {
            clock: CallClock::default(),
            events: request.events.clone(),
            session: request.session,
            client: request.client.clone(),
            credentials: request.credentials.clone(),
            ours: false,
        })
    }

    /// True if both calls are of the same client.
    pub(crate) fn is_of_client(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.session == other.session
                && (self.session.is_some() || self.client.is_same_client(&other.client)))
    }

    /// True if the caller wants this log message. A session that named no level leaves the choice to the
    /// server, unless another client of the connection has set a level there (`chosen`): then it gets `info`
    /// and above.
    pub(crate) fn wants_log(&self, params: Option<&RawValue>, chosen: bool) -> bool {
        let wanted = self.client.log_level.as_deref().and_then(Level::parse);
        let least = match wanted {
            Some(level) => level,
            None if self.session.is_none() => return false,
            None if chosen => Level::Info,
            None => return true,
        };
        let params = params.and_then(|params| Object::parse(params).ok());
        let level = params.and_then(|params| Level::parse(&params.get_str("level")?));
        level.is_none_or(|level| level >= least)
    }
}

/// The deadline clock of a call: messages of the call restart it, open questions stop it.
#[derive(Debug)]
pub(crate) struct CallClock(Mutex<ClockReading>);

#[derive(Debug)]
struct ClockReading {
    /// The last time at which the backend showed that it works on the call.
    active: Instant,
    /// Questions that the client has not answered yet: meanwhile the backend waits for the client.
    questions: usize,
}

impl Default for CallClock {
    fn default() -> Self {
        Self(Mutex::new(ClockReading { active: Instant::now(), questions: 0 }))
    }
}

impl CallClock {
    /// Restarts the clock: the backend sent a message of the call.
    pub(crate) fn touch(&self) {
        self.0.lock().active = Instant::now();
    }

    /// The last activity; `None` while a question is open.
    fn idle_since(&self) -> Option<Instant> {
        let reading = self.0.lock();
        (reading.questions == 0).then_some(reading.active)
    }

    /// Stops the clock until the pause is dropped.
    pub(crate) fn pause(listener: &Arc<CallListener>) -> ClockPause {
        listener.clock.0.lock().questions += 1;
        ClockPause(Arc::clone(listener))
    }

    /// Waits until nothing has happened for `deadline`, or for `cap` from `now` on whatever happens. Returns
    /// the limit that was reached, and true if a question was open.
    pub(crate) async fn expiry(
        &self,
        mut now: Instant,
        deadline: Duration,
        cap: Duration,
    ) -> (Duration, bool) {
        // A deadline above the cap was asked for on purpose.
        let cap = cap.max(deadline);
        let last = now + cap;
        loop {
            let since = self.idle_since();
            let idle = since.unwrap_or(now) + deadline;
            if idle.min(last) <= now {
                return (if idle < last { deadline } else { cap }, since.is_none());
            }
            sleep_until(idle.min(last)).await;
            now = Instant::now();
        }
    }
}

/// Stops the clock while one question is open.
#[derive(Debug)]
pub(crate) struct ClockPause(Arc<CallListener>);

impl Drop for ClockPause {
    fn drop(&mut self) {
        let mut reading = self.0.clock.0.lock();
        reading.questions -= 1;
        reading.active = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn a_question_stops_the_clock_and_its_answer_starts_it_anew() {
        let listener = Arc::new(CallListener::default());
        let started = Instant::now();
        let pause = CallClock::pause(&listener);
        let answer = async {
            tokio::time::sleep(DEADLINE * 3).await;
            drop(pause);
        };
        let (after, ()) =
            tokio::join!(listener.clock.expiry(Instant::now(), DEADLINE, Duration::from_mins(1)), answer);
        assert_eq!(after, (DEADLINE, false));
        assert!(started.elapsed() >= DEADLINE * 4);
    }

    #[tokio::test]
    async fn nothing_stops_it_for_ever() {
        let listener = Arc::new(CallListener::default());
        let _pause = CallClock::pause(&listener);
        let cap = DEADLINE * 3;
        assert_eq!(listener.clock.expiry(Instant::now(), DEADLINE, cap).await, (cap, true));
    }

    #[test]
    fn log_messages_are_filtered_by_the_callers_own_level() {
        let message = |level: &str| RawValue::from_string(format!(r#"{{"level":"{level}"}}"#)).unwrap();
        let wants = |session: Option<SessionId>, wanted: Option<&str>, chosen, level: &str| {
            let client = ClientFacts { log_level: wanted.map(Arc::from), ..ClientFacts::default() };
            CallListener { session, client, ..CallListener::default() }
                .wants_log(Some(&message(level)), chosen)
        };
        let session = Some([0; 16]);
        assert!(
            wants(session, Some("warning"), true, "error") && !wants(session, Some("warning"), true, "info")
        );
        assert!(wants(None, Some("debug"), true, "debug"));
        assert!(!wants(None, None, false, "emergency"), "a modern client must ask for them");
        assert!(wants(session, None, false, "debug") && !wants(session, None, true, "debug"));
    }
}
