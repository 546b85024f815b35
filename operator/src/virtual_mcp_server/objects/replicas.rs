//! The number of pods, also through a suspension: a number that an autoscaler or a person set outlives it in
//! an annotation of the Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use vmcp_crds::GROUP;
use vmcp_crds::virtual_mcp_server::{Scale, Validated};

use crate::runtime::Context;

/// Returns the name of the annotation with the number of pods to come back to.
pub(in crate::virtual_mcp_server) fn annotation() -> String {
    format!("{GROUP}/replicas-before-suspension")
}

/// The numbers of the stored Deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::virtual_mcp_server) struct LiveReplicas {
    /// Pods that it asks for; `None` without a Deployment.
    pub current: Option<i32>,
    /// Pods that it asked for before it was suspended; `None` unless it is suspended.
    pub before_suspension: Option<i32>,
}

impl LiveReplicas {
    /// Reads the stored Deployment of a server.
    pub(in crate::virtual_mcp_server) fn read(context: &Context, uid: &str, name: &str) -> Self {
        let Some(deployment) = context.children.typed::<Deployment>(uid, name) else {
            return Self::default();
        };
        let kept = deployment.annotations().get(&annotation()).and_then(|text| text.parse().ok());
        Self { before_suspension: kept, current: deployment.spec.and_then(|spec| spec.replicas) }
    }
}

/// The numbers of the Deployment to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replicas {
    /// Number of pods; `None` if an autoscaler or a person decides it.
    pub(super) wanted: Option<i32>,
    /// Value of the annotation.
    pub(super) kept: Option<i32>,
}

impl Replicas {
    /// Decides them. A suspended server keeps the number that no field of the resource says; the first write
    /// after the suspension brings it back, and the next one leaves it to others again.
    pub(super) fn new(server: &Validated, live: LiveReplicas) -> Self {
        let fixed = match server.scale {
            Scale::Fixed(replicas) => Some(replicas),
            Scale::Free | Scale::Automatic(_) => None,
        };
        let LiveReplicas { current, before_suspension } = live;
        if !server.is_suspended {
            return Self { wanted: fixed.or(before_suspension), kept: None };
        }
        // At least one: a start that brings back nothing would be none.
        let before = before_suspension.or(current).unwrap_or(1).max(1);
        Self { wanted: Some(0), kept: fixed.is_none().then_some(before) }
    }
}
