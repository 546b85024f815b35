//! Keys of an issuer in a file (`jwksPath`).

use super::*;
use crate::testing::Key;

fn claims(subject: &str) -> String {
    let claims = json!({
        "iss": "https://kubernetes.default.svc", "aud": ["vmcp"], "sub": subject, "exp": now() + 600,
        "kubernetes.io": { "namespace": "ci", "serviceaccount": { "name": "bot" } },
    });
    claims.to_string()
}

fn token(key: &Key, id: &str, subject: &str) -> String {
    key.sign(&json!({ "alg": "ES256", "kid": id }).to_string(), &claims(subject))
}

#[tokio::test]
async fn keys_come_from_the_file_and_a_rotated_one_is_read_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (first, second) = (Key::new("first"), Key::new("second"));
    let store = |key: &Key| std::fs::write(file.path(), json!({ "keys": [key.jwk()] }).to_string()).unwrap();
    store(&first);
    let text = format!(
        "incomingAuth:\n  type: oidc\n  oidc:\n    issuer: https://kubernetes.default.svc\n    audience: vmcp\n    \
         jwksPath: {}\n    claimMapping: {{ namespace: /kubernetes.io/namespace }}\n    \
         requiredClaims: {{ sub: ['system:serviceaccount:ci:bot'] }}\n",
        file.path().display()
    );
    let config = vmcp_config::load(&text, "test", &|_| None).unwrap().config.incoming_auth;
    let authentication = start(&config);
    let subject = "system:serviceaccount:ci:bot";

    let identity = authentication.identify_bearer(Some(&token(&first, "first", subject))).await.unwrap();
    assert_eq!(
        (identity.subject(), &identity.as_known().unwrap().claims()["namespace"]),
        (subject, &json!("ci"))
    );
    let other = token(&first, "first", "system:serviceaccount:ci:other");
    assert_eq!(refusal(&authentication, &other).await, TokenError::Condition.into());
    assert_eq!(
        refusal(&authentication, &token(&second, "second", subject)).await,
        TokenError::Signature.into()
    );

    store(&second);
    assert!(authentication.identify_bearer(Some(&token(&second, "second", subject))).await.is_ok());
    assert_eq!(
        refusal(&authentication, &token(&first, "first", subject)).await,
        TokenError::Signature.into()
    );
    // Without the file, known keys stay, and unknown ones are not believed.
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(refusal(&authentication, &token(&first, "first", subject)).await, Rejection::Unavailable);
    assert!(authentication.identify_bearer(Some(&token(&second, "second", subject))).await.is_ok());
}
