//! Prompts, and completion of their arguments.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::json;

use crate::catalog::{fill, texts};
use crate::dialogue::{Dialogue, required_form};
use crate::server::Server;
use crate::stop::Stop;

/// Answers `prompts/get`.
pub(crate) async fn get(
    server: &Server,
    params: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, Stop> {
    let name = params.name.as_str();
    let found = server.shared.catalog.prompts.iter().find(|entry| entry.definition.name == name);
    let answer = found.and_then(|entry| entry.answer.as_ref());
    let answer = answer.ok_or_else(|| ErrorData::invalid_params(format!("unknown prompt: {name}"), None))?;
    let mut arguments = texts(params.arguments.as_ref());
    if name == "test_input_required_result_prompt" {
        let dialogue = Dialogue::new(
            context,
            &server.shared.seal,
            params.input_responses,
            params.request_state.as_deref(),
        )?;
        let form =
            required_form("What context should the prompt use?", &json!({"context": {"type": "string"}}))?;
        let answers = dialogue.ask([("user_context".to_owned(), form)].into()).await?;
        arguments.insert("context", answers.text("user_context", "context").to_owned());
    }
    Ok(GetPromptResult::new(fill(answer, &arguments)?).into())
}

/// Answers `completion/complete` with the same towns for every argument.
pub(crate) fn complete(params: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let towns =
        ["paris", "parma", "passau"].into_iter().filter(|town| town.starts_with(&params.argument.value));
    let values = CompletionInfo::new(towns.map(ToOwned::to_owned).collect());
    Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
}
