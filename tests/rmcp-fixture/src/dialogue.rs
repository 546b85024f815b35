//! Questions to the client, in the form of its era.
//!
//! A legacy client is asked while its request is under way. A modern one gets the questions as a result and
//! repeats its request with the answers; everything that the server must remember meanwhile travels with the
//! client, sealed.

use rmcp::model::{
    ClientCapabilities, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, ListRootsRequest, ProtocolVersion,
    RequestStateCodec, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::answers::ClientAnswers;
use crate::stop::Stop;

/// The questions and answers of one request.
pub(crate) struct Dialogue<'a> {
    context: &'a RequestContext<RoleServer>,
    seal: &'a RequestStateCodec,
    responses: Option<InputResponses>,
    /// Answers of the rounds so far, if the client came back with sealed state.
    state: Option<Vec<ClientAnswers>>,
    round: usize,
}

impl<'a> Dialogue<'a> {
    /// Takes up the dialogue where the request stands. State that was tampered with is an error.
    pub(crate) fn new(
        context: &'a RequestContext<RoleServer>,
        seal: &'a RequestStateCodec,
        responses: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Self, Stop> {
        let tampered = |_| ErrorData::invalid_params("requestState was changed on its way", None);
        let state = state.map(|sealed| seal.open_json(sealed)).transpose().map_err(tampered)?;
        Ok(Self { context, seal, responses, state, round: 0 })
    }

    /// Returns true for a request of 2026-07-28.
    pub(crate) fn modern(&self) -> bool {
        self.context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2026_07_28)
    }

    /// Returns the capabilities of the client: the kinds of questions that it can be asked.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Asks questions, without state.
    pub(crate) async fn ask(&self, questions: InputRequests) -> Result<ClientAnswers, Stop> {
        if !self.modern() {
            return self.put(questions).await;
        }
        match ClientAnswers::complete(self.responses.as_ref(), questions.keys()) {
            Some(answers) => Ok(answers),
            None => Err(Stop::Ask(Box::new(InputRequiredResult::from_input_requests(questions)))),
        }
    }

    /// Asks questions and seals the answers into the state. Rounds have to come in the same order in each
    /// repetition of the request.
    pub(crate) async fn round(&mut self, questions: InputRequests) -> Result<ClientAnswers, Stop> {
        if !self.modern() {
            return self.put(questions).await;
        }
        let round = self.round;
        self.round += 1;
        let answered = self.state.clone().unwrap_or_default();
        if let Some(answers) = answered.get(round) {
            return Ok(answers.clone());
        }
        // Responses count only after a question: a request without state was never asked one.
        let responses = self.state.is_some().then(|| self.responses.take()).flatten();
        if let Some(answers) = ClientAnswers::complete(responses.as_ref(), questions.keys()) {
            self.state.get_or_insert_default().push(answers.clone());
            return Ok(answers);
        }
        let sealed = self.seal.seal_json(&answered);
        let sealed = sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Err(Stop::Ask(Box::new(InputRequiredResult::new(Some(questions), Some(sealed)))))
    }

    async fn put(&self, questions: InputRequests) -> Result<ClientAnswers, Stop> {
        let peer = &self.context.peer;
        let mut answers = ClientAnswers::default();
        for (key, question) in questions {
            let answer = match question {
                InputRequest::Elicitation(form) => {
                    serde_json::to_value(peer.create_elicitation(form.params).await?)
                }
                InputRequest::CreateMessage(prompt) => {
                    serde_json::to_value(peer.create_message(prompt.params).await?)
                }
                InputRequest::ListRoots(_) => serde_json::to_value(peer.list_roots().await?),
                _ => return Err(ErrorData::internal_error("a question that nobody knows", None).into()),
            };
            answers.insert(key, answer?);
        }
        Ok(answers)
    }
}

/// Returns a form for the user with these properties, all of them required.
pub(crate) fn required_form(message: &str, properties: &Value) -> Result<InputRequest, Stop> {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    form(message, json!({"type": "object", "required": required, "properties": properties}))
}

/// Returns a form for the user.
pub(crate) fn form(message: &str, schema: Value) -> Result<InputRequest, Stop> {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema)?,
    };
    Ok(InputRequest::Elicitation(ElicitRequest::new(params)))
}

/// Returns a prompt for the client's model.
pub(crate) fn sampling(prompt: &str) -> InputRequest {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

/// Returns the question for the client's roots.
pub(crate) fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}
