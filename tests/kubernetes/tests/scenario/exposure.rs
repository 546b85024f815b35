//! The Service for clients and what leads to it, on a real API server.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Operator, Programs, skipped};

use super::backends::{apply, assert_writes_nothing, await_condition, place};
use super::packaging::define_foreign;
use super::stand_in::StandIn;

/// The API server refuses settings of a load balancer at any other Service.
#[tokio::test]
async fn a_load_balancer_takes_connections_from_the_given_addresses_alone() {
    let (place, operator) = place("balancer").await;
    let spec = "{serviceType: LoadBalancer, service: {loadBalancerSourceRanges: [203.0.113.0/24], \
                loadBalancerClass: example.com/internal, externalTrafficPolicy: Local}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    // Withheld until the exposure is allowed; everything else is in force.
    await_condition::<VirtualMCPServer>(&place, "x", "ExposureAllowed", "False", "AnonymousExposure").await;
    let service = async || place.json("service/vmcp-x").await["spec"].take();
    assert_eq!(service().await["type"], "ClusterIP");

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "allowAnonymousExposure": true } })).await;
    let made = place
        .eventually("the load balancer", async || {
            let made = service().await;
            (made["type"] == "LoadBalancer").then_some(made)
        })
        .await;
    assert_eq!(made["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
    assert_eq!(made["loadBalancerClass"], "example.com/internal");
    assert_eq!(made["externalTrafficPolicy"], "Local");
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    // Back inside: the fields go with the type.
    place
        .edit::<VirtualMCPServer>("x", json!({ "spec": { "serviceType": "ClusterIP", "service": null } }))
        .await;
    place
        .eventually("a Service inside of the cluster", async || {
            let made = service().await;
            let gone = ["loadBalancerSourceRanges", "loadBalancerClass", "externalTrafficPolicy"]
                .iter()
                .all(|field| made.get(*field).is_none());
            (made["type"] == "ClusterIP" && gone).then_some(())
        })
        .await;

    let refused = place
        .try_apply(
            "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: other}, \
             spec: {service: {loadBalancerSourceRanges: [10.0.0.0/8]}}}",
        )
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("set serviceType: LoadBalancer, or remove them"), "{refused}");
    place.remove().await;
}

/// An annotation may keep a load balancer inside of the cloud. Its removal waits until the pods ask for the
/// keys of the same edit, also over a restart of the operator.
#[tokio::test]
async fn annotations_of_an_exposed_service_wait_for_the_identity() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let place = ControlPlane::shared().await.namespace("annotated").await;
    let variables = [("LEADER_ELECT", "false")];
    let operator = Operator::with(&place, "one", &variables).await;
    place
        .apply("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: 0123456789abcdefghij}}")
        .await;
    let spec = "{allowAnonymousExposure: true, serviceType: LoadBalancer, \
                resourceOverrides: {service: {annotations: {scheme: internal}}}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let text = async || place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml");
    let in_force = |text: &str| {
        let digest = vmcp_config::status::digest(text);
        stand_in.set_report(json!({ "configuration": { "digest": digest } }));
    };
    let before = place.eventually("the configuration", async || text().await).await;
    in_force(&before);
    let is_internal = async || {
        let service = place.json("service/vmcp-x").await;
        let scheme = service["metadata"]["annotations"].get("scheme").cloned();
        (service["spec"]["type"] == "LoadBalancer").then_some(scheme == Some(json!("internal")))
    };
    let was_internal = place.eventually("the load balancer", async || is_internal().await).await;
    assert!(was_internal);
    // The Service is written before the status: until then the condition is that of the first wait.
    let (kind, reason) = ("ExposureAllowed", "WaitsForConfiguration");
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", kind).await;

    let keys = json!([{ "subject": "a", "secretKeyRef": { "name": "s", "key": "k" } }]);
    let edit = json!({ "spec": {
        "allowAnonymousExposure": null, "resourceOverrides": null,
        "incomingAuth": { "type": "apiKeys", "apiKeys": keys },
    } });
    place.edit::<VirtualMCPServer>("x", edit).await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", kind, "False", reason).await;
    assert!(message.contains("spec.resourceOverrides.service"), "{message}");
    assert_eq!(is_internal().await, Some(true));

    drop(operator);
    let operator = Operator::with(&place, "two", &variables).await;
    let looked = async || (operator.reconciles("VirtualMCPServer").await > 0).then_some(());
    place.eventually("a look of the new operator", looked).await;
    assert_eq!(is_internal().await, Some(true));

    let changed = async || text().await.filter(|text| *text != before);
    let after = place.eventually("the configuration with keys", changed).await;
    in_force(&after);
    let gone = async || is_internal().await.filter(|internal| !internal);
    place.eventually("the annotation to go", gone).await;
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", kind).await;
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    place.remove().await;
}

#[tokio::test]
async fn routes_autoscalers_and_monitors_are_made_as_they_are_asked_for() {
    // Kinds of other projects are defined for the whole cluster, so it must not be the shared one.
    let cluster = ControlPlane::start_without_controllers().await;
    define_foreign(&cluster).await;
    let place = cluster.namespace("settings").await;
    let variables =
        [("LEADER_ELECT", "false"), ("ENABLE_HTTP_ROUTES", "true"), ("ENABLE_SERVICE_MONITORS", "true")];
    let operator = Operator::with(&place, "one", &variables).await;
    let spec = "{allowAnonymousExposure: true, \
        httpRoute: {parentRefs: [{name: gw}], timeouts: {request: 0s}, annotations: {note: a}, labels: {team: b}, \
            filters: [{type: ExtensionRef, extensionRef: {group: a.example, kind: Limit, name: limit}}]}, \
        autoscaling: {maxReplicas: 5, behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}}, \
        serviceMonitor: {interval: 30s, scrapeTimeout: 10s, relabelings: [{targetLabel: c, replacement: d}]}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    let route = place
        .eventually("the route", async || {
            let route = place.json("httproutes/x-vmcp").await;
            route.is_object().then_some(route)
        })
        .await;
    assert_eq!(route["spec"]["rules"][0]["timeouts"], json!({ "request": "0s" }));
    assert_eq!(route["spec"]["rules"][0]["filters"][0]["extensionRef"]["kind"], "Limit");
    assert_eq!(route["metadata"]["annotations"]["note"], "a");
    assert_eq!(route["metadata"]["labels"]["team"], "b");
    // The API server adds defaults beside the fields that are asked for: not a drift.
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    let scaler = place.json("hpa/x-vmcp").await;
    assert_eq!(scaler["spec"]["behavior"]["scaleDown"]["policies"][0]["periodSeconds"], 60);
    let monitor = place.json("servicemonitors/x-vmcp").await["spec"]["endpoints"][0].take();
    assert_eq!(monitor["scrapeTimeout"], "10s");
    assert_eq!(monitor["relabelings"], json!([{ "targetLabel": "c", "replacement": "d" }]));

    let refused = "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: other}, \
                   spec: {serviceMonitor: {interval: 10s, scrapeTimeout: 1m}}}";
    let refused = place.try_apply(refused).await.unwrap_err().to_string();
    assert!(refused.contains("scrapeTimeout is longer than interval"), "{refused}");

    apply(
        &place,
        "VirtualMCPServer",
        "x",
        "{allowAnonymousExposure: true, httpRoute: {parentRefs: [{name: gw}]}}",
    )
    .await;
    place
        .eventually("the settings to go", async || {
            let route = place.json("httproutes/x-vmcp").await;
            let gone = ["/spec/rules/0/timeouts", "/spec/rules/0/filters"]
                .iter()
                .all(|field| route.pointer(field).is_none())
                && route["metadata"]["annotations"].get("note").is_none();
            (gone && place.json("hpa/x-vmcp").await.is_null()).then_some(())
        })
        .await;

    // A route leads traffic for as long as it exists, so it goes with the feature.
    drop(operator);
    let _operator = Operator::with(&place, "two", &[("LEADER_ELECT", "false")]).await;
    place
        .eventually("the route to go with the feature", async || {
            place.json("httproutes/x-vmcp").await.is_null().then_some(())
        })
        .await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "True", "ApiMissing").await;
    assert!(message.contains("deletes those that it made before"), "{message}");
}

/// The definition of HTTPRoutes is that of the Gateway API, with rules of its own.
#[tokio::test]
async fn a_route_with_filters_is_one_that_the_gateway_api_takes() {
    let found = tokio::task::spawn_blocking(Programs::gateway_api).await.expect("looking for the definition");
    let Some(definitions) = found else {
        skipped("the definitions of the Gateway API are in a Go module, and there is no go");
        return;
    };
    let cluster = ControlPlane::start_without_controllers().await;
    let definition = std::fs::read_to_string(definitions.path("httproutes.yaml")).expect("the definition");
    cluster.apply(&definition, "").await.expect("applied");
    cluster.await_definitions().await;
    let place = cluster.namespace("filters").await;
    let variables = [("LEADER_ELECT", "false"), ("ENABLE_HTTP_ROUTES", "true")];
    let operator = Operator::with(&place, "one", &variables).await;

    let login = "{type: inline, inline: {issuer: 'https://login.example.com'}}";
    apply(&place, "MCPOIDCConfig", "login", login).await;
    let filters = json!([
        { "type": "URLRewrite", "urlRewrite": { "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/mcp" } } },
        {
            "type": "RequestHeaderModifier",
            "requestHeaderModifier": {
                "set": [{ "name": "X-Tenant", "value": "team one" }],
                "add": [{ "name": "X-Via", "value": "a" }],
                "remove": ["X-Debug"],
            },
        },
        {
            "type": "ResponseHeaderModifier",
            "responseHeaderModifier": { "set": [{ "name": "Strict-Transport-Security", "value": "max-age=1" }] },
        },
        { "type": "ExtensionRef", "extensionRef": { "group": "a.example", "kind": "Limit", "name": "n" } },
        { "type": "ExtensionRef", "extensionRef": { "group": "", "kind": "ConfigMap", "name": "n" } },
    ]);
    let spec = |filters: &Value| {
        json!({
            "incomingAuth": {
                "type": "oidc",
                "oidcConfigRef": { "name": "login", "audience": "a", "resourceUrl": "https://a.example/team/mcp" },
            },
            "httpRoute": { "parentRefs": [{ "name": "gw" }], "path": "/team/mcp", "filters": filters },
        })
    };
    apply(&place, "VirtualMCPServer", "x", &spec(&filters).to_string()).await;
    let rules = place
        .eventually("the route", async || {
            let mut route = place.json("httproutes/x-vmcp").await;
            route.is_object().then(|| route["spec"]["rules"].take())
        })
        .await;
    assert_eq!(rules[0]["filters"], filters);
    assert_eq!(rules[0]["matches"], json!([{ "path": { "type": "PathPrefix", "value": "/team/mcp" } }]));
    // Where clients learn where to get a token, the path stays.
    assert_eq!(rules[1]["filters"].as_array(), filters.as_array().map(|all| all[1..].to_vec()).as_ref());
    assert_eq!(rules[1]["matches"][0]["path"]["value"], "/.well-known/oauth-protected-resource");
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    // Limits are those of the Gateway API, so that nothing is refused later than here.
    let extension = &filters[4];
    let headers: Vec<_> = (0..17).map(|n| json!({ "name": format!("X-{n}"), "value": "a" })).collect();
    for (filters, says) in [
        (json!(vec![extension; 17]), "spec.httpRoute.filters"),
        (
            json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": headers } }]),
            "spec.httpRoute.filters[0].requestHeaderModifier.set",
        ),
        (
            json!([{ "type": "RequestMirror", "requestMirror": { "backendRef": { "name": "s" } } }]),
            "every call twice",
        ),
    ] {
        let refused = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer", "metadata": { "name": "other" },
            "spec": spec(&filters),
        });
        let refused = place.try_apply(&refused.to_string()).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}
