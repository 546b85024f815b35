//! Tests of the door: cookies, the provider, and sessions that end.

use std::time::Duration;

use vmcp_access::authentication::revocations::RevokedCredentials;
use vmcp_engine::testing::{KEYWORDS, config, engine};

use super::*;

#[tokio::test]
async fn an_order_ends_the_sessions_of_a_person_at_the_console() {
    let engine = engine(KEYWORDS).await;
    let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 9090).into());
    let door = ConsoleDoor::new(guard);
    let server = "server: { console: oidc, adminTokens: [a token of enough characters], consoleSignIn: { \
         issuerUrl: \"http://127.0.0.1:1\", insecureAllowHttp: true, allowPrivateIPs: true, clientId: x, \
         viewers: [a], redirectUri: \"http://localhost:9090/console/oidc/callback\" } }";
    engine.apply(config(&format!("{server}\n{KEYWORDS}"))).await;
    let snapshot = engine.snapshot();
    let settings = snapshot.config.server.console_sign_in.as_ref().unwrap();
    let cookie = |subject: &str, began: u64| {
        let person = CookiePerson { subject: subject.to_owned(), role: ConsoleRole::Operator };
        door.keys().person_session(&person, settings, began + SESSION_SECONDS)
    };
    let (ann, bob) = (cookie("ann", now() - 60), cookie("bob", now() - 60));
    assert!(door.person(&ann).is_some() && door.person(&bob).is_some());
    let of = RevokedCredentials { subject: Some("ann".to_owned()), ..RevokedCredentials::default() };
    engine.revoke(of, Duration::from_hours(1), false).unwrap();
    assert!(door.person(&ann).is_none() && door.person(&bob).is_some());
    assert!(door.person(&cookie("ann", now() + 60)).is_some(), "a new sign-in");
}

#[tokio::test]
async fn cookies_of_a_sign_in_by_https_are_secure_and_an_unused_provider_is_dropped() {
    let engine = engine(KEYWORDS).await;
    let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 9090).into());
    let door = ConsoleDoor::new(guard);
    for (origin, expected) in [("https://vmcp.example.com", "; Secure"), ("http://localhost:9090", "")] {
        let server = format!(
            "server: {{ console: oidc, adminTokens: [a token of enough characters], consoleSignIn: {{ \
             issuerUrl: \"http://127.0.0.1:1\", insecureAllowHttp: true, allowPrivateIPs: true, clientId: x, \
             viewers: [a], redirectUri: \"{origin}/console/oidc/callback\" }} }}"
        );
        engine.apply(config(&format!("{server}\n{KEYWORDS}"))).await;
        let [(_, attempt)] = door.set_attempt("x", 1);
        assert!(attempt.ends_with(&format!("; SameSite=Lax{expected}")), "{attempt}");
        assert_eq!(door.secure(), expected);
    }
    assert!(door.provider().is_some());
    door.drop_unused_provider();
    assert!(door.0.provider.lock().is_some(), "in use");
    engine.apply(config(KEYWORDS)).await;
    door.drop_unused_provider();
    assert!(door.0.provider.lock().is_none());
}
