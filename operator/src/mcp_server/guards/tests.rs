use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_crds::MCPServer;
use vmcp_crds::lower::{ClusterIssuer, PolicyCheck};

use super::super::backend;
use super::super::controller::plan;
use super::super::dereference::{GuardReferences, References};
use crate::references::{CaBundle, ReferencedSecrets};
use crate::runtime::{BuildSettings, ChildKind, ClusterIssuerState, Desired};
use crate::workload::spec_refusal::SpecRefusal;

const HTTP: &str = "{image: 'x:1', transport: streamable-http, mcpPort: 3000, path: /v1/mcp, oidcConfigRef: \
                    {name: idp, audience: time}}";
const STDIO: &str = "{image: 'node:24', command: [npx], oidcConfigRef: {name: idp, audience: time}}";

fn server(spec: &str) -> MCPServer {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServer",
        "metadata": { "name": "time", "namespace": "tools", "generation": 2 }, "spec": spec,
    }))
    .unwrap()
}

fn object<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> Arc<K> {
    let object = json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": kind,
        "metadata": { "name": name, "namespace": "tools" }, "spec": spec,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// Returns references with an identity provider that has this inline configuration.
fn references(inline: &Value) -> References {
    let oidc = object("MCPOIDCConfig", "idp", &json!({ "type": "inline", "inline": inline }));
    References {
        bridge_token: b"a token".to_vec(),
        session_key: b"a key".to_vec(),
        guards: GuardReferences { oidc: Some(oidc), ..GuardReferences::default() },
        ..References::default()
    }
}

fn issuer() -> Value {
    json!({ "issuer": "https://idp.example" })
}

fn planned(spec: &str, references: &References) -> Result<Desired, SpecRefusal> {
    let settings = BuildSettings { bridge_image: "vmcp:1".to_owned(), ..BuildSettings::default() };
    plan(&server(spec), references, PolicyCheck::default(), &settings)
}

fn child(desired: &Desired, kind: ChildKind) -> Value {
    let child = desired.children.iter().find(|child| child.kind() == kind).unwrap();
    serde_json::to_value(child.object()).unwrap()
}

fn refused(spec: &str, references: &References) -> String {
    planned(spec, references).unwrap_err().to_string()
}

#[test]
fn a_bridge_stands_before_a_guarded_http_server() {
    let desired = planned(HTTP, &references(&issuer())).unwrap();
    let deployment = child(&desired, ChildKind::Deployment);
    let pod = &deployment["spec"]["template"]["spec"];
    let (own, bridge) = (&pod["containers"][0], &pod["containers"][1]);
    assert_eq!(own["ports"], json!([{ "containerPort": 3000, "name": "server" }]));
    assert_eq!(own["readinessProbe"]["tcpSocket"]["port"], "server");
    assert_eq!((&bridge["name"], &bridge["image"]), (&json!("bridge"), &json!("vmcp:1")));
    let args = "bridge --listen [::]:4483 --admin-listen [::]:9090 --admin-token-file /bridge-admin/admin-token \
                --shutdown-delay 5s --guards /bridge-guards/guards.yaml --name time --url http://127.0.0.1:3000/v1/mcp";
    assert_eq!(bridge["args"], json!(args.split(' ').collect::<Vec<_>>()));
    assert_eq!(bridge["ports"][0], json!({ "containerPort": 4483, "name": "http" }));
    // The program sees nothing of the values that the guards refer to.
    assert!(own.get("volumeMounts").is_none());
    let policy = child(&desired, ChildKind::NetworkPolicy);
    assert_eq!(
        policy["spec"]["ingress"][0]["ports"],
        json!([{ "port": 4483, "protocol": "TCP" }]),
        "no caller reaches the server's own port, also by a tunnel of a mesh"
    );
    let service = child(&desired, ChildKind::Service);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "http");
    assert_eq!(service["spec"]["selector"]["toolhive.stacklok.com/guarded"], "true");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["toolhive.stacklok.com/guarded"], "true");
    assert!(deployment["spec"]["selector"]["matchLabels"].get("toolhive.stacklok.com/guarded").is_none());
    let backend = backend(&server(HTTP), "cluster.local");
    assert_eq!(backend.url, "http://mcp-time.tools.svc.cluster.local:8080/mcp");
    let sse = HTTP.replace("streamable-http", "sse").replace(", path: /v1/mcp", "");
    let sse = child(&planned(&sse, &references(&issuer())).unwrap(), ChildKind::Deployment);
    let args = sse["spec"]["template"]["spec"]["containers"][1]["args"].to_string();
    assert!(args.contains(r#""--url","http://127.0.0.1:3000/sse","--transport","sse""#), "{args}");
}

#[test]
fn the_bridge_of_a_stdio_server_reads_guards_and_their_values() {
    let inline = json!({
        "issuer": "https://idp.example", "introspectionUrl": "https://idp.example/t", "clientId": "c",
        "clientSecretRef": { "name": "idp", "key": "secret" },
    });
    let without = references(&inline);
    assert!(refused(STDIO, &without).contains("kubectl create secret generic idp"));
    let with = |value: &str| References {
        secrets: ReferencedSecrets::from_values(&[("idp", "secret", value)]),
        ..references(&json!({
            "issuer": "https://idp.example", "introspectionUrl": "https://idp.example/t", "clientId": "c",
            "clientSecretRef": { "name": "idp", "key": "secret" },
        }))
    };
    let desired = planned(STDIO, &with("hunter2-and-more")).unwrap();
    let map = child(&desired, ChildKind::ConfigMap);
    let text = map["data"]["guards.yaml"].as_str().unwrap();
    assert!(text.contains("idp.example") && !text.contains("hunter2"), "{text}");
    let secret = child(&desired, ChildKind::Secret);
    let keys: Vec<_> = secret["data"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["admin-token", "idp_secret", "session-key"]);
    let deployment = child(&desired, ChildKind::Deployment);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let command = container["command"].to_string();
    assert!(command.contains(r#""--guards","/bridge-guards/guards.yaml""#), "{command}");
    let mounts: Vec<_> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["mountPath"].clone())
        .collect();
    assert_eq!(mounts, ["/bridge", "/bridge-admin", "/etc/vmcp/secrets", "/bridge-guards"]);
    let digest = |desired: &Desired| {
        let annotations =
            &child(desired, ChildKind::Deployment)["spec"]["template"]["metadata"]["annotations"];
        annotations["toolhive.stacklok.com/guards"].as_str().unwrap().to_owned()
    };
    let rotated = planned(STDIO, &with("hunter3-and-more")).unwrap();
    assert_ne!(digest(&desired), digest(&rotated), "pods are replaced, so that a rollout means in force");
}

#[test]
fn a_guard_that_leads_nowhere_or_past_which_calls_could_go_refuses_the_server() {
    let nothing = References { bridge_token: b"t".to_vec(), ..References::default() };
    for (spec, references, expected) in [
        (HTTP.to_owned(), &nothing, "spec.oidcConfigRef: there is no MCPOIDCConfig idp"),
        (
            "{image: i, command: [a], telemetryConfigRef: {name: otel}}".to_owned(),
            &nothing,
            "spec.telemetryConfigRef: there is no MCPTelemetryConfig otel",
        ),
        (
            "{image: i, command: [a], authServerRef: {name: as}}".to_owned(),
            &nothing,
            "spec.authServerRef: there is no MCPExternalAuthConfig as",
        ),
        (
            "{image: i, command: [a], authzConfigRef: {name: p}}".to_owned(),
            &nothing,
            "spec.authzConfigRef: there is no MCPAuthzConfig p",
        ),
        (
            HTTP.replace("mcpPort: 3000", "mcpPort: 9090"),
            &references(&issuer()),
            "spec.mcpPort: 9090 is a port of the bridge",
        ),
        (
            HTTP.replace("mcpPort: 3000", "mcpPort: 15008"),
            &references(&issuer()),
            "spec.mcpPort: 15008 is the port of a service mesh's tunnels",
        ),
        (
            HTTP.replace("mcpPort", "networkPolicy: {enabled: false}, mcpPort"),
            &references(&issuer()),
            "spec.networkPolicy.enabled: without a NetworkPolicy, every pod could call the server's own port",
        ),
        (
            STDIO.replace("command", "permissionProfile: {type: builtin, name: none}, command"),
            &references(&issuer()),
            "spec.permissionProfile: closes the pod, so that the bridge could not ask for the keys",
        ),
        (
            "{image: i, command: [a], permissionProfile: {type: builtin, name: none}, rateLimiting: {shared: \
             {maxTokens: 5, refillPeriod: 1m}}, sessionStorage: {provider: redis, address: 'r:6379'}}"
                .to_owned(),
            &references(&issuer()),
            "spec.permissionProfile: closes the pod, so that the bridge could not count calls in Redis",
        ),
        (
            STDIO.to_owned(),
            &references(&json!({ "issuer": "http://idp.example" })),
            "spec.oidcConfigRef: the MCPOIDCConfig idp is not valid: spec.inline: ",
        ),
    ] {
        let refused = refused(&spec, references);
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn tokens_of_service_accounts_are_checked_by_the_keys_of_the_cluster() {
    let spec = json!({ "type": "kubernetesServiceAccount", "kubernetesServiceAccount": {} });
    let of_cluster = |cluster_issuer| References {
        guards: GuardReferences {
            oidc: Some(object("MCPOIDCConfig", "idp", &spec)),
            cluster_issuer,
            ..GuardReferences::default()
        },
        ..references(&issuer())
    };
    let unknown = of_cluster(ClusterIssuerState::Unknown("403; bind the ClusterRole".to_owned()));
    let refused = refused(STDIO, &unknown);
    assert!(refused.contains("MCPOIDCConfig idp is not valid: 403; bind"), "{refused}");
    let issuer = ClusterIssuer { issuer: "https://kubernetes.default.svc".to_owned(), keys: "{}".to_owned() };
    let known = of_cluster(ClusterIssuerState::Known(Arc::new(issuer)));
    let desired = planned(STDIO, &known).unwrap();
    let text = child(&desired, ChildKind::ConfigMap)["data"]["guards.yaml"].to_string();
    assert!(text.contains("jwksPath") && text.contains("https://kubernetes.default.svc"), "{text}");
    let data = child(&desired, ChildKind::Secret)["data"].clone();
    assert!(data.as_object().unwrap().keys().any(|file| file.starts_with("key-set-")), "{data}");
    let closed = STDIO.replace("command", "permissionProfile: {type: builtin, name: none}, command");
    assert!(planned(&closed, &known).is_ok(), "mounted keys need no connection");
}

#[test]
fn certificates_that_no_secret_holds_are_refused_with_their_size() {
    let mut references = references(&issuer());
    references.guards.certificates = CaBundle::Found("x".repeat(1 << 20));
    let refused = refused(STDIO, &references);
    assert!(
        refused.starts_with("spec: the certificates and values of its guards have 1025 KiB"),
        "{refused}"
    );
}

#[test]
fn an_authorization_server_in_place_of_credentials_is_refused() {
    let server = json!({ "type": "embeddedAuthServer", "embeddedAuthServer": {
        "issuer": "https://time.example",
        "upstreamProviders": [{ "name": "google", "type": "oidc", "oidcConfig": {
            "issuerUrl": "https://accounts.google.com", "clientId": "c",
        } }],
    } });
    let config = object("MCPExternalAuthConfig", "as", &server);
    let guards = GuardReferences { credentials: Some(Arc::clone(&config)), ..GuardReferences::default() };
    let references = References { bridge_token: b"t".to_vec(), guards, ..References::default() };
    let refused = refused("{image: i, command: [a], externalAuthConfigRef: {name: as}}", &references);
    assert!(refused.starts_with("spec.externalAuthConfigRef: names an authorization server"), "{refused}");

    let guards = GuardReferences { auth_server: Some(config), ..GuardReferences::default() };
    let references = References { guards, ..references };
    let desired = planned("{image: i, command: [a], authServerRef: {name: as}}", &references).unwrap();
    assert!(
        child(&desired, ChildKind::ConfigMap)["data"]["guards.yaml"].as_str().unwrap().contains("google")
    );
}

#[test]
fn volumes_of_the_node_are_mounted_beside_those_of_the_bridge() {
    let volumes = "volumes: [{name: data, hostPath: /srv, mountPath: /data, readOnly: true}]";
    let spec = format!("{{image: i, command: [a], {volumes}}}");
    let deployment = child(&planned(&spec, &references(&issuer())).unwrap(), ChildKind::Deployment);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][2], json!({ "name": "data", "hostPath": { "path": "/srv" } }));
    let mount = json!({ "name": "data", "mountPath": "/data", "readOnly": true });
    assert_eq!(pod["containers"][0]["volumeMounts"][2], mount);
    for (from, to, expected) in [
        (
            "name: data",
            "name: bridge-admin",
            "spec.volumes[0].name: `bridge-admin` is a name of the operator's",
        ),
        ("/srv", "srv", "spec.volumes[0].hostPath: not an absolute path"),
    ] {
        let refused = refused(&spec.replace(from, to), &references(&issuer()));
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn policies_of_a_config_map_are_followed_and_their_change_is_a_rollout() {
    let spec = "{image: 'x:1', transport: streamable-http, mcpPort: 3000, authzConfig: {type: configMap, configMap: \
                {name: policies}}}";
    let with = |policy: &str| {
        let document = json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": [policy] } });
        let guards = GuardReferences { authz_file: Some(document.to_string()), ..GuardReferences::default() };
        References { guards, ..references(&issuer()) }
    };
    let guards = |policy: &str| {
        let desired = planned(spec, &with(policy)).unwrap();
        let text = child(&desired, ChildKind::ConfigMap)["data"]["guards.yaml"].take();
        let mut template = child(&desired, ChildKind::Deployment)["spec"]["template"]["metadata"].take();
        (text.as_str().unwrap().to_owned(), template["annotations"]["toolhive.stacklok.com/guards"].take())
    };
    let (text, before) = guards("permit(principal, action, resource);");
    assert!(text.contains("permit(principal, action, resource);"), "{text}");
    let (_, after) = guards("forbid(principal, action, resource);");
    assert!(before.is_string() && before != after, "{before} {after}");
    let missing = References { guards: GuardReferences::default(), ..references(&issuer()) };
    let refused = refused(spec, &missing);
    assert!(
        refused.contains("spec.authzConfig.configMap: there is no text under the key authz.json"),
        "{refused}"
    );
    assert!(refused.contains("kubectl create configmap policies"), "{refused}");
}
