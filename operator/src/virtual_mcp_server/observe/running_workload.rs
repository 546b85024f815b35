//! The workload of a server as it is stored: a Deployment, a StatefulSet where each pod has a claim of its
//! own, or both while one replaces the other.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use vmcp_crds::virtual_mcp_server::Validated;

use crate::runtime::Context;
use crate::virtual_mcp_server::objects::workload_form::WorkloadForm;
use crate::workload::health::PodCounts;
use crate::workload::rollout::RolloutCounts;
use crate::workload::{of_deployment, of_stateful_set};

/// The workload of a server as it is stored.
#[derive(Debug, Clone, Default)]
pub(in crate::virtual_mcp_server) struct RunningWorkload {
    /// The Deployment.
    pub deployment: Option<Deployment>,
    /// The StatefulSet.
    pub set: Option<StatefulSet>,
}

impl RunningWorkload {
    /// Reads the stored objects of a server.
    pub(in crate::virtual_mcp_server) fn read(context: &Context, uid: &str, name: &str) -> Self {
        let children = &context.children;
        Self { deployment: children.typed(uid, name), set: children.typed(uid, name) }
    }

    /// Returns the form that exists; the Deployment if both or neither do.
    pub(in crate::virtual_mcp_server) fn form(&self) -> WorkloadForm {
        if self.deployment.is_none() && self.set.is_some() {
            WorkloadForm::StatefulSet
        } else {
            WorkloadForm::Deployment
        }
    }

    /// Returns the pods of both forms among the pods with the labels of the server `name`.
    pub(in crate::virtual_mcp_server) fn pods(&self, labeled: Vec<Arc<Pod>>, name: &str) -> Vec<Arc<Pod>> {
        let of_set = self.set.as_ref().map(|set| of_stateful_set(labeled.clone(), set));
        let of_deployment = of_deployment(labeled, name);
        of_deployment.into_iter().chain(of_set.into_iter().flatten()).collect()
    }

    /// Counts the pods of a form, or of the other one while that alone exists; ready pods of both count.
    pub(in crate::virtual_mcp_server) fn counts(
        &self,
        form: WorkloadForm,
        pods: &[Arc<Pod>],
        name: &str,
    ) -> Option<PodCounts> {
        let own = |form| {
            Some(match form {
                WorkloadForm::Deployment => {
                    let counts = PodCounts::from(self.deployment.as_ref()?);
                    counts.with_existing(&of_deployment(pods.to_vec(), name))
                }
                WorkloadForm::StatefulSet => {
                    let set = self.set.as_ref()?;
                    PodCounts::from(set).with_existing(&of_stateful_set(pods.to_vec(), set))
                }
            })
        };
        match (own(form), own(form.other())) {
            (Some(wanted), Some(other)) => Some(PodCounts { ready: wanted.ready + other.ready, ..wanted }),
            (wanted, other) => wanted.or(other),
        }
    }

    /// Returns true if the workload in its former form stays for now. Its pods serve until those of the
    /// wanted form are ready. The workload of a suspended server stays until the wanted form has the number
    /// of pods to come back to.
    pub(in crate::virtual_mcp_server) fn waits_for_pods(&self, server: &Validated) -> bool {
        self.hands_over(server) || (!server.is_suspended && self.is_replaced_by(WorkloadForm::wanted(server)))
    }

    /// Returns true if the server is suspended, and its workload in the wanted form is still to be written.
    pub(in crate::virtual_mcp_server) fn hands_over(&self, server: &Validated) -> bool {
        let form = WorkloadForm::wanted(server);
        server.is_suspended && self.has(form.other()) && !self.has(form)
    }

    /// Returns true if the other form serves until the pods of this one are ready.
    fn is_replaced_by(&self, form: WorkloadForm) -> bool {
        let is_ready = match form {
            WorkloadForm::Deployment => self.deployment.as_ref().map(RolloutCounts::from),
            WorkloadForm::StatefulSet => self.set.as_ref().map(RolloutCounts::from),
        };
        self.has(form.other()) && is_ready.is_none_or(|counts| counts.pending.is_some())
    }

    fn has(&self, form: WorkloadForm) -> bool {
        match form {
            WorkloadForm::Deployment => self.deployment.is_some(),
            WorkloadForm::StatefulSet => self.set.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value) -> Deployment {
        let spec = json!({ "selector": {}, "template": {}, "replicas": 3 });
        serde_json::from_value(json!({ "spec": spec, "status": status })).expect("a Deployment")
    }

    fn set(status: &Value) -> StatefulSet {
        let spec = json!({ "selector": {}, "template": {}, "replicas": 3 });
        let object = json!({ "metadata": { "uid": "s" }, "spec": spec, "status": status });
        serde_json::from_value(object).expect("a StatefulSet")
    }

    #[test]
    fn the_old_form_serves_until_every_pod_of_the_new_one_is_ready() {
        let ready =
            json!({ "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3 });
        let old = deployment(&ready);
        let alone = RunningWorkload { deployment: Some(old.clone()), set: None };
        let (wanted, pods) = (WorkloadForm::StatefulSet, [].as_slice());
        assert!(alone.is_replaced_by(wanted));
        assert_eq!(alone.counts(wanted, pods, "x").map(|counts| counts.ready), Some(3));
        assert!(!alone.is_replaced_by(WorkloadForm::Deployment), "there is no StatefulSet to replace");

        let partly = json!({ "replicas": 3, "readyReplicas": 1, "updatedReplicas": 3 });
        let both = RunningWorkload { set: Some(set(&partly)), ..alone };
        assert!(both.is_replaced_by(wanted));
        assert_eq!(both.counts(wanted, pods, "x").map(|counts| counts.ready), Some(4));

        let done = RunningWorkload { deployment: Some(old), set: Some(set(&ready)) };
        assert!(!done.is_replaced_by(wanted));
        // And back.
        assert!(!done.is_replaced_by(WorkloadForm::Deployment));
    }
}
