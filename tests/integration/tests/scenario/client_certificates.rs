//! TLS at the client port, and clients that are known by their certificates.

use std::path::Path;

use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use reqwest::{Certificate, Identity, StatusCode};
use serde_json::json;
use vmcp_integration::{Cli, Fixture, Vmcp, eventually};

use super::audit::events;

/// An authority that issues certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns certificate and key in PEM.
    pub(super) fn issue(&self, name: SanType) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// Issues the certificate of a server on this machine into the files of its configuration.
    fn serve(&self, folder: &Path) {
        let (certificate, key) = self.issue(SanType::IpAddress([127, 0, 0, 1].into()));
        std::fs::write(folder.join("tls.key"), key).expect("a file");
        std::fs::write(folder.join("tls.crt"), certificate).expect("a file");
    }
}

fn uri(text: &str) -> SanType {
    SanType::URI(Ia5String::try_from(text).expect("a URI"))
}

/// A client that trusts one authority, with or without a certificate of its own.
fn client(trusted: &Authority, own: Option<&(String, String)>) -> reqwest::Client {
    let trusted = Certificate::from_pem(trusted.pem.as_bytes()).expect("an authority");
    let mut builder =
        reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).pool_max_idle_per_host(0);
    if let Some((certificate, key)) = own {
        builder =
            builder.identity(Identity::from_pem(format!("{certificate}{key}").as_bytes()).expect("a pair"));
    }
    builder.build().expect("an HTTP client")
}

/// Calls a tool in the modern era.
async fn call(client: &reqwest::Client, url: &str) -> reqwest::Result<reqwest::Response> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "echo_echo", "arguments": {"message": "hi"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let post = client.post(url).json(&body).header("accept", "application/json, text/event-stream");
    let post = post.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    post.header("mcp-name", "echo_echo").send().await
}

/// Returns the HTTP status; `None`: the connection was refused.
async fn status(client: &reqwest::Client, url: &str) -> Option<StatusCode> {
    call(client, url).await.ok().map(|answer| answer.status())
}

#[tokio::test]
async fn a_certificate_of_the_authority_is_an_identity_and_no_other_is() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let echo = Fixture::http("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    authority.serve(folder.path());
    std::fs::write(file("ca.crt"), &authority.pem).expect("a file");
    let audit = folder.path().join("audit.jsonl");
    let vmcp = Vmcp::new()
        .backend(&echo)
        .config(json!({
            "server": {"tls": {
                "certificate": format!("${{file:{}}}", file("tls.crt")), "key": format!("${{file:{}}}", file("tls.key")),
            }},
            "incomingAuth": {
                "type": "clientCertificates",
                "clientCertificates": {"authorities": format!("${{file:{}}}", file("ca.crt"))},
            },
            "audit": {"enabled": true, "logFile": audit},
        }))
        .start()
        .await;
    let url = vmcp.url.replace("http://", "https://");
    let metrics = vmcp.metrics().await;
    for of in ["server", "client_authorities"] {
        let family = format!("vmcp_certificate_expiry_timestamp_seconds{{certificate=\"{of}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&family)).expect("the time of its end");
        assert!(line.parse::<f64>().is_ok_and(|end| end > 4e9), "{of}: {line}");
    }
    let pair = authority.issue(uri("spiffe://example.com/ci"));
    let alice = client(&authority, Some(&pair));
    let answer = eventually("a call with the certificate", async || {
        let answer = call(&alice, &url).await.ok()?;
        let text = answer.text().await.ok()?;
        text.contains("\"hi\"").then_some(text)
    })
    .await;
    assert!(!answer.contains("error"), "{answer}");
    let allowed = eventually("the event of the call", async || {
        events(&audit)
            .into_iter()
            .find(|event| event["type"] == "mcp_tool_call" && event["outcome"] == "success")
    })
    .await;
    assert_eq!(allowed["subjects"]["user"], "spiffe://example.com/ci");

    assert_eq!(
        status(&client(&authority, None), &url).await,
        Some(StatusCode::UNAUTHORIZED),
        "no certificate"
    );
    let foreign = stranger.issue(uri("spiffe://example.com/ci"));
    assert_eq!(status(&client(&authority, Some(&foreign)), &url).await, None, "another authority's");
    assert!(call(&client(&authority, None), &vmcp.url).await.is_err(), "plain HTTP");

    // A new certificate of the server, and new authorities of clients, need no restart.
    stranger.serve(folder.path());
    std::fs::write(file("ca.crt"), &stranger.pem).expect("a file");
    let bob = client(&stranger, Some(&foreign));
    eventually("the new certificates", async || {
        (status(&bob, &url).await == Some(StatusCode::OK)).then_some(())
    })
    .await;
    assert_eq!(status(&alice, &url).await, None, "the old authority is gone");

    // Files that do not fit together leave the last ones in force.
    let before = vmcp.process.output().len();
    std::fs::write(file("tls.key"), KeyPair::generate().expect("a key").serialize_pem()).expect("a file");
    eventually("a word about the files", async || {
        status(&bob, &url).await;
        vmcp.process.output()[before..].contains("the new certificate is not used").then_some(())
    })
    .await;
    assert_eq!(status(&bob, &url).await, Some(StatusCode::OK));
}

#[tokio::test]
async fn the_command_line_reaches_a_port_with_tls() {
    let authority = Authority::new();
    let echo = Fixture::http("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    authority.serve(folder.path());
    std::fs::write(file("ca.crt"), &authority.pem).expect("a file");
    let tls = json!({
        "certificate": format!("${{file:{}}}", file("tls.crt")), "key": format!("${{file:{}}}", file("tls.key")),
    });
    let vmcp = Vmcp::new().backend(&echo).config(json!({"server": {"tls": tls}})).start().await;
    vmcp.with_tool("echo_echo").await;
    let config = vmcp.config_file().display().to_string();
    let call = ["call", "echo_echo", "message=hi", "--config", &config];
    let trusted = Cli::run_with(&call, &[("SSL_CERT_FILE", &file("ca.crt"))], folder.path()).await;
    assert!(trusted.success && trusted.stdout.contains("hi"), "{trusted:?}");
    let strange = Cli::run(&call, folder.path()).await;
    assert!(!strange.success && strange.stderr.contains("SSL_CERT_FILE=ca.crt"), "{strange:?}");
}
