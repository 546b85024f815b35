use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::json;

use super::*;
use crate::authentication::revocations::RevokedCredentials;

mod introspection;
mod key_file;
mod possession;
mod security;
use crate::testing::{Provider, now, unsigned};

/// Fetches at the start, and when a token asks for a key.
const EAGER: Timing = Timing {
    refresh: Duration::from_hours(1),
    least_interval: Duration::ZERO,
    backoff: [Duration::from_hours(1), Duration::from_hours(1)],
    patience: Duration::from_secs(30),
};

fn start(config: &IncomingAuth) -> Authentication {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Authentication::with_timing(config, &Authentication::default(), EAGER)
}

async fn refusal(authentication: &Authentication, token: &str) -> Rejection {
    authentication.identify_bearer(Some(token)).await.unwrap_err()
}

#[tokio::test]
async fn a_good_token_proves_its_subject() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let token = provider.token(&provider.claims());
    for _ in 0..3 {
        let identity = authentication.identify_bearer(Some(&token)).await.unwrap();
        assert_eq!(identity.subject(), "alice");
        let known = identity.as_known().unwrap();
        assert_eq!((known.issuer(), known.token()), (provider.issuer.as_str(), Some(token.as_str())));
        assert_eq!(known.claims()["scope"], "read write");
    }
    assert_eq!(provider.fetches(), 1);
    assert_eq!(authentication.identify_bearer(None).await.unwrap_err(), Rejection::Missing);
}

#[tokio::test]
async fn each_claim_that_is_wrong_is_refused() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config("clockSkew: 30s"));
    for (claim, value, refused) in [
        ("aud", json!("other"), TokenError::Audience),
        ("aud", json!(["other", "another"]), TokenError::Audience),
        ("aud", json!(null), TokenError::Malformed),
        ("iss", json!("https://evil.example"), TokenError::Issuer),
        ("iss", json!([provider.issuer]), TokenError::Malformed),
        ("exp", json!(now() - 31), TokenError::Expired),
        ("exp", json!("tomorrow"), TokenError::Malformed),
        ("exp", json!(null), TokenError::Malformed),
        ("nbf", json!(now() + 60), TokenError::NotYet),
        ("sub", json!(""), TokenError::Malformed),
        ("sub", json!(7), TokenError::Malformed),
        ("cnf", json!({"jkt": "thumbprint"}), TokenError::Bound),
    ] {
        let mut claims = provider.claims();
        claims[claim] = value.clone();
        let refusal = refusal(&authentication, &provider.token(&claims)).await;
        assert_eq!(refusal, Rejection::Token(refused), "{claim}: {value}");
    }
    for (claim, value) in
        [("exp", json!(now() - 10)), ("nbf", json!(now() + 10)), ("aud", json!(["other", "vmcp"]))]
    {
        let mut claims = provider.claims();
        claims[claim] = value.clone();
        let known = authentication.identify_bearer(Some(&provider.token(&claims))).await;
        assert!(known.is_ok(), "{claim}: {value}: {known:?}");
    }
}

#[tokio::test]
async fn forged_signatures_and_weak_algorithms_are_refused() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let claims = provider.claims();
    let good = provider.token(&claims);
    assert!(authentication.identify_bearer(Some(&good)).await.is_ok());

    for none in ["none", "None", "NONE"] {
        let token = unsigned(&json!({"alg": none, "kid": "first"}), &claims);
        for token in [format!("{token}."), token] {
            assert_eq!(refusal(&authentication, &token).await, TokenError::Malformed.into(), "{none}");
        }
    }
    // Key confusion: the public key as the secret of an HMAC; and a symmetric key that is in the set.
    for (id, secret) in [("first", provider.public_key()), ("shared", b"secret".to_vec())] {
        let signed = unsigned(&json!({"alg": "HS256", "kid": id}), &claims);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(refusal(&authentication, &token).await, TokenError::Algorithm.into());
    }
    // Another's claims under a good signature.
    let mut others = claims.clone();
    others["sub"] = json!("admin");
    let (_, signature) = good.rsplit_once('.').unwrap();
    let forged = format!("{}.{signature}", unsigned(&json!({"alg": "ES256", "kid": "first"}), &others));
    assert_eq!(refusal(&authentication, &forged).await, TokenError::Signature.into());
    // The key of another provider, under the id and the issuer of this one.
    let other = Provider::start().await;
    assert_eq!(refusal(&authentication, &other.token(&claims)).await, TokenError::Signature.into());
    for rubbish in ["", "a", "a.b.c", "....", &"x".repeat(100_000)] {
        let refusal = refusal(&authentication, rubbish).await;
        assert!(matches!(refusal, Rejection::Malformed | Rejection::Token(TokenError::Malformed)));
    }
}

#[tokio::test]
async fn a_rotated_key_is_fetched_once_and_the_old_one_is_forgotten() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let old = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&old)).await.is_ok());
    provider.rotate("second");
    let new = provider.token(&provider.claims());
    let known = futures_of(&authentication, &new, 20).await;
    assert_eq!(known, 20);
    assert!(provider.fetches() <= 3, "{} fetches", provider.fetches());
    assert_eq!(refusal(&authentication, &old).await, TokenError::Signature.into(), "from the cache too");
}

/// Presents a token `times` times at once; returns how often it was accepted.
async fn futures_of(authentication: &Authentication, token: &str, times: usize) -> usize {
    let mut accepted = 0;
    let all = (0..times).map(|_| Box::pin(authentication.identify_bearer(Some(token))));
    let mut all: Vec<_> = all.collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(known) => {
                accepted += usize::from(known.is_ok());
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    accepted
}

#[tokio::test]
async fn made_up_key_ids_are_no_load_on_the_provider() {
    let provider = Provider::start().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timing = Timing { least_interval: Duration::from_hours(1), ..EAGER };
    let authentication =
        Authentication::with_timing(&provider.config(""), &Authentication::default(), timing);
    let token = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&token)).await.is_ok());
    for id in 0..20 {
        let token =
            format!("{}.AAAA", unsigned(&json!({"alg": "ES256", "kid": id.to_string()}), &provider.claims()));
        assert_eq!(refusal(&authentication, &token).await, TokenError::Signature.into());
    }
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test]
async fn a_provider_that_is_down_stops_only_tokens_of_keys_not_seen_before() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let first = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&first)).await.is_ok());
    provider.set_up(false);
    let mut bob = provider.claims();
    bob["sub"] = json!("bob");
    let known = provider.token(&bob);
    provider.rotate("second");
    let unknown = provider.token(&bob);
    assert_eq!(refusal(&authentication, &unknown).await, Rejection::Unavailable);
    assert!(authentication.identify_bearer(Some(&first)).await.is_ok());
    assert_eq!(authentication.identify_bearer(Some(&known)).await.unwrap().subject(), "bob");
    let status = authentication.status();
    assert!(status[0].keys == 1 && status[0].failure.is_some(), "{status:?}");
    provider.set_up(true);
    assert!(authentication.identify_bearer(Some(&unknown)).await.is_ok());
    assert_eq!(authentication.status()[0].failure, None);
}

#[tokio::test]
async fn a_token_without_a_required_scope_is_told_which() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config("requiredScopes: [read, admin]"));
    let refused = refusal(&authentication, &provider.token(&provider.claims())).await;
    let required = Arc::from(["read".to_owned(), "admin".to_owned()]);
    assert_eq!(refused, Rejection::InsufficientScope { required });
    for scp in [json!("read admin"), json!(["admin", "read"])] {
        let mut claims = provider.claims();
        claims["scp"] = scp;
        assert!(authentication.identify_bearer(Some(&provider.token(&claims))).await.is_ok());
    }
}

#[tokio::test]
async fn private_addresses_and_plain_http_need_a_word() {
    let provider = Provider::start().await;
    let mut config = provider.config("");
    let token = provider.token(&provider.claims());
    let issuer = Arc::make_mut(&mut config.issuers[0]);
    issuer.allow_private_addresses = false;
    let authentication = start(&config);
    assert_eq!(refusal(&authentication, &token).await, Rejection::Unavailable);
    let (reason, _) = authentication.status().remove(0).failure.unwrap();
    assert!(reason.contains("jwksAllowPrivateIp"), "{reason}");

    let issuer = Arc::make_mut(&mut config.issuers[0]);
    (issuer.allow_private_addresses, issuer.insecure_allow_http) = (true, false);
    let authentication = start(&config);
    assert_eq!(refusal(&authentication, &token).await, Rejection::Unavailable);
    let (reason, _) = authentication.status().remove(0).failure.unwrap();
    assert!(reason.contains("insecureAllowHttp"), "{reason}");
    assert_eq!(provider.fetches(), 0);
}

#[tokio::test]
async fn keys_and_tokens_go_together_and_unchanged_issuers_keep_their_keys() {
    let provider = Provider::start().await;
    let mut config = provider.config("");
    let before = start(&config);
    let token = provider.token(&provider.claims());
    assert!(before.identify_bearer(Some(&token)).await.is_ok());
    config.api_keys = vec![vmcp_config::ApiKey {
        subject: "ci".to_owned(),
        key: "0123456789abcdef".into(),
        claims: serde_json::Map::new(),
    }];
    let after = Authentication::with_timing(&config, &before, EAGER);
    drop(before);
    assert_eq!(after.identify_bearer(Some("0123456789abcdef")).await.unwrap().subject(), "ci");
    assert!(after.identify_bearer(Some(&token)).await.is_ok());
    assert_eq!(provider.fetches(), 1);

    config.issuers.clear();
    let keys_only = Authentication::with_timing(&config, &after, EAGER);
    assert_eq!(refusal(&keys_only, &token).await, Rejection::Unknown);
    assert_eq!(refusal(&keys_only, "0123456789abcdeg").await, Rejection::Unknown);
}

#[tokio::test]
async fn a_key_set_without_keys_withdraws_all() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let token = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&token)).await.is_ok());
    provider.withdraw();
    // A key that is not known lets the keys be fetched.
    let unknown =
        format!("{}.AAAA", unsigned(&json!({"alg": "ES256", "kid": "unknown"}), &provider.claims()));
    assert_eq!(refusal(&authentication, &unknown).await, TokenError::Signature.into());
    assert_eq!(refusal(&authentication, &token).await, TokenError::Signature.into());
    assert_eq!(authentication.status()[0].keys, 0);
}

#[tokio::test]
async fn keys_of_a_provider_that_stays_away_are_too_old_one_day() {
    let provider = Provider::start().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = provider.config("");
    for issuer in &mut config.issuers {
        Arc::make_mut(issuer).key_max_age = Duration::from_millis(300);
    }
    let timing = Timing { backoff: [Duration::from_millis(50); 2], ..EAGER };
    let authentication = Authentication::with_timing(&config, &Authentication::default(), timing);
    let token = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&token)).await.is_ok());
    provider.set_up(false);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while authentication.identify_bearer(Some(&token)).await.is_ok() {
        assert!(std::time::Instant::now() < deadline, "keys from before the outage are still used");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(refusal(&authentication, &token).await, Rejection::Unavailable);
    provider.set_up(true);
    assert!(authentication.identify_bearer(Some(&token)).await.is_ok());
}

#[tokio::test]
async fn a_withdrawn_credential_is_refused_also_from_the_cache() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(""));
    let token = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&token)).await.is_ok());
    let alice = RevokedCredentials { subject: Some("alice".into()), ..RevokedCredentials::default() };
    authentication.revocations().order(alice, Duration::from_hours(1), false).unwrap();
    assert_eq!(refusal(&authentication, &token).await, Rejection::Withdrawn);
    let reloaded = Authentication::with_timing(&provider.config(""), &authentication, EAGER);
    assert_eq!(refusal(&reloaded, &token).await, Rejection::Withdrawn, "a reload keeps the order");
}

#[tokio::test]
async fn a_client_whose_key_or_issuer_is_removed_has_lost_its_credential() {
    let with_key_of = |subject: &str| {
        let keys = format!("[{{ subject: {subject}, key: {subject}-0123456789abcdef }}]");
        let text = format!("incomingAuth: {{ type: apiKeys, apiKeys: {keys} }}");
        vmcp_config::load(&text, "vmcp.yaml", &|_| None).unwrap().config.incoming_auth
    };
    let before = start(&with_key_of("alice"));
    let alice = before.identify_bearer(Some("alice-0123456789abcdef")).await.unwrap();
    assert!(!before.has_withdrawn(&alice) && !before.has_withdrawn(&Identity::Anonymous));
    let after = Authentication::with_timing(&with_key_of("carol"), &before, EAGER);
    assert!(after.has_withdrawn(&alice));
    let mut in_a_group = with_key_of("alice");
    in_a_group.api_keys[0].claims.insert("groups".to_owned(), json!(["admins"]));
    let promoted = Authentication::with_timing(&in_a_group, &before, EAGER);
    let again = promoted.identify_bearer(Some("alice-0123456789abcdef")).await.unwrap();
    assert!(!promoted.has_withdrawn(&alice) && promoted.has_changed(&alice) && before.has_changed(&again));
    assert!(!promoted.has_changed(&again) && !before.has_changed(&alice));
    let provider = Provider::start().await;
    let by_provider = start(&provider.config(""));
    let token = provider.token(&provider.claims());
    let of_provider = by_provider.identify_bearer(Some(&token)).await.unwrap();
    assert!(!by_provider.has_withdrawn(&of_provider) && !by_provider.has_changed(&of_provider));
    assert!(after.has_withdrawn(&of_provider), "its issuer is removed");
}
