use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;

use super::*;
use crate::message::meta::Trace;
use crate::message::methods;
use crate::message::owned::OwnedParams;
use crate::message::request_meta::{ProgressToken, RequestMeta, Stamp};
use crate::message::{era::Era, era::Revision};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn text(spliced: JsonRope<'_>) -> String {
    spliced.into_cow().into_owned()
}

fn results(method: &str, json: &str, from: Era, to: Era) -> Result<String, TranslateError> {
    result(method, &raw(json), &ResultPlan { from, to, ..ResultPlan::default() }).map(text)
}

const MODERN: Stamp<'static> = Stamp::Modern {
    revision: Revision::MODERN,
    client_info: Some(r#"{"name":"c"}"#),
    client_capabilities: "{}",
    log_level: None,
};

fn requested(method: &str, params: Option<&str>, plan: &RequestPlan<'_>) -> Option<String> {
    let params = params.map_or_else(OwnedParams::default, |text| OwnedParams::from_text(text).unwrap());
    let written = String::from_utf8(write_request(7, method, &params, plan)).unwrap();
    let rest = written.strip_prefix(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}""#)).unwrap();
    let params = rest.strip_suffix('}').unwrap();
    (!params.is_empty()).then(|| params.strip_prefix(r#","params":"#).unwrap().to_owned())
}

#[test]
fn a_request_to_a_legacy_backend_loses_what_is_modern() {
    let plan = RequestPlan { subject: Some("get"), ..RequestPlan::default() };
    let modern = r#"{"name":"b__get","arguments":{"x": 1e400},"inputResponses":{},"requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
    assert_eq!(
        requested("tools/call", Some(modern), &plan).unwrap(),
        r#"{"name":"get","arguments":{"x": 1e400}}"#
    );
    let legacy = r#"{ "name" : "get", "task":{} }"#;
    assert_eq!(requested("tools/call", Some(legacy), &plan).as_deref(), Some(legacy), "nothing to change");
    assert_eq!(requested("tools/list", None, &RequestPlan::default()), None);
    assert_eq!(requested("tools/list", Some("{}"), &RequestPlan::default()).as_deref(), Some("{}"));
}

#[test]
fn a_request_to_a_modern_backend_is_stamped() {
    let meta =
        RequestMeta { stamp: MODERN, progress_token: ProgressToken::Replace("9"), trace: Trace::default() };
    let plan = RequestPlan { meta, subject: Some("n") };
    let stamped = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{}"#;
    assert_eq!(
        requested(
            "tools/call",
            Some(r#"{"_meta":{"progressToken":1,"v":2},"name":"x","task":{},"requestState":"outer"}"#),
            &plan
        ),
        Some(format!(
            r#"{{"_meta":{{"progressToken":9,"v":2,{stamped}}},"name":"n","requestState":"outer"}}"#
        ))
    );
    let plan = RequestPlan {
        meta: RequestMeta { stamp: MODERN, ..RequestMeta::default() },
        ..RequestPlan::default()
    };
    assert_eq!(requested("tools/list", None, &plan), Some(format!(r#"{{"_meta":{{{stamped}}}}}"#)));
    assert_eq!(
        requested("tools/list", Some(r#"{"_meta":null}"#), &plan),
        Some(format!(r#"{{"_meta":{{{stamped}}}}}"#))
    );
}

#[test]
fn absent_metadata_stays_absent_whichever_way_it_is_written() {
    let to_legacy = |params| requested("tools/call", Some(params), &RequestPlan::default()).unwrap();
    assert_eq!(to_legacy(r#"{"name":"x","_meta":null}"#), r#"{"name":"x"}"#, "the schema knows no null");
    let empty = r#"{"name":"x", "_meta" : {}}"#;
    assert_eq!(to_legacy(empty), empty, "valid, so it passes as it came");
}

#[test]
fn every_method_names_its_subject_where_it_belongs() {
    let renamed = |method: &str, params: &str| {
        requested(method, Some(params), &RequestPlan { subject: Some("new"), ..RequestPlan::default() })
            .unwrap()
    };
    assert_eq!(
        renamed("prompts/get", r#"{"name":"old","arguments":{}}"#),
        r#"{"name":"new","arguments":{}}"#
    );
    assert_eq!(renamed("resources/read", r#"{"uri":"old"}"#), r#"{"uri":"new"}"#);
    assert_eq!(renamed("resources/subscribe", r#"{"uri":"old"}"#), r#"{"uri":"new"}"#);
    let complete = r#"{"ref":{"type":"ref/prompt","name":"old"},"argument":{"name":"old","value":""}}"#;
    assert_eq!(renamed("completion/complete", complete), complete.replacen("old", "new", 1));
    let template = r#"{"ref":{"uri":"old","type":"ref/resource"},"argument":{}}"#;
    assert_eq!(renamed("completion/complete", template), template.replace("old", "new"));
    assert_eq!(renamed("tools/list", r#"{"name":"old"}"#), r#"{"name":"old"}"#, "it has none");
}

#[test]
fn a_legacy_result_becomes_complete() {
    let modern = |method, json| results(method, json, Era::Legacy, Era::Modern).unwrap();
    assert_eq!(modern("tools/call", r#"{"content":[ ]}"#), r#"{"content":[ ],"resultType":"complete"}"#);
    let hints = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
    for method in
        [methods::TOOLS_LIST, methods::RESOURCES_READ, methods::PROMPTS_LIST, methods::TEMPLATES_LIST]
    {
        assert_eq!(modern(method, "{}"), format!("{{{hints}}}"));
    }
    assert_eq!(modern("prompts/get", "{}"), r#"{"resultType":"complete"}"#);
    assert_eq!(modern("tools/call", r#"{"resultType":"vendor's"}"#), r#"{"resultType":"complete"}"#);
    let plan = ResultPlan { to: Era::Modern, server_info: Some(r#"{"name":"v"}"#), ..ResultPlan::default() };
    let info = r#""io.modelcontextprotocol/serverInfo":{"name":"v"}"#;
    assert_eq!(
        text(result("tools/call", &raw(r#"{"_meta":{"x":1}}"#), &plan).unwrap()),
        format!(r#"{{"_meta":{{"x":1,{info}}},"resultType":"complete"}}"#)
    );
    assert_eq!(
        text(result("tools/call", &raw("{}"), &plan).unwrap()),
        format!(r#"{{"resultType":"complete","_meta":{{{info}}}}}"#)
    );
}

#[test]
fn a_modern_result_fits_a_legacy_client() {
    let legacy = |method: &str, json: &str| results(method, json, Era::Modern, Era::Legacy);
    let read = r#"{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#;
    assert_eq!(legacy("resources/read", read).unwrap(), r#"{"contents":[]}"#);
    let call = r#"{"content":[],"ttlMs":5,"structuredContent":{"a":1},"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1}}"#;
    let expected = r#"{"content":[],"ttlMs":5,"structuredContent":{"a":1},"_meta":{"x":1}}"#;
    assert_eq!(legacy("tools/call", call).unwrap(), expected);
    for (call, expected) in [
        (r#"{"content":[],"structuredContent":[1]}"#, r#"{"content":[{"type":"text","text":"[1]"}]}"#),
        (
            r#"{"content":[{"type":"image"}, 7 ],"structuredContent":"a"}"#,
            r#"{"content":[{"type":"image"}, 7,{"type":"text","text":"\"a\""}]}"#,
        ),
        (
            r#"{"structuredContent":[1],"content":[{"type":"text","text":"one"}]}"#,
            r#"{"content":[{"type":"text","text":"one"}]}"#,
        ),
        (r#"{"structuredContent":1}"#, r#"{"content":[{"type":"text","text":"1"}]}"#),
        (r#"{"structuredContent":1,"content":null}"#, r#"{"content":null}"#),
    ] {
        assert_eq!(legacy("tools/call", call).unwrap(), expected);
    }
    for kind in ["input_required", "task", "vendor/x"] {
        let result = legacy("tools/call", &format!(r#"{{"resultType":"{kind}"}}"#));
        assert_eq!(result, Err(TranslateError::NotComplete(kind.into())));
    }
}

#[test]
fn results_within_an_era_lose_nothing() {
    let odd = r#"{ "ttlMs" : -1 , "resultType":7, "a":1e400 }"#;
    assert_eq!(results("tools/list", odd, Era::Legacy, Era::Legacy).unwrap(), odd);
    let complete = r#"{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"public"}"#;
    assert_eq!(results("tools/list", complete, Era::Modern, Era::Modern).unwrap(), complete);
    let silent = results("tools/list", r#"{"tools":[]}"#, Era::Modern, Era::Modern).unwrap();
    assert_eq!(silent, r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#);
    let question = r#"{"resultType":"input_required","inputRequests":{},"requestState":"inner"}"#;
    assert_eq!(
        results("resources/read", question, Era::Modern, Era::Modern).unwrap(),
        question,
        "no cache hints"
    );
    let plan = ResultPlan {
        from: Era::Modern,
        to: Era::Modern,
        request_state: Some("sealed"),
        ..ResultPlan::default()
    };
    assert_eq!(
        text(result("tools/call", &raw(question), &plan).unwrap()),
        question.replace("inner", "sealed")
    );
    let twice = results("tools/call", r#"{"isError":true,"isError":false}"#, Era::Modern, Era::Modern);
    assert!(matches!(twice, Err(TranslateError::Malformed { part: "result", .. })));
}

#[test]
fn not_found_has_another_code_in_each_era() {
    let errors =
        |method, json: &str, from, to| text(error(method, &raw(json), from, to, Some("u:1")).unwrap());
    let (legacy, modern) = (Era::Legacy, Era::Modern);
    let read = "resources/read";
    assert_eq!(
        errors(read, r#"{"code": -32002,"message":"m"}"#, legacy, modern),
        r#"{"code": -32602,"message":"m","data":{"uri":"u:1"}}"#
    );
    assert_eq!(
        errors(read, r#"{"code":-32002,"message":"m","data":{"uri":"u:2"}}"#, legacy, modern),
        r#"{"code":-32602,"message":"m","data":{"uri":"u:2"}}"#
    );
    assert_eq!(
        errors(read, r#"{"code":-32002,"message":"m","data":{"x":1}}"#, legacy, modern),
        r#"{"code":-32602,"message":"m","data":{"x":1,"uri":"u:1"}}"#
    );
    let data = r#"{"code":-32002,"message":"m","data":"text"}"#;
    assert_eq!(errors(read, data, legacy, modern), data.replace("-32002", "-32602"));
    assert_eq!(
        errors("tools/call", r#"{"code":-32002,"message":"m"}"#, legacy, modern),
        r#"{"code":-32602,"message":"m"}"#
    );

    let found = r#"{"code":-32602,"message":"m","data":{"uri":"u"}}"#;
    assert_eq!(errors(read, found, modern, legacy), found.replace("-32602", "-32002"));
    assert_eq!(errors("tools/call", found, modern, legacy), found);
    assert_eq!(
        errors(read, r#"{"code":-32602,"message":"m"}"#, legacy, modern),
        r#"{"code":-32602,"message":"m","data":{"uri":"u:1"}}"#,
        "as many legacy servers say it"
    );
    let arguments = r#"{"code":-32602,"message":"m"}"#;
    assert_eq!(errors(read, arguments, modern, legacy), arguments, "bad parameters stay bad parameters");
    let own = r#"{"code":-32002,"message":"m"}"#;
    assert_eq!(errors(read, own, legacy, legacy), own);
}

#[test]
fn a_url_to_visit_becomes_a_question() {
    let asked =
        r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"https://e.com"}]}}"#;
    let internal = text(error("tools/call", &raw(asked), Era::Legacy, Era::Modern, None).unwrap());
    assert_eq!(internal, asked.replace("-32042", "-32603"));
    assert_eq!(
        url_elicitation(&raw(asked)).unwrap().unwrap(),
        r#"{"resultType":"input_required","inputRequests":{"url-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.com"}}}}"#
    );
    for other in [r#"{"code":-32042,"message":"m"}"#, &asked.replace("-32042", "-1")] {
        assert_eq!(url_elicitation(&raw(other)), Ok(None));
    }
}

#[test]
fn notifications_follow_the_stream_they_go_to() {
    let (id, token) = (raw("\"listen\""), raw("7"));
    let send = |method, params: Option<&str>, to, subscription: bool| {
        let params = params.map(raw);
        let subscription_id = subscription.then_some(&*id);
        let plan = NotificationPlan { to, progress_token: Some(&token), subscription_id };
        match notification(method, params.as_deref(), &plan).unwrap() {
            Translated::Dropped => Err(()),
            Translated::Params(params) => Ok(params.map(text)),
        }
    };
    let (legacy, modern) = (Era::Legacy, Era::Modern);
    let tagged = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen"}}"#;
    assert_eq!(send(methods::TOOLS_CHANGED, None, modern, true), Ok(Some(tagged.into())));
    let theirs = tagged.replace("\"listen\"", "1");
    assert_eq!(send(methods::TOOLS_CHANGED, Some(&theirs), modern, true), Ok(Some(tagged.into())));
    assert_eq!(send(methods::TOOLS_CHANGED, Some(tagged), legacy, false), Ok(Some("{}".into())));
    assert_eq!(send(methods::TOOLS_CHANGED, None, legacy, false), Ok(None));
    let progress = r#"{"progressToken":"ours","progress":0.10}"#;
    assert_eq!(
        send(methods::PROGRESS, Some(progress), legacy, false),
        Ok(Some(progress.replace("\"ours\"", "7")))
    );
    assert_eq!(send(methods::ACKNOWLEDGED, Some("{}"), legacy, false), Err(()));
    assert_eq!(send("notifications/elicitation/complete", Some("{}"), modern, false), Err(()));
    let vendor = r#"{ "x":1e400 }"#;
    assert_eq!(send("notifications/x", Some(vendor), legacy, false), Ok(Some(vendor.into())));
}

#[test]
fn a_legacy_list_survives_a_tool_that_returns_an_array() {
    let listed = |definition, to| text(tool(&raw(definition), to).unwrap());
    let array = r#"{"name":"t", "outputSchema":{"type":"array"},"x":1}"#;
    assert_eq!(listed(array, Era::Legacy), r#"{"name":"t","x":1}"#);
    assert_eq!(listed(array, Era::Modern), array);
    let object = r#"{"name":"t","outputSchema":{"type":"object"},"execution":{}}"#;
    assert_eq!(listed(object, Era::Legacy), object);
}
