//! Attackers of the threat model, each refused.

use super::*;

#[tokio::test]
async fn a_code_is_of_use_once_and_a_copy_ends_what_it_gave() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    let code = meeting.code(&client).await;
    let (status, tokens) = meeting.redeem(&client, &code, VERIFIER, REDIRECT).await;
    assert_eq!(status, StatusCode::OK, "{tokens}");
    let (status, again) = meeting.redeem(&client, &code, VERIFIER, REDIRECT).await;
    assert_eq!((status, &again["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
    let (status, _) = meeting.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "the code was in other hands");
}

#[tokio::test]
async fn a_code_is_of_no_use_with_another_verifier_client_or_redirect_uri_and_is_spent() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    let other = meeting.register(REDIRECT).await;
    for (who, verifier, redirect) in [
        (&client, "another-verifier-that-is-just-as-long-as-that", REDIRECT),
        (&client, "", REDIRECT),
        (&other, VERIFIER, REDIRECT),
        (&client, VERIFIER, "http://127.0.0.1:9999/other"),
    ] {
        let code = meeting.code(&client).await;
        let (status, refused) = meeting.redeem(who, &code, verifier, redirect).await;
        assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
        let (status, _) = meeting.redeem(&client, &code, VERIFIER, REDIRECT).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "spent");
    }
    let (status, refused) = meeting.redeem("made-up", "code", VERIFIER, REDIRECT).await;
    assert_eq!((status, &refused["error"]), (StatusCode::UNAUTHORIZED, &json!("invalid_client")));
}

#[tokio::test]
async fn no_redirect_goes_anywhere_but_to_a_registered_uri() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    for evil in ["https://evil.example/callback", "http://127.0.0.1:9999/other", "javascript:alert(1)"] {
        let address = request_for_code(&client, &[("redirect_uri", evil)]);
        let answer = meeting.ask(Method::GET, &address, "").await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{evil}");
        assert!(!answer.headers().contains_key(LOCATION) && !answer.body().contains(evil), "{evil}");
    }
    let stranger = meeting.ask(Method::GET, &request_for_code("made-up", &[]), "").await;
    assert!(stranger.status() == StatusCode::BAD_REQUEST && !stranger.headers().contains_key(LOCATION));
    for (name, value, error) in [
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("response_type", "token", "unsupported_response_type"),
        ("resource", "https://other.example/mcp", "invalid_target"),
    ] {
        let answer = meeting.ask(Method::GET, &request_for_code(&client, &[(name, value)]), "").await;
        let to = location(&answer);
        assert!(to.as_str().starts_with(REDIRECT), "{to}");
        assert_eq!(parameter(&to, "error"), error);
        assert_eq!(parameter(&to, "iss"), ISSUER);
    }
}

#[tokio::test]
async fn a_link_to_this_server_leads_to_no_registered_page_by_itself() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let long = "s".repeat(3000);
    for uri in ["https://chat.example/callback", "com.example.chat:/callback"] {
        let client = meeting.register(uri).await;
        for (name, value) in
            [("response_type", "token"), ("code_challenge", "short"), ("state", long.as_str())]
        {
            let address = request_for_code(&client, &[("redirect_uri", uri), (name, value)]);
            let answer = meeting.ask(Method::GET, &address, "").await;
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{uri} {name}");
            assert!(!answer.headers().contains_key(LOCATION), "{uri} {name}");
            let (page, link) = (answer.body(), format!("<a href=\"{uri}?error="));
            assert!(page.contains(&link), "{page}");
        }
    }
}

#[tokio::test]
async fn nobody_reaches_a_provider_without_consent_in_the_same_browser() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    let answer = meeting.ask(Method::GET, &request_for_code(&client, &[]), "").await;
    for (name, value) in [("x-frame-options", "DENY"), ("referrer-policy", "same-origin")] {
        assert_eq!(answer.headers()[name], value);
    }
    let policy = answer.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let page = answer.body();
    assert!(page.contains("&lt;b&gt;Chat&lt;/b&gt;") && !page.contains("<b>Chat</b>"), "{page}");
    // A form from another page, without the cookie, or with that of another browser.
    let body = form(&[("request", sealed_request(page)), ("decision", "allow")]);
    let own = std::mem::take(&mut *meeting.cookies.lock());
    let forged = meeting.ask(Method::POST, "/oauth/authorize", &body).await;
    assert_eq!(forged.status(), StatusCode::BAD_REQUEST);
    meeting.consent_page(&client).await;
    let foreign = meeting.ask(Method::POST, "/oauth/authorize", &body).await;
    assert_eq!(foreign.status(), StatusCode::BAD_REQUEST);
    *meeting.cookies.lock() = own;
    let denied = meeting.decide(page, "deny").await;
    assert!(denied.as_str().starts_with(REDIRECT));
    assert_eq!(parameter(&denied, "error"), "access_denied");
    assert_eq!(parameter(&denied, "state"), "the client's state");
}

#[tokio::test]
async fn a_state_is_of_use_in_its_browser_only_and_cannot_be_made_up() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    let at_provider = meeting.consent(&client).await;
    let query = |state: &str| format!("/oauth/callback?{}", form(&[("code", "c"), ("state", state)]));
    let state = parameter(&at_provider, "state");
    for made_up in
        ["", "made-up", &state[..state.len() - 2], sealed_request(&meeting.consent_page(&client).await)]
    {
        let answer = meeting.ask(Method::GET, &query(made_up), "").await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{made_up}");
    }
    meeting.cookies.lock().clear();
    let elsewhere = meeting.ask(Method::GET, &query(&state), "").await;
    assert_eq!(elsewhere.status(), StatusCode::BAD_REQUEST, "a link from somebody else's sign-in");
    assert!(upstream.shared.forms.lock().is_empty(), "no code went to the provider");
}

#[tokio::test]
async fn a_refresh_token_is_of_use_once_and_to_its_client_only() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let (client, tokens) = meeting.tokens().await;
    let first = tokens["refresh_token"].as_str().unwrap();
    let other = meeting.register(REDIRECT).await;
    assert_eq!(meeting.refresh(&other, first).await.0, StatusCode::BAD_REQUEST, "another client");
    let (status, second) = meeting.refresh(&client, first).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    let (_, twice) = meeting.refresh(&client, first).await;
    assert_eq!(twice["access_token"], second["access_token"], "a client that asks twice at once");
    let second = second["refresh_token"].as_str().unwrap();
    let (status, third) = meeting.refresh(&client, second).await;
    assert_eq!(status, StatusCode::OK, "{third}");
    // Beyond the moment in which an answer is repeated.
    meeting.server().process.families.forget_answers();
    assert_eq!(meeting.refresh(&client, first).await.0, StatusCode::BAD_REQUEST);
    let newest = third["refresh_token"].as_str().unwrap();
    assert_eq!(meeting.refresh(&client, newest).await.0, StatusCode::BAD_REQUEST, "its family has ended");
}

#[tokio::test]
async fn registering_costs_no_memory_and_has_limits() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let many: Vec<_> = (0..9).map(|number| format!("https://a.example/{number}")).collect();
    for refused in [
        json!({}),
        json!({"redirect_uris": []}),
        json!({"redirect_uris": many}),
        json!({"redirect_uris": [format!("https://a.example/{}", "a".repeat(600))]}),
        json!({"redirect_uris": ["http://a.example/callback"]}),
        json!({"redirect_uris": ["https://a.example/#x"]}),
        json!({"redirect_uris": ["data:text/html,x"]}),
        json!({"redirect_uris": ["https://a.example"], "grant_types": ["implicit"]}),
        json!("text"),
    ] {
        let answer = meeting.ask(Method::POST, "/oauth/register", &refused.to_string()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{refused}");
    }
    let long = json!({"redirect_uris": [REDIRECT], "client_name": "n".repeat(5000)});
    let answer = meeting.ask(Method::POST, "/oauth/register", &long.to_string()).await;
    let registered: Value = serde_json::from_str(answer.body()).unwrap();
    assert!(registered["client_id"].as_str().unwrap().len() < 400, "{registered}");
    assert_eq!(registered["token_endpoint_auth_method"], "none");
}

#[tokio::test]
async fn the_name_of_a_client_hides_nothing_on_the_page_of_consent() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let name = "Cl\u{202e}au\u{200b}de\u{fe01} \n Desktop\u{2066}";
    let wanted = json!({ "redirect_uris": [REDIRECT], "client_name": name });
    let answer = meeting.ask(Method::POST, "/oauth/register", &wanted.to_string()).await;
    let registered: Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(registered["client_name"], "Claude Desktop");
}

#[tokio::test]
async fn a_provider_at_a_private_address_is_not_reached_unless_allowed() {
    let upstream = Upstream::start().await;
    let mut provider = upstream.provider("forge");
    provider["oauth2Config"]["allowPrivateIPs"] = json!(false);
    let config = upstream.config_with(&["forge"], &json!({"upstreamProviders": [provider]}));
    let meeting = Meeting::configured(&config, &Authentication::default());
    let client = meeting.register(REDIRECT).await;
    let at_provider = meeting.consent(&client).await;
    let back = meeting.callback(&at_provider, &[("code", "c")]).await;
    assert_eq!(parameter(&back, "error"), "server_error");
    assert!(upstream.shared.forms.lock().is_empty());
}

#[tokio::test]
async fn what_a_provider_refuses_reaches_the_client_as_an_error_without_its_words() {
    let (_upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    for (said, error) in [("access_denied", "access_denied"), ("<script>", "server_error")] {
        let at_provider = meeting.consent(&client).await;
        let back = meeting.callback(&at_provider, &[("error", said), ("error_description", "<words>")]).await;
        assert_eq!(parameter(&back, "error"), error);
        assert!(!back.as_str().contains("words") && !back.as_str().contains("%3C"), "{back}");
    }
}
