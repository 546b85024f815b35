//! Answers of another provider, of another sign-in, for another client or for another browser (mix-up,
//! replay): each is refused, beside an accepted answer that differs in this point alone.

use super::openid_provider::OpenIdProvider;
use super::*;

/// A server at which a person signs in at each of `providers`.
fn meeting_with(providers: &[Value]) -> Meeting {
    Meeting::configured(&configuration(providers, &json!({})), &Authentication::default())
}

/// Checks that the client was told of a failure, and got no code.
fn assert_refused(back: &Url, why: &str) {
    assert!(back.as_str().starts_with(REDIRECT), "{why}: {back}");
    assert_eq!(parameter(back, "error"), "server_error", "{why}");
    assert!(!back.query_pairs().any(|(name, _)| name == "code"), "{why}: {back}");
}

async fn status_of(meeting: &Meeting, at_provider: &Url, code: &str) -> StatusCode {
    let query = form(&[("state", &parameter(at_provider, "state")), ("code", code)]);
    meeting.ask(Method::GET, &format!("/oauth/callback?{query}"), "").await.status()
}

#[tokio::test]
async fn a_code_that_comes_in_the_name_of_another_issuer_reaches_no_token_endpoint() {
    let (corp, other) = (OpenIdProvider::start().await, OpenIdProvider::start().await);
    let meeting = meeting_with(&[corp.provider("corp"), other.provider("other")]);
    let client = meeting.register(REDIRECT).await;
    let longer = format!("{}/", corp.origin);
    for issuer in
        [Some(other.origin.as_str()), Some("https://made-up.example"), Some(&longer), Some(""), None]
    {
        let at = meeting.consent(&client).await;
        let code = corp.code_for(&at);
        let mut answer = vec![("code", code.as_str())];
        answer.extend(issuer.map(|issuer| ("iss", issuer)));
        assert_refused(&meeting.callback(&at, &answer).await, &format!("{issuer:?}"));
    }
    assert_eq!((corp.redeemed(), other.redeemed()), (0, 0));
    let at = meeting.consent(&client).await;
    let on = meeting.callback(&at, &[("code", &corp.code_for(&at)), ("iss", &corp.origin)]).await;
    assert!(on.as_str().starts_with(&other.origin), "its own name is taken: {on}");
}

#[tokio::test]
async fn a_provider_that_does_not_announce_its_name_may_leave_it_out_and_not_give_another() {
    let corp = OpenIdProvider::with(false).await;
    let meeting = meeting_with(&[corp.provider("corp")]);
    let client = meeting.register(REDIRECT).await;
    let at = meeting.consent(&client).await;
    let back = meeting.callback(&at, &[("code", &corp.code_for(&at))]).await;
    assert!(!parameter(&back, "code").is_empty());
    let at = meeting.consent(&client).await;
    let answer = [("code", corp.code_for(&at)), ("iss", "https://made-up.example".to_owned())];
    let answer = answer.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_refused(&meeting.callback(&at, &answer).await, "another name");
    assert_eq!(corp.redeemed(), 1);
}

#[tokio::test]
async fn a_plain_oauth_provider_is_not_sent_the_code_of_another_provider() {
    let (forge, corp) = (Upstream::start().await, OpenIdProvider::start().await);
    let meeting = meeting_with(&[forge.provider("forge"), corp.provider("corp")]);
    let client = meeting.register(REDIRECT).await;
    let at_forge = meeting.consent(&client).await;
    let back = meeting.callback(&at_forge, &[("code", "of corp"), ("iss", &corp.origin)]).await;
    assert_refused(&back, "the code of corp");
    assert!(forge.shared.forms.lock().is_empty(), "forge did not get it");
    // GitHub and others name an issuer that no setting tells: below the origin of their endpoints, or not.
    for own in [format!("{}/login/oauth", forge.origin), "https://accounts.example".to_owned()] {
        let at_forge = meeting.consent(&client).await;
        let on = meeting.callback(&at_forge, &[("code", "of forge"), ("iss", &own)]).await;
        assert!(on.as_str().starts_with(&corp.origin), "{own}: {on}");
    }
}

#[tokio::test]
async fn an_id_token_of_another_sign_in_or_for_another_client_is_refused() {
    let (corp, other) = (OpenIdProvider::start().await, OpenIdProvider::start().await);
    let meeting = meeting_with(&[corp.provider("corp")]);
    let client = meeting.register(REDIRECT).await;
    let sign_in = async |said: &Value| {
        corp.say(said);
        let at = meeting.consent(&client).await;
        meeting.callback(&at, &[("code", &corp.code_for(&at)), ("iss", &corp.origin)]).await
    };
    let earlier = parameter(&meeting.consent(&client).await, "nonce");
    for said in [
        json!({"nonce": earlier}),
        json!({"nonce": null}),
        json!({"nonce": [earlier]}),
        json!({"aud": "other"}),
        json!({"aud": ["other"], "azp": "vmcp"}),
        json!({"aud": null}),
        json!({"azp": "other"}),
        json!({"azp": ["vmcp"]}),
        json!({"aud": ["vmcp", "other"]}),
        json!({"aud": ["vmcp", "other"], "azp": "other"}),
        json!({"iss": other.origin}),
        json!({"exp": now() - 3600}),
    ] {
        assert_refused(&sign_in(&said).await, &said.to_string());
    }
    for said in [
        json!({}),
        json!({"azp": "vmcp"}),
        json!({"aud": ["vmcp"]}),
        json!({"aud": ["vmcp", "other"], "azp": "vmcp"}),
    ] {
        let back = sign_in(&said).await;
        assert!(!parameter(&back, "code").is_empty(), "{said}: {back}");
    }
}

#[tokio::test]
async fn the_answer_to_a_sign_in_is_taken_once() {
    let (upstream, meeting) = Meeting::new(&["first", "second"]).await;
    let client = meeting.register(REDIRECT).await;
    let at_first = meeting.consent(&client).await;
    let at_second = meeting.callback(&at_first, &[("code", "one")]).await;
    for code in ["one", "another"] {
        assert_eq!(status_of(&meeting, &at_first, code).await, StatusCode::BAD_REQUEST, "{code} again");
    }
    assert_eq!(upstream.shared.forms.lock().len(), 1, "no second code went to the provider");
    let back = meeting.callback(&at_second, &[("code", "two")]).await;
    assert!(!parameter(&back, "code").is_empty(), "the sign-in itself goes on");
    // An answer that is an error spends the state as well.
    let at_first = meeting.consent(&client).await;
    meeting.callback(&at_first, &[("error", "access_denied")]).await;
    assert_eq!(status_of(&meeting, &at_first, "injected").await, StatusCode::BAD_REQUEST);
    assert_eq!(upstream.shared.forms.lock().len(), 2);
}

#[tokio::test]
async fn the_answer_to_a_sign_in_is_taken_from_the_browser_that_began_it() {
    let (upstream, meeting) = Meeting::new(&["forge"]).await;
    let client = meeting.register(REDIRECT).await;
    let at_provider = meeting.consent(&client).await;
    let own = std::mem::take(&mut *meeting.cookies.lock());
    // Another browser, in the middle of a sign-in of its own.
    meeting.consent(&client).await;
    let answer = status_of(&meeting, &at_provider, "of the attacker").await;
    assert_eq!(answer, StatusCode::BAD_REQUEST);
    assert!(upstream.shared.forms.lock().is_empty());
    *meeting.cookies.lock() = own;
    let back = meeting.callback(&at_provider, &[("code", "own")]).await;
    assert!(!parameter(&back, "code").is_empty(), "and others have not spent it");
}
