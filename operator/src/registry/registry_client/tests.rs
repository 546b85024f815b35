use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// A registry with one image, `tools/time:1`, that answers as a public one: an index, a manifest and a
/// configuration, after a challenge.
struct Registry {
    /// Documents by path.
    documents: Vec<(String, String)>,
    requests: AtomicUsize,
    /// The address, known after the start.
    realm: String,
}

fn digest(text: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text)))
}

async fn answer_request(
    State(registry): State<Arc<Registry>>,
    uri: Uri,
    headers: HeaderMap,
) -> axum::response::Response {
    registry.requests.fetch_add(1, Ordering::Relaxed);
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    if uri.path() == "/token" {
        let is_known = authorization == Some("Basic YW5uOnB3");
        return if is_known {
            json!({ "token": "t" }).to_string().into_response()
        } else {
            StatusCode::FORBIDDEN.into_response()
        };
    }
    if authorization != Some("Bearer t") {
        let challenge =
            format!("Bearer realm=\"{}\",service=\"s\",scope=\"repository:tools/time:pull\"", registry.realm);
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    }
    match registry.documents.iter().find(|(path, _)| path == uri.path()) {
        Some((_, text)) => text.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Starts the registry with this configuration of the image; returns its host.
async fn serve(config: &Value, tamper: bool) -> (String, Arc<Registry>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let config = config.to_string();
    let manifest = json!({ "config": { "digest": digest(&config) }, "layers": [] }).to_string();
    let index = json!({ "manifests": [
        { "digest": "sha256:0", "platform": { "os": "windows", "architecture": "amd64" } },
        { "digest": "sha256:1", "platform": { "os": "linux", "architecture": "arm64" } },
        { "digest": digest(&manifest), "platform": { "os": "linux", "architecture": "amd64" } },
    ] });
    let blob = if tamper { config.replace("node", "evil") } else { config.clone() };
    let registry = Arc::new(Registry {
        documents: vec![
            ("/v2/tools/time/manifests/1".to_owned(), index.to_string()),
            (format!("/v2/tools/time/manifests/{}", digest(&manifest)), manifest),
            (format!("/v2/tools/time/blobs/{}", digest(&config)), blob),
        ],
        requests: AtomicUsize::new(0),
        realm: format!("http://{host}/token"),
    });
    let app = Router::new().fallback(answer_request).with_state(registry.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (host, registry)
}

/// Makes a client; its TLS needs the provider that `main` installs.
fn client(plain_http: Vec<String>) -> RegistryClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    RegistryClient::new(plain_http)
}

async fn program_of(host: &str, tag: &str, user: &str) -> Result<ImageProgram, RegistryError> {
    let client = client(vec![host.to_owned()]);
    let image = ImageReference::parse(&format!("{host}/tools/time:{tag}")).unwrap();
    let mut credentials = PullCredentials::default();
    let auths = json!({ "auths": { host: { "username": user, "password": "pw" } } });
    credentials.add(auths.to_string().as_bytes());
    client.program(&image, &credentials).await
}

#[tokio::test]
async fn the_program_of_an_image_is_found_behind_a_challenge_and_an_index() {
    let config = json!({ "config": { "Entrypoint": ["node", "/srv/time.js"], "Cmd": ["--utc"] } });
    let (host, _) = serve(&config, false).await;
    let program = program_of(&host, "1", "ann").await.unwrap();
    assert_eq!(program.words(&[]), ["node", "/srv/time.js", "--utc"]);
    assert_eq!(program.words(&["--local".to_owned()]), ["node", "/srv/time.js", "--local"]);

    let missing = program_of(&host, "2", "ann").await.unwrap_err();
    assert!(matches!(missing, RegistryError::Status(_, StatusCode::NOT_FOUND)), "{missing}");
    let refused = program_of(&host, "1", "eve").await.unwrap_err();
    assert!(matches!(refused, RegistryError::Status(_, StatusCode::FORBIDDEN)), "{refused}");
}

#[tokio::test]
async fn an_image_that_starts_nothing_and_a_tampered_one_are_errors() {
    let (host, _) = serve(&json!({ "config": { "Env": [] } }), false).await;
    let nothing = program_of(&host, "1", "ann").await.unwrap_err();
    assert!(matches!(nothing, RegistryError::NoProgram), "{nothing}");
    let (host, _) = serve(&json!({ "config": { "Cmd": ["node"] } }), true).await;
    let tampered = program_of(&host, "1", "ann").await.unwrap_err();
    assert!(tampered.to_string().contains("another digest"), "{tampered}");
}

#[tokio::test]
async fn plain_http_is_for_listed_hosts_alone() {
    let (host, registry) = serve(&json!({ "config": { "Cmd": ["node"] } }), false).await;
    let client = client(Vec::new());
    let image = ImageReference::parse(&format!("{host}/tools/time:1")).unwrap();
    let refused = client.program(&image, &PullCredentials::default()).await.unwrap_err();
    assert!(matches!(refused, RegistryError::Unreachable(..)), "{refused}");
    assert_eq!(registry.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_registry_leads_to_no_metadata_service() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let client = client(vec![host.clone(), "169.254.169.254".to_owned(), "169.254.169.254:80".to_owned()]);
    for answer in [
        "302 Found\r\nlocation: http://169.254.169.254/latest",
        "401 Unauthorized\r\nwww-authenticate: Bearer realm=\"http://169.254.169.254/token\"",
    ] {
        let asked = async {
            let image = ImageReference::parse(&format!("{host}/tools/time:1")).unwrap();
            client.program(&image, &PullCredentials::default()).await.unwrap_err()
        };
        let answered = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let head = format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        };
        let (refused, ()) = tokio::join!(asked, answered);
        assert!(matches!(refused, RegistryError::Status(..)), "{refused}");
    }
    let image = ImageReference::parse("169.254.169.254/tools/time:1").unwrap();
    let refused = client.program(&image, &PullCredentials::default()).await.unwrap_err();
    assert!(refused.to_string().contains("no registry is asked at this address"), "{refused}");
}
