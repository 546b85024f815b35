//! HTTP address of a Service for a client outside of the pods.

use k8s_openapi::api::core::v1::Service;
use tokio::process::Command;
use vmcp_integration::{Process, http_client};

use crate::Namespace;

/// An HTTP address that leads to a Service.
pub struct Endpoint {
    /// URL without a path.
    pub url: String,
    _proxy: Option<Process>,
}

impl Namespace {
    /// Returns an address of a port of a Service: its cluster IP where that can be reached, as on our own
    /// node, or else a proxy through the API server, which picks a ready pod for each request.
    pub async fn endpoint(&self, service: &str, port: u16) -> Endpoint {
        let exists = async || self.get::<Service>(service).await?.spec?.cluster_ip;
        let address = self.eventually(&format!("the Service {service}"), exists).await;
        let (url, proxy) = if std::env::var_os("VMCP_E2E_DIRECT").is_some() {
            (format!("http://{address}:{port}"), None)
        } else {
            let mut command = Command::new("kubectl");
            command.env("KUBECONFIG", self.cluster().kubeconfig()).args(["proxy", "--port", "0"]);
            let proxy = Process::start("kubectl proxy", &mut command);
            let server = proxy.line_after("Starting to serve on ").await;
            let path = format!("api/v1/namespaces/{}/services/{service}:{port}/proxy", self.name);
            (format!("http://{server}/{path}"), Some(proxy))
        };
        // A ready pod is known to kube-proxy and to the API server a moment later.
        let reached = async || {
            let answer = http_client().get(format!("{url}/")).send().await.ok()?;
            (!answer.status().is_server_error()).then_some(())
        };
        self.eventually(&format!("an answer of {service}"), reached).await;
        Endpoint { url, _proxy: proxy }
    }
}
