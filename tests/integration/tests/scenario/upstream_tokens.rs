//! People who sign in through vmcp at a real identity provider, with the OAuth client of the official SDK:
//! only the backend that names the provider gets their token.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};
use vmcp_integration::{
    Fixture, IdentityProvider, RoundRobin, Vmcp, eventually, forward, http_client, installed, python,
    run_script,
};

/// Starts a server that wants a bearer token, in front of a fixture; returns its URL.
async fn guarded(fixture: &Fixture) -> String {
    async fn mcp(
        State(behind): State<Arc<str>>,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if !authorization.is_some_and(|value| value.starts_with("Bearer ")) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        forward(&behind, method, &headers, body).await
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let behind: Arc<str> = fixture.url().into();
    let app = Router::new().route("/mcp", any(mcp)).with_state(behind);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// Registers vmcp at the provider; returns the block of `authServer`.
async fn auth_server(provider: &IdentityProvider, issuer: &str) -> Value {
    let wanted = json!({
        "application_type": "native", "redirect_uris": [format!("{issuer}/oauth/callback")],
        "grant_types": ["authorization_code", "refresh_token"], "client_name": "vmcp",
    });
    let answer = http_client().post(format!("{}/reg", provider.issuer)).json(&wanted).send().await;
    let client: Value = answer.expect("the provider").json().await.expect("JSON");
    assert!(client["client_id"].is_string(), "{client}");
    json!({"authServer": {"issuer": issuer, "upstreamProviders": [{
        "name": "corp", "type": "oidc", "oidcConfig": {
            "issuerUrl": provider.issuer, "clientId": client["client_id"],
            "clientSecret": client["client_secret"], "insecureAllowHttp": true, "allowPrivateIPs": true,
        },
    }]}})
}

fn inject() -> Value {
    let inject = json!({"type": "upstreamInject", "upstreamInject": {"providerName": "corp"}});
    json!({"outgoingAuth": {"backends": {"forge": inject}}})
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Returns the bearer token in the headers that a backend shows.
fn bearer(shown: &str) -> Option<&str> {
    let (_, rest) = shown.split_once("Bearer ")?;
    rest.split(|c: char| c == '"' || c == '\\' || c.is_whitespace()).next()
}

async fn sign_in(url: &str) -> Value {
    let script = include_str!("../../clients/sign_in.py");
    run_script(&python("python"), &["-", url], script, &installed("python")).await
}

/// Returns the person that the provider knows a token of.
async fn person(provider: &IdentityProvider, token: &str) -> Value {
    let answer = http_client().get(format!("{}/me", provider.issuer)).bearer_auth(token).send().await;
    answer.expect("the provider").json().await.expect("JSON")
}

#[tokio::test]
async fn a_person_signs_in_through_vmcp_and_the_named_backend_alone_gets_their_token() {
    let provider = IdentityProvider::start().await;
    let forge = Fixture::http("forge", "echo").start().await;
    let other = Fixture::http("other", "echo").start().await;
    let entry = json!({"name": "forge", "url": guarded(&forge).await});
    let mut vmcp = Vmcp::new().backend_entry(entry).backend(&other).start().await;
    vmcp.with_tool("other_inspect").await;
    let issuer = vmcp.url.trim_end_matches("/mcp").to_owned();
    let mut settings = auth_server(&provider, &issuer).await;
    settings["outgoingAuth"] = inject()["outgoingAuth"].clone();
    vmcp.reconfigure(settings);
    eventually("strangers to be refused", async || {
        (vmcp.modern().request("tools/list", json!({})).await.status == 401).then_some(())
    })
    .await;
    let metadata = format!("{issuer}/.well-known/oauth-protected-resource/mcp");
    let metadata: Value = http_client().get(metadata).send().await.unwrap().json().await.unwrap();
    assert_eq!(metadata["authorization_servers"], json!([issuer]));

    let seen = sign_in(&vmcp.url).await;
    assert_eq!(seen["consents"], 1, "a refresh asks nobody");
    let given = bearer(text(&seen, "/first/forge_inspect")).expect("a token");
    assert_eq!(person(&provider, given).await["sub"], "carol", "the provider's own token");
    assert!(!text(&seen, "/first/other_inspect").contains("Bearer"), "{seen}");
    let again = bearer(text(&seen, "/second/forge_inspect")).expect("a token");
    assert_eq!(person(&provider, again).await["sub"], "carol");
    let own = [text(&seen, "/tokens/0/access_token"), text(&seen, "/tokens/1/access_token")];
    assert_ne!(own[0], own[1]);
    for token in own {
        assert!(token != given && token != again, "the client has a token of vmcp's own");
    }
    let visited = seen["visited"].to_string();
    let refresh = [text(&seen, "/tokens/0/refresh_token"), text(&seen, "/tokens/1/refresh_token")];
    vmcp.process.line_after("signed in").await;
    let log = vmcp.process.output();
    for secret in own.into_iter().chain([given, again]).chain(refresh) {
        assert!(!log.contains(secret), "a token in the log");
        assert!(!visited.contains(secret), "a token in a URL");
    }
    assert!(!vmcp.status().await.to_string().contains(given));

    // To policies, the bearer of the token is carol.
    let carol = vmcp.modern().bearing(own[1]);
    vmcp.reconfigure(json!({"incomingAuth": {"authz": {"policies": [
        "permit(principal == Client::\"carol\", action, resource) when { resource.name like \"forge_*\" };",
    ]}}}));
    eventually("the policy", async || {
        let other = carol.call_tool("other_inspect", json!({})).await;
        (other.is_failure() || other.status != 200).then_some(())
    })
    .await;
    let forge = carol.call_tool("forge_inspect", json!({})).await;
    assert!(!forge.is_failure(), "{}", forge.text);
}

#[tokio::test]
async fn a_code_is_redeemed_at_any_replica() {
    let provider = IdentityProvider::start().await;
    let forge = Fixture::http("forge", "echo").start().await;
    let other = Fixture::http("other", "echo").start().await;
    let keys = tempfile::tempdir().expect("a folder");
    let key = keys.path().join("key.pem");
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out"])
        .arg(&key)
        .status();
    assert!(made.expect("openssl").success());
    let balancer = RoundRobin::start(&[]).await;
    let issuer = balancer.url.trim_end_matches("/mcp").to_owned();
    let mut settings = auth_server(&provider, &issuer).await;
    settings["authServer"]["signingKeys"] = json!([format!("${{file:{}}}", key.display())]);
    settings["outgoingAuth"] = inject()["outgoingAuth"].clone();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let mut vmcp = Vmcp::new().backend(&forge).backend(&other).start().await;
        vmcp.with_tool("forge_inspect").await;
        let address = vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        settings["server"] =
            json!({"sessionKeys": ["a session key of enough characters"], "peerAddress": address});
        vmcp.reconfigure(settings.clone());
        eventually("strangers to be refused", async || {
            (vmcp.modern().request("tools/list", json!({})).await.status == 401).then_some(())
        })
        .await;
        balancer.put_back(&vmcp.url);
        replicas.push(vmcp);
    }
    let seen = sign_in(&balancer.url).await;
    let given = bearer(text(&seen, "/first/forge_inspect")).expect("a token");
    assert_eq!(person(&provider, given).await["sub"], "carol");
    let mut forwarded = 0;
    for vmcp in &replicas {
        forwarded += vmcp.metric("vmcp_requests_forwarded_total").await;
    }
    assert!(forwarded > 0, "the browser and the client met different replicas");
}
