{{- /* Written by `make schema` from operator/src/runtime/author_rights/table.rs. */}}
{{- define "vmcp-operator.authorKinds" -}}
[embeddingservers, mcpexternalauthconfigs, mcpoidcconfigs, mcpregistries, mcpremoteproxies, mcpservers, mcpserverentries, mcptelemetryconfigs, mcpwebhookconfigs, virtualmcpservers]
{{- end }}
{{- define "vmcp-operator.authorRights" -}}
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer', 'MCPServer', 'MCPRegistry']) ||
    authorizer.group('apps').resource('deployments').namespace(request.namespace).check('create').allowed()
  message: a resource of the kind VirtualMCPServer or MCPServer or MCPRegistry runs pods, which may mount every Secret, use every image pull secret and run as every ServiceAccount of the namespace; this takes the right to create Deployments in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['EmbeddingServer']) ||
    authorizer.group('apps').resource('statefulsets').namespace(request.namespace).check('create').allowed()
  message: a resource of the kind EmbeddingServer runs pods, which may mount every Secret of the namespace; this takes the right to create StatefulSets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?optimizer.?embeddings.?tei.?managed.hasValue()) ||
    authorizer.group('apps').resource('statefulsets').namespace(request.namespace).check('create').allowed()
  message: spec.optimizer.embeddings.tei.managed runs the pods of an EmbeddingServer; this takes the right to create StatefulSets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?optimizer.?storage.?volume.hasValue()) ||
    authorizer.group('apps').resource('statefulsets').namespace(request.namespace).check('create').allowed()
  message: spec.optimizer.storage.volume runs its pods as those of a StatefulSet, which makes PersistentVolumeClaims; this takes the right to create StatefulSets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?serviceType.orValue('ClusterIP') != 'ClusterIP') ||
    authorizer.group('').resource('services').namespace(request.namespace).check('create').allowed()
  message: spec.serviceType makes a Service that leads out of the cluster; this takes the right to create Services in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer', 'MCPServer', 'EmbeddingServer']) ||
    !(object.spec.?resourceOverrides.?service.hasValue() || object.spec.?resourceOverrides.?proxyService.hasValue() || object.spec.?optimizer.?embeddings.?tei.?managed.?resourceOverrides.?service.hasValue()) ||
    authorizer.group('').resource('services').namespace(request.namespace).check('create').allowed()
  message: spec.resourceOverrides.service annotates a Service; this takes the right to create Services in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?resourceOverrides.?serviceAccount.hasValue()) ||
    authorizer.group('').resource('serviceaccounts').namespace(request.namespace).check('create').allowed()
  message: spec.resourceOverrides.serviceAccount annotates a ServiceAccount; this takes the right to create ServiceAccounts in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?httpRoute.hasValue()) ||
    authorizer.group('gateway.networking.k8s.io').resource('httproutes').namespace(request.namespace).check('create').allowed()
  message: spec.httpRoute makes an HTTPRoute; this takes the right to create HTTPRoutes in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?serviceMonitor.hasValue()) ||
    authorizer.group('monitoring.coreos.com').resource('servicemonitors').namespace(request.namespace).check('create').allowed()
  message: spec.serviceMonitor makes a ServiceMonitor; this takes the right to create ServiceMonitors in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?autoscaling.hasValue()) ||
    authorizer.group('autoscaling').resource('horizontalpodautoscalers').namespace(request.namespace).check('create').allowed()
  message: spec.autoscaling makes a HorizontalPodAutoscaler; this takes the right to create HorizontalPodAutoscalers in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?podDisruptionBudget.hasValue()) ||
    authorizer.group('policy').resource('poddisruptionbudgets').namespace(request.namespace).check('create').allowed()
  message: spec.podDisruptionBudget makes a PodDisruptionBudget, which can hold up drains of nodes; this takes the right to create PodDisruptionBudgets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?networkPolicy.hasValue()) ||
    authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace).check('create').allowed()
  message: spec.networkPolicy makes a NetworkPolicy, which opens what other policies close; this takes the right to create NetworkPolicies in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?console.?operatorTokenSecretRefs.hasValue() || object.spec.?console.?viewerTokenSecretRefs.hasValue() || object.spec.?console.?signIn.?clientSecretRef.hasValue()) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.console.operatorTokenSecretRefs takes values of Secrets as tokens of its console, or sends one to the provider that is named here; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?backends.orValue([]).exists(item, has(item.externalAuthConfigRef))) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: externalAuthConfigRef of an entry of spec.backends sends the credentials of a configuration to the URL of a server that is named here; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?config.?code.?engine.orValue('') == 'job') ||
    authorizer.group('batch').resource('jobs').namespace(request.namespace).check('create').allowed()
  message: spec.config.code.engine has Jobs run an image of its author's choice, and lets its pods make them; this takes the right to create Jobs in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?config.?code.?engine.orValue('') == 'job') ||
    authorizer.group('').resource('pods').namespace(request.namespace).check('list').allowed()
  message: spec.config.code.engine lets its pods list the pods of the namespace; this takes the right to list Pods in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?optimizer.?tools.orValue([]).exists(word, word in ['add_mcp_server', 'remove_mcp_server', 'enable_mcp_server', 'disable_mcp_server', 'install_server'])) ||
    authorizer.group(request.kind.group).resource('mcpserverentries').namespace(request.namespace).check('create').allowed()
  message: spec.optimizer.tools lets its clients add, switch and remove MCPServerEntries; this takes the right to create MCPServerEntries in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?optimizer.?tools.orValue([]).exists(word, word in ['add_mcp_server', 'remove_mcp_server', 'enable_mcp_server', 'disable_mcp_server', 'install_server'])) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('create').allowed()
  message: spec.optimizer.tools lets its pods make the Secrets of such servers; this takes the right to create Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['VirtualMCPServer']) ||
    !(object.spec.?optimizer.?admin.?allow.orValue([]).exists(item, has(item.image))) ||
    authorizer.group(request.kind.group).resource('mcpservers').namespace(request.namespace).check('create').allowed()
  message: image of an entry of spec.optimizer.admin.allow lets its clients run programs, as MCPServers; this takes the right to create MCPServers in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPServer']) ||
    !(object.spec.?networkPolicy.?ingressFrom.hasValue()) ||
    authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace).check('create').allowed()
  message: spec.networkPolicy.ingressFrom adds callers to a NetworkPolicy, which opens what other policies close; this takes the right to create NetworkPolicies in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPServer']) ||
    !(object.spec.?permissionProfile.?type.orValue('') == 'configmap') ||
    authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace).check('create').allowed()
  message: spec.permissionProfile.type adds outgoing connections to a NetworkPolicy, which opens what other policies close; this takes the right to create NetworkPolicies in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['ReferenceGrant']) ||
    !(object.spec.?from.orValue([]).exists(item, item.?kind.orValue('') == 'VirtualMCPServer')) ||
    authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace).check('create').allowed()
  message: an entry of spec.from with kind VirtualMCPServer adds VirtualMCPServers of another namespace to NetworkPolicies of MCPServers, which opens what other policies close; this takes the right to create NetworkPolicies in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPServerEntry', 'MCPRemoteProxy']) ||
    !(object.spec.?headerForward.?addHeadersFromSecret.hasValue()) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.headerForward.addHeadersFromSecret sends values of Secrets to the URL of the server; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPServerEntry', 'MCPRemoteProxy']) ||
    !(object.spec.?externalAuthConfigRef.hasValue()) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.externalAuthConfigRef sends the credentials of a configuration to the URL of the server; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPExternalAuthConfig']) ||
    !(object.spec.?type.orValue('unauthenticated') != 'unauthenticated') ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.type sends values of Secrets to the URLs that are named here, and to every server that refers to it; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPOIDCConfig']) ||
    !(object.spec.?inline.?clientSecretRef.hasValue()) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.inline.clientSecretRef sends the value of a Secret to the introspection endpoint that is named here; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPTelemetryConfig']) ||
    !(object.spec.?openTelemetry.?sensitiveHeaders.hasValue()) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: spec.openTelemetry.sensitiveHeaders sends values of Secrets to the collector that is named here; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPWebhookConfig']) ||
    !(object.spec.?mutating.orValue([]).exists(item, has(item.hmacSecretRef)) || object.spec.?validating.orValue([]).exists(item, has(item.hmacSecretRef)) || object.spec.?post.orValue([]).exists(item, has(item.hmacSecretRef))) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: hmacSecretRef of an entry of spec.mutating, spec.validating, spec.post signs messages to the URL that is named here with the value of a Secret; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPWebhookConfig']) ||
    !(object.spec.?mutating.orValue([]).exists(item, has(item.tlsConfig)) || object.spec.?validating.orValue([]).exists(item, has(item.tlsConfig)) || object.spec.?post.orValue([]).exists(item, has(item.tlsConfig))) ||
    authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()
  message: tlsConfig of an entry of spec.mutating, spec.validating, spec.post has pods mount Secrets, and prove themselves by one to the URL that is named here; this takes the right to get Secrets in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPServerEntry', 'MCPRemoteProxy']) ||
    !(object.spec.?caBundleRef.hasValue()) ||
    authorizer.group('').resource('configmaps').namespace(request.namespace).check('get').allowed()
  message: spec.caBundleRef has pods mount a ConfigMap; this takes the right to get ConfigMaps in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPOIDCConfig']) ||
    !(object.spec.?inline.?caBundleRef.hasValue()) ||
    authorizer.group('').resource('configmaps').namespace(request.namespace).check('get').allowed()
  message: spec.inline.caBundleRef has pods mount a ConfigMap; this takes the right to get ConfigMaps in the namespace
  reason: Forbidden
- expression: >-
    !(request.kind.kind in ['MCPTelemetryConfig']) ||
    !(object.spec.?openTelemetry.?caBundleRef.hasValue()) ||
    authorizer.group('').resource('configmaps').namespace(request.namespace).check('get').allowed()
  message: spec.openTelemetry.caBundleRef has pods mount a ConfigMap; this takes the right to get ConfigMaps in the namespace
  reason: Forbidden
{{- end }}
