//! The options of the operator. Each can be given as an environment variable, which is how the chart gives
//! them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use vmcp_crds::ApiGroup;

use crate::runtime::{BuildSettings, RoleName};

/// The options of `vmcp-operator`.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// Image that holds `vmcp`, for VirtualMCPServers that name none; required to run.
    #[arg(long, env = "VMCP_IMAGE", global = true)]
    pub(crate) vmcp_image: Option<String>,
    /// Image whose `vmcp` is copied into pods of stdio servers [default: the image of --vmcp-image].
    #[arg(long, env = "VMCP_BRIDGE_IMAGE", global = true)]
    pub(crate) bridge_image: Option<String>,
    /// Namespaces to look after, between commas [default: all namespaces].
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "", hide_default_value = true, global = true)]
    pub(crate) watch_namespace: String,
    /// Namespaces that are left to other releases, between commas; only without --watch-namespace.
    #[arg(long, env = "EXCLUDE_NAMESPACES", default_value = "", hide_default_value = true, global = true)]
    pub(crate) exclude_namespaces: String,
    /// Seconds until a process ends that cannot list every kind: a right or a definition is missing.
    #[arg(long, env = "SYNC_TIMEOUT_SECONDS", default_value_t = 120, global = true)]
    pub(crate) sync_timeout_seconds: u64,
    /// Seconds until a VirtualMCPServer is looked at again of which nothing changed. Watches tell of changes:
    /// this repairs what they miss.
    #[arg(long, env = "RESYNC_SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub(crate) resync_seconds: u64,
    /// DNS domain of the cluster, for addresses of Services.
    #[arg(long, env = "CLUSTER_DOMAIN", default_value = "cluster.local", global = true)]
    pub(crate) cluster_domain: String,
    /// Look after ToolHive's own group, `toolhive.stacklok.dev`, too; only where its operator does not run.
    #[arg(long, env = "SERVE_TOOLHIVE_GROUP", default_value_t = false, action = clap::ArgAction::Set, global = true)]
    pub(crate) toolhive_group: bool,
    /// Make HTTPRoutes for `spec.httpRoute`; takes the right to write them.
    #[arg(long, env = "ENABLE_HTTP_ROUTES", default_value_t = false, action = clap::ArgAction::Set, global = true)]
    pub(crate) http_routes: bool,
    /// Make ServiceMonitors for `spec.serviceMonitor`; takes the right to write them.
    #[arg(long, env = "ENABLE_SERVICE_MONITORS", default_value_t = false, action = clap::ArgAction::Set, global = true)]
    pub(crate) service_monitors: bool,
    /// Role of servers whose scripts run as Jobs (`code.engine: job`), as ClusterRole/NAME or Role/NAME;
    /// takes the right to bind it [default: no server may].
    #[arg(long, env = "SCRIPT_JOBS_ROLE", global = true)]
    pub(crate) script_jobs_role: Option<RoleName>,
    /// Role of servers whose clients may add servers (`add_mcp_server` or `install_server` among
    /// `optimizer.tools`), as ClusterRole/NAME or Role/NAME; NAME-programs is the role for programs. Takes
    /// the right to bind both [default: no server may].
    #[arg(long, env = "SERVER_ADMIN_ROLE", global = true)]
    pub(crate) server_admin_role: Option<RoleName>,
    /// Follow every field of a resource: the admission policies check that its author has the rights that the
    /// field takes, or every author is trusted. Without it, fields that ask for more than pods are refused.
    #[arg(long, env = "AUTHORS_CHECKED", default_value_t = false, action = clap::ArgAction::Set, global = true)]
    pub(crate) authors_checked: bool,
    /// Ask the registry what the image of a stdio server without `command` starts.
    #[arg(long, env = "LOOK_UP_IMAGES", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub(crate) look_up_images: bool,
    /// Registries (HOST:PORT) that are asked over plain HTTP, between commas; all others take TLS.
    #[arg(long, env = "PLAIN_HTTP_REGISTRIES", value_delimiter = ',', global = true)]
    pub(crate) plain_http_registries: Vec<String>,
    /// Secrets (names, between commas) that every pod is pulled with besides its own. A namespace that lacks
    /// one is served without it.
    #[arg(long, env = "POD_IMAGE_PULL_SECRETS", value_delimiter = ',', global = true)]
    pub(crate) pod_image_pull_secrets: Vec<String>,
    /// Name the user that pods run as; `false` where the platform names one, as OpenShift does.
    #[arg(long, env = "FIXED_USER", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub(crate) fixed_user: bool,
    /// Elect a leader by a Lease; `false` only where there is never more than one replica.
    #[arg(long, env = "LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub(crate) leader_elect: bool,
    /// Namespace of the Lease [default: the operator's own].
    #[arg(long, env = "POD_NAMESPACE", global = true)]
    pub(crate) lease_namespace: Option<String>,
    /// Name of this replica in the Lease and in events; a random suffix is added [default: vmcp-operator].
    #[arg(long, env = "POD_NAME", global = true)]
    pub(crate) identity: Option<String>,
    /// Address that serves `/metrics`; `[::]` is every address, of IPv4 too.
    #[arg(long, env = "METRICS_LISTEN", default_value = "[::]:8080", global = true)]
    pub(crate) metrics_listen: SocketAddr,
    /// File with the bearer token that `/metrics` wants; it is read for each request, so that a mounted
    /// Secret may change [default: `/metrics` is open].
    #[arg(long, env = "METRICS_TOKEN_FILE", global = true)]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// Address that serves `/healthz` and `/readyz`.
    #[arg(long, env = "HEALTH_LISTEN", default_value = "[::]:8081", global = true)]
    pub(crate) health_listen: SocketAddr,
    /// Format of log lines; `RUST_LOG` selects which are written, as in `info,vmcp_operator=debug`.
    #[arg(long, env = "LOG_FORMAT", default_value = "json", global = true)]
    pub(crate) log_format: LogFormat,
}

impl Options {
    /// Returns the groups whose resources are looked after.
    pub(crate) fn api_groups(&self) -> Vec<ApiGroup> {
        let toolhive = self.toolhive_group.then_some(ApiGroup::ToolHive);
        std::iter::once(ApiGroup::Vmcp).chain(toolhive).collect()
    }

    /// Returns the options that controllers follow; `None` without an image of `vmcp`.
    ///
    /// A default image is missing on purpose: a wrong guess would show only when the pods of the first
    /// VirtualMCPServer cannot pull it.
    pub(crate) fn build_settings(&self) -> Option<BuildSettings> {
        let given = |image: &Option<String>| image.clone().filter(|image| !image.trim().is_empty());
        let vmcp_image = given(&self.vmcp_image)?;
        Some(BuildSettings {
            api_group: ApiGroup::default(),
            bridge_image: given(&self.bridge_image).unwrap_or_else(|| vmcp_image.clone()),
            vmcp_image,
            cluster_domain: self.cluster_domain.clone(),
            http_routes: self.http_routes,
            service_monitors: self.service_monitors,
            script_jobs_role: self.script_jobs_role.clone(),
            server_admin_role: self.server_admin_role.clone(),
            authors_checked: self.authors_checked,
            fixed_user: self.fixed_user,
            operator_namespace: self.lease_namespace.clone(),
            look_up_images: self.look_up_images,
            plain_http_registries: self.plain_http_registries.clone(),
            pod_image_pull_secrets: self
                .pod_image_pull_secrets
                .iter()
                .filter(|name| !name.is_empty())
                .cloned()
                .collect(),
            resync_interval: Duration::from_secs(self.resync_seconds),
            ..BuildSettings::default()
        })
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}
