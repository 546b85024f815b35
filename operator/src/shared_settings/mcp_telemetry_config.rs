//! MCPTelemetryConfig: export settings that VirtualMCPServers share; its status says whether they can be
//! used.
//!
//! No `build`: it has no children. A VirtualMCPServer that names it takes the settings into its `vmcp.yaml`.

mod controller;
mod dereference;
mod status;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::validate::validate;

use vmcp_crds::MCPTelemetryConfig;
use vmcp_crds::fields::references::CaBundleReference;

/// Path of the reference to certificates.
pub(crate) const CA_BUNDLE_PATH: &str = "spec.openTelemetry.caBundleRef";

/// Returns the reference to certificates.
pub(crate) fn ca_bundle_of(config: &MCPTelemetryConfig) -> Option<&CaBundleReference> {
    config.spec.open_telemetry.as_ref()?.ca_bundle_ref.as_ref()
}
