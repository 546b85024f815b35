//! Tokens that an issuer has signed, and that prove no access here.

use serde_json::Value;

use super::*;

fn with(mut claims: Value, more: Value) -> Value {
    let Value::Object(more) = more else { unreachable!() };
    claims.as_object_mut().unwrap().extend(more);
    claims
}

#[tokio::test]
async fn critical_extensions_are_refused() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let claims = provider.claims().to_string();
    for crit in [r#"["urn:bank:must-check"]"#, r#"["b64"]"#, "[]", r#"["exp"]"#, "null"] {
        let header = format!(r#"{{"alg":"ES256","kid":"first","crit":{crit},"b64":true}}"#);
        let refused = refusal(&authentication, &provider.token_of(&header, &claims)).await;
        assert_eq!(refused, TokenError::Critical.into(), "{crit}");
    }
}

#[tokio::test]
async fn only_access_tokens_are_accepted() {
    let provider = Provider::start().await;
    let usual = start(&provider.config(""));
    let strict = start(&provider.config("tokenTypes: [at+jwt, logout+jwt]"));
    let claims = provider.claims();
    for typ in ["at+jwt", "application/at+jwt", "AT+JWT", "JWT", "jwt", "application/jwt"] {
        assert!(usual.identify_bearer(Some(&provider.token_of_type(typ, &claims))).await.is_ok(), "{typ}");
    }
    for typ in [
        "logout+jwt",
        "secevent+jwt",
        "dpop+jwt",
        "kb+jwt",
        "vc+sd-jwt",
        "application/logout+jwt",
        "rt+jwt",
        "",
    ] {
        let refused = refusal(&usual, &provider.token_of_type(typ, &claims)).await;
        assert_eq!(refused, TokenError::Type.into(), "{typ}");
    }
    assert!(strict.identify_bearer(Some(&provider.token_of_type("at+jwt", &claims))).await.is_ok());
    for token in [
        provider.token(&claims),
        provider.token_of_type("JWT", &claims),
        provider.token_of_type("logout+jwt", &claims),
    ] {
        assert_eq!(refusal(&strict, &token).await, TokenError::Type.into());
    }
    let mut of_sign_in = claims.clone();
    of_sign_in.as_object_mut().unwrap().remove("scope");
    for (claims, more) in [
        (&claims, json!({"at_hash": "x"})),
        (&claims, json!({"c_hash": "x"})),
        (&of_sign_in, json!({"nonce": "n"})),
        (&claims, json!({"typ": "ID"})),
        (&claims, json!({"typ": "Refresh"})),
        (&claims, json!({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}})),
    ] {
        let refused = refusal(&usual, &provider.token(&with(claims.clone(), more.clone()))).await;
        assert_eq!(refused, TokenError::Type.into(), "{more}");
    }
    for more in [json!({"typ": "Bearer", "nonce": "n"}), json!({"azp": "x", "auth_time": 1})] {
        let known = usual.identify_bearer(Some(&provider.token(&with(claims.clone(), more.clone())))).await;
        assert!(known.is_ok(), "{more}: {known:?}");
    }
}

#[tokio::test]
async fn a_member_that_occurs_twice_is_refused() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let claims = provider.claims().to_string();
    let header = r#"{"alg":"ES256","kid":"first"}"#;
    let with = |more: &str| claims.replacen('{', &format!("{{{more},"), 1);
    for more in [
        r#""cnf":{"jkt":"x"},"cnf":null"#,
        r#""sub":"admin""#,
        r#""s\u0075b":"admin""#,
        r#""realm":{"roles":["a"],"roles":["admin"]}"#,
        r#""list":[{"a":1,"a":2}]"#,
    ] {
        let refused = refusal(&authentication, &provider.token_of(header, &with(more))).await;
        assert_eq!(refused, TokenError::Repeated.into(), "{more}");
    }
    for header in [
        r#"{"alg":"ES256","kid":"first","kid":"first"}"#,
        r#"{"alg":"ES256","kid":"first","crit":["x"],"typ":"JWT","typ":"JWT"}"#,
    ] {
        let refused = refusal(&authentication, &provider.token_of(header, &claims)).await;
        assert!(
            matches!(refused, Rejection::Token(TokenError::Repeated | TokenError::Malformed)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_claim_that_no_number_type_holds_is_kept_as_unreadable() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let claims = provider.claims().to_string();
    let claims = claims.replacen('{', r#"{"risk":1000.00000000000000001,"level":2,"#, 1);
    let token = provider.token_of(r#"{"alg":"ES256","kid":"first"}"#, &claims);
    let identity = authentication.identify_bearer(Some(&token)).await.unwrap();
    let known = identity.as_known().unwrap().claims();
    assert_eq!((&known["risk"], &known["level"]), (&Value::Null, &json!(2)));
}

#[tokio::test]
async fn claims_are_mapped_and_conditions_hold() {
    let provider = Provider::start().await;
    let settings = "claimMapping: { department: ext.dept, admin: ext.admin }\n    \
                    requiredClaims: { hd: [example.com], email_verified: ['true'] }";
    let authentication = start(&provider.config(settings));
    let good = json!({"hd": "example.com", "email_verified": true, "department": "mine", "admin": true, "ext": {"dept": "sales"}});
    let good = with(provider.claims(), good);
    let identity = authentication.identify_bearer(Some(&provider.token(&good))).await.unwrap();
    let known = identity.as_known().unwrap().claims();
    assert_eq!((&known["department"], known.get("admin")), (&json!("sales"), None));
    for more in [
        json!({"hd": "evil.example"}),
        json!({"hd": null}),
        json!({"email_verified": false}),
        json!({"hd": {"example.com": 1}}),
    ] {
        let refused = refusal(&authentication, &provider.token(&with(good.clone(), more.clone()))).await;
        assert_eq!(refused, TokenError::Condition.into(), "{more}");
    }
}

#[tokio::test]
async fn a_token_is_not_issued_tomorrow_and_its_times_are_numbers() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let claims = provider.claims();
    for iat in [json!(now()), json!(now() as f64 - 0.5), json!(0), json!(-5), json!(now() + 200)] {
        let token = provider.token(&with(claims.clone(), json!({ "iat": iat })));
        assert!(authentication.identify_bearer(Some(&token)).await.is_ok(), "{iat}");
    }
    for (more, refused) in [
        (json!({"iat": now() + 24 * 60 * 60}), TokenError::NotYet),
        (json!({"iat": 1e300}), TokenError::NotYet),
        (json!({"iat": now().to_string()}), TokenError::Malformed),
        (json!({"iat": [now()]}), TokenError::Malformed),
        (json!({"nbf": now() + 24 * 60 * 60}), TokenError::NotYet),
        (json!({"nbf": "0"}), TokenError::Malformed),
        (json!({"exp": (now() + 600).to_string()}), TokenError::Malformed),
        (json!({"exp": true}), TokenError::Malformed),
    ] {
        let token = provider.token(&with(claims.clone(), more.clone()));
        assert_eq!(refusal(&authentication, &token).await, refused.into(), "{more}");
    }
}
