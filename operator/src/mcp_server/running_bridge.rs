//! [`RunningBridge`]: the bridge in the pods of a server, as its Deployment shows it.

use k8s_openapi::api::apps::v1::Deployment;

/// The port on which the bridge serves MCP.
pub(super) const BRIDGE_PORT: u16 = 8080;
/// The volume with the bridge, the init container that copies it there, and the container of a bridge that
/// runs beside a server.
pub(super) const BRIDGE: &str = "bridge";
/// The annotation of the Deployment with the digest of its pod template without the bridge's image.
pub(super) const TEMPLATE_DIGEST: &str = "toolhive.stacklok.com/template-digest";

/// The bridge that runs in the pods of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunningBridge {
    /// Its image.
    pub image: String,
    /// The digest of the pod template without that image.
    pub template_digest: String,
}

impl RunningBridge {
    /// Reads the bridge of a Deployment; `None` if no pod of it is ready, so that there is nothing to spare.
    pub(super) fn from_deployment(deployment: &Deployment) -> Option<Self> {
        let ready = deployment.status.as_ref()?.ready_replicas.unwrap_or_default();
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let mut containers = pod.init_containers.iter().flatten().chain(&pod.containers);
        let bridge = containers.find(|container| container.name == BRIDGE)?;
        let template_digest = deployment.metadata.annotations.as_ref()?.get(TEMPLATE_DIGEST)?.clone();
        (ready > 0).then_some(Self { image: bridge.image.clone()?, template_digest })
    }
}
