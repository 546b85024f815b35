{{- /* The operator's rights, as rules of a Role or a ClusterRole. operator/tests/chart.rs compares them with operator/src/runtime/write/rights.rs, which debug builds check at every call. */}}
{{- define "vmcp-operator.rules" -}}
# Resources that people write are read, and never written but for their status. `get` tells where the mistake of a malformed one is.
- apiGroups: [toolhive.stacklok.com]
  resources: [virtualmcpservers, mcpgroups, mcpservers, mcpregistries, mcpserverentries, mcpremoteproxies, mcptelemetryconfigs, mcpauthzconfigs, mcpoidcconfigs, mcpexternalauthconfigs, mcptoolconfigs, mcpwebhookconfigs, virtualmcpcompositetooldefinitions]
  verbs: [get, list, watch]
- apiGroups: [toolhive.stacklok.com]
  resources:
    - virtualmcpservers/status
    - mcpgroups/status
    - mcpservers/status
    - mcpregistries/status
    - mcpserverentries/status
    - mcpremoteproxies/status
    - embeddingservers/status
    - mcpexternalauthconfigs/status
    - mcptelemetryconfigs/status
    - mcpauthzconfigs/status
    - mcpoidcconfigs/status
    - mcptoolconfigs/status
    - mcpwebhookconfigs/status
    - virtualmcpcompositetooldefinitions/status
  verbs: [patch]
# By which other namespaces let VirtualMCPServers refer to their servers. Watched where the Gateway API is installed.
- apiGroups: [gateway.networking.k8s.io]
  resources: [referencegrants]
  verbs: [list, watch]
# Children of the resources. `list` and `watch` notice edits by hand, `get` makes sure that no foreign object is adopted, `create` and `patch` are server-side
# apply, `delete` removes children that are no longer desired. An EmbeddingServer is one if a VirtualMCPServer manages it; Secrets are also read because
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
# Children that exist only if a resource asks for them.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Objects of features that were switched off (`httpRoutes.enabled`, `serviceMonitors.enabled`) are deleted.
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors]
  verbs: [list, watch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [list, watch, delete]
# Pods tell why they do not run; a changed annotation makes the kubelet sync mounted configuration at once.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# Causes that stand in events only.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- /* Rights that are granted only if the values ask for them: with each, whoever may write a VirtualMCPServer has such objects made. */}}
{{- define "vmcp-operator.rules.serviceMonitors" -}}
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- define "vmcp-operator.rules.httpRoutes" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- define "vmcp-operator.rules.scriptJobs" -}}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, roles]
  resourceNames: ['{{ include "vmcp-operator.name" . }}-script-jobs']
  verbs: [bind]
{{- end }}
{{- /* The rights of a server whose scripts run as Jobs, in its own namespace. `run` of `scriptjobs` is a mark, by which an admission policy knows such a server. */}}
{{- define "vmcp-operator.scriptJobs" -}}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete]
- apiGroups: [""]
  resources: [pods, events]
  verbs: [list]
- apiGroups: [toolhive.stacklok.com]
  resources: [scriptjobs]
  verbs: [run]
{{- end }}
{{- define "vmcp-operator.rules.serverAdmin" -}}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, roles]
  resourceNames: ['{{ include "vmcp-operator.name" . }}-server-admin', '{{ include "vmcp-operator.name" . }}-server-admin-programs']
  verbs: [bind]
{{- end }}
{{- /* The rights of a server whose clients may add servers, in its own namespace. It makes Secrets and reads none; the owner of a Secret ends it. `manage` of `addedservers` is a mark, by which an admission policy knows such a server. */}}
{{- define "vmcp-operator.serverAdmin" -}}
- apiGroups: [toolhive.stacklok.com]
  resources: [mcpserverentries]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [toolhive.stacklok.com]
  resources: [addedservers]
  verbs: [manage]
{{- end }}
{{- /* The further rights where clients may add programs. */}}
{{- define "vmcp-operator.serverAdminPrograms" -}}
- apiGroups: [toolhive.stacklok.com]
  resources: [mcpservers]
  verbs: [get, create, patch, delete]
{{- end }}
{{- define "vmcp-operator.rules.all" -}}
{{ include "vmcp-operator.rules" . | replace "[toolhive.stacklok.com]" (include "vmcp-operator.groups" .) }}
{{- if .Values.serviceMonitors.enabled }}
{{ include "vmcp-operator.rules.serviceMonitors" . }}
{{- end }}
{{- if .Values.scriptJobs.enabled }}
{{ include "vmcp-operator.rules.scriptJobs" . }}
{{- end }}
{{- if .Values.serverAdmin.enabled }}
{{ include "vmcp-operator.rules.serverAdmin" . }}
{{- end }}
{{- if .Values.httpRoutes.enabled }}
{{ include "vmcp-operator.rules.httpRoutes" . }}
{{- end }}
{{- end }}
