//! [`UserTime`]: the time for which calls of a script wait for a person. Time limits leave it out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use vmcp_backend::{Event, EventMap, Question};

/// A clock that runs while at least one question is open.
#[derive(Debug, Clone, Default)]
pub(super) struct UserTime(Arc<Mutex<OpenQuestions>>);

#[derive(Debug, Default)]
struct OpenQuestions {
    questions: usize,
    /// Begin of the present wait, while a question is open.
    since: Option<Instant>,
    /// Time of all waits before.
    total: Duration,
}

/// An open question.
struct OpenQuestion(UserTime);

impl UserTime {
    /// Returns the time so far.
    pub(super) fn total(&self) -> Duration {
        let open = self.0.lock();
        open.total.saturating_add(open.since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Returns a map of events that counts the time between each question and its answer.
    pub(super) fn of_events(&self) -> EventMap {
        let time = self.clone();
        Arc::new(move |event| {
            Some(match event {
                Event::Question(question) => Event::Question(time.timed(question)),
                event @ Event::Notification(_) => event,
            })
        })
    }

    fn timed(&self, question: Question) -> Question {
        let Question { id, method, params, answer: mut asked } = question;
        let (answer, answered) = oneshot::channel();
        let open = OpenQuestion::new(self);
        tokio::spawn(async move {
            let _open = open;
            tokio::select! {
                answer = answered => {
                    if let Ok(answer) = answer {
                        // A backend that is gone needs no answer.
                        let _ = asked.send(answer);
                    }
                }
                // No answer is wanted any longer: dropping the receiver withdraws the question.
                () = asked.closed() => {}
            }
        });
        Question { id, method, params, answer }
    }
}

impl OpenQuestion {
    fn new(time: &UserTime) -> OpenQuestion {
        let mut open = time.0.lock();
        open.questions += 1;
        open.since.get_or_insert_with(Instant::now);
        drop(open);
        OpenQuestion(time.clone())
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut open = self.0.0.lock();
        open.questions = open.questions.saturating_sub(1);
        if open.questions == 0
            && let Some(since) = open.since.take()
        {
            open.total = open.total.saturating_add(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_backend::RpcOutcome;

    #[tokio::test]
    async fn the_clock_runs_from_the_first_question_to_the_last_answer() {
        let time = UserTime::default();
        let ask = |answer| {
            let question = Question { id: None, method: "elicitation/create".into(), params: None, answer };
            let Some(Event::Question(asked)) = time.of_events()(Event::Question(question)) else { panic!() };
            asked
        };
        let (one, one_answered) = oneshot::channel();
        let (other, _) = oneshot::channel::<RpcOutcome>();
        let asked = ask(one);
        let mut withdrawn = ask(other);
        withdrawn.answer.closed().await;
        let running = time.total();
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(time.total() > running, "one question is open");
        assert!(asked.answer.send(RpcOutcome::result(vmcp_json::text::empty_object())).is_ok());
        assert!(matches!(one_answered.await, Ok(RpcOutcome::Result(_))));
        while time.0.lock().questions > 0 {
            tokio::task::yield_now().await;
        }
        let stopped = time.total();
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(time.total(), stopped);
    }
}
