{{- /* A Service has it, so that it begins with a letter and has no dot: Helm takes other names of releases. */}}
{{- define "vmcp-operator.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else }}
{{- $name := .Values.nameOverride | default .Release.Name | replace "." "-" | trimSuffix "operator" | trimSuffix "-" | trunc 40 | trimSuffix "-" | default "vmcp" }}
{{- if regexMatch "^[0-9]" $name }}vmcp-{{ end }}{{ $name }}-operator
{{- end }}
{{- end }}

{{- define "vmcp-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "vmcp-operator.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "vmcp-operator.selector" -}}
app.kubernetes.io/name: vmcp-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "vmcp-operator.labels" -}}
{{ include "vmcp-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The API groups of our kinds, as a list of YAML. */}}
{{- define "vmcp-operator.groups" -}}
[toolhive.stacklok.com{{ if .Values.toolhiveGroup.enabled }}, toolhive.stacklok.dev{{ end }}]
{{- end }}

{{- /* In CEL: the caller is a server whose clients may add servers. A mark tells it; an account with wider rights is a person's. */}}
{{- define "vmcp-operator.isServerAdmin" -}}
request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':') && request.userInfo.username.endsWith('-vmcp') && authorizer.group('toolhive.stacklok.com').resource('addedservers').namespace(request.namespace).check('manage').allowed() && !authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
{{- end }}

{{- define "vmcp-operator.podSecurityContext" -}}
{{- $user := ternary dict (dict "runAsUser" 65532 "runAsGroup" 65532) .Values.openshift }}
{{- $pod := merge $user (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) }}
{{- toYaml (merge (deepCopy .Values.podSecurityContext) $pod) }}
{{- end }}

{{- define "vmcp-operator.securityContext" -}}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- toYaml (merge (deepCopy .Values.securityContext) $container) }}
{{- end }}

{{- /* An image without a tag is that of the release. A digest goes where the tag does: `sha256:…`. */}}
{{- define "vmcp-operator.image" -}}
{{- $tag := .image.tag | default .Chart.AppVersion -}}
{{ with .registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .image.repository }}{{ if hasPrefix "sha256:" $tag }}@{{ else }}:{{ end }}{{ $tag }}
{{- end }}

{{- /* Resources of our own kinds: when the first release is made the API server does not know them yet, so they cannot be part of it. A hook makes them once; from then
on they belong to whoever edits them. Called with the context, kind and name; empty when there is such a resource already. */}}
{{- define "vmcp-operator.is-there" -}}
{{- $group := "toolhive.stacklok.com/v1alpha1" }}
{{- if .context.Capabilities.APIVersions.Has (printf "%s/%s" $group .kind) }}
{{- if lookup $group .kind .context.Release.Namespace .name }}yes{{ end }}
{{- end }}
{{- end }}
