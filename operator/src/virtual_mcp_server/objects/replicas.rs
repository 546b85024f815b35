//! The number of pods, also through a suspension and a change of form: a number that an autoscaler or a
//! person set outlives the former in an annotation of the workload, and goes from one form to the other in
//! the latter.

use kube::ResourceExt;
use vmcp_crds::GROUP;
use vmcp_crds::virtual_mcp_server::{Scale, Validated};

use crate::virtual_mcp_server::objects::workload_form::WorkloadForm;
use crate::virtual_mcp_server::observe::running_workload::RunningWorkload;

/// Returns the name of the annotation with the number of pods to come back to.
pub(super) fn annotation() -> String {
    format!("{GROUP}/replicas-before-suspension")
}

/// The numbers of the stored workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LiveReplicas {
    /// Pods that it asks for; `None` without a workload.
    current: Option<i32>,
    /// Pods that it asked for before it was suspended; `None` unless it is suspended.
    before_suspension: Option<i32>,
    /// True if it has the other form, and is about to be replaced.
    is_former: bool,
}

impl LiveReplicas {
    /// Reads the workload in its wanted form; in the other one while that alone exists.
    pub(super) fn read(running: &RunningWorkload, form: WorkloadForm) -> Self {
        let of_form = |form| match form {
            WorkloadForm::Deployment => {
                let deployment = running.deployment.as_ref()?;
                Some(Self::of(deployment, deployment.spec.as_ref().and_then(|spec| spec.replicas)))
            }
            WorkloadForm::StatefulSet => {
                let set = running.set.as_ref()?;
                Some(Self::of(set, set.spec.as_ref().and_then(|spec| spec.replicas)))
            }
        };
        let former = || of_form(form.other()).map(|live| Self { is_former: true, ..live });
        of_form(form).or_else(former).unwrap_or_default()
    }

    fn of(workload: &impl ResourceExt, current: Option<i32>) -> Self {
        let kept = workload.annotations().get(&annotation()).and_then(|text| text.parse().ok());
        Self { current, before_suspension: kept, is_former: false }
    }
}

/// The numbers of the workload to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replicas {
    /// Number of pods; `None` if an autoscaler or a person decides it.
    pub(super) wanted: Option<i32>,
    /// Value of the annotation.
    pub(super) kept: Option<i32>,
}

impl Replicas {
    /// Decides them. A suspended server keeps the number that no field of the resource says; the first write
    /// after the suspension brings it back, and the next one leaves it to others again. So does the first
    /// write of a workload in a new form with the number of the former one.
    pub(super) fn new(server: &Validated, live: LiveReplicas) -> Self {
        let fixed = match server.scale {
            Scale::Fixed(replicas) => Some(replicas),
            Scale::Free | Scale::Automatic(_) => None,
        };
        let LiveReplicas { current, before_suspension, is_former } = live;
        if !server.is_suspended {
            let handed_over = current.filter(|_| is_former);
            return Self { wanted: fixed.or(before_suspension).or(handed_over), kept: None };
        }
        // At least one: a start that brings back nothing would be none.
        let before = before_suspension.or(current).unwrap_or(1).max(1);
        Self { wanted: Some(0), kept: fixed.is_none().then_some(before) }
    }
}
