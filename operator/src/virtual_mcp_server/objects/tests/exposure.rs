//! Services, routes, load balancers and monitors, and who may connect.

use super::*;

#[test]
fn a_service_leads_to_the_console_only_where_the_resource_asks_for_it() {
    let service = |console: &str| {
        let spec = format!("{{serviceType: LoadBalancer, allowAnonymousExposure: true, console: {console}}}");
        built(&spec).into_iter().find(|(name, _)| name == "Service/x-console").map(|(_, object)| object)
    };
    assert_eq!(service("{}"), None);
    assert_eq!(service("{access: 'off'}"), None);
    let service = service("{access: tokens, viewerTokenSecretRefs: [{name: s, key: k}]}").expect("a Service");
    assert_eq!(service["spec"]["type"], "ClusterIP", "whatever the Service of clients is");
    assert_eq!(service["spec"]["ports"], json!([{ "name": "admin", "port": 9090, "targetPort": "admin" }]));
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP", "questions wait in one pod");
}

#[test]
fn a_load_balancer_takes_connections_from_the_given_addresses() {
    let service = "serviceType: LoadBalancer, service: {loadBalancerSourceRanges: [203.0.113.0/24], \
                   loadBalancerClass: service.k8s.aws/nlb, externalTrafficPolicy: Local}";
    let made = one(&format!("{{allowAnonymousExposure: true, {service}}}"), "Service/vmcp-x");
    assert_eq!(made["spec"]["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
    assert_eq!(made["spec"]["loadBalancerClass"], "service.k8s.aws/nlb");
    assert_eq!(made["spec"]["externalTrafficPolicy"], "Local");
    // Withheld, the Service is a ClusterIP, for which the API server refuses settings of load balancers.
    let withheld = one(&format!("{{{service}}}"), "Service/vmcp-x")["spec"].take();
    assert_eq!(withheld["type"], "ClusterIP");
    for field in ["loadBalancerSourceRanges", "loadBalancerClass", "externalTrafficPolicy"] {
        assert_eq!(withheld.get(field), None, "{field}");
    }
}

#[test]
fn policies_admit_the_tunnels_of_a_mesh_where_they_admit_the_port() {
    let ports = |rule: &Value| -> Vec<i64> {
        let ports = rule["ports"].as_array().expect("ports");
        ports.iter().map(|port| port["port"].as_i64().expect("a number")).collect()
    };
    let spec = "{networkPolicy: {ingressFrom: [{podSelector: {}}]}}";
    let ingress = one(spec, "NetworkPolicy/x-vmcp")["spec"]["ingress"].take();
    assert_eq!(ports(&ingress[0]), [4483, 15008]);
    assert_eq!(ports(&ingress[1]), [9090], "a tunnel of any namespace would lead to the port for clients");
    assert_eq!(ports(&ingress[2]), [15008]);
    let operator = &ingress[2]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(operator["app.kubernetes.io/name"], "vmcp-operator");
    let scripts = built_with_jobs("{config: {code: {engine: job}}}");
    let isolation =
        scripts.iter().find(|(name, _)| name == "NetworkPolicy/x-vmcp-scripts").expect("a policy");
    assert_eq!(ports(&isolation.1["spec"]["ingress"][0]), [4484, 15008]);
}

#[test]
fn a_monitor_relabels_and_has_a_timeout() {
    let spec = "{serviceMonitor: {interval: 1m, scrapeTimeout: 20s, relabelings: [{targetLabel: team, replacement: tools}], \
                metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: 'vmcp_client_.*'}]}}";
    let endpoint = one(spec, "ServiceMonitor/x-vmcp")["spec"]["endpoints"][0].take();
    assert_eq!((&endpoint["interval"], &endpoint["scrapeTimeout"]), (&json!("1m"), &json!("20s")));
    assert_eq!(endpoint["relabelings"], json!([{"targetLabel": "team", "replacement": "tools"}]));
    let dropped = json!([{"action": "drop", "sourceLabels": ["__name__"], "regex": "vmcp_client_.*"}]);
    assert_eq!(endpoint["metricRelabelings"], dropped);
}

#[test]
fn a_route_has_time_limits_labels_and_annotations() {
    let route =
        "parentRefs: [{name: gw}], timeouts: {request: 0s}, labels: {team: tools}, annotations: {note: a}";
    let made = one(&format!("{{allowAnonymousExposure: true, httpRoute: {{{route}}}}}"), "HTTPRoute/x-vmcp");
    assert_eq!(made["spec"]["rules"][0]["timeouts"], json!({"request": "0s"}));
    assert_eq!(
        (&made["metadata"]["labels"]["team"], &made["metadata"]["annotations"]["note"]),
        (&json!("tools"), &json!("a"))
    );
    let silent =
        one("{allowAnonymousExposure: true, httpRoute: {parentRefs: [{name: gw}]}}", "HTTPRoute/x-vmcp");
    assert_eq!(silent["spec"]["rules"][0].get("timeouts"), None, "the gateway's own");
}

#[test]
fn a_route_has_filters_and_rewrites_the_path_of_mcp_alone() {
    let rewrite = json!({
        "type": "URLRewrite",
        "urlRewrite": { "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/mcp" } },
    });
    let limit = json!({
        "type": "ExtensionRef", "extensionRef": { "group": "a.example", "kind": "Limit", "name": "n" },
    });
    let rules = |more: &str, filters: Value| {
        let route = format!("httpRoute: {{parentRefs: [{{name: gw}}], path: /team, filters: {filters}}}");
        one(&format!("{{{more}, {route}}}"), "HTTPRoute/x-vmcp")["spec"]["rules"].take()
    };
    let paths = |rule: &Value| -> Vec<String> {
        let matches = rule["matches"].as_array().expect("matches");
        matches.iter().map(|each| each["path"]["value"].as_str().expect("a path").to_owned()).collect()
    };
    let anonymous = rules("allowAnonymousExposure: true", json!([rewrite, limit]));
    assert_eq!(anonymous.as_array().map(Vec::len), Some(1));
    assert_eq!(anonymous[0]["filters"], json!([rewrite, limit]));

    // Clients read elsewhere where to get a token: under the same limit, and at the path that they ask for.
    let oidc = "incomingAuth: {type: oidc, oidcConfigRef: {name: login, audience: a}}";
    let split = rules(oidc, json!([rewrite, limit]));
    assert_eq!(paths(&split[0]), ["/team"]);
    assert_eq!(split[0]["filters"], json!([rewrite, limit]));
    assert_eq!(paths(&split[1]), ["/.well-known/oauth-protected-resource"]);
    assert_eq!(split[1]["filters"], json!([limit]));
    assert_eq!(split[1]["backendRefs"], split[0]["backendRefs"]);

    let together = rules(oidc, json!([limit]));
    assert_eq!(together.as_array().map(Vec::len), Some(1));
    assert_eq!(paths(&together[0]), ["/team", "/.well-known/oauth-protected-resource"]);
    assert_eq!(rules(oidc, json!([]))[0].get("filters"), None);
}

#[test]
fn metrics_that_want_a_token_are_scraped_with_it() {
    let spec = "{serviceMonitor: {requireToken: true}}";
    let references = References {
        generated: GeneratedValues { metrics_token: Some(b"scrape".to_vec()), ..references().generated },
        ..references()
    };
    let plan = plan(spec, &references);
    let desired = desired(&plan, &references);
    let object = |kind: ChildKind| {
        let child = desired.children.iter().find(|child| child.kind() == kind).expect("a child");
        serde_json::to_value(child.object()).expect("JSON")
    };
    let credentials = json!({"name": "x-vmcp-secrets", "key": "metrics-token"});
    assert_eq!(
        object(ChildKind::ServiceMonitor)["spec"]["endpoints"][0]["authorization"],
        json!({"type": "Bearer", "credentials": credentials})
    );
    assert_eq!(object(ChildKind::Secret)["data"]["metrics-token"], "c2NyYXBl");
    let config = object(ChildKind::ConfigMap);
    let text = config["data"]["vmcp.yaml"].as_str().expect("text");
    let config: Value = serde_saphyr::from_str(text).expect("YAML");
    assert_eq!(config["server"]["metricsTokens"], json!(["${file:/etc/vmcp/secrets/metrics-token}"]));
    let open = one("{serviceMonitor: {}}", "ServiceMonitor/x-vmcp");
    assert_eq!(open["spec"]["endpoints"][0].get("authorization"), None);
}
