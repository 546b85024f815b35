//! The table: which field of which kind takes which right of its author.

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct AuthorRight {
    /// Kinds whose authors need the right.
    pub kinds: &'static [&'static str],
    /// The part of the spec that asks for it.
    pub trigger: Trigger,
    /// Effect of that part, after its name: "makes an HTTPRoute".
    pub gives: &'static str,
    /// The right, in the namespace of the resource.
    pub right: Right,
}

/// The part of a spec that asks for a right. Paths are below `spec`, with dots.
#[derive(Debug, Clone, Copy)]
pub enum Trigger {
    /// Every spec.
    Always,
    /// One of these fields.
    Given(&'static [&'static str]),
    /// An item of one of these lists that has this field.
    GivenInItem(&'static [&'static str], &'static str),
    /// A list that has one of these words.
    HasWord(&'static str, &'static [&'static str]),
    /// An item of this list in which a field has this value.
    IsInItem(&'static str, &'static str, &'static str),
    /// A field with this value.
    Is(&'static str, &'static str),
    /// A field with another value than this one, which is its default.
    Unless(&'static str, &'static str),
}

/// A right of Kubernetes' RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, as RBAC spells it.
    pub resource: &'static str,
    /// The resource as people spell it, such as `HTTPRoutes`.
    pub kinds: &'static str,
}

impl Right {
    const fn to_create(group: &'static str, resource: &'static str, kinds: &'static str) -> Self {
        Self { verb: "create", group, resource, kinds }
    }

    const fn to_get(resource: &'static str, kinds: &'static str) -> Self {
        Self { verb: "get", group: "", resource, kinds }
    }

    /// Returns verb and kind, such as `create HTTPRoutes`.
    pub(super) fn words(self) -> String {
        format!("{} {}", self.verb, self.kinds)
    }

    /// Returns true for the right that write access to the kind itself stands for.
    pub(super) fn is_to_run_pods(self) -> bool {
        self == DEPLOYMENTS || self == STATEFUL_SETS
    }
}

const DEPLOYMENTS: Right = Right::to_create("apps", "deployments", "Deployments");
const STATEFUL_SETS: Right = Right::to_create("apps", "statefulsets", "StatefulSets");
const SERVICES: Right = Right::to_create("", "services", "Services");
const SERVICE_ACCOUNTS: Right = Right::to_create("", "serviceaccounts", "ServiceAccounts");
const AUTOSCALERS: Right =
    Right::to_create("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscalers");
const BUDGETS: Right = Right::to_create("policy", "poddisruptionbudgets", "PodDisruptionBudgets");
const NETWORK_POLICIES: Right = Right::to_create("networking.k8s.io", "networkpolicies", "NetworkPolicies");
const JOBS: Right = Right::to_create("batch", "jobs", "Jobs");
const PODS: Right = Right { verb: "list", group: "", resource: "pods", kinds: "Pods" };
const SERVER_ENTRIES: Right =
    Right::to_create("toolhive.stacklok.com", "mcpserverentries", "MCPServerEntries");
const SERVERS: Right = Right::to_create("toolhive.stacklok.com", "mcpservers", "MCPServers");
const NEW_SECRETS: Right = Right::to_create("", "secrets", "Secrets");
const ROUTES: Right = Right::to_create("gateway.networking.k8s.io", "httproutes", "HTTPRoutes");
const MONITORS: Right = Right::to_create("monitoring.coreos.com", "servicemonitors", "ServiceMonitors");
const SECRETS: Right = Right::to_get("secrets", "Secrets");
const CONFIG_MAPS: Right = Right::to_get("configmaps", "ConfigMaps");

/// Tools by which clients change servers.
const SERVER_TOOLS: Trigger = Trigger::HasWord(
    "optimizer.tools",
    &["add_mcp_server", "remove_mcp_server", "enable_mcp_server", "disable_mcp_server", "install_server"],
);
/// Lists of webhooks.
const WEBHOOKS: &[&str] = &["mutating", "validating", "post"];
/// The kind of the Gateway API by which a namespace lets others refer to its objects.
pub(super) const REFERENCE_GRANT: &str = "ReferenceGrant";
/// Servers at a URL.
const ENTRIES: &[&str] = &["MCPServerEntry", "MCPRemoteProxy"];

const fn row(
    kinds: &'static [&'static str],
    trigger: Trigger,
    gives: &'static str,
    right: Right,
) -> AuthorRight {
    AuthorRight { kinds, trigger, gives, right }
}

/// Every field by which the operator lends a right of its own.
pub const AUTHOR_RIGHTS: &[AuthorRight] = &[
    row(
        &["VirtualMCPServer", "MCPServer", "MCPRegistry"],
        Trigger::Always,
        "runs pods, which may mount every Secret, use every image pull secret and run as every ServiceAccount of the namespace",
        DEPLOYMENTS,
    ),
    row(
        &["EmbeddingServer"],
        Trigger::Always,
        "runs pods, which may mount every Secret of the namespace",
        STATEFUL_SETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["optimizer.embeddings.tei.managed"]),
        "runs the pods of an EmbeddingServer",
        STATEFUL_SETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["optimizer.storage.volume"]),
        "runs its pods as those of a StatefulSet, which makes PersistentVolumeClaims",
        STATEFUL_SETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Unless("serviceType", "ClusterIP"),
        "makes a Service that leads out of the cluster",
        SERVICES,
    ),
    row(
        &["VirtualMCPServer", "MCPServer", "EmbeddingServer"],
        Trigger::Given(&[
            "resourceOverrides.service",
            "resourceOverrides.proxyService",
            "optimizer.embeddings.tei.managed.resourceOverrides.service",
        ]),
        "annotates a Service",
        SERVICES,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["resourceOverrides.serviceAccount"]),
        "annotates a ServiceAccount",
        SERVICE_ACCOUNTS,
    ),
    row(&["VirtualMCPServer"], Trigger::Given(&["httpRoute"]), "makes an HTTPRoute", ROUTES),
    row(&["VirtualMCPServer"], Trigger::Given(&["serviceMonitor"]), "makes a ServiceMonitor", MONITORS),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["autoscaling"]),
        "makes a HorizontalPodAutoscaler",
        AUTOSCALERS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["podDisruptionBudget"]),
        "makes a PodDisruptionBudget, which can hold up drains of nodes",
        BUDGETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&["networkPolicy"]),
        "makes a NetworkPolicy, which opens what other policies close",
        NETWORK_POLICIES,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Given(&[
            "console.operatorTokenSecretRefs",
            "console.viewerTokenSecretRefs",
            "console.signIn.clientSecretRef",
        ]),
        "takes values of Secrets as tokens of its console, or sends one to the provider that is named here",
        SECRETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::GivenInItem(&["backends"], "externalAuthConfigRef"),
        "sends the credentials of a configuration to the URL of a server that is named here",
        SECRETS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Is("config.code.engine", "job"),
        "has Jobs run an image of its author's choice, and lets its pods make them",
        JOBS,
    ),
    row(
        &["VirtualMCPServer"],
        Trigger::Is("config.code.engine", "job"),
        "lets its pods list the pods of the namespace",
        PODS,
    ),
    row(
        &["VirtualMCPServer"],
        SERVER_TOOLS,
        "lets its clients add, switch and remove MCPServerEntries",
        SERVER_ENTRIES,
    ),
    row(&["VirtualMCPServer"], SERVER_TOOLS, "lets its pods make the Secrets of such servers", NEW_SECRETS),
    row(
        &["VirtualMCPServer"],
        Trigger::GivenInItem(&["optimizer.admin.allow"], "image"),
        "lets its clients run programs, as MCPServers",
        SERVERS,
    ),
    row(
        &["MCPServer"],
        Trigger::Given(&["networkPolicy.ingressFrom"]),
        "adds callers to a NetworkPolicy, which opens what other policies close",
        NETWORK_POLICIES,
    ),
    row(
        &["MCPServer"],
        Trigger::Is("permissionProfile.type", "configmap"),
        "adds outgoing connections to a NetworkPolicy, which opens what other policies close",
        NETWORK_POLICIES,
    ),
    row(
        &[REFERENCE_GRANT],
        Trigger::IsInItem("from", "kind", "VirtualMCPServer"),
        "adds VirtualMCPServers of another namespace to NetworkPolicies of MCPServers, which opens what other policies close",
        NETWORK_POLICIES,
    ),
    row(
        ENTRIES,
        Trigger::Given(&["headerForward.addHeadersFromSecret"]),
        "sends values of Secrets to the URL of the server",
        SECRETS,
    ),
    row(
        ENTRIES,
        Trigger::Given(&["externalAuthConfigRef"]),
        "sends the credentials of a configuration to the URL of the server",
        SECRETS,
    ),
    row(
        &["MCPExternalAuthConfig"],
        Trigger::Unless("type", "unauthenticated"),
        "sends values of Secrets to the URLs that are named here, and to every server that refers to it",
        SECRETS,
    ),
    row(
        &["MCPOIDCConfig"],
        Trigger::Given(&["inline.clientSecretRef"]),
        "sends the value of a Secret to the introspection endpoint that is named here",
        SECRETS,
    ),
    row(
        &["MCPTelemetryConfig"],
        Trigger::Given(&["openTelemetry.sensitiveHeaders"]),
        "sends values of Secrets to the collector that is named here",
        SECRETS,
    ),
    row(
        &["MCPWebhookConfig"],
        Trigger::GivenInItem(WEBHOOKS, "hmacSecretRef"),
        "signs messages to the URL that is named here with the value of a Secret",
        SECRETS,
    ),
    row(
        &["MCPWebhookConfig"],
        Trigger::GivenInItem(WEBHOOKS, "tlsConfig"),
        "has pods mount Secrets, and prove themselves by one to the URL that is named here",
        SECRETS,
    ),
    row(ENTRIES, Trigger::Given(&["caBundleRef"]), "has pods mount a ConfigMap", CONFIG_MAPS),
    row(
        &["MCPOIDCConfig"],
        Trigger::Given(&["inline.caBundleRef"]),
        "has pods mount a ConfigMap",
        CONFIG_MAPS,
    ),
    row(
        &["MCPTelemetryConfig"],
        Trigger::Given(&["openTelemetry.caBundleRef"]),
        "has pods mount a ConfigMap",
        CONFIG_MAPS,
    ),
];
