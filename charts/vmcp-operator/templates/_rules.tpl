{{- /* The operator's rights, as rules of a Role or a ClusterRole. operator/tests/chart.rs compares them with operator/src/runtime/write/rights.rs, which debug builds check at every call. */}}
{{- define "vmcp-operator.rules" -}}
# Resources that people write are read, and never written but for their status. `get` tells where the mistake of a malformed one is.
- apiGroups: [toolhive.stacklok.com]
  resources: [virtualmcpservers, mcpgroups, mcpservers, mcpserverentries, mcptelemetryconfigs]
  verbs: [get, list, watch]
- apiGroups: [toolhive.stacklok.com]
  resources:
    - virtualmcpservers/status
    - mcpgroups/status
    - mcpservers/status
    - mcpserverentries/status
    - embeddingservers/status
    - mcptelemetryconfigs/status
  verbs: [patch]
# What resources are made of. `list` and `watch` notice edits by hand, `get` sees that nothing of somebody else's is adopted, `create` and `patch` are server-side
# apply, `delete` takes away what is no longer wanted. An EmbeddingServer is one of them when a VirtualMCPServer has its own; Secrets are also read because
# resources refer to them.
- apiGroups: [toolhive.stacklok.com]
  resources: [embeddingservers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts, configmaps, secrets, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# The same, of what is made only when a resource asks for it.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
# Why pods do not run; and an annotation, touched so that the kubelet syncs mounted configuration at once.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# What of that is told in events only.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
