//! The form of a server's workload: a StatefulSet where each pod has a claim of its own, else a Deployment.

use vmcp_crds::virtual_mcp_server::{StorageVolume, Validated};

use crate::runtime::ChildKind;

/// Form of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::virtual_mcp_server) enum WorkloadForm {
    /// The cache ends with its pod.
    Deployment,
    /// Each pod has a claim of its own.
    StatefulSet,
}

impl WorkloadForm {
    /// Returns the form that the resource asks for.
    pub(in crate::virtual_mcp_server) fn wanted(server: &Validated) -> Self {
        if kept_volume(server).is_some() { Self::StatefulSet } else { Self::Deployment }
    }

    /// Returns the kind of the object.
    pub(in crate::virtual_mcp_server) fn kind(self) -> ChildKind {
        match self {
            Self::Deployment => ChildKind::Deployment,
            Self::StatefulSet => ChildKind::StatefulSet,
        }
    }

    /// Returns the other form.
    pub(in crate::virtual_mcp_server) fn other(self) -> Self {
        match self {
            Self::Deployment => Self::StatefulSet,
            Self::StatefulSet => Self::Deployment,
        }
    }
}

/// Returns the volume that outlives its pod; `None`: the cache ends with the pod.
pub(in crate::virtual_mcp_server) fn kept_volume(server: &Validated) -> Option<&StorageVolume> {
    server.optimizer.as_ref()?.volume.as_ref()
}
