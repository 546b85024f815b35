//! [`InputRequests`]: the questions that one call asks of a modern client, keyed as `inputRequests` has them.

use vmcp_backend::{Question, RpcOutcome};
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::keys::{INPUT_REQUESTS, RESULT_TYPE};

/// Open questions of one call; a further one is dropped, which tells the backend.
const MAX_QUESTIONS: usize = 32;

/// The open questions of one call.
#[derive(Debug, Default)]
pub(super) struct InputRequests {
    /// Key and question, in the order they were asked.
    open: Vec<(String, Question)>,
    /// Number of the newest key.
    last: u32,
}

impl InputRequests {
    /// Returns true if no question is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a question under a new key, unless [`MAX_QUESTIONS`] are open.
    pub(super) fn push(&mut self, question: Question) {
        if self.open.len() < MAX_QUESTIONS {
            self.last += 1;
            self.open.push((format!("q{}", self.last), question));
        }
    }

    /// Hands the answers of a client to the backend; unanswered questions stay open under their keys.
    pub(super) fn answer(&mut self, responses: &Object<'_>) {
        let open = std::mem::take(&mut self.open);
        for (key, question) in open {
            match responses.get(&key).filter(|response| text::is_object(response.get())) {
                // The backend may have withdrawn the question.
                Some(response) => drop(question.answer.send(RpcOutcome::result(response))),
                None => self.open.push((key, question)),
            }
        }
    }

    /// Encodes the open questions as an `input_required` result, without the state.
    pub(super) fn result(&self) -> JsonRope<'static> {
        let requests: Vec<String> = self.open.iter().map(|(key, question)| request(key, question)).collect();
        let requests = requests.join(",");
        format!("{{\"{RESULT_TYPE}\":\"input_required\",\"{INPUT_REQUESTS}\":{{{requests}}}}}").into()
    }
}

fn request(key: &str, question: &Question) -> String {
    let params = question.params.as_deref().map(|params| format!(",\"params\":{params}"));
    format!("\"{key}\":{{\"method\":{}{}}}", text::quoted(&question.method), params.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use tokio::sync::oneshot;

    #[test]
    fn questions_keep_their_keys_until_they_are_answered() {
        let mut asked = InputRequests::default();
        let ask = |asked: &mut InputRequests, params: &str| {
            let (answer, answered) = oneshot::channel();
            let params = RawValue::from_string(params.into()).ok();
            asked.push(Question { id: None, method: "elicitation/create".into(), params, answer });
            answered
        };
        let mut first = ask(&mut asked, r#"{"message":"1"}"#);
        let mut second = ask(&mut asked, r#"{"message":"2"}"#);
        asked.answer(&Object::parse_str(r#"{"q2":{"action":"accept"},"q1":7,"other":{}}"#).unwrap());
        assert!(second.try_recv().is_ok() && first.try_recv().is_err());
        let _third = ask(&mut asked, "{}");
        assert_eq!(
            asked.result().into_cow(),
            r#"{"resultType":"input_required","inputRequests":{"q1":{"method":"elicitation/create","params":{"message":"1"}},"q3":{"method":"elicitation/create","params":{}}}}"#
        );
    }
}
