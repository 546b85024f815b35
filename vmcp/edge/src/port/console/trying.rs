//! A call of one tool from its form, and answers to the questions of its server.
//!
//! The call goes through the one seam of all calls: that of a client without credentials where a client port
//! lets such clients in, or that of an identity which an operator chooses, by claims or by subject. A chosen
//! identity lends its rights alone: neither its tokens nor what vmcp keeps for it
//! ([`Principal::operator`]). So the operator must have a name for the audit event: where the console is
//! open, no identity can be chosen.

mod tried_call;
pub(super) mod waiting_calls;

use std::net::IpAddr;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vmcp_config::Backend;
use vmcp_console::pages::try_tool::question::{ACTION, AskedQuestion, QUESTION, QuestionKind};
use vmcp_console::pages::try_tool::{CallEnd, TryTool, try_tool};
use vmcp_console::schema::{arguments, check, defaults, given, required_defaults};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::codes;

use self::tried_call::{Step, TriedCall, TriedEnd};
use self::waiting_calls::{WAIT, WaitingCall};
use super::access::form_check::CheckedForm;
use super::access::{ConsoleDoor, Visitor};
use super::answer::{indented, parsed};
use super::catalog::{NamedTool, Unknown};
use super::forms::value;
use super::other_pages::client_query::{ClientQuery, WANTS_SUBJECT};
use crate::port::admin::diagnosis::explain_tool::principal;
use crate::port::admin::guard::audit::{OperatorAddress, OperatorName};
use crate::port::admin::operator_call::{OperatorAnswer, OperatorCall};

/// Reason for which nothing is called where clients sign in, and the operator has not.
const WANTS_CREDENTIALS: &str = "This server's clients prove who they are (incomingAuth). To call as one of them, sign in \
    to the console: set server.adminTokens, or server.console: oidc. `vmcp call` calls with a client's token.";
/// Reason for which no client can be chosen.
const NEEDS_SIGN_IN: &str = "To call as a chosen client, sign in: set server.adminTokens, or server.console: oidc. Here \
    everyone on this machine is an operator, and the audit event could not say who called.";
/// Reason for which nothing is called in a process that serves one client on standard input and output.
const NO_CLIENT_PORT: &str = "This process has no client port: only its own client calls tools.";
/// Reason for which a hidden tool is not called.
const IS_HIDDEN: &str =
    "Clients cannot call this tool: a filter hides it, or its definition waits for approval.";
/// Message of an answer whose call is gone.
const NO_LONGER_WAITS: &str = "This call no longer waits for an answer here: it was answered, its time is over, the server \
    was restarted, or another replica has it. Call the tool again.";
/// Message of an answer whose call other policies judged.
const IS_OUTDATED: &str =
    "The policies have changed since the call began, so it was cancelled. Call the tool again.";
/// Message of a call that cannot wait.
const TOO_MANY: &str = "Too many calls wait for answers, so this one was cancelled. Answer the others first.";

/// The query `?call=NAME`: the call that an answer is for.
#[derive(Deserialize)]
pub(super) struct AnsweredCall {
    #[serde(default)]
    call: String,
}

/// Answers `GET /console/try`; `?who=SUBJECT&claims=JSON&issuer=URL&profile=NAME` chooses a client.
pub(super) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
    Query(client): Query<ClientQuery>,
) -> Result<Html<String>, Unknown> {
    let tool = query.find(&door.engine().snapshot())?;
    Ok(shown(&door, &visitor, &page(&door, &visitor, &tool, &client)))
}

/// Answers `POST /console/try`.
pub(super) async fn call(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Extension(OperatorName(operator)): Extension<OperatorName>,
    Extension(CheckedForm(pairs)): Extension<CheckedForm>,
    address: Option<Extension<OperatorAddress>>,
    Query(query): Query<NamedTool>,
) -> Result<Html<String>, Unknown> {
    let tool = query.find(&door.engine().snapshot())?;
    // Fields about a client count for an operator with a name alone.
    let client = if visitor.is_proved() { ClientQuery::of_form(&pairs) } else { ClientQuery::default() };
    let mut data = page(&door, &visitor, &tool, &client);
    if data.refused.is_some() {
        return Ok(shown(&door, &visitor, &data));
    }
    value(&pairs, "arguments").clone_into(&mut data.given_json);
    data.given = given(&pairs);
    let address = address.map(|Extension(OperatorAddress(address))| address);
    let begun = caller(&door, &client, address, &operator)
        .and_then(|caller| Ok((caller, arguments(&data.input_schema, &pairs)?)));
    let (caller, arguments) = match begun {
        Ok(begun) => begun,
        Err(mistake) => {
            data.end = Some(CallEnd::Mistake(mistake));
            return Ok(shown(&door, &visitor, &data));
        }
    };
    if caller.operator.is_some() {
        caller.identity.subject().clone_into(&mut data.who);
        let snapshot = door.engine().snapshot();
        door.engine().prepare(&snapshot, &caller).await;
        data.is_denied = snapshot.view(&caller).tool(&tool.name).is_none();
    }
    let confirmed = value(&pairs, "consent") == "yes";
    let request = OperatorCall { name: tool.name.clone(), arguments, confirmed };
    let call = TriedCall::begin(door.engine().clone(), caller, request);
    let begun = WaitingCall { call, page: data, person: person(&visitor, &operator) };
    Ok(advance(&door, &visitor, begun).await)
}

/// Answers `POST /console/try/answer`: hands the answer of a question to its server, and goes on with the
/// call.
pub(super) async fn answer(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Extension(OperatorName(operator)): Extension<OperatorName>,
    Extension(CheckedForm(pairs)): Extension<CheckedForm>,
    Query(query): Query<NamedTool>,
    Query(AnsweredCall { call }): Query<AnsweredCall>,
) -> Result<Response, Unknown> {
    let refused = |mistake: &str| -> Result<Response, Unknown> {
        let tool = query.find(&door.engine().snapshot())?;
        let mut data = page(&door, &visitor, &tool, &ClientQuery::default());
        data.end = Some(CallEnd::Mistake(mistake.to_owned()));
        Ok((StatusCode::CONFLICT, shown(&door, &visitor, &data)).into_response())
    };
    let Some(mut waiting) = door.waiting_calls().take(&call, &person(&visitor, &operator)) else {
        return refused(NO_LONGER_WAITS);
    };
    if waiting.call.is_outdated(&door.engine().snapshot().policy) {
        drop(waiting);
        return refused(IS_OUTDATED);
    }
    let kind = asked(&waiting.call).map(|asked| asked.kind).unwrap_or_default();
    match answer_of(&kind, &pairs) {
        Ok(answer) => {
            // A question that was closed meanwhile needs no answer: the page shows how the call goes on.
            let number = value(&pairs, QUESTION).parse().unwrap_or_default();
            let _ = waiting.call.answer(number, &answer);
            Ok(advance(&door, &visitor, waiting).await.into_response())
        }
        Err(mistake) => Ok(ask(&door, &visitor, waiting, Some((given(&pairs), mistake))).into_response()),
    }
}

/// Waits until the call ends, or its server asks; returns the page about that.
async fn advance(door: &ConsoleDoor, visitor: &Visitor, waiting: WaitingCall) -> Html<String> {
    let WaitingCall { call, mut page, person } = waiting;
    match call.next().await {
        Step::Ended(ended, refused) => {
            page.visit_first = visit_first(&ended);
            let (end, result) = end(ended);
            (page.end, page.result, page.refused_requests) = (Some(end), result, refused);
            shown(door, visitor, &page)
        }
        Step::Asks(call) => ask(door, visitor, WaitingCall { call, page, person }, None),
    }
}

/// Keeps a call whose server waits, and returns the page that asks its first question. `before` are the
/// fields of an answer with a mistake, and the mistake.
fn ask(
    door: &ConsoleDoor,
    visitor: &Visitor,
    waiting: WaitingCall,
    before: Option<(Vec<(String, String)>, String)>,
) -> Html<String> {
    let mut page = waiting.page.clone();
    waiting.call.refused().clone_into(&mut page.refused_requests);
    let question = asked(&waiting.call);
    let kept = door.waiting_calls().keep(waiting);
    match (question, kept) {
        (Some(mut question), Some(call)) => {
            question.call = call;
            if let Some((given, mistake)) = before {
                (question.given, question.mistake) = (given, Some(mistake));
            }
            page.question = Some(question);
        }
        _ => page.end = Some(CallEnd::Mistake(TOO_MANY.to_owned())),
    }
    shown(door, visitor, &page)
}

/// Returns the first open question of a call.
fn asked(call: &TriedCall) -> Option<AskedQuestion> {
    let (number, params) = call.first()?;
    let params = params.and_then(|params| parsed(params.get())).unwrap_or_default();
    let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let schema = params.get("requestedSchema").cloned().unwrap_or_default();
    Some(AskedQuestion {
        number,
        message: text("message"),
        given: defaults(&schema),
        kind: if text("mode") == "url" {
            QuestionKind::Visit(text("url"))
        } else {
            QuestionKind::Form(schema)
        },
        further: call.further(),
        waits_seconds: WAIT.as_secs(),
        ..AskedQuestion::default()
    })
}

/// Returns the `ElicitResult` of a form, or the mistake in it.
fn answer_of(kind: &QuestionKind, pairs: &[(String, String)]) -> Result<Value, String> {
    match (value(pairs, ACTION), kind) {
        ("accept", QuestionKind::Form(schema)) => {
            let content: Map<String, Value> = arguments(schema, pairs)?;
            check(schema, &content)?;
            Ok(json!({ "action": "accept", "content": content }))
        }
        ("accept", QuestionKind::Visit(_)) => Ok(json!({ "action": "accept" })),
        (action @ ("decline" | "cancel"), _) => Ok(json!({ "action": action })),
        _ => Err("choose an answer: accept, decline or cancel".to_owned()),
    }
}

/// Returns the caller whom an operator chose, or the mistake in the choice.
fn caller(
    door: &ConsoleDoor,
    client: &ClientQuery,
    address: Option<IpAddr>,
    operator: &str,
) -> Result<Principal, String> {
    let snapshot = door.engine().snapshot();
    let chosen = principal(&client.request(&snapshot.config, "")?, &snapshot.config)?;
    let is_known = matches!(chosen.identity, Identity::Known(_));
    // The identity is judged and not the form, which may have claims such as `{}`.
    if !is_known && !snapshot.authentication.is_anonymous() {
        return Err(WANTS_SUBJECT.to_owned());
    }
    // A client without credentials has nothing to lend.
    let operator = is_known.then(|| operator.into());
    Ok(Principal { address, operator, ..chosen })
}

/// Returns the person who calls and answers: the operator, within one session.
fn person(visitor: &Visitor, operator: &str) -> String {
    format!("{} {operator}", visitor.session())
}

/// Returns why the console does not call a tool; `None`: it may.
fn refusal(door: &ConsoleDoor, visitor: &Visitor, tool: &CatalogTool) -> Option<&'static str> {
    let snapshot = door.engine().snapshot();
    if door.admin().clients_at().is_none() {
        return Some(NO_CLIENT_PORT);
    }
    if !snapshot.authentication.is_anonymous() && !visitor.is_proved() {
        return Some(WANTS_CREDENTIALS);
    }
    snapshot.whole_view().tool(&tool.name).is_none().then_some(IS_HIDDEN)
}

/// Returns the data of a page before a call.
fn page(door: &ConsoleDoor, visitor: &Visitor, tool: &CatalogTool, client: &ClientQuery) -> TryTool {
    let config = door.engine().snapshot().config.clone();
    let schema = tool.definition.input_schema.as_deref().and_then(|schema| parsed(schema.get()));
    let input_schema = schema.unwrap_or_default();
    let spec = config.backends.iter().find(|spec| *spec.name == *tool.backend);
    TryTool {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        original: tool.definition.name.clone(),
        given: required_defaults(&input_schema),
        input_schema,
        refused: refusal(door, visitor, tool),
        client: visitor.is_proved().then(|| client.question(&config, None)),
        no_client: if visitor.is_proved() { "" } else { NEEDS_SIGN_IN },
        is_per_client: spec.is_some_and(Backend::tells_clients_apart),
        ..TryTool::default()
    }
}

fn shown(door: &ConsoleDoor, visitor: &Visitor, data: &TryTool) -> Html<String> {
    Html(try_tool(&door.frame(visitor), data))
}

/// Returns the first address that a legacy server wants to be opened before the call is made again.
fn visit_first(ended: &TriedEnd) -> Option<String> {
    let Ok(OperatorAnswer::Error(error)) = ended else { return None };
    let is_demand = error.get("code").and_then(Value::as_i64) == Some(codes::URL_ELICITATION_REQUIRED);
    let address = error.pointer("/data/elicitations/0/url").filter(|_| is_demand)?;
    address.as_str().map(str::to_owned)
}

/// Returns the end of a call, and its result; null without one.
fn end(answer: TriedEnd) -> (CallEnd, Value) {
    match answer {
        Ok(OperatorAnswer::Result(result)) => {
            let is_failure = result.get("isError").is_some_and(|is_error| is_error == true);
            (CallEnd::Answer(indented(&result.to_string()), is_failure), result)
        }
        Ok(OperatorAnswer::Error(error)) => {
            (CallEnd::Answer(indented(&error.to_string()), true), Value::Null)
        }
        Err(error) => (CallEnd::Mistake(error.to_string()), Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_open_first_is_read_from_the_error_of_a_legacy_server() {
        let error = |code: i64| {
            let elicitations = json!([{"mode": "url", "url": "https://example.com", "elicitationId": "1"}]);
            let data = json!({ "elicitations": elicitations });
            Ok(OperatorAnswer::Error(json!({"code": code, "message": "open it", "data": data})))
        };
        assert_eq!(visit_first(&error(-32042)).as_deref(), Some("https://example.com"));
        assert_eq!(visit_first(&error(-32603)), None);
        assert_eq!(visit_first(&Ok(OperatorAnswer::Error(json!({"code": -32042})))), None);
        assert_eq!(visit_first(&Ok(OperatorAnswer::Result(json!({})))), None);
    }

    #[test]
    fn an_answer_has_the_content_that_its_form_asks_for() {
        let form =
            QuestionKind::Form(json!({"required": ["age"], "properties": {"age": {"type": "integer"}}}));
        let visit = QuestionKind::Visit("https://example.com".to_owned());
        let of = |kind: &QuestionKind, pairs: &[(&str, &str)]| {
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            answer_of(kind, &pairs)
        };
        let accept = ("action", "accept");
        assert_eq!(
            of(&form, &[accept, ("argument.age", "36")]),
            Ok(json!({"action": "accept", "content": {"age": 36}}))
        );
        assert!(of(&form, &[accept]).unwrap_err().contains("`age` is required"));
        assert!(of(&form, &[accept, ("argument.age", "old")]).unwrap_err().contains("`age`"));
        assert_eq!(of(&form, &[("action", "decline")]), Ok(json!({"action": "decline"})));
        assert_eq!(of(&visit, &[accept]), Ok(json!({"action": "accept"})));
        assert_eq!(of(&visit, &[("action", "cancel")]), Ok(json!({"action": "cancel"})));
        assert!(of(&visit, &[("action", "other")]).is_err());
    }
}
