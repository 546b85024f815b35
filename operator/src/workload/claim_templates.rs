//! Claims that a StatefulSet makes, one for each pod. Kubernetes cannot change them once the StatefulSet
//! exists.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use vmcp_crds::embedding_server::AccessMode;

/// Why claims that a person edits stay as they are.
pub(crate) const UNCHANGEABLE: &str =
    "the StatefulSet was made with other volumes, which Kubernetes cannot change";

/// Claims as a resource asks for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimTemplate<'a> {
    /// The access mode of the volumes.
    pub access_mode: AccessMode,
    /// The size of the volumes.
    pub size: &'a Quantity,
    /// The storage class; `None`: the default of the cluster.
    pub storage_class_name: Option<&'a str>,
}

impl ClaimTemplate<'_> {
    /// Returns the `spec` of a claim.
    pub(crate) fn spec(&self) -> PersistentVolumeClaimSpec {
        let requests = [("storage".to_owned(), self.size.clone())];
        PersistentVolumeClaimSpec {
            access_modes: Some(vec![self.access_mode.as_str().to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some(requests.into()), limits: None }),
            storage_class_name: self.storage_class_name.map(str::to_owned),
            ..PersistentVolumeClaimSpec::default()
        }
    }

    /// Returns true if a stored template was made of these settings.
    pub(crate) fn made(&self, template: &PersistentVolumeClaim) -> bool {
        let Some(spec) = &template.spec else { return false };
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        let size = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
        // The API server may write the same size in another way.
        let has_size = size.and_then(bytes).zip(bytes(self.size)).is_none_or(|(size, wanted)| size == wanted);
        modes.iter().eq([self.access_mode.as_str()])
            && spec.storage_class_name.as_deref() == self.storage_class_name
            && has_size
    }
}

/// Returns the bytes of a whole quantity, such as `10Gi`; `None` for a fraction or an exponent.
fn bytes(Quantity(text): &Quantity) -> Option<u128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u128>().ok()?.checked_mul(factor)
}
