//! A VirtualMCPServer that makes sense. Whoever holds one need not ask what two fields mean together.
//!
//! The API server refuses most of what is refused here; an older schema, or one that somebody edited, does not.

mod optimizer;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::Selector;

pub(crate) use self::optimizer::WrittenAs;
pub use self::optimizer::{EmbeddingSource, TeiService, ValidOptimizer};
use super::{
    Autoscaling, HttpRoute, PodDisruptionBudget, ServiceMonitor, ServiceType, TelemetryConfigReference,
    VirtualMCPServer, VirtualMCPServerSpec,
};
use crate::fields::workload::{ImagePullPolicy, SessionAffinity};
use crate::fields::yaml_block::Block;
use crate::problem::{Invalid, Problem};

/// Longest name: `vmcp-NAME-peers` is the name of a Service, which has at most 63 characters.
pub const MAX_NAME: usize = 52;

/// A VirtualMCPServer that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `None`: it is off.
    pub optimizer: Option<ValidOptimizer>,
    /// The MCPTelemetryConfig, if any.
    pub telemetry: Option<TelemetryConfigReference>,
    /// What goes into `vmcp.yaml` as it is written.
    pub settings: Settings,
    /// The pods.
    pub pods: Pods,
    /// How many pods.
    pub scale: Scale,
    /// The PodDisruptionBudget, if one is to be made.
    pub disruption: Option<Disruption>,
    /// Type of the Service.
    pub service_type: ServiceType,
    /// Affinity of the Service.
    pub session_affinity: SessionAffinity,
    /// Who may connect, if a NetworkPolicy is to be made; empty: anybody.
    pub ingress_from: Option<Vec<NetworkPolicyPeer>>,
    /// The ServiceMonitor, if one is to be made.
    pub service_monitor: Option<ServiceMonitor>,
    /// The HTTPRoute, if one is to be made.
    pub http_route: Option<HttpRoute>,
}

/// What goes into `vmcp.yaml` as it is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// `aggregation`.
    pub aggregation: Block,
    /// `operational`.
    pub operational: Block,
    /// `proxy`.
    pub proxy: Block,
    /// The part of `server` that is left to people.
    pub server: Block,
    /// `incomingAuth`.
    pub incoming_auth: Block,
}

/// The pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Pods {
    /// Image of vmcp; `None`: the one that the operator was installed with.
    pub image: Option<String>,
    /// When it is pulled.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Credentials for its registry.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// An existing ServiceAccount; `None`: one is made.
    pub service_account: Option<String>,
    /// What the container needs and may use.
    pub resources: Option<ResourceRequirements>,
    /// To be merged into the template, as it is written.
    pub template: Block,
    /// How long a pod may take to end; `None`: [`crate::lower::Lowered::grace`].
    pub termination_grace_period_seconds: Option<i64>,
}

/// How many pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    /// This many.
    Fixed(i32),
    /// One at first, then what others say.
    Free,
    /// As many as a HorizontalPodAutoscaler that is to be made says.
    Automatic(Autoscaling),
}

/// How many pods may be evicted at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disruption {
    /// Keep at least this many.
    MinAvailable(IntOrString),
    /// Evict at most this many.
    MaxUnavailable(IntOrString),
}

impl VirtualMCPServer {
    /// What the resource means, or everything that is wrong with it. What only `vmcp.yaml`'s validator can judge is left to
    /// [`Validated::lower`].
    pub fn validate(&self) -> Result<Validated, Invalid> {
        let mut problems = Vec::new();
        let spec = &self.spec;
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
        group(spec, &mut problems);
        labels(spec, &mut problems);
        let config = spec.config.clone().unwrap_or_default();
        let validated = Validated {
            namespace: self.namespace().unwrap_or_default(),
            optimizer: optimizer::optimizer(spec, &mut problems),
            telemetry: spec.telemetry_config_ref.clone(),
            settings: Settings {
                aggregation: config.aggregation,
                operational: config.operational,
                proxy: config.proxy,
                server: config.server,
                incoming_auth: spec.incoming_auth.clone(),
            },
            pods: pods(spec),
            scale: scale(spec, &mut problems),
            disruption: spec
                .pod_disruption_budget
                .as_ref()
                .and_then(|budget| disruption(budget, &mut problems)),
            service_type: spec.service_type,
            session_affinity: spec.session_affinity,
            ingress_from: spec
                .network_policy
                .as_ref()
                .filter(|policy| policy.enabled)
                .map(|policy| policy.ingress_from.clone()),
            service_monitor: spec.service_monitor.clone().filter(|monitor| monitor.enabled),
            http_route: spec.http_route.clone(),
            name,
        };
        Invalid::unless_none(Some(validated), problems)
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

fn labels(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) {
    let selector = spec.backend_selector.clone().unwrap_or_default();
    if Selector::try_from(selector).is_err() {
        let message = "an expression that is none";
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

/// As the API server sees it.
fn is_pods_or_share(pods: &IntOrString) -> bool {
    match pods {
        IntOrString::Int(number) => *number >= 0,
        IntOrString::String(share) => {
            let digits = share.strip_suffix('%').unwrap_or_default();
            digits.parse::<u8>().is_ok_and(|share| share <= 100) && digits.bytes().all(|b| b.is_ascii_digit())
        }
    }
}
