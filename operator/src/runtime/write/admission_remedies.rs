//! Remedies for refusals by admission: quota, LimitRange, PodSecurity level, policies and webhooks. The words
//! are those of the API server's plugins.

/// Returns the remedy for a refusal of admission; `None` for other refusals. `message` is the API server's.
pub(crate) fn admission_remedy(message: &str) -> Option<String> {
    if !message.contains("is forbidden") && !message.contains("denied") {
        return None;
    }
    let is_claim = message.contains("persistentvolumeclaims \"");
    let remedy = match () {
        () if message.contains("violates PodSecurity") => {
            "set these fields in spec.podTemplateSpec.spec.securityContext, such as runAsNonRoot and runAsUser"
        }
        () if message.contains("failed quota") => {
            "the quota wants these of every container: set them in spec.resources, of other containers in \
             spec.podTemplateSpec, or have a LimitRange set them"
        }
        () if message.contains("exceeded quota") && is_claim => {
            "raise the namespace's quota, or ask for smaller volumes"
        }
        () if message.contains("exceeded quota") && message.contains("pods \"") => {
            "raise the namespace's quota or lower spec.resources"
        }
        () if message.contains("exceeded quota") => {
            "raise the namespace's quota, or delete objects of this kind that it no longer needs"
        }
        () if message.contains(" request ratio per ") => {
            "bring limit and request nearer to each other in spec.resources, or change the namespace's LimitRange"
        }
        () if message.contains(" usage per ") && is_claim => {
            "ask for a volume within the bound, or change the namespace's LimitRange"
        }
        () if message.contains(" usage per ") => return limit_range(message),
        () if message.contains("PriorityClass") => {
            "create the class, or correct spec.podTemplateSpec.spec.priorityClassName"
        }
        () if message.contains("error looking up service account") => {
            "create the ServiceAccount or correct spec.serviceAccount"
        }
        () if message.contains("admission webhook") || message.contains("ValidatingAdmissionPolicy") => {
            "a policy of this cluster decides it: change what the message names, or ask the owner of the policy"
        }
        () => return None,
    };
    Some(remedy.to_owned())
}

/// Returns the remedy for the first bound that a LimitRange names, such as `maximum memory usage per
/// Container is 64Mi, but limit is 1Gi`.
fn limit_range(message: &str) -> Option<String> {
    let from = ["minimum ", "maximum "].iter().filter_map(|bound| message.find(bound)).min()?;
    let clause: Vec<_> = message.get(from..)?.split(',').take(2).collect();
    let mut words = clause.first()?.split(' ');
    let change = if words.next() == Some("minimum") { "raise" } else { "lower" };
    let resource = words.next()?;
    let is_request = clause.last().is_some_and(|value| value.contains("request"));
    let value = if is_request { "requests" } else { "limits" };
    Some(format!(
        "{change} spec.resources.{value}.{resource}, of other containers in spec.podTemplateSpec, or change the namespace's \
         LimitRange"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_remedy() {
        for (message, remedy) in [
            (
                "pods \"x-1\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
                "set these fields",
            ),
            (
                "pods \"x-1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
                "lower spec.resources",
            ),
            (
                "pods \"x-1\" is forbidden: failed quota: q: must specify limits.cpu for: vmcp",
                "set them in spec.resources",
            ),
            (
                "create Claim cache-x-0 for Pod x-0 in StatefulSet x failed error: persistentvolumeclaims \"cache-x-0\" is forbidden: exceeded quota: q",
                "smaller volumes",
            ),
            (
                "services \"vmcp-x\" is forbidden: exceeded quota: q, requested: services=1",
                "delete objects of this kind",
            ),
            (
                "pods \"x-1\" is forbidden: [maximum memory usage per Container is 64Mi, but limit is 1Gi, maximum cpu usage per Container is 1, but no limit is specified]",
                "lower spec.resources.limits.memory",
            ),
            (
                "pods \"x-1\" is forbidden: minimum cpu usage per Container is 1, but request is 100m",
                "raise spec.resources.requests.cpu",
            ),
            (
                "pods \"x-1\" is forbidden: memory max limit to request ratio per Container is 2, but provided ratio is 8.0",
                "nearer to each other",
            ),
            (
                "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi",
                "a volume within the bound",
            ),
            ("pods \"x-1\" is forbidden: no PriorityClass with name high was found", "priorityClassName"),
            (
                "pods \"x-1\" is forbidden: error looking up service account n/a: serviceaccount \"a\" not found",
                "spec.serviceAccount",
            ),
            (
                "admission webhook \"a.example\" denied the request: no label team",
                "ask the owner of the policy",
            ),
        ] {
            let found = admission_remedy(message).unwrap_or_default();
            assert!(found.contains(remedy), "{message}: {found}");
        }
        assert_eq!(admission_remedy("user a is forbidden to patch services"), None);
        assert_eq!(admission_remedy("spec.ports: Invalid value"), None);
    }
}
