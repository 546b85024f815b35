//! The person behind an access token, by a userinfo endpoint.

use serde_json::{Map, Value};
use vmcp_config::UserInfo;

use crate::oidc::guarded_http::GuardedClient;

/// Asks the endpoint; returns the person's identifier and the claims of the answer.
pub(super) async fn fetch(
    http: &GuardedClient,
    info: &UserInfo,
    access: &str,
) -> Result<(Option<String>, Map<String, Value>), String> {
    http.check(&info.url).await.map_err(|error| error.to_string())?;
    let client = http.client();
    let mut request = if info.post { client.post(info.url.clone()) } else { client.get(info.url.clone()) };
    // GitHub refuses requests without a name.
    request = request.header("accept", "application/json").header("user-agent", "vmcp");
    for (name, value) in &info.headers {
        request = request.header(name, value.expose());
    }
    let answer =
        http.read(&info.url, request.bearer_auth(access)).await.map_err(|error| error.to_string())?;
    // The parser's own words could quote the answer.
    let all: Map<String, Value> = serde_json::from_slice(&answer)
        .map_err(|_| format!("its userinfo endpoint {} gave no JSON object", info.url.path()))?;
    let mut claims = Map::new();
    for (claim, fields) in [("name", &info.name_fields), ("email", &info.email_fields)] {
        if let Some(value) = text(&all, fields) {
            claims.insert(claim.to_owned(), value.into());
        }
    }
    Ok((text(&all, &info.subject_fields), claims))
}

/// Returns the first of some keys that has a text or a number.
pub(super) fn text(all: &Map<String, Value>, fields: &[String]) -> Option<String> {
    fields.iter().find_map(|field| match all.get(field)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}
