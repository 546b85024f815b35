//! Identity of clients: tokens of a real provider, keys, and the worth of a session id without them.

use serde_json::{Value, json};
use vmcp_integration::{
    Client, Fixture, HttpAnswer, IdentityProvider, TlsProxy, Vmcp, eventually, http_client,
};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn keys(clients: &[(&str, &str)]) -> Value {
    let entry = |(subject, key): &(&str, &str)| json!({"subject": subject, "key": key});
    json!({"incomingAuth": {"type": "apiKeys", "apiKeys": clients.iter().map(entry).collect::<Vec<_>>()}})
}

#[tokio::test]
async fn keys_let_clients_in_and_a_reload_changes_them() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&echo).config(keys(&[("alice", ALICE)])).start().await;
    let stranger = vmcp.with_tool("echo_echo").await;
    let refused = stranger.request("tools/list", json!({})).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    let wrong = vmcp.modern().bearing("alice-0123456789abcdeX").request("tools/list", json!({})).await;
    assert_eq!(wrong.status, 401);
    let challenge = wrong.headers["www-authenticate"].to_str().unwrap();
    assert!(challenge.contains(r#"error="invalid_token""#), "{challenge}");
    let alice = vmcp.modern().bearing(ALICE);
    let answer = alice.call_tool("echo_echo", json!({"message": "hello"})).await;
    assert_eq!(answer.content_text(), "hello", "{}", answer.text);
    let by_header = alice.stamp(json!({}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": by_header}).to_string();
    let listed = stranger.post("tools/list", &by_header, &body).header("x-api-key", ALICE).send().await;
    assert_eq!(listed.unwrap().status(), 200);
    let metadata = vmcp.url.replace("/mcp", "/.well-known/oauth-protected-resource");
    assert_eq!(http_client().get(metadata).send().await.unwrap().status(), 404, "no provider gives tokens");

    vmcp.reconfigure(keys(&[("bob", BOB)]));
    eventually("alice's key to be withdrawn", async || {
        (alice.request("tools/list", json!({})).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(vmcp.modern().bearing(BOB).request("tools/list", json!({})).await.status, 200);
    let output = vmcp.process.output();
    assert!(!output.contains(ALICE) && !output.contains(BOB), "no key is logged");
    assert!(vmcp.metric(r#"vmcp_client_requests_refused_total{reason="unauthenticated"}"#).await >= 3);
}

#[tokio::test]
async fn a_stolen_session_id_is_worth_nothing_and_its_owner_goes_on() {
    let echo = Fixture::http("echo", "echo").start().await;
    let clients = keys(&[("alice", ALICE), ("bob", BOB)]);
    let vmcp = Vmcp::new().backend(&echo).config(clients).start().await;
    vmcp.with_tool("echo_echo").await;
    let alice = Client::legacy_bearing(&vmcp.url, ALICE).await;
    let stolen = alice.session.clone().unwrap();
    let thief = vmcp.modern().bearing(BOB).as_legacy().with_session(&stolen);
    let refused = thief.call_tool("echo_echo", json!({"message": "mine"})).await;
    assert_eq!((refused.status.as_u16(), &refused.error()["message"]), (404, &json!("session not found")));
    assert_eq!(thief.listen().await.status(), 404);
    assert_eq!(thief.close().await.status(), 404, "nor can it be ended");
    let without_a_key = vmcp.modern().as_legacy().with_session(&stolen);
    assert_eq!(without_a_key.request("tools/list", json!({})).await.status, 401);
    let answer = alice.call_tool("echo_echo", json!({"message": "still mine"})).await;
    assert_eq!(answer.content_text(), "still mine", "{}", answer.text);
    vmcp.process.line_after("session id of another identity").await;
}

async fn list(vmcp: &Vmcp, token: &str) -> HttpAnswer {
    vmcp.modern().bearing(token).request("tools/list", json!({})).await
}

fn challenge(answer: &HttpAnswer) -> &str {
    answer.headers["www-authenticate"].to_str().expect("a plain challenge")
}

#[tokio::test]
async fn a_client_learns_where_tokens_come_from_and_gets_in_with_one() {
    let provider = IdentityProvider::start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let config =
        provider.config(&json!({"requiredScopes": ["tools:read"], "scopes": ["tools:read", "tools:write"]}));
    let vmcp = Vmcp::new().backend(&echo).config(config).start().await;
    let stranger = vmcp.with_tool("echo_echo").await;
    for (client, request) in [(&stranger, "tools/list"), (&vmcp.modern().as_legacy(), "initialize")] {
        let refused = client.request(request, json!({})).await;
        assert_eq!(refused.status, 401, "{request}");
        let expected = "Bearer scope=\"tools:read tools:write\",\
            resource_metadata=\"https://tools.example.com/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(challenge(&refused), expected);
    }
    let base = vmcp.url.trim_end_matches("/mcp");
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let answer = http_client().get(format!("{base}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let metadata: Value = answer.json().await.unwrap();
        assert_eq!(
            metadata,
            json!({
                "resource": "https://tools.example.com/mcp", "bearer_methods_supported": ["header"],
                "authorization_servers": [provider.issuer], "scopes_supported": ["tools:read", "tools:write"],
                "dpop_signing_alg_values_supported":
                    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"],
            })
        );
    }
    let token = provider.token("alice").await;
    let answer = vmcp.modern().bearing(&token).call_tool("echo_echo", json!({"message": "hello"})).await;
    assert_eq!(answer.content_text(), "hello", "{}", answer.text);
    let alice = Client::legacy_bearing(&vmcp.url, &token).await;
    let renewed = provider.token("alice").await;
    let session = alice.session.clone().unwrap();
    let alice = vmcp.modern().bearing(&renewed).as_legacy().with_session(&session);
    assert_eq!(alice.request("tools/list", json!({})).await.status, 200, "a session outlives a token");
    let bob = vmcp.modern().bearing(&provider.token("bob").await).as_legacy().with_session(&session);
    assert_eq!(bob.request("tools/list", json!({})).await.status, 404);

    let narrow =
        list(&vmcp, &provider.token_for("bob", "https://tools.example.com/mcp", "tools:write").await).await;
    assert_eq!(narrow.status, 403);
    assert!(challenge(&narrow).contains(r#"error="insufficient_scope""#), "{}", challenge(&narrow));
    assert!(challenge(&narrow).contains(r#"scope="tools:read""#), "{}", challenge(&narrow));
    let in_the_url = http_client().get(format!("{}?access_token={token}", vmcp.url)).send().await.unwrap();
    assert_eq!(in_the_url.status(), 401, "no token is read from a URL");
    assert!(!vmcp.process.output().contains(&token), "no token is logged");
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_is_challenged_for_step_up() {
    const AUDIENCE: &str = "https://tools.example.com/mcp";
    let provider = IdentityProvider::start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let mut config = provider.config(&json!({"requiredScopes": ["tools:read"]}));
    config["incomingAuth"]["toolScopes"] = json!([{"tools": ["*_echo"], "scopes": ["tools:write"]}]);
    let vmcp = Vmcp::new().backend(&echo).config(config).start().await;
    vmcp.with_tool("echo_echo").await;
    let narrow = provider.token("alice").await;
    let wide = provider.token_for("alice", AUDIENCE, "tools:read+tools:write").await;
    let direct = ("echo_echo", json!({"message": "hello"}));
    let nested = ("optim.call_tool", json!({"tool_name": "echo_echo", "parameters": {"message": "hello"}}));
    let modern = vmcp.modern().bearing(&narrow);
    let legacy = Client::legacy_bearing(&vmcp.url, &narrow).await;
    for (tool, arguments) in [&direct, &nested] {
        for client in [&modern, &legacy] {
            let refused = client.call_tool(tool, arguments.clone()).await;
            assert_eq!(refused.status, 403, "{tool}: {}", refused.text);
            let expected = "Bearer error=\"insufficient_scope\",\
                error_description=\"the token lacks the scope tools:write\",scope=\"tools:read tools:write\",\
                resource_metadata=\"https://tools.example.com/.well-known/oauth-protected-resource/mcp\"";
            assert_eq!(challenge(&refused), expected, "{tool}");
            assert_eq!(refused.error()["data"]["missingScopes"], json!(["tools:write"]));
        }
        let answer = vmcp.modern().bearing(&wide).call_tool(tool, arguments.clone()).await;
        assert_eq!(answer.content_text(), "hello", "{}", answer.text);
    }
    let listed = modern.request("tools/list", json!({})).await;
    assert!(listed.text.contains("echo_echo"), "the tool stays listed: {}", listed.text);
    let first = vmcp.modern().request("tools/list", json!({})).await;
    assert!(challenge(&first).contains(r#"scope="tools:read","#), "{}", challenge(&first));
    let metadata = vmcp.url.replace("/mcp", "/.well-known/oauth-protected-resource");
    let metadata: Value = http_client().get(metadata).send().await.unwrap().json().await.unwrap();
    assert_eq!(metadata["scopes_supported"], json!(["tools:read", "tools:write"]));
}

#[tokio::test]
async fn tokens_for_others_expired_ones_and_forgeries_are_refused() {
    let provider = IdentityProvider::start().await;
    let vmcp = Vmcp::new().config(provider.config(&json!({}))).start().await;
    let good = provider.token("alice").await;
    assert_eq!(list(&vmcp, &good).await.status, 200);
    let other = provider.token_for("alice", "https://other.example", "tools:read").await;
    let [none, confused] = [provider.forge("none", &good).await, provider.forge("hs256", &good).await];
    let brief = provider.token("brief").await;
    eventually("the token to expire", async || (list(&vmcp, &brief).await.status == 401).then_some(())).await;
    for (token, reason) in [
        (other, "the token is for another audience"),
        (brief, "the token has expired"),
        (none, "the token is no JWT"),
        (confused, "the token's algorithm is not accepted"),
        (format!("{}AAAA", good.trim_end_matches(|c| c != '.')), "the token's signature is not valid"),
    ] {
        let refused = list(&vmcp, &token).await;
        assert_eq!(refused.status, 401, "{reason}");
        let challenge = challenge(&refused);
        assert!(challenge.contains(r#"error="invalid_token""#) && challenge.contains(reason), "{challenge}");
    }
    assert_eq!(list(&vmcp, &good).await.status, 200);
}

#[tokio::test]
async fn keys_rotate_and_a_provider_that_is_down_stops_no_known_client() {
    let mut provider = IdentityProvider::start().await;
    let vmcp = Vmcp::new().config(provider.config(&json!({}))).start().await;
    let before = provider.token("alice").await;
    assert_eq!(list(&vmcp, &before).await.status, 200);
    provider.rotate().await;
    let after = provider.token("alice").await;
    // Keys are fetched at most every few seconds, whatever tokens name.
    eventually("the new key", async || (list(&vmcp, &after).await.status == 200).then_some(())).await;
    assert_eq!(list(&vmcp, &before).await.status, 401, "its key was withdrawn");

    provider.stop();
    assert_eq!(list(&vmcp, &after).await.status, 200);
    let ready = http_client().get(format!("{}/readyz", vmcp.admin)).send().await.unwrap();
    assert_eq!(ready.status(), 200);

    provider.restart().await;
    let renewed = provider.token("bob").await;
    eventually("the keys of the restarted provider", async || {
        (list(&vmcp, &renewed).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_starts_without_its_provider_and_says_so() {
    let mut provider = IdentityProvider::start().await;
    let token = provider.token("alice").await;
    provider.stop();
    let vmcp = Vmcp::new().config(provider.config(&json!({}))).start().await;
    let refused = list(&vmcp, &token).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after"));
    eventually("the status to name the provider", async || {
        let status = vmcp.status().await;
        let known = &status["identityProviders"][0];
        (known["issuer"] == provider.issuer && known["lastError"].is_string()).then_some(())
    })
    .await;
    let up = format!(r#"vmcp_identity_provider_up{{issuer="{}"}} 0"#, provider.issuer);
    assert!(vmcp.metrics().await.contains(&up));
    provider.restart().await;
    let token = provider.token("alice").await;
    eventually("the provider to be used", async || (list(&vmcp, &token).await.status == 200).then_some(()))
        .await;
}

#[tokio::test]
async fn a_reload_changes_who_may_come_in() {
    let (first, second) = (IdentityProvider::start().await, IdentityProvider::start().await);
    let mut vmcp = Vmcp::new().start().await;
    assert_eq!(vmcp.modern().request("tools/list", json!({})).await.status, 200);
    vmcp.reconfigure(first.config(&json!({})));
    let token = first.token("alice").await;
    eventually("strangers to be refused", async || {
        (vmcp.modern().request("tools/list", json!({})).await.status == 401).then_some(())
    })
    .await;
    eventually("the first provider", async || (list(&vmcp, &token).await.status == 200).then_some(())).await;
    let others = second.token("alice").await;
    assert_eq!(list(&vmcp, &others).await.status, 401);
    let further = second.config(&json!({}))["incomingAuth"]["oidc"].clone();
    vmcp.reconfigure(json!({"incomingAuth": {"additionalIssuers": [further]}}));
    eventually("the second provider", async || (list(&vmcp, &others).await.status == 200).then_some(()))
        .await;
    assert_eq!(list(&vmcp, &token).await.status, 200);
}

#[tokio::test]
async fn a_provider_behind_a_private_authority_is_trusted_by_its_certificate_alone() {
    let provider = IdentityProvider::start().await;
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (pem, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let address = provider.issuer.trim_start_matches("http://");
    let proxy = TlsProxy::start(address, &pem, &key).await;
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = folder.path().join("ca.crt");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(&bundle, other.cert.pem()).expect("a file");
    let keys = format!("https://localhost:{}/jwks", proxy.port);
    let config = provider.config(&json!({"jwksUrl": keys, "caBundlePath": bundle}));
    let vmcp = Vmcp::new().config(config).start().await;
    let token = provider.token("alice").await;
    assert_eq!(list(&vmcp, &token).await.status, 503, "another authority");
    let status = vmcp.status().await;
    let told = status["identityProviders"][0]["lastError"].as_str().unwrap_or_default();
    assert!(told.contains("certificate"), "{told}");

    // The file is read again at each fetch of keys.
    std::fs::write(&bundle, pem).expect("a file");
    eventually("the provider to be trusted", async || {
        (list(&vmcp, &token).await.status == 200).then_some(())
    })
    .await;
}
