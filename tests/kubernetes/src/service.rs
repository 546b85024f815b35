//! A Service, as a client outside of the pods reaches it.

use k8s_openapi::api::core::v1::Service;
use tokio::process::Command;
use vmcp_integration::{Process, free_port, http_client};

use crate::Namespace;

/// An HTTP address that leads to a Service.
pub struct Endpoint {
    /// Without a path.
    pub url: String,
    _forward: Option<Process>,
}

impl Namespace {
    /// The way to a port of a Service: its cluster address where that can be reached, as on our own node, or else
    /// `kubectl port-forward`, which leads to one of the pods.
    pub async fn endpoint(&self, service: &str, port: u16) -> Endpoint {
        let exists = async || self.get::<Service>(service).await?.spec?.cluster_ip;
        let address = self.eventually(&format!("the Service {service}"), exists).await;
        let (url, forward) = if std::env::var_os("VMCP_E2E_DIRECT").is_some() {
            (format!("http://{address}:{port}"), None)
        } else {
            let local = free_port();
            let mut command = Command::new("kubectl");
            command.env("KUBECONFIG", self.cluster().kubeconfig());
            command.args(["port-forward", "--namespace", &self.name, &format!("service/{service}")]);
            command.arg(format!("{local}:{port}"));
            (format!("http://127.0.0.1:{local}"), Some(Process::start("port-forward", &mut command)))
        };
        // A pod that is ready is not yet known to kube-proxy.
        let reached = async || http_client().get(&url).send().await.ok().map(drop);
        self.eventually(&format!("an answer of {service}"), reached).await;
        Endpoint { url, _forward: forward }
    }
}
