//! Bad input from clients, backends and configuration files: each ends in an error that names the field and
//! the limit, never in a crash.

use serde_json::json;
use vmcp_integration::{Cli, Fixture, Vmcp, eventually};

#[tokio::test]
async fn every_limit_is_named_when_it_is_passed() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let long = |count: usize| "x".repeat(count);
    let deep = (0..65).fold(json!(0), |inner, _| json!({ "a": inner }));
    for (tool, arguments, limit) in [
        ("optim.find_tool", json!({"tool_description": long(2001)}), "2000"),
        ("optim.find_tool", json!({"tool_description": "d", "tool_keywords": long(501)}), "500"),
        ("optim.find_tool", json!({"tool_description": "d", "tool_keywords": vec!["t"; 51].join(" ")}), "50"),
        ("optim.call_tool", json!({"tool_name": long(129), "parameters": {}}), "128"),
        (
            "optim.call_tool",
            json!({"tool_name": "echo_echo", "parameters": {"message": "m", "deep": deep}}),
            "64",
        ),
        (
            "optim.call_tool",
            json!({"tool_name": "echo_echo", "parameters": {"message": long(1 << 20)}}),
            "1048576",
        ),
    ] {
        let answer = client.call_tool(tool, arguments).await;
        assert!(
            answer.is_tool_error() && answer.content_text().contains(limit),
            "{limit}: {}",
            answer.content_text()
        );
    }
    for arguments in [json!({}), json!({"tool_description": ""}), json!({"tool_description": null})] {
        let answer = client.find_tool(arguments).await;
        assert!(answer.content_text().contains("tool_description is required"), "{}", answer.text);
    }
    assert_eq!(echo.received("tools/call").await, 0);
}

#[tokio::test]
async fn a_backend_with_every_kind_of_bad_definition_still_serves_its_good_one() {
    for fixture in
        [Fixture::http("nasty", "nasty"), Fixture::stdio("nasty", "nasty").args(["--era", "legacy"])]
    {
        let nasty = fixture.start().await;
        let vmcp =
            Vmcp::new().backend(&nasty).config(json!({"optimizer": {"exposure": "All"}})).start().await;
        let client = vmcp.with_tool("nasty_healthy").await;
        let answer = client.call_tool("nasty_healthy", json!({})).await;
        assert!(answer.content_text().starts_with("healthy called with"), "{}", answer.text);
        for name in client.tools().await.keys() {
            let (first, rest) = name.split_at(1);
            let is_legal = first.chars().all(|c| c.is_ascii_alphabetic())
                && rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
                && name.len() <= 64;
            assert!(is_legal, "{name:?} cannot be listed");
        }
        let found = client.find_tool(json!({"tool_description": "harmless text", "limit": 50})).await;
        let tools = found.structured()["tools"].as_array().expect("tools");
        assert!(!tools.is_empty(), "{}", found.text);
        for description in tools.iter().filter_map(|tool| tool["description"].as_str()) {
            let bad = |c: char| {
                c.is_control()
                    || ('\u{200b}'..='\u{200f}').contains(&c)
                    || ('\u{202a}'..='\u{2069}').contains(&c)
            };
            assert!(!description.contains(bad) && description.len() <= 8192, "{description:.100}");
        }
        let status = vmcp.status().await;
        assert_eq!(
            (&status["backends"][0]["tools"], &status["backends"][0]["rejected"]),
            (&json!(12), &json!(8)),
            "an entry `null` is absent"
        );
        let issues = status["issues"].to_string();
        for issue in [
            "tool gigantic of backend nasty: the definition has 1167891 bytes; the limit is 262144",
            "tool deep of backend nasty: the definition nests 302 levels deep; the limit is 64",
            "tool no_object of backend nasty: inputSchema is not a JSON object",
            "tool twice of backend nasty: the backend lists it more than once; the first definition counts",
        ] {
            assert!(issues.contains(issue), "{issue} in {issues}");
        }
        // A schema that cannot be checked, by recursion or because it lies elsewhere, stops no call.
        for (tool, arguments) in [("recursive", json!({"child": {"child": {}}})), ("remote", json!({"x": 1}))]
        {
            let answer = client.call_found(&format!("nasty_{tool}"), arguments).await;
            assert!(answer.content_text().starts_with(&format!("{tool} called with")), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn fifty_thousand_tools_are_searched_and_called() {
    let many = Fixture::http("many", "synthetic:50000").args(["--page-size", "1000"]).start().await;
    let other = Fixture::http("other", "echo").start().await;
    let vmcp = Vmcp::new().backend(&many).backend(&other).start().await;
    let client = vmcp.with_tool("other_echo").await;
    let found = eventually("the many tools", async || {
        let found = client.find_tool(json!({"tool_description": "approve a shipment for a partner"})).await;
        let best = found.structured()["tools"][0]["name"].as_str()?.to_owned();
        best.starts_with("many_approve_shipment_").then_some(best)
    })
    .await;
    let called = client.call_found(&found, json!({"shipment_id": "s-1"})).await;
    assert!(called.content_text().contains("s-1"), "{}", called.text);
}

#[tokio::test]
async fn a_configuration_with_every_kind_of_mistake_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = "backends:\n  - name: a\n    comand: [x]\n  - name: a\n    url: ftp://x\n  - name: 'no spaces please'\n    \
                command: []\n  - url: http://x/mcp\n    timeout: soon\n    \
                headers: {A: '${NOT_SET_ANYWHERE}'}\n\
                aggregation: {conflictResolution: prefiks}\noptimizer: {search: {maxTools: 500}, embeddings: {provider: tei}}\n\
                telemetry: {endpoint: 7}\nincomingAuth: {type: none}\nfoo: bar\n";
    std::fs::write(folder.path().join("vmcp.yaml"), yaml).expect("writing");
    let run = Cli::run(&["validate", "--config", "vmcp.yaml"], folder.path()).await;
    assert!(!run.success, "{run:?}");
    let said = format!("{}{}", run.stdout, run.stderr);
    for expected in ["backends[0]", "command", "foo", "prefix"] {
        assert!(said.contains(expected), "{expected} in:\n{said}");
    }
    let serve = Cli::run(&["serve", "--config", "vmcp.yaml", "--listen", "127.0.0.1:0"], folder.path()).await;
    assert!(!serve.success && serve.code != Some(101), "{serve:?}");
    for broken in ["", "backends: [", "- just\n- a list", "backends: {a: b}", "\u{0}"] {
        std::fs::write(folder.path().join("vmcp.yaml"), broken).expect("writing");
        let run = Cli::run(&["validate", "--config", "vmcp.yaml"], folder.path()).await;
        assert_ne!(run.code, Some(101), "{broken:?}: {run:?}");
        assert!(
            run.success || !run.stderr.is_empty() || !run.stdout.is_empty(),
            "{broken:?} is refused in silence"
        );
    }
    let missing = Cli::run(&["serve", "--config", "nowhere.yaml"], folder.path()).await;
    assert!(!missing.success && missing.stderr.contains("nowhere.yaml"), "{missing:?}");
}

#[tokio::test]
async fn a_file_that_is_no_signing_key_is_named_with_its_field_and_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("writing");
        format!("'${{file:{}}}'", path.display())
    };
    let key = file("key.pem", &rcgen::KeyPair::generate().expect("a key").serialize_pem());
    let pair = rcgen::generate_simple_self_signed(["vmcp".to_owned()]).expect("a certificate");
    let certificate = file("tls.crt", &pair.cert.pem());
    let edwards = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key").serialize_pem();
    let edwards = file("ed25519.pem", &edwards);
    let missing = format!("'${{file:{}}}'", folder.path().join("missing.pem").display());
    let configure = |keys: &[&str]| {
        let yaml = format!(
            "backends: []\nauthServer:\n  issuer: http://localhost:4483\n  signingKeys:\n    - {}\n  \
             upstreamProviders: [{{name: a, type: oidc, oidcConfig: {{issuerUrl: 'https://a.example', clientId: v}}}}]\n",
            keys.join("\n    - ")
        );
        std::fs::write(folder.path().join("vmcp.yaml"), yaml).expect("writing");
    };
    configure(&[&key]);
    let valid = Cli::run(&["validate"], folder.path()).await;
    assert!(valid.success, "{valid:?}");

    configure(&[&key, &certificate, &edwards, "key.pem", &missing]);
    let refused = Cli::run(&["validate"], folder.path()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let lines: Vec<_> = refused.stdout.lines().collect();
    for (line, place, expected, remedy) in [
        (
            0,
            "vmcp.yaml:6: authServer.signingKeys[1]: `${file:",
            "/tls.crt}` is a certificate",
            "; name the file",
        ),
        (
            1,
            "vmcp.yaml:7: authServer.signingKeys[2]: `${file:",
            "/ed25519.pem}` is neither",
            "; make one: `openssl",
        ),
        (
            2,
            "vmcp.yaml:8: authServer.signingKeys[3]: ",
            "the value is no private key",
            "; write the path of a key",
        ),
        (3, "vmcp.yaml:9: authServer.signingKeys[4]: ", "there is no file", "; create it"),
    ] {
        let said = lines[line];
        assert!(said.starts_with(place) && said.contains(expected) && said.contains(remedy), "{said}");
    }
    assert_eq!(lines.len(), 5, "each once: {refused:?}");
    assert!(!refused.stdout.contains("PRIVATE KEY"), "{refused:?}");
    let serve = Cli::run(&["serve", "--config", "vmcp.yaml", "--listen", "127.0.0.1:0"], folder.path()).await;
    assert!(!serve.success && serve.stderr.contains("signingKeys[1]"), "{serve:?}");
}

#[tokio::test]
async fn a_client_with_large_icons_is_served_under_its_name() {
    let vmcp = Vmcp::new().start().await;
    let icon =
        json!({"src": format!("data:image/png;base64,{}", "A".repeat(20_000)), "mimeType": "image/png"});
    let info = json!({"name": "ann", "version": "1", "icons": [icon]});
    let client = vmcp.modern().as_legacy();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let opened = client.request("initialize", params).await;
    opened.result();
    let session = opened.headers["mcp-session-id"].to_str().expect("a plain id");
    assert!(session.len() < 1024, "{session}");
    client.with_session(session).request("tools/list", json!({})).await.result();
}
