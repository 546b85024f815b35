{{- /* What the operator may do, as rules of a Role or a ClusterRole. `get` is asked before a write, `list` and `watch` find edits by hand, `create` and `patch`
are server-side apply, `delete` takes away what is no longer wanted. */}}
{{- define "vmcp-operator.rules" -}}
# Reads resources and writes what they have become; never edits what a person wrote.
- apiGroups: [toolhive.stacklok.com]
  resources: [virtualmcpservers, mcpgroups, mcpservers, mcpserverentries, embeddingservers, mcptelemetryconfigs]
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
# An owner reference that blocks deletion needs this where the API server enforces it.
- apiGroups: [toolhive.stacklok.com]
  resources: [virtualmcpservers/finalizers, mcpservers/finalizers, embeddingservers/finalizers]
  verbs: [update]
# What a resource is made of. Secrets are also read: those that resources refer to.
- apiGroups: [""]
  resources: [services, serviceaccounts, configmaps, secrets, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# Only when a resource asks for them.
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
# Asks the pods for their state, and touches an annotation so that the kubelet syncs mounted configuration at once.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
