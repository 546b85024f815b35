//! A stand-in for the admin port of a pod, answering `/admin/status` and `/admin/tools/trusted`: without a
//! node, no pod runs.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use vmcp_config::rules::trusted_tools::TrustedTools;
use vmcp_kubernetes_tests::Namespace;

/// A listener on the admin port at an address of its own in 127.0.0.0/8.
pub(super) struct StandIn {
    address: String,
    report: Arc<Mutex<Value>>,
    trusted: Arc<Mutex<String>>,
    token: Arc<Mutex<String>>,
    serving: JoinHandle<()>,
}

impl StandIn {
    /// Starts a stand-in for the one pod of a VirtualMCPServer, and marks the pod as ready.
    pub(super) async fn of(place: &Namespace, server: &str) -> (Self, Pod) {
        let stand_in = Self::start(&admin_token(place, server).await).await;
        let pod = stand_in.run_pod(place, server).await;
        (stand_in, pod)
    }

    /// Starts a stand-in whose port takes connections and never answers, as behind a NetworkPolicy that drops
    /// packets, and marks the server's one pod as ready.
    pub(super) async fn silent(place: &Namespace, server: &str) -> Self {
        let (address, listener) = listen().await;
        let serving = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        let (report, trusted, token) = (Arc::default(), Arc::default(), Arc::default());
        let stand_in = Self { address, report, trusted, token, serving };
        stand_in.run_pod(place, server).await;
        stand_in
    }

    /// Marks the one pod of a server as ready, at this address.
    async fn run_pod(&self, place: &Namespace, server: &str) -> Pod {
        let labels = format!("app.kubernetes.io/instance={server},app.kubernetes.io/name=vmcp");
        let pod = place.eventually("a pod", async || place.list::<Pod>(&labels).await.pop()).await;
        let address = &self.address;
        let ready = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let patch = Patch::Merge(ready);
        place
            .api::<Pod>()
            .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await
            .expect("patched");
        pod
    }

    /// Starts a stand-in that wants `token`.
    async fn start(token: &str) -> Self {
        let (address, listener) = listen().await;
        let report = Arc::new(Mutex::new(Value::Null));
        let trusted = Arc::new(Mutex::new(String::new()));
        let token = Arc::new(Mutex::new(token.to_owned()));
        let (said, kept, expected) = (report.clone(), trusted.clone(), token.clone());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let texts = [said.lock().to_string(), kept.lock().clone()];
                tokio::spawn(answer(stream, texts, expected.lock().clone()));
            }
        });
        Self { address, report, trusted, token, serving }
    }

    /// Sets the report that it answers with.
    pub(super) fn set_report(&self, report: Value) {
        *self.report.lock() = report;
    }

    /// Sets the trusted definitions that it answers with, and names them in the report.
    pub(super) fn set_trusted(&self, document: &TrustedTools) {
        let text = document.to_text();
        let digest = vmcp_config::status::digest(&text);
        *self.trusted.lock() = text;
        self.report.lock()["trustedTools"] = digest.into();
    }

    /// Sets the token that it wants.
    pub(super) fn set_token(&self, token: &str) {
        token.clone_into(&mut self.token.lock());
    }
}

/// Listens on the admin port of an address that no other stand-in has.
async fn listen() -> (String, TcpListener) {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let third = std::process::id() % 200 + 1;
    let address = format!("127.77.{third}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let listener = TcpListener::bind((address.as_str(), 9090)).await;
    (address, listener.expect("an address of the loopback network"))
}

/// Waits for the bearer token of the admin port of a VirtualMCPServer, and returns it.
pub(super) async fn admin_token(place: &Namespace, server: &str) -> String {
    let secret = format!("{server}-vmcp-secrets");
    let token = async || place.get::<Secret>(&secret).await?.data?.remove("admin-token");
    let token = place.eventually("a token", token).await;
    String::from_utf8(token.0).expect("text")
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, [report, trusted]: [String; 2], token: String) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(1..) => {}
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let expected = format!("authorization: bearer {}\r\n", token.to_ascii_lowercase());
    let text = match request.split(' ').nth(1) {
        Some("/admin/status") => Some(report),
        Some("/admin/tools/trusted") => Some(trusted),
        _ => None,
    };
    let text = text.filter(|_| request.contains(&expected) && request.starts_with("get "));
    let status = if text.is_some() { "200 OK" } else { "401 Unauthorized" };
    let text = text.unwrap_or_default();
    let length = text.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    drop(stream.write_all(format!("{head}{text}").as_bytes()).await);
}
