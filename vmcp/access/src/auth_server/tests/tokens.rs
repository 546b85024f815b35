//! Tokens: their claims and lifetimes, and the tokens of providers inside them.

use std::time::Duration;

use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_config::Secret;

use super::openid_provider::OpenIdProvider;
use super::*;
use crate::authentication::revocations::RevokedCredentials;
use crate::identity::Identity;
use crate::oidc::rejection::Rejection;
use crate::outgoing::{BackendTokens, HttpClient, OutgoingError, Subject};

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn backend(config: &vmcp_config::Config, meeting: &Meeting) -> BackendTokens {
    let credentials = &config.backends[0].credentials;
    let tokens = BackendTokens::new("forge", credentials, HttpClient::default(), None).unwrap();
    tokens.listing_with(meeting.authentication.latest_tokens().clone())
}

async fn for_client(tokens: &BackendTokens, who: &Identity) -> Result<Option<Secret>, OutgoingError> {
    tokens.token(Subject::Client(who), None).await
}

#[tokio::test]
async fn a_person_signs_in_and_the_backend_gets_their_token_and_nobody_else_does() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    let config = upstream.config(&["forge"]);
    let tokens = backend(&config, &meeting);
    assert_eq!(tokens.token(Subject::Vmcp, None).await.unwrap(), None, "nobody has signed in");
    let (_, answer) = meeting.tokens().await;
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(3600)));
    let access = answer["access_token"].as_str().unwrap();
    let said = claims(access);
    assert_eq!(
        (&said["iss"], &said["aud"], &said["sub"]),
        (&json!(ISSUER), &json!("http://localhost:4483/mcp"), &json!("4711"))
    );
    assert_eq!((&said["name"], &said["email"]), (&json!("alice"), &json!("alice@example.com")));
    for text in [access, answer["refresh_token"].as_str().unwrap(), &said.to_string()] {
        assert!(!text.contains("upstream-token") && !text.contains("upstream-refresh"), "sealed");
    }
    let alice = meeting.authentication.identify_bearer(Some(access)).await.unwrap();
    let known = alice.as_known().unwrap();
    assert!(!known.claims().contains_key("vmcp_upstream"), "policies and records do not see it");
    assert!(!format!("{alice:?} {:?}", known.upstream_tokens()).contains("upstream-token"));
    assert_eq!(for_client(&tokens, &alice).await.unwrap(), Some("upstream-token-1".into()));
    let listed = tokens.token(Subject::Vmcp, None).await.unwrap();
    assert_eq!(listed, Some("upstream-token-1".into()), "vmcp lists with it");
    let stranger = Identity::known(ISSUER, "4711", Map::new(), None);
    let refused = for_client(&tokens, &stranger).await.unwrap_err();
    assert!(refused.reason.contains("sign in to vmcp again"), "{refused:?}");
    let again = tokens.token(Subject::Client(&alice), Some("upstream-token-1")).await.unwrap_err();
    assert!(again.detail.contains("401"), "{again:?}");
    let asked = upstream.shared.forms.lock().clone();
    assert_eq!(asked[0]["redirect_uri"], "http://localhost:4483/oauth/callback");
    assert!(asked[0]["code_verifier"].len() >= 43);
}

#[tokio::test]
async fn several_providers_come_one_after_the_other_and_a_token_carries_what_backends_need() {
    let (upstream, meeting) = Meeting::new(&["first", "second"]).await;
    let client = meeting.register(REDIRECT).await;
    let at_first = meeting.consent(&client).await;
    let at_second = meeting.callback(&at_first, &[("code", "one")]).await;
    assert!(at_second.as_str().starts_with(&upstream.origin), "{at_second}");
    assert!(!at_second.as_str().contains("upstream-token"));
    let short = parameter(&at_second, "state").len();
    assert!(short < 600, "{short}: no token travels in a URL");
    let back = meeting.callback(&at_second, &[("code", "two")]).await;
    let (status, answer) = meeting.redeem(&client, &parameter(&back, "code"), VERIFIER, REDIRECT).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let alice = meeting.authentication.identify_bearer(answer["access_token"].as_str()).await.unwrap();
    let carried = alice.as_known().unwrap().upstream_tokens();
    assert_eq!(carried.access("second"), Some("upstream-token-2"));
    assert_eq!(carried.access("first"), None, "no backend needs it");
    // The state of a step is of use once.
    let query = form(&[("state", &parameter(&at_second, "state")), ("code", "two")]);
    let again = meeting.ask(Method::GET, &format!("/oauth/callback?{query}"), "").await;
    assert_eq!(again.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_access_token_ends_with_the_token_it_carries_and_a_refresh_renews_both() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    upstream.shared.life.store(120, Ordering::SeqCst);
    let client = meeting.register(REDIRECT).await;
    let code = meeting.code(&client).await;
    let (_, answer) = meeting.redeem(&client, &code, VERIFIER, REDIRECT).await;
    let life = answer["expires_in"].as_u64().unwrap();
    assert!((115..=120).contains(&life), "{answer}");
    let (status, renewed) = meeting.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    let alice = meeting.authentication.identify_bearer(renewed["access_token"].as_str()).await.unwrap();
    let token = alice.as_known().unwrap().upstream_tokens().access("forge").map(str::to_owned);
    let given = upstream.shared.given.load(Ordering::SeqCst);
    assert_eq!(token, Some(format!("upstream-token-{given}")), "the newest");
    // The provider has withdrawn its consent, and the token has ended: the person signs in again.
    upstream.shared.life.store(1, Ordering::SeqCst);
    let (_, short) = meeting.refresh(&client, renewed["refresh_token"].as_str().unwrap()).await;
    assert_eq!(short["error"], "invalid_grant", "too short to be of use: {short}");
    *upstream.shared.refuses.lock() = true;
    upstream.shared.life.store(7200, Ordering::SeqCst);
    let (_, kept) = meeting.refresh(&client, renewed["refresh_token"].as_str().unwrap()).await;
    assert!(kept["access_token"].is_string(), "what is still good is used: {kept}");
}

#[tokio::test]
async fn a_withdrawn_sign_in_is_renewed_no_more_and_a_new_one_is() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let (client, answer) = meeting.tokens().await;
    let first = answer["refresh_token"].as_str().unwrap();
    let (status, renewed) = meeting.refresh(&client, first).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    let access = renewed["access_token"].as_str();
    let alice = meeting.authentication.identify_bearer(access).await.unwrap();
    assert_eq!(meeting.authentication.sign_ins_of(&alice.digest()).len(), 1);
    let revocations = meeting.authentication.revocations();
    let of = |subject: &str| RevokedCredentials {
        issuer: Some(ISSUER.to_owned()),
        subject: Some(subject.to_owned()),
        token_id: None,
    };
    let hour = Duration::from_hours(1);
    revocations.order(of("mallory"), hour, false).unwrap();
    let refresh = renewed["refresh_token"].as_str().unwrap();
    let (status, renewed) = meeting.refresh(&client, refresh).await;
    assert_eq!(status, StatusCode::OK, "another person's order: {renewed}");
    revocations.order(of(alice.subject()), hour, false).unwrap();
    let refresh = renewed["refresh_token"].as_str().unwrap();
    for _ in 0..2 {
        let (status, refused) = meeting.refresh(&client, refresh).await;
        assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
    }
    assert!(meeting.authentication.sign_ins_of(&alice.digest()).is_empty());
    // The order ends; the family has ended with the first refusal.
    revocations.order(of(alice.subject()), hour, true).unwrap();
    let (_, refused) = meeting.refresh(&client, refresh).await;
    assert_eq!(refused["error"], "invalid_grant", "{refused}");
    let (client, answer) = meeting.tokens().await;
    let (status, renewed) = meeting.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "a new sign-in: {renewed}");
}

#[tokio::test]
async fn a_person_whom_the_first_provider_lets_in_no_more_gets_no_new_tokens() {
    let (upstream, meeting) = Meeting::new(&["first", "second"]).await;
    let (client, answer) = meeting.tokens().await;
    *upstream.shared.refuses.lock() = true;
    // Both tokens are still good for hours; no backend needs the first provider's.
    let (status, refused) = meeting.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")), "{refused}");
}

#[tokio::test]
async fn a_sign_in_ends_with_the_provider_that_told_its_subject() {
    let (upstream, meeting) = Meeting::new(&["first", "second"]).await;
    let (client, answer) = meeting.tokens().await;
    for others in [&["second"][..], &["second", "first"], &["other", "second"]] {
        let reloaded = Meeting::configured(&upstream.config(others), &meeting.authentication);
        let (_, refused) = reloaded.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
        assert_eq!(refused["error"], "invalid_grant", "{others:?}: {refused}");
    }
    let (status, renewed) = meeting.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
}

#[tokio::test]
async fn a_refresh_takes_the_claims_that_the_provider_tells_now_about_the_same_person() {
    let corp = OpenIdProvider::start().await;
    corp.say(&json!({"groups": ["admins"]}));
    let config = configuration(&[corp.provider("corp")], &json!({}));
    let meeting = Meeting::configured(&config, &Authentication::default());
    let client = meeting.register(REDIRECT).await;
    let at = meeting.consent(&client).await;
    let back = meeting.callback(&at, &[("code", &corp.code_for(&at)), ("iss", &corp.origin)]).await;
    let (status, answer) = meeting.redeem(&client, &parameter(&back, "code"), VERIFIER, REDIRECT).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(claims(answer["access_token"].as_str().unwrap())["groups"], json!(["admins"]));
    corp.say(&json!({"groups": ["staff"]}));
    let (status, renewed) = meeting.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    assert_eq!(claims(renewed["access_token"].as_str().unwrap())["groups"], json!(["staff"]));
    corp.say(&json!({"sub": "4712"}));
    let (_, refused) = meeting.refresh(&client, renewed["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refused["error"], "invalid_grant", "somebody else: {refused}");
}

#[tokio::test]
async fn a_scope_that_is_offered_no_more_ends_with_the_next_token() {
    let upstream = Upstream::start().await;
    let offering = |scopes: &[&str]| {
        let mut config = upstream.config(&["forge"]);
        let server = config.incoming_auth.auth_server.as_mut().unwrap();
        Arc::make_mut(server).scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        config
    };
    let meeting = Meeting::configured(&offering(&["read", "admin"]), &Authentication::default());
    let (client, answer) = meeting.tokens().await;
    assert_eq!(answer["scope"], "read admin");
    let reloaded = Meeting::configured(&offering(&["read"]), &meeting.authentication);
    let (status, renewed) = reloaded.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    assert_eq!(renewed["scope"], "read", "{renewed}");
}

#[tokio::test]
async fn listings_have_the_token_of_a_known_client_after_another_one_is_forgotten() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    let tokens = backend(&upstream.config(&["forge"]), &meeting);
    let (_, answer) = meeting.tokens().await;
    let access = answer["access_token"].as_str();
    for _ in ["verified", "known"] {
        meeting.authentication.identify_bearer(access).await.unwrap();
        let listed = tokens.token(Subject::Vmcp, None).await.unwrap();
        assert_eq!(listed, Some("upstream-token-1".into()));
        meeting.authentication.latest_tokens().forget_if(|_| true);
        assert_eq!(tokens.token(Subject::Vmcp, None).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_code_of_a_withdrawn_sign_in_gives_no_tokens() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let (client, answer) = meeting.tokens().await;
    let alice = meeting.authentication.identify_bearer(answer["access_token"].as_str()).await.unwrap();
    let code = meeting.code(&client).await;
    let of = RevokedCredentials { issuer: None, subject: Some(alice.subject().to_owned()), token_id: None };
    meeting.authentication.revocations().order(of, Duration::from_hours(1), false).unwrap();
    let (status, refused) = meeting.redeem(&client, &code, VERIFIER, REDIRECT).await;
    assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")), "{refused}");
}

#[tokio::test]
async fn refreshing_twice_at_once_asks_the_provider_once() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    upstream.shared.life.store(120, Ordering::SeqCst);
    let (client, answer) = meeting.tokens().await;
    let before = upstream.shared.given.load(Ordering::SeqCst);
    let refresh = answer["refresh_token"].as_str().unwrap();
    let (one, two) = tokio::join!(meeting.refresh(&client, refresh), meeting.refresh(&client, refresh));
    assert_eq!(one, two);
    assert_eq!(upstream.shared.given.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn replicas_with_the_same_keys_go_on_for_each_other() {
    let upstream = Upstream::start().await;
    // The key that signs is derived from the secret that they share.
    let config = upstream.config(&["forge"]);
    let first = Meeting::configured(&config, &Authentication::default());
    let second = Meeting::configured(&config, &Authentication::default());
    let (client, answer) = first.tokens().await;
    let access = answer["access_token"].as_str();
    let alice = second.authentication.identify_bearer(access).await.unwrap();
    assert_eq!(alice.as_known().unwrap().upstream_tokens().access("forge"), Some("upstream-token-1"));
    let (status, renewed) = second.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    // A code belongs to the process that keeps the login: the request is handed on to it.
    let code = first.code(&client).await;
    let body = form(&[("grant_type", "authorization_code"), ("code", &code)]);
    let headers = HeaderMap::new();
    let request = EndpointRequest {
        method: &Method::POST,
        path: "/oauth/token",
        query: None,
        headers: &headers,
        body: body.as_bytes(),
        home: "",
    };
    assert_eq!(first.server().home_of(&request), None);
    assert_eq!(second.server().home_of(&request), None, "without an address");
    assert_eq!(second.redeem(&client, &code, VERIFIER, REDIRECT).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn keys_rotate_without_a_restart_and_what_the_old_ones_made_lives_on() {
    let upstream = Upstream::start().await;
    let (old, new) = (pem(&generated()), pem(&generated()));
    let secrets = ["a secret of thirty-two characters", "another secret of just as many chars"];
    let config = |keys: &[&String], secrets: &[&str]| {
        upstream.config_with(&["forge"], &json!({"signingKeys": keys, "hmacSecrets": secrets}))
    };
    let before = Meeting::configured(&config(&[&old], &secrets[..1]), &Authentication::default());
    let (client, answer) = before.tokens().await;
    let access = answer["access_token"].as_str();
    let both = Meeting::configured(&config(&[&new, &old], &[secrets[1], secrets[0]]), &before.authentication);
    assert!(both.authentication.identify_bearer(access).await.is_ok());
    let (status, renewed) = both.refresh(&client, answer["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{renewed}");
    let after = Meeting::configured(&config(&[&new], &secrets[1..]), &both.authentication);
    assert!(after.authentication.identify_bearer(renewed["access_token"].as_str()).await.is_ok());
    let gone = after.authentication.identify_bearer(access).await;
    assert!(matches!(gone, Err(Rejection::Token(_))), "its key was withdrawn: {gone:?}");
}

#[tokio::test]
async fn tokens_of_the_server_pass_the_same_checks_as_those_of_any_issuer() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let (_, answer) = meeting.tokens().await;
    let access = answer["access_token"].as_str().unwrap();
    let (head, rest) = access.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let mut forged = claims(access);
    forged["sub"] = json!("0815");
    let payload = BASE64_URL_SAFE_NO_PAD.encode(forged.to_string());
    let forged = format!("{head}.{payload}.{signature}");
    assert!(meeting.authentication.identify_bearer(Some(&forged)).await.is_err());
    let none = format!("{}.{payload}.", BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"at+jwt"}"#));
    assert!(meeting.authentication.identify_bearer(Some(&none)).await.is_err());
    assert!(meeting.authentication.identify_bearer(answer["refresh_token"].as_str()).await.is_err());
    assert!(meeting.authentication.identify_bearer(None).await.is_err());
}

#[tokio::test]
async fn metadata_and_keys_are_for_everybody() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let answer = meeting.ask(Method::GET, "/.well-known/oauth-authorization-server", "").await;
    let document: Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(document["issuer"], ISSUER);
    assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(document["authorization_response_iss_parameter_supported"], json!(true));
    let keys = meeting.ask(Method::GET, "/.well-known/jwks.json", "").await;
    assert!(keys.body().contains("\"kty\":\"OKP\"") && !keys.body().contains("\"d\""), "{}", keys.body());
    assert_eq!(
        meeting.ask(Method::DELETE, "/oauth/token", "").await.status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
    let twice = meeting.ask(Method::POST, "/oauth/token", "grant_type=a&grant_type=b").await;
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn each_step_of_a_sign_in_is_an_event() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let event = |answer: &http::Response<String>| answer.extensions().get::<SignInEvent>().cloned().unwrap();
    let gist = |event: &SignInEvent| (event.name, event.is_refused, event.subject.clone());
    let bad = meeting.ask(Method::POST, "/oauth/register", "{}").await;
    assert_eq!(gist(&event(&bad)), ("oauth.register", true, None));
    let client = meeting.register(REDIRECT).await;
    let page = meeting.ask(Method::GET, &request_for_code(&client, &[]), "").await;
    assert_eq!(gist(&event(&page)), ("oauth.authorize", false, None));
    let body = form(&[("request", sealed_request(page.body())), ("decision", "deny")]);
    let denied = meeting.ask(Method::POST, "/oauth/authorize", &body).await;
    assert!(event(&denied).is_refused && event(&denied).client.as_deref() == Some("<b>Chat</b>"));
    let body = form(&[("request", sealed_request(page.body())), ("decision", "allow")]);
    let agreed = meeting.ask(Method::POST, "/oauth/authorize", &body).await;
    assert_eq!(gist(&event(&agreed)), ("oauth.consent", false, None));
    let state = parameter(&location(&agreed), "state");
    let query = form(&[("state", state.as_str()), ("code", "upstream-code")]);
    let back = meeting.ask(Method::GET, &format!("/oauth/callback?{query}"), "").await;
    assert_eq!(gist(&event(&back)), ("oauth.sign_in", false, Some("4711".to_owned())));
    let again = meeting.ask(Method::GET, &format!("/oauth/callback?{query}"), "").await;
    assert!(event(&again).is_refused, "a replay");
    let code = parameter(&location(&back), "code");
    let redeem = [
        ("grant_type", "authorization_code"),
        ("client_id", client.as_str()),
        ("code", code.as_str()),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    let granted = meeting.ask(Method::POST, "/oauth/token", &form(&redeem)).await;
    assert_eq!(gist(&event(&granted)), ("oauth.token", false, Some("4711".to_owned())));
    let reused = meeting.ask(Method::POST, "/oauth/token", &form(&redeem)).await;
    assert_eq!(
        (event(&reused).is_refused, event(&reused).result),
        (true, "the code was used before; the tokens that it gave are renewed no more")
    );
    let (client, tokens) = meeting.tokens().await;
    let first = tokens["refresh_token"].as_str().unwrap();
    let refresh = form(&[("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", first)]);
    let renewed = meeting.ask(Method::POST, "/oauth/token", &refresh).await;
    assert!(!event(&renewed).is_refused);
    meeting.server().process.families.forget_answers();
    let reused = event(&meeting.ask(Method::POST, "/oauth/token", &refresh).await);
    assert_eq!(gist(&reused), ("oauth.token", true, Some("4711".to_owned())));
    assert_eq!(reused.result, "the refresh token was used before; sign in again");
}
