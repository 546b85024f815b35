//! Tests of the references to MCPWebhookConfigs.

use std::sync::Arc;

use super::*;
use crate::virtual_mcp_server::testing::{plan, references, with_secret, yaml};

/// Returns references with MCPServers, each with the name of its MCPWebhookConfig.
fn with_servers(backends: &[(&str, &str)]) -> References {
    let mut references = with_secret(references());
    for (name, config) in backends {
        let text = format!(
            "metadata: {{name: {name}, namespace: n}}\nspec: {{image: i, webhookConfigRef: {{name: {config}}}}}"
        );
        references.servers.push(Arc::new(yaml(&text)));
    }
    references
}

/// Adds an MCPWebhookConfig whose `validating` has this content.
fn with_config(mut references: References, name: &str, webhooks: &str) -> References {
    let text = format!("metadata: {{name: {name}, namespace: n}}\nspec: {{validating: [{webhooks}]}}");
    references.webhook_configs.insert(name.to_owned(), Arc::new(yaml(&text)));
    references
}

const GUARD: &str =
    "{name: guard, url: 'https://guard.example/', tools: [push], hmacSecretRef: {name: s, key: k}}";

#[test]
fn webhooks_are_configured_or_what_they_guard_is_not_called() {
    let backends = [("a", "guards"), ("b", "guards"), ("c", "missing"), ("d", "wrong"), ("e", "unsigned")];
    let references = with_config(with_servers(&backends), "guards", GUARD);
    let references = with_config(references, "wrong", "{name: guard, url: 'http://guard.example/'}");
    let unsigned = "{name: guard, url: 'https://guard.example/', hmacSecretRef: {name: gone, key: k}}";
    let references = with_config(references, "unsigned", unsigned);
    let plan = plan("{}", &references);
    let configuration = plan.configuration.expect("valid all the same");
    let [guard] = &configuration.lowered.config.webhooks.validating[..] else {
        panic!("{}", configuration.lowered.text)
    };
    assert_eq!(&*guard.name, "guards/guard");
    let asked = ["a", "b", "c"].map(|backend| guard.means(backend, "x_push", "push"));
    assert_eq!(asked, [true, true, false]);
    let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
    assert_eq!(enabled, [true, true, false, false, false], "calls that a webhook would deny would go on");
    assert!(plan.unusable["c"].contains("no MCPWebhookConfig missing"), "{:?}", plan.unusable);
    assert!(plan.unusable["d"].contains("spec.validating[0].url"), "{:?}", plan.unusable);
    assert!(plan.unusable["e"].contains("gone"), "{:?}", plan.unusable);
    assert_eq!(plan.webhooks.len(), 3);

    for (name, reason) in [("missing", "WebhookConfigRefNotFound"), ("wrong", "WebhookConfigRefNotValid")] {
        let plan = self::plan(&format!("{{webhookConfigRef: {{name: {name}}}}}"), &references);
        assert_eq!(plan.configuration.unwrap_err().reason, reason);
    }
}

#[test]
fn a_configuration_that_two_references_name_is_followed_twice() {
    let references = with_config(with_servers(&[("git", "guards")]), "guards", GUARD);
    let plan = plan("{webhookConfigRef: {name: guards}}", &references);
    let configuration = plan.configuration.expect("valid");
    let [all, own] = &configuration.lowered.config.webhooks.validating[..] else {
        panic!("{}", configuration.lowered.text)
    };
    assert_eq!([&*all.name, &*own.name], ["guards/guard/all", "guards/guard"]);
    // The listed name is `git_push`: only the webhook of the MCPServer means the tool by its own name.
    assert!(own.means("git", "git_push", "push") && own.original_names);
    assert!(
        !all.means("git", "git_push", "push") && all.means("other", "push", "push") && !all.original_names
    );
}

#[test]
fn webhooks_beyond_the_limit_cost_their_own_backends_alone() {
    let many = |number: usize| {
        let webhook = |index| format!("{{name: w{index}, url: 'https://guard.example/'}}");
        (0..number).map(webhook).collect::<Vec<_>>().join(", ")
    };
    let references = with_servers(&[("a", "whole"), ("b", "further"), ("c", "whole")]);
    let references = with_config(with_config(references, "whole", &many(MAX_WEBHOOKS)), "further", &many(1));
    let plan = plan("{}", &references);
    let configuration = plan.configuration.expect("valid all the same");
    let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
    // By the order of names, `further` comes first.
    assert_eq!(enabled, [false, true, false]);
    assert_eq!(configuration.lowered.config.webhooks.validating.len(), 1);
    let [problem] = &plan.webhooks[..] else { panic!("{:?}", plan.webhooks) };
    assert_eq!(problem.reason, "TooManyWebhooks");
    assert!(problem.message.contains("there would be 257 of the kind `validating`"), "{}", problem.message);
    assert_eq!(plan.unusable["a"], problem.message);

    let plan = self::plan("{webhookConfigRef: {name: whole}}", &references);
    let configuration = plan.configuration.expect("its own come first");
    assert!(configuration.backends.iter().all(|backend| !backend.enabled));
    assert_eq!(configuration.lowered.config.webhooks.validating.len(), MAX_WEBHOOKS);
}

#[test]
fn webhooks_of_too_many_bytes_cost_their_own_backends_alone() {
    let tool = "t".repeat(256);
    let tools = vec![tool.as_str(); 256].join(", ");
    let large = |number: usize| {
        let webhook = |index| format!("{{name: w{index}, url: 'https://guard.example/', tools: [{tools}]}}");
        (0..number).map(webhook).collect::<Vec<_>>().join(", ")
    };
    let references = with_servers(&[("a", "large"), ("b", "small")]);
    let references = with_config(with_config(references, "large", &large(4)), "small", &large(1));
    let plan = plan("{}", &references);
    let configuration = plan.configuration.expect("valid all the same");
    let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
    assert_eq!(enabled, [false, true]);
    let [problem] = &plan.webhooks[..] else { panic!("{:?}", plan.webhooks) };
    assert_eq!(problem.reason, "TooManyWebhooks");
    assert!(problem.message.contains("and a VirtualMCPServer takes at most 256 KiB"), "{}", problem.message);
}

#[test]
fn each_webhook_repeats_the_names_of_its_backends() {
    let text =
        "metadata: {name: c}\nspec: {post: [{name: a, url: 'https://a/'}, {name: b, url: 'https://a/'}]}";
    let config: vmcp_crds::MCPWebhookConfig = yaml(text);
    let bytes = |scope| bytes_of("c", &config.spec, &scope);
    let all = bytes(WebhookScope::All);
    assert_eq!(bytes(WebhookScope::Backends(vec!["x".repeat(88), "y".repeat(88)])), all + 2 * 200);
}

#[test]
fn a_name_of_a_tool_is_not_endless() {
    for tools in ["t".repeat(257), "''".to_owned()] {
        let webhook = format!("{{name: w, url: 'https://guard.example/', tools: [{tools}]}}");
        let references = with_config(with_servers(&[("a", "guards")]), "guards", &webhook);
        let plan = plan("{}", &references);
        assert!(plan.unusable["a"].contains("spec.validating[0].tools: has more"), "{:?}", plan.unusable);
    }
}
