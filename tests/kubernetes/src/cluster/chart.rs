//! The Helm chart of the operator, installed as users install it.

use std::fs;
use std::path::Path;

use tokio::sync::OnceCell;

use crate::images::in_cluster;
use crate::{Cluster, Namespace, repository};

/// Release and namespace of the chart.
pub const RELEASE: &str = "vmcp-operator";

/// Values that grant servers rights of their own: to run scripts as Jobs, and to add servers for clients.
const RIGHTS: &str = "scriptJobs.enabled=true,serverAdmin.enabled=true";

/// Returns the path of the chart.
pub fn chart() -> String {
    repository().join("charts/vmcp-operator").display().to_string()
}

/// Makes a copy of the chart with an older definition of groups, as before an upgrade: descriptions of at
/// most 512 characters, not 1024.
pub fn older_chart(folder: &Path) -> String {
    let older = folder.join("vmcp-operator");
    let copied = std::process::Command::new("cp").arg("-r").arg(chart()).arg(&older).status();
    assert!(copied.is_ok_and(|status| status.success()), "the chart is copied");
    let definition = older.join("files/crds/mcpgroups.toolhive.stacklok.com.yaml");
    let text = fs::read_to_string(&definition).expect("a definition");
    assert!(text.contains("maxLength: 1024"), "the definition has a longest description");
    fs::write(&definition, text.replace("maxLength: 1024", "maxLength: 512")).expect("writing a definition");
    older.display().to_string()
}

/// Returns true if `VMCP_E2E_SCOPE=namespace` asks for a release in each namespace, with the chart's Roles,
/// in place of one for the cluster.
fn is_namespaced() -> bool {
    std::env::var_os("VMCP_E2E_SCOPE").is_some_and(|scope| scope == "namespace")
}

impl Cluster {
    /// Creates a namespace that an operator looks after, which lets scripts run as Jobs and clients add
    /// servers: the one release for all namespaces, with two replicas of which one leads; or, if
    /// [`is_namespaced`], a release in this namespace for it alone.
    pub async fn served(&self, prefix: &str) -> Namespace {
        static PREPARED: OnceCell<()> = OnceCell::const_new();
        if !is_namespaced() {
            PREPARED
                .get_or_init(async || self.release(&chart(), &format!("replicas=2,{RIGHTS}")).await)
                .await;
            return self.namespace(prefix).await;
        }
        let prepare = async || {
            // An operator for all namespaces would look after this one, too. It leaves the definitions.
            let uninstall = ["uninstall", RELEASE, "--namespace", RELEASE, "--wait", "--ignore-not-found"];
            self.helm(&uninstall).await.unwrap_or_else(|complaint| panic!("helm: {complaint}"));
            // Of many releases none owns the definitions.
            self.define_resources().await;
        };
        PREPARED.get_or_init(prepare).await;
        let place = self.namespace(prefix).await.with_operator();
        let [vmcp, ..] = in_cluster();
        let values = format!("replicas=1,scope=namespace,crds.install=false,{RIGHTS}");
        self.upgrade(&place.name, &chart(), &values, &vmcp).await;
        place
    }

    /// Installs or upgrades the release with these values, and waits until it runs.
    pub async fn release(&self, chart: &str, values: &str) {
        let [vmcp, ..] = in_cluster();
        self.release_with(chart, values, &vmcp).await;
    }

    /// As [`Cluster::release`], with another image of `vmcp`.
    pub async fn release_with(&self, chart: &str, values: &str, vmcp: &str) {
        self.upgrade(RELEASE, chart, values, vmcp).await;
    }

    async fn upgrade(&self, namespace: &str, chart: &str, values: &str, vmcp: &str) {
        let upgrade = [
            "upgrade",
            "--install",
            RELEASE,
            chart,
            "--namespace",
            namespace,
            "--create-namespace",
            "--wait",
        ];
        let mut arguments = upgrade.map(str::to_owned).to_vec();
        let [_, operator, _] = in_cluster();
        for (value, image) in [("image", operator.as_str()), ("vmcpImage", vmcp)] {
            let (repository, tag) = image.rsplit_once(':').expect("an image with a tag");
            arguments.push(format!("--set-string={value}.repository={repository},{value}.tag={tag}"));
        }
        arguments.push(format!("--set=logLevel=info,{values}"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if let Err(complaint) = self.helm(&arguments).await {
            let report = super::namespace_report::namespace_report(self, namespace).await;
            panic!("helm: {complaint}\n{report}");
        }
    }

    /// Returns the longest description of a group that the definition in the cluster allows.
    pub async fn longest_description(&self) -> String {
        let path = "jsonpath={..description.maxLength}";
        let get = ["get", "crd", "mcpgroups.toolhive.stacklok.com", "--output", path];
        self.kubectl(&get).await.expect("a definition")
    }
}
