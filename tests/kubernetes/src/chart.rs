//! The operator, installed as people install it.

use tokio::sync::OnceCell;

use crate::images::{OPERATOR, VMCP};
use crate::{Cluster, repository};

/// Where the chart is installed.
pub const RELEASE: &str = "vmcp-operator";

impl Cluster {
    /// Installs the chart once for all tests of a binary, in the namespace [`RELEASE`], for all namespaces; two replicas, of
    /// which one leads. `VMCP_OPERATOR_IMAGE` and `VMCP_IMAGE` name other images than those of our own node.
    pub async fn install(&self) {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        INSTALLED.get_or_init(|| self.install_chart()).await;
    }

    async fn install_chart(&self) {
        let image = |variable: &str, ours: &str| std::env::var(variable).unwrap_or_else(|_| ours.to_owned());
        let chart = repository().join("charts/vmcp-operator").display().to_string();
        let mut arguments: Vec<String> =
            ["upgrade", "--install", RELEASE, &chart, "--namespace", RELEASE, "--create-namespace", "--wait"]
                .map(str::to_owned)
                .into();
        let (operator, vmcp) = (image("VMCP_OPERATOR_IMAGE", OPERATOR), image("VMCP_IMAGE", VMCP));
        for (value, image) in [("image", operator), ("vmcpImage", vmcp)] {
            let (repository, tag) = image.rsplit_once(':').expect("an image with a tag");
            arguments.push(format!("--set-string={value}.repository={repository},{value}.tag={tag}"));
        }
        arguments.push("--set=replicas=2,logLevel=info".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if let Err(complaint) = self.helm(&arguments).await {
            panic!("helm: {complaint}\n{}", crate::report::report(self, RELEASE).await);
        }
    }
}
