//! Images of stdio servers without a command: the registry tells what they start.

use parking_lot::Mutex;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;
use vmcp_crds::MCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, await_condition};

/// User `ann` with password `pw`, as HTTP sends them.
const CREDENTIALS: &str = "Basic YW5uOnB3";

/// A registry on a port of its own, with the image `tools/time:1`.
struct Registry {
    host: String,
    /// Documents that it serves, by path.
    documents: Arc<Mutex<Vec<(String, String)>>>,
    /// Paths that were asked for with the right credentials.
    served: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

type Documents = Arc<(Arc<Mutex<Vec<(String, String)>>>, Arc<Mutex<Vec<String>>>)>;

async fn answer(State(documents): State<Documents>, uri: Uri, headers: HeaderMap) -> Response {
    if headers.get("authorization").is_none_or(|value| value != CREDENTIALS) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"registry\"")])
            .into_response();
    }
    let found = documents.0.lock().iter().find(|(path, _)| path == uri.path()).cloned();
    let Some((path, text)) = found else { return StatusCode::NOT_FOUND.into_response() };
    documents.1.lock().push(path);
    text.into_response()
}

/// Returns the documents of an image that starts a script.
fn release(script: &str) -> Vec<(String, String)> {
    let digest = |text: &str| format!("sha256:{}", hex::encode(Sha256::digest(text)));
    let config = json!({ "config": { "Entrypoint": ["node", script], "Cmd": ["--utc"] } }).to_string();
    let manifest =
        json!({ "schemaVersion": 2, "config": { "digest": digest(&config) }, "layers": [] }).to_string();
    vec![
        ("/v2/tools/time/manifests/1".to_owned(), manifest),
        (format!("/v2/tools/time/blobs/{}", digest(&config)), config),
    ]
}

impl Registry {
    async fn start() -> Self {
        let documents = Arc::new(Mutex::new(release("/srv/time.js")));
        let served = Arc::<Mutex<Vec<String>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let app = Router::new().fallback(answer).with_state(Arc::new((documents.clone(), served.clone())));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("served") });
        Self { host, documents, served, serving }
    }

    fn lookups(&self) -> usize {
        self.served.lock().iter().filter(|path| path.contains("/manifests/")).count()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns what the bridge of a server starts, as one line.
async fn program(place: &Namespace, server: &str) -> Option<String> {
    let deployment = place.get::<Deployment>(&format!("mcp-{server}")).await?;
    let command = deployment.spec?.template.spec?.containers.swap_remove(0).command?;
    let start = command.iter().position(|word| word == "--")?;
    Some(command.get(start + 1..)?.join(" "))
}

#[tokio::test]
async fn a_stdio_server_without_a_command_starts_what_its_image_starts() {
    let place = ControlPlane::shared().await.namespace("images").await;
    let registry = Registry::start().await;
    let variables = [("LEADER_ELECT", "false"), ("PLAIN_HTTP_REGISTRIES", registry.host.as_str())];
    let operator = Operator::with(&place, "images", &variables).await;
    let image = format!("{}/tools/time:1", registry.host);
    // As ToolHive's users write it, with no command.
    apply(&place, "MCPServer", "time", &format!("{{image: '{image}', transport: stdio, proxyPort: 8080}}"))
        .await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "EntrypointUnknown").await;
    assert!(message.contains("401") && message.contains("imagePullSecrets"), "{message}");
    assert!(place.get::<Deployment>("mcp-time").await.is_none());

    let auths = json!({ "auths": { registry.host.as_str(): { "username": "ann", "password": "pw" } } });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pull" },
        "type": "kubernetes.io/dockerconfigjson", "stringData": { ".dockerconfigjson": auths.to_string() },
    });
    place.apply(&secret.to_string()).await;
    let pull: Value = json!({ "spec": { "imagePullSecrets": [{ "name": "pull" }] } });
    place.edit::<MCPServer>("time", pull).await;
    let is = async |words: &str| {
        let started = async || (program(&place, "time").await? == words).then_some(());
        place.eventually(words, started).await;
    };
    is("node /srv/time.js --utc").await;
    assert_eq!(registry.lookups(), 1);

    // The answer is kept with the Deployment: neither a new operator nor a registry that is down matters.
    drop(operator);
    drop(registry);
    let _operator = Operator::with(&place, "images", &[("LEADER_ELECT", "false")]).await;
    place.edit::<MCPServer>("time", json!({ "spec": { "args": ["--local"] } })).await;
    is("node /srv/time.js --local").await;

    place.edit::<MCPServer>("time", json!({ "spec": { "command": ["python", "-m", "time"] } })).await;
    is("python -m time --local").await;
    place.remove().await;
}

#[tokio::test]
async fn a_tag_that_moves_is_followed_with_the_pull_secrets_of_the_service_account() {
    let place = ControlPlane::shared().await.namespace("tags").await;
    let registry = Registry::start().await;
    let variables = [("LEADER_ELECT", "false"), ("PLAIN_HTTP_REGISTRIES", registry.host.as_str())];
    let operator = Operator::with(&place, "tags", &variables).await;
    let auths = json!({ "auths": { registry.host.as_str(): { "username": "ann", "password": "pw" } } });
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pull" },
            "type": "kubernetes.io/dockerconfigjson", "stringData": { ".dockerconfigjson": auths.to_string() },
        }),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "puller" },
            "imagePullSecrets": [{ "name": "pull" }],
        }),
    ];
    for object in objects {
        place.apply(&object.to_string()).await;
    }
    let spec = format!(
        "{{image: '{}/tools/time:1', imagePullPolicy: Always, serviceAccount: puller}}",
        registry.host
    );
    apply(&place, "MCPServer", "time", &spec).await;
    let is = async |words: &str| {
        let started = async || (program(&place, "time").await? == words).then_some(());
        place.eventually(words, started).await;
    };
    is("node /srv/time.js --utc").await;

    *registry.documents.lock() = release("/srv/next.js");
    drop(operator);
    // Answers of the registry are kept for ten minutes; a new operator has none.
    let _operator = Operator::with(&place, "tags", &variables).await;
    is("node /srv/next.js --utc").await;
    place.remove().await;
}
