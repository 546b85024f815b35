//! Validates a VirtualMCPServer into a form without contradictions: its holder need not ask what two fields
//! mean together.
//!
//! The API server refuses most of these mistakes already, by schema and CEL rules. An older definition in the
//! cluster, or an edited one, does not.

mod code_mode;
mod optimizer;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::Selector;

pub(crate) use self::optimizer::WrittenAs;
pub use self::optimizer::{EmbeddingSource, TeiService, ValidOptimizer};
use super::config::failure_handling;
use super::{
    AuthServerConfig, Autoscaling, ClientService, Console, Events, HttpRoute, PodDisruptionBudget,
    ServiceMonitor, ServiceType, SessionStorage, TelemetryConfigReference, VirtualMCPServer,
    VirtualMCPServerSpec, client_service,
};
use crate::fields::references::backend_name_in;
use crate::fields::resource_overrides::VirtualMCPServerOverrides;
use crate::fields::workload::{ImagePullPolicy, SessionAffinity};
use crate::fields::yaml_block::Block;
use crate::problem::{Invalid, Problem};

/// Maximum characters of a name: a Service is named `vmcp-NAME-peers`, and may have 63.
pub const MAX_NAME: usize = 52;
/// Annotation of a VirtualMCPServer whose change replaces the pods, one after the other.
pub const RESTARTED_AT: &str = "toolhive.stacklok.com/restarted-at";

/// A VirtualMCPServer without contradictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    /// Name of the resource.
    pub name: String,
    /// Namespace of the resource.
    pub namespace: String,
    /// UID of the resource.
    pub uid: String,
    /// Name of the MCPGroup, `NAMESPACE_NAME` in another namespace; `None`: all backends of the namespace.
    pub group: Option<String>,
    /// The optimizer; `None`: off.
    pub optimizer: Option<ValidOptimizer>,
    /// Reference to its MCPTelemetryConfig.
    pub telemetry: Option<TelemetryConfigReference>,
    /// Blocks that go into `vmcp.yaml` as written.
    pub settings: YamlBlocks,
    /// The embedded authorization server.
    pub auth_server: Option<AuthServerConfig>,
    /// The store that the pods share.
    pub session_storage: Option<SessionStorage>,
    /// Names of the client's headers that backends get.
    pub passthrough_headers: Vec<String>,
    /// Fields of the pods.
    pub pods: Pods,
    /// Number of pods.
    pub scale: Scale,
    /// True if no pods run, whatever `scale` says.
    pub is_suspended: bool,
    /// Value of [`RESTARTED_AT`]: another one replaces the pods.
    pub restarted_at: Option<String>,
    /// The web console; `None`: as the server has it by default.
    pub console: Option<Console>,
    /// Port of the pods' events.
    pub events: Events,
    /// PodDisruptionBudget to make.
    pub disruption: Option<Disruption>,
    /// Type of the Service.
    pub service_type: ServiceType,
    /// Settings of the Service.
    pub service: ClientService,
    /// Session affinity of the Service.
    pub session_affinity: SessionAffinity,
    /// Labels and annotations of the objects that are made.
    pub overrides: VirtualMCPServerOverrides,
    /// Peers of the NetworkPolicy to make; empty: all may connect.
    pub ingress_from: Option<Vec<NetworkPolicyPeer>>,
    /// ServiceMonitor to make.
    pub service_monitor: Option<ServiceMonitor>,
    /// True if `/metrics` wants a token.
    pub metrics_token: bool,
    /// HTTPRoute to make.
    pub http_route: Option<HttpRoute>,
    /// True if the server may be exposed outside of the cluster while it serves anonymous clients.
    pub allow_anonymous_exposure: bool,
    /// Fields that would expose the server outside of the cluster to anonymous clients, and are not followed.
    pub withheld: Vec<&'static str>,
}

impl Validated {
    /// Returns true if scripts run as Jobs, which takes rights of the pods.
    pub fn has_script_jobs(&self) -> bool {
        self.settings.code.get("engine").is_some_and(|engine| engine == "job")
    }

    /// Returns true if clients may add servers, which takes rights of the pods.
    pub fn adds_servers(&self) -> bool {
        self.optimizer.as_ref().is_some_and(ValidOptimizer::adds_servers)
    }

    /// Returns true if clients may add programs too, which run in pods of their own.
    pub fn adds_programs(&self) -> bool {
        self.optimizer.as_ref().is_some_and(|optimizer| optimizer.adds_servers() && optimizer.names_images())
    }

    /// Keeps the server inside the cluster: fields that lead out of it join `withheld`.
    pub fn withhold(&mut self) {
        if std::mem::take(&mut self.service_type) != ServiceType::ClusterIP {
            self.withheld.push(SERVICE_TYPE);
        }
        if self.http_route.take().is_some() {
            self.withheld.push(HTTP_ROUTE);
        }
    }
}

/// Blocks that go into `vmcp.yaml` as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct YamlBlocks {
    /// Block `aggregation`.
    pub aggregation: Block,
    /// Block `operational`.
    pub operational: Block,
    /// Block `proxy`.
    pub proxy: Block,
    /// Paths of `vmcp.yaml` whose values are written elsewhere in the resource, each with its path there.
    pub moved: Vec<(String, String)>,
    /// Block `profiles`.
    pub profiles: Block,
    /// Block `audit`.
    pub audit: Block,
    /// Block `rateLimiting`.
    pub rate_limiting: Block,
    /// Block `code`.
    pub code: Block,
    /// True if the resource has the block `code` in ToolHive's form; paths of mistakes name that.
    pub is_code_mode: bool,
    /// List `compositeTools`, without the referenced ones.
    pub composite_tools: Vec<Block>,
    /// The part of the block `server` that a resource may set.
    pub server: Block,
    /// Block `incomingAuth`.
    pub incoming_auth: Block,
}

/// Fields of the pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Pods {
    /// Image of vmcp; `None`: the image in the operator's options.
    pub image: Option<String>,
    /// When the image is pulled.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Credentials for the registry.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Existing ServiceAccount; `None`: one is made.
    pub service_account: Option<String>,
    /// CPU and memory of the container.
    pub resources: Option<ResourceRequirements>,
    /// Template that is merged strategically into that of the pod.
    pub template: Block,
    /// Seconds that a pod may take to end; `None`: [`crate::lower::Lowered::termination_grace_period`].
    pub termination_grace_period_seconds: Option<i64>,
}

/// Number of pods.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// A fixed number.
    Fixed(i32),
    /// One at first, then whatever an autoscaler or a person sets.
    Free,
    /// As many as the HorizontalPodAutoscaler to make decides.
    Automatic(Autoscaling),
}

impl Scale {
    /// Returns true if there is always more than one pod.
    fn has_several(&self) -> bool {
        match self {
            Self::Fixed(replicas) => *replicas > 1,
            Self::Free => false,
            Self::Automatic(autoscaling) => autoscaling.min_replicas > 1,
        }
    }
}

/// Limit on evictions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disruption {
    /// Number or percentage that must stay available.
    MinAvailable(IntOrString),
    /// Number or percentage that may be evicted at a time.
    MaxUnavailable(IntOrString),
}

impl VirtualMCPServer {
    /// Returns the validated form, or every mistake with its path. Mistakes that only the validator of
    /// `vmcp.yaml` can find are left to [`Validated::lower`].
    ///
    /// ```
    /// use vmcp_crds::VirtualMCPServer;
    ///
    /// let manifest = "
    /// apiVersion: toolhive.stacklok.com/v1alpha1
    /// kind: VirtualMCPServer
    /// metadata: { name: tools }
    /// spec:
    ///   replicas: 2
    ///   autoscaling: { maxReplicas: 5 }
    /// ";
    /// let server: VirtualMCPServer = serde_saphyr::from_str(manifest).unwrap();
    /// let invalid = server.validate().unwrap_err();
    /// assert!(invalid.to_string().starts_with("spec.replicas: `spec.autoscaling` is given too; "));
    /// ```
    pub fn validate(&self) -> Result<Validated, Invalid> {
        let mut problems = Vec::new();
        let spec = &self.spec;
        if let Some(outgoing) = &spec.outgoing_auth {
            outgoing.check(&mut problems);
        }
        let name = self.name_any();
        if name.len() > MAX_NAME {
            problems.push(Problem::new(
                "metadata.name",
                format!("{} characters", name.len()),
                format!(
                    "choose a name of at most {MAX_NAME} characters, for `vmcp-NAME-peers` names a Service"
                ),
            ));
        }
        if name.contains('.') {
            let remedy = "choose a name without dots, for `vmcp-NAME` names a Service";
            problems.push(Problem::new("metadata.name", "has a dot", remedy));
        }
        names_of_children(spec, &name, &mut problems);
        group(spec, &mut problems);
        backend_refs(self, &mut problems);
        for (index, backend) in spec.backends.iter().enumerate() {
            backend.check(&format!("spec.backends[{index}]"), &mut problems);
        }
        primary_provider(spec, &mut problems);
        labels(spec, &mut problems);
        spec.resource_overrides.check(&mut problems);
        client_service::check(spec, &mut problems);
        spec.http_route.iter().for_each(|route| route.check(&mut problems));
        spec.service_monitor.iter().for_each(|monitor| monitor.check(&mut problems));
        spec.console.iter().for_each(|console| console.check(&mut problems));
        let config = spec.config.clone().unwrap_or_default();
        let code = code_mode::code(&config, &mut problems);
        let (mut operational, mut proxy) = (config.operational, config.proxy);
        let moved = failure_handling::move_health_checks(&mut operational, &mut proxy);
        failure_handling::raise_max_tool_timeout(&operational, &mut proxy);
        let scale = scale(spec, &mut problems);
        let mut validated = Validated {
            namespace: self.namespace().unwrap_or_default(),
            uid: self.uid().unwrap_or_default(),
            group: spec.group().map(|(group, namespace)| match namespace {
                Some(namespace) if Some(namespace) != self.metadata.namespace.as_deref() => {
                    backend_name_in(namespace, group)
                }
                _ => group.to_owned(),
            }),
            optimizer: code_mode::offer(config.code_mode.as_ref(), optimizer::optimizer(spec, &mut problems)),
            telemetry: spec.telemetry_config_ref.clone(),
            settings: YamlBlocks {
                aggregation: config.aggregation,
                operational,
                proxy,
                moved,
                profiles: config.profiles,
                audit: config.audit,
                rate_limiting: config.rate_limiting,
                is_code_mode: config.code_mode.is_some() && config.code.is_empty(),
                code,
                composite_tools: config.composite_tools,
                server: config.server,
                incoming_auth: spec.incoming_auth.clone(),
            },
            auth_server: spec.auth_server_config.clone(),
            session_storage: spec.session_storage.clone(),
            passthrough_headers: match spec.passthrough_headers.as_slice() {
                [] => config.passthrough_headers,
                names => names.to_vec(),
            },
            pods: pods(spec),
            disruption: match &spec.pod_disruption_budget {
                Some(budget) => disruption(budget, &mut problems),
                None => scale.has_several().then_some(Disruption::MaxUnavailable(IntOrString::Int(1))),
            },
            scale,
            is_suspended: spec.suspend,
            restarted_at: self.annotations().get(RESTARTED_AT).cloned(),
            console: spec.console.clone(),
            events: spec.events.clone(),
            service_type: spec.service_type,
            service: spec.service.clone(),
            session_affinity: spec.session_affinity,
            overrides: spec.resource_overrides.clone(),
            ingress_from: spec
                .network_policy
                .as_ref()
                .filter(|policy| policy.enabled)
                .map(|policy| policy.ingress_from.clone()),
            metrics_token: spec.service_monitor.as_ref().is_some_and(|monitor| monitor.require_token),
            service_monitor: spec.service_monitor.clone().filter(|monitor| monitor.enabled),
            http_route: spec.http_route.clone(),
            allow_anonymous_exposure: spec.allow_anonymous_exposure,
            withheld: Vec::new(),
            name,
        };
        if !spec.allow_anonymous_exposure && !spec.asks_for_credentials() {
            validated.withhold();
        }
        Invalid::unless_none(Some(validated), problems)
    }
}

/// Path of the field that may expose the Service.
pub const SERVICE_TYPE: &str = "spec.serviceType";
/// Path of the field that exposes the server through a gateway.
pub const HTTP_ROUTE: &str = "spec.httpRoute";

impl VirtualMCPServerSpec {
    /// Returns the name of the MCPGroup, from `groupRef` or `config.groupRef`, and its namespace as written.
    pub fn group(&self) -> Option<(&str, Option<&str>)> {
        let elsewhere = || self.config.as_ref()?.group_ref.as_deref().map(|name| (name, None));
        let reference = self.group_ref.as_ref();
        reference.map(|group| (group.name.as_str(), group.namespace.as_deref())).or_else(elsewhere)
    }

    /// Returns true if the resource, as written, asks clients for credentials.
    pub fn asks_for_credentials(&self) -> bool {
        let kind = self.incoming_auth.get("type").and_then(serde_json::Value::as_str);
        self.auth_server_config.is_some() || kind.is_some_and(|kind| kind != "anonymous")
    }
}

fn primary_provider(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) {
    let Some(server) = &spec.auth_server_config else { return };
    if let Some(primary) = server.primary_upstream_provider.as_ref().filter(|name| !server.has_provider(name))
    {
        problems.push(Problem::new(
            "spec.authServerConfig.primaryUpstreamProvider",
            format!("`{primary}` is not among `upstreamProviders`"),
            "name one of them",
        ));
    }
}

fn group(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) {
    let group = spec.group_ref.as_ref().map(|group| &group.name);
    let other = spec.config.as_ref().and_then(|config| config.group_ref.as_ref());
    if let (Some(group), Some(other)) = (group, other)
        && group != other
    {
        let message = format!("`{other}` is not `{group}`, the name in `spec.groupRef`");
        problems.push(Problem::new("spec.config.groupRef", message, "keep one of the two"));
    }
}

/// Refuses references to backends of the server's own namespace, which belong to its group or have no group.
fn backend_refs(server: &VirtualMCPServer, problems: &mut Vec<Problem>) {
    for (index, reference) in server.spec.backend_refs.iter().enumerate() {
        if Some(reference.namespace.as_str()) == server.metadata.namespace.as_deref() {
            let path = format!("spec.backendRefs[{index}].namespace");
            let remedy = "remove the entry, and name the group in the backend's `groupRef`";
            problems.push(Problem::new(path, "is the namespace of this server", remedy));
        }
    }
}

fn labels(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) {
    let selector = spec.backend_selector.clone().unwrap_or_default();
    if Selector::try_from(selector).is_err() {
        let message = "an invalid expression";
        let remedy = "use the operators In and NotIn with values, Exists and DoesNotExist without";
        problems.push(Problem::new("spec.backendSelector.matchExpressions", message, remedy));
    }
}

fn pods(spec: &VirtualMCPServerSpec) -> Pods {
    Pods {
        image: spec.image.clone(),
        image_pull_policy: spec.image_pull_policy,
        image_pull_secrets: spec.image_pull_secrets.clone(),
        service_account: spec.service_account.clone(),
        resources: spec.resources.clone(),
        template: spec.pod_template_spec.clone(),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
    }
}

fn scale(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) -> Scale {
    match (spec.replicas, &spec.autoscaling) {
        (Some(replicas), None) => Scale::Fixed(replicas),
        (None, None) => Scale::Free,
        (None, Some(autoscaling)) => {
            if autoscaling.min_replicas > autoscaling.max_replicas {
                problems.push(Problem::new(
                    "spec.autoscaling.minReplicas",
                    format!(
                        "{} is more than `maxReplicas`, {}",
                        autoscaling.min_replicas, autoscaling.max_replicas
                    ),
                    "lower it, or raise `maxReplicas`",
                ));
            }
            Scale::Automatic(autoscaling.clone())
        }
        (Some(replicas), Some(_)) => {
            let remedy = "remove one of the two: the autoscaler decides the number of pods";
            problems.push(Problem::new("spec.replicas", "`spec.autoscaling` is given too", remedy));
            Scale::Fixed(replicas)
        }
    }
}

/// Reports a name that does not fit an object which a field makes: names of Services begin with a letter.
fn names_of_children(spec: &VirtualMCPServerSpec, name: &str, problems: &mut Vec<Problem>) {
    let has_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !has_letter && spec.console.as_ref().is_some_and(Console::has_service) {
        let remedy = "choose a name that begins with a letter, for `NAME-console` names a Service";
        problems.push(Problem::new("metadata.name", "begins with a digit", remedy));
    }
}

fn disruption(budget: &PodDisruptionBudget, problems: &mut Vec<Problem>) -> Option<Disruption> {
    for (field, pods) in
        [("minAvailable", &budget.min_available), ("maxUnavailable", &budget.max_unavailable)]
    {
        if pods.as_ref().is_some_and(|pods| !is_pods_or_share(pods)) {
            let path = format!("spec.podDisruptionBudget.{field}");
            problems.push(Problem::new(path, "neither a number of pods nor a share", "write 1 or 50%"));
        }
    }
    match (&budget.min_available, &budget.max_unavailable) {
        (Some(least), None) => Some(Disruption::MinAvailable(least.clone())),
        (None, Some(most)) => Some(Disruption::MaxUnavailable(most.clone())),
        _ => {
            let remedy = "give exactly one of `minAvailable` and `maxUnavailable`";
            problems.push(Problem::new("spec.podDisruptionBudget", "both or neither are given", remedy));
            None
        }
    }
}

/// Returns true for values that the API server accepts: a number, or a percentage up to `100%`.
fn is_pods_or_share(pods: &IntOrString) -> bool {
    match pods {
        IntOrString::Int(number) => *number >= 0,
        IntOrString::String(share) => {
            let digits = share.strip_suffix('%').unwrap_or_default();
            digits.parse::<u8>().is_ok_and(|share| share <= 100) && digits.bytes().all(|b| b.is_ascii_digit())
        }
    }
}
