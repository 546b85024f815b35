//! Tests of `webhooks`.

use super::*;
use crate::{Loaded, Problems, load};

fn with(webhooks: &str) -> Result<Loaded, Problems> {
    let text = format!(
        "backends: [{{ name: db, url: 'http://127.0.0.1:1/' }}, {{ name: jira, url: 'http://127.0.0.1:2/' }}]\n\
         webhooks: {webhooks}\n"
    );
    load(&text, "vmcp.yaml", &|_| None)
}

#[test]
fn a_webhook_denies_without_an_answer_and_is_told_little() {
    let config = with("{ validating: [{ name: guard, url: 'https://guard.example/' }] }").unwrap().config;
    let [guard] = &config.webhooks.validating[..] else { panic!("{:?}", config.webhooks) };
    assert_eq!(guard.failure_policy, WebhookFailurePolicy::Fail);
    assert_eq!((guard.timeout, &guard.claims), (Duration::from_secs(10), &SentClaims::Named(Vec::new())));
    assert!(!guard.tell_reason && !guard.allow_private_addresses && guard.hmac_secret.is_none());
    assert!(guard.means("db", "db_drop", "drop"));
    assert!(with("{}").unwrap().config.webhooks.is_empty());
}

#[test]
fn a_webhook_means_the_tools_that_it_names() {
    let of = |filter: &str| {
        let text = format!("{{ post: [{{ name: mask, url: 'https://m/', {filter} }}] }}");
        Arc::clone(&with(&text).unwrap().config.webhooks.post[0])
    };
    let asked = |webhook: &Webhook| {
        let tools = [("db", "db_drop", "drop"), ("db", "db_list", "list"), ("jira", "drop", "trash")];
        tools.map(|(backend, name, own)| webhook.means(backend, name, own))
    };
    assert_eq!(asked(&of("tools: ['*_drop', drop]")), [true, false, true]);
    assert_eq!(asked(&of("backends: [db]")), [true, true, false]);
    assert_eq!(asked(&of("backends: [db], tools: [drop]")), [true, false, false]);
    assert_eq!(of("claims: [mail, '*']").claims, SentClaims::All);
}

#[test]
fn mistakes_name_the_field() {
    let long = "a".repeat(331);
    for (webhook, message) in [
        ("{ url: 'https://a/' }".to_owned(), "webhooks.mutating[0].name: missing"),
        ("{ name: 'a b', url: 'https://a/' }".to_owned(), "is no name"),
        (format!("{{ name: {long}, url: 'https://a/' }}"), "at most 330"),
        ("{ name: a }".to_owned(), "webhooks.mutating[0].url: missing"),
        ("{ name: a, url: 'http://a.example/' }".to_owned(), "can be forged"),
        ("{ name: a, url: 'https://u:p@a/' }".to_owned(), "must not carry credentials"),
        ("{ name: a, url: 'https://a/', timeout: 31s }".to_owned(), "is not between 10ms and 30s"),
        ("{ name: a, url: 'https://a/', backends: [nosuch] }".to_owned(), "nosuch"),
        ("{ name: a, url: 'https://a/', hmacSecret: '' }".to_owned(), "would not be signed"),
        ("{ name: a, url: 'https://a/', failurePolicy: ask }".to_owned(), "failurePolicy"),
        (
            "{ name: a, url: 'https://a/', clientCertPath: /c }".to_owned(),
            "clientKeyPath: missing beside `clientCertPath`",
        ),
    ] {
        let problems = with(&format!("{{ mutating: [{webhook}] }}")).unwrap_err().to_string();
        assert!(problems.contains(message), "{webhook}: {problems}");
    }
    let twice = "{ post: [{ name: a, url: 'https://a/' }, { name: a, url: 'https://b/' }] }";
    assert!(
        with(twice).unwrap_err().to_string().contains("webhooks.post[1].name: `a` is the name of another")
    );
    let two_kinds = "{ post: [{ name: a, url: 'https://a/' }], mutating: [{ name: a, url: 'https://b/' }] }";
    with(two_kinds).unwrap();
}

#[test]
fn weak_settings_are_warned_of_and_secrets_are_masked() {
    let weak = "{ validating: [{ name: a, url: 'https://a/', failurePolicy: Ignore, hmacSecret: h3llo-you, insecureSkipVerify: true }] }";
    let loaded = with(weak).unwrap();
    let warnings = format!("{:?}", loaded.warnings);
    for warning in ["calls go on", "it can be guessed", "answers can be forged"] {
        assert!(warnings.contains(warning), "{warnings}");
    }
    for shown in [format!("{:?}", loaded.config), loaded.config.effective_yaml().to_owned()] {
        assert!(!shown.contains("h3llo-you"), "{shown}");
    }
}
