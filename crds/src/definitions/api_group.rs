//! API groups in which the kinds are served.

use kube::core::ApiResource;

/// API group of all kinds, that of RFC-0022.
pub const GROUP: &str = "toolhive.stacklok.com";
/// Version of all kinds in [`GROUP`].
pub const VERSION: &str = "v1alpha1";

/// An API group in which the kinds are served, each with the same schema in every version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ApiGroup {
    /// `toolhive.stacklok.com`, the group of RFC-0022.
    #[default]
    Vmcp,
    /// `toolhive.stacklok.dev`, ToolHive's own: its manifests work unchanged, where its operator does not
    /// run.
    ToolHive,
}

impl ApiGroup {
    /// Returns the name of the group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmcp => GROUP,
            Self::ToolHive => "toolhive.stacklok.dev",
        }
    }

    /// Returns the served versions. The first one is stored and watched.
    pub const fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Vmcp => &[VERSION],
            Self::ToolHive => &["v1beta1", "v1alpha1"],
        }
    }

    /// Returns the version that is stored and watched.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Vmcp => VERSION,
            Self::ToolHive => "v1beta1",
        }
    }

    /// Returns a resource as it is served in this group. Resources of other owners, such as Pods, stay as
    /// they are.
    pub fn resource(self, mut resource: ApiResource) -> ApiResource {
        if resource.group == GROUP {
            self.name().clone_into(&mut resource.group);
            self.version().clone_into(&mut resource.version);
            resource.api_version = format!("{}/{}", self.name(), self.version());
        }
        resource
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::MCPServer;

    #[test]
    fn only_own_kinds_change_their_group() {
        let server = ApiGroup::ToolHive.resource(ApiResource::erase::<MCPServer>(&()));
        assert_eq!(server.api_version, "toolhive.stacklok.dev/v1beta1");
        assert_eq!((server.group.as_str(), server.plural.as_str()), ("toolhive.stacklok.dev", "mcpservers"));
        let pod = ApiResource::erase::<Pod>(&());
        assert_eq!(ApiGroup::ToolHive.resource(pod.clone()), pod);
        assert!(ApiGroup::ToolHive.versions().contains(&ApiGroup::ToolHive.version()));
    }
}
