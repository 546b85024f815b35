//! Questions to the client, in the form of its era.
//!
//! A legacy client is asked while its request is under way. A modern one gets the questions as a result and repeats its
//! request with the answers; what the server must remember meanwhile travels with it, sealed.

use rmcp::model::{
    ClientCapabilities, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, ListRootsRequest, ProtocolVersion,
    RequestStateCodec, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::stop::Stop;

/// The conversation about one request.
pub(crate) struct Dialogue<'a> {
    context: &'a RequestContext<RoleServer>,
    seal: &'a RequestStateCodec,
    responses: Option<InputResponses>,
    /// The answers of the rounds so far, if the client came back with sealed state.
    state: Option<Vec<Answers>>,
    round: usize,
}

impl<'a> Dialogue<'a> {
    /// Takes up the conversation where the request is. State that was tampered with is an error.
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

    /// Whether the request is of 2026-07-28.
    pub(crate) fn modern(&self) -> bool {
        self.context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2026_07_28)
    }

    /// What the client can be asked.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Asks, and keeps no state.
    pub(crate) async fn ask(&self, questions: InputRequests) -> Result<Answers, Stop> {
        if !self.modern() {
            return self.put(questions).await;
        }
        match Answers::complete(self.responses.as_ref(), questions.keys()) {
            Some(answers) => Ok(answers),
            None => Err(Stop::Ask(Box::new(InputRequiredResult::from_input_requests(questions)))),
        }
    }

    /// Asks, and remembers in sealed state what was answered. To be called in the same order in each repetition.
    pub(crate) async fn round(&mut self, questions: InputRequests) -> Result<Answers, Stop> {
        if !self.modern() {
            return self.put(questions).await;
        }
        let round = self.round;
        self.round += 1;
        let answered = self.state.clone().unwrap_or_default();
        if let Some(answers) = answered.get(round) {
            return Ok(answers.clone());
        }
        // Responses count only for a question that was asked: without state there was none.
        let responses = self.state.is_some().then(|| self.responses.take()).flatten();
        if let Some(answers) = Answers::complete(responses.as_ref(), questions.keys()) {
            self.state.get_or_insert_default().push(answers.clone());
            return Ok(answers);
        }
        let sealed = self.seal.seal_json(&answered);
        let sealed = sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Err(Stop::Ask(Box::new(InputRequiredResult::new(Some(questions), Some(sealed)))))
    }

    async fn put(&self, questions: InputRequests) -> Result<Answers, Stop> {
        let peer = &self.context.peer;
        let mut answers = Answers::default();
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

/// A form for the user with these properties, all of them required.
pub(crate) fn required_form(message: &str, properties: &Value) -> Result<InputRequest, Stop> {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    form(message, json!({"type": "object", "required": required, "properties": properties}))
}

/// A form for the user.
pub(crate) fn form(message: &str, schema: Value) -> Result<InputRequest, Stop> {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema)?,
    };
    Ok(InputRequest::Elicitation(ElicitRequest::new(params)))
}

/// A prompt for the client's model.
pub(crate) fn sampling(prompt: &str) -> InputRequest {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

/// The question for the client's roots.
pub(crate) fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}
