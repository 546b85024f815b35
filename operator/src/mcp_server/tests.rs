mod network;
mod status;

use serde_json::{Value, json};
use vmcp_config::Admin;
use vmcp_crds::MCPServer;
use vmcp_crds::lower::PolicyCheck;
use vmcp_crds::virtual_mcp_server::Optimizer;

use super::backend;
use super::controller;
use super::dereference::References;
use super::image_program::ImageProgramState;
use super::running_bridge::RunningBridge;
use crate::references::ReferencedSecrets;
use crate::registry::RegistryError;
use crate::runtime::{BuildSettings, ChildKind, Desired};
use crate::workload::spec_refusal::SpecRefusal;

fn server(spec: &str) -> MCPServer {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServer",
        "metadata": { "name": "time", "namespace": "tools", "generation": 2 }, "spec": spec,
    }))
    .unwrap()
}

fn settings() -> BuildSettings {
    let image = "vmcp:1".to_owned();
    BuildSettings { vmcp_image: image.clone(), bridge_image: image, ..BuildSettings::default() }
}

/// Returns the plan of a server whose policies are not read.
fn plan(
    server: &MCPServer,
    references: &References,
    settings: &BuildSettings,
) -> Result<Desired, SpecRefusal> {
    controller::plan(server, references, PolicyCheck::default(), settings)
}

/// Returns references with these Secrets and a token.
fn references(secrets: ReferencedSecrets) -> References {
    References { secrets, bridge_token: TOKEN.to_vec(), ..References::default() }
}

/// Returns the Deployment and the Service.
fn planned(spec: &str, secrets: ReferencedSecrets) -> (Value, Value) {
    let desired = plan(&server(spec), &references(secrets), &settings()).unwrap();
    let [deployment, service] = [ChildKind::Deployment, ChildKind::Service].map(|kind| {
        let child = desired.children.iter().find(|child| child.kind() == kind).unwrap();
        serde_json::to_value(child.object()).unwrap()
    });
    (deployment, service)
}

fn refused(spec: &str) -> String {
    plan(&server(spec), &references(ReferencedSecrets::default()), &settings()).unwrap_err().to_string()
}

const TOKEN: &[u8] = b"a token";

const STDIO: &str = "{image: 'node:24', command: [npx, -y, server-time], args: [--utc]}";

#[test]
fn labels_and_annotations_are_added_as_in_toolhive() {
    let spec = STDIO.replace(
        "args:",
        "imagePullSecrets: [{name: a}], resourceOverrides: {proxyDeployment: {annotations: {note: b}, \
         podTemplateMetadataOverrides: {labels: {cost: c}}, imagePullSecrets: [{name: a}, {name: b}]}, \
         proxyService: {annotations: {lb: d}}}, args:",
    );
    let (deployment, service) = planned(&spec, ReferencedSecrets::default());
    assert_eq!(deployment["metadata"]["annotations"]["note"], "b");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["cost"], "c");
    let secrets = &deployment["spec"]["template"]["spec"]["imagePullSecrets"];
    assert_eq!(*secrets, json!([{ "name": "a" }, { "name": "b" }]));
    assert_eq!(service["metadata"]["annotations"]["lb"], "d");

    let own = "resourceOverrides: {proxyDeployment: {podTemplateMetadataOverrides: {labels: {app.kubernetes.io/name: vmcp}}}}, args:";
    let refused = refused(&STDIO.replace("args:", own));
    assert!(
        refused.starts_with(
            "spec.resourceOverrides.proxyDeployment.podTemplateMetadataOverrides.labels: `app.kubernetes.io/name` belongs"
        ),
        "{refused}"
    );
}

#[test]
fn a_running_bridge_keeps_its_image_until_something_else_changes() {
    let image = |spec: &str, running: Option<RunningBridge>| {
        let references = References { running_bridge: running, ..references(ReferencedSecrets::default()) };
        let settings = BuildSettings { bridge_image: "vmcp:2".to_owned(), ..settings() };
        let desired = plan(&server(spec), &references, &settings).unwrap();
        let child = desired.children.iter().find(|child| child.kind() == ChildKind::Deployment).unwrap();
        let deployment = serde_json::to_value(child.object()).unwrap();
        deployment["spec"]["template"]["spec"]["initContainers"][0]["image"].as_str().unwrap().to_owned()
    };
    let (deployment, _) = planned(STDIO, ReferencedSecrets::default());
    let running = |ready: i32| {
        let mut deployment = deployment.clone();
        deployment["status"] = json!({ "readyReplicas": ready });
        RunningBridge::from_deployment(&serde_json::from_value(deployment).unwrap())
    };
    assert_eq!(image(STDIO, running(1)), "vmcp:1", "an upgrade of the operator restarts nothing");
    assert_eq!(image(STDIO, running(0)), "vmcp:2", "nothing runs that a restart could harm");
    assert_eq!(image(STDIO, None), "vmcp:2");
    let scaled = STDIO.replace("args:", "replicas: 3, args:");
    assert_eq!(image(&scaled, running(1)), "vmcp:1", "more pods of the same kind");
    let edited = STDIO.replace("--utc", "--local");
    assert_eq!(image(&edited, running(1)), "vmcp:2", "the pods are replaced in any case");
}

#[test]
fn a_stdio_image_is_started_by_the_bridge() {
    let (deployment, service) = planned(STDIO, ReferencedSecrets::default());
    assert_eq!(deployment["metadata"]["name"], "mcp-time");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["initContainers"][0]["image"], "vmcp:1");
    assert_eq!(pod["initContainers"][0]["args"], json!(["bridge", "--install", "/bridge"]));
    let container = &pod["containers"][0];
    assert_eq!((container["name"].as_str(), container["image"].as_str()), (Some("mcp"), Some("node:24")));
    let words = "/bridge/vmcp bridge --listen [::]:8080 --admin-listen [::]:9090 --admin-token-file /bridge-admin/admin-token --shutdown-delay 5s -- npx -y server-time --utc";
    assert_eq!(container["command"], json!(words.split(' ').collect::<Vec<_>>()));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({ "path": "/readyz", "port": "admin" }));
    assert_eq!(service["spec"]["ports"], json!([{ "name": "http", "port": 8080, "targetPort": "http" }]));
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP");
    assert_eq!(pod["terminationGracePeriodSeconds"], 45, "the delay, the calls in flight, and the end");
    assert!(deployment["spec"].get("replicas").is_none(), "left to whoever scales");
}

#[test]
fn the_bridge_shares_the_program_as_the_backend_is_shared() {
    for (isolation, of_bridge) in [("shared", "shared"), ("principal", "session"), ("session", "session")] {
        let spec = STDIO.replace("args:", &format!("isolation: {isolation}, protocolEra: legacy, args:"));
        let (deployment, _) = planned(&spec, ReferencedSecrets::default());
        let command = deployment["spec"]["template"]["spec"]["containers"][0]["command"].to_string();
        assert!(command.contains(&format!(r#""--isolation","{of_bridge}","--""#)), "{command}");
        let backend = backend(&server(&spec), "cluster.local");
        assert_eq!(json!(backend.isolation), json!(isolation));
        assert_eq!(json!(backend.protocol_era), "legacy");
    }
}

#[test]
fn only_the_bridge_has_a_token_and_it_is_the_one_in_the_secret() {
    let secrets = |spec: &str| {
        let desired = plan(&server(spec), &references(ReferencedSecrets::default()), &settings()).unwrap();
        let secrets = desired.children.iter().filter(|child| child.kind() == ChildKind::Secret);
        secrets.map(|child| serde_json::to_value(child.object()).unwrap()).collect::<Vec<_>>()
    };
    let [secret] = secrets(STDIO).try_into().unwrap();
    assert_eq!(secret["metadata"]["name"], "mcp-time-admin");
    assert_eq!(secret["data"], json!({ "admin-token": "YSB0b2tlbg==" }));
    let (deployment, _) = planned(STDIO, ReferencedSecrets::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["volumes"][1],
        json!({ "name": "bridge-admin", "secret": { "secretName": "mcp-time-admin" } })
    );
    let mounted = json!({ "name": "bridge-admin", "mountPath": "/bridge-admin", "readOnly": true });
    assert_eq!(pod["containers"][0]["volumeMounts"][1], mounted);
    assert!(secrets("{image: 'x:1', transport: streamable-http}").is_empty());
}

#[test]
fn an_http_image_is_itself() {
    let spec = "{image: 'x:1', transport: streamable-http, mcpPort: 3000, proxyPort: 80, path: /v1/mcp, replicas: 2}";
    let (deployment, service) = planned(spec, ReferencedSecrets::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert!(pod.get("initContainers").is_none());
    assert!(pod["containers"][0].get("command").is_none());
    assert_eq!(pod["containers"][0]["ports"], json!([{ "containerPort": 3000, "name": "http" }]));
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        backend(&server(spec), "cluster.local").url,
        "http://mcp-time.tools.svc.cluster.local:80/v1/mcp"
    );
    let sse = backend(&server("{image: x, transport: sse}"), "cluster.local");
    assert_eq!(sse.url, "http://mcp-time.tools.svc.cluster.local:8080/sse");
}

#[test]
fn pods_get_no_more_than_they_need() {
    let (deployment, _) = planned(STDIO, ReferencedSecrets::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in [&pod["containers"][0], &pod["initContainers"][0]] {
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    }
    let (deployment, _) =
        planned("{image: x, command: [run], serviceAccount: reader}", ReferencedSecrets::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "reader");
    assert!(pod.get("automountServiceAccountToken").is_none(), "who names an account means its rights");
}

#[test]
fn the_template_has_the_last_word() {
    let spec = "{image: x, command: [run], podTemplateSpec: {spec: {securityContext: {runAsUser: 1000}, \
                containers: [{name: mcp, securityContext: {readOnlyRootFilesystem: true}}]}}}";
    let (deployment, _) = planned(spec, ReferencedSecrets::default());
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsUser"], 1000);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    let wrong =
        refused("{image: x, command: [run], podTemplateSpec: {spec: {nodeSelektor: {}, tolerationz: [{}]}}}");
    assert!(wrong.contains("tolerationz is no field"), "{wrong}");
}

#[test]
fn a_secret_becomes_a_variable_and_its_change_a_rollout() {
    let spec = "{image: x, command: [run], env: [{name: A, value: b}], \
                secrets: [{name: s, key: token, targetEnvName: API_KEY}]}";
    let annotation = |value| {
        let (deployment, _) = planned(spec, ReferencedSecrets::from_values(&[("s", "token", value)]));
        let template = deployment["spec"]["template"].clone();
        let reference = json!({ "secretKeyRef": { "name": "s", "key": "token" } });
        let env = &template["spec"]["containers"][0]["env"];
        assert_eq!(
            *env,
            json!([
                { "name": "HOME", "value": "/tmp" },
                { "name": "A", "value": "b" },
                { "name": "API_KEY", "valueFrom": reference },
            ])
        );
        template["metadata"]["annotations"]["toolhive.stacklok.com/secrets-digest"].clone()
    };
    assert_eq!(annotation("1"), annotation("1"));
    assert_ne!(annotation("1"), annotation("2"));
    let missing = refused(spec);
    assert!(
        missing.starts_with("there is no Secret s; `kubectl create secret generic s -n tools"),
        "{missing}"
    );
}

#[test]
fn pods_start_before_a_secret_that_they_bring() {
    let spec = "{image: x, command: [run], secrets: [{name: s, key: token}], podTemplateSpec: {spec: {\
                containers: [{name: mcp, volumeMounts: [{name: keys, mountPath: /keys}]}], \
                volumes: [{name: keys, csi: {driver: d, volumeAttributes: {secretProviderClass: vault}}}]}}}";
    let digest = |references: &References| {
        let desired = plan(&server(spec), references, &settings()).unwrap();
        let child = desired.children.iter().find(|child| child.kind() == ChildKind::Deployment).unwrap();
        let deployment = serde_json::to_value(child.object()).unwrap();
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        annotations["toolhive.stacklok.com/secrets-digest"].as_str().unwrap().to_owned()
    };
    let awaited = references(ReferencedSecrets::default());
    let known = references(ReferencedSecrets::from_values(&[("s", "token", "1")]));
    assert_ne!(digest(&awaited), digest(&known), "pods that started with another value are replaced");
    // The driver deletes the Secret with the last pod, and makes it again with the next one.
    let gone = References { running_digest: Some(digest(&known)), ..awaited };
    assert_eq!(digest(&gone), digest(&known));
    let changed = references(ReferencedSecrets::from_values(&[("s", "token", "2")]));
    let changed = References { running_digest: Some(digest(&known)), ..changed };
    assert_ne!(digest(&changed), digest(&known));
    assert!(
        refused(&spec.replace("name: keys, mountPath", "name: other, mountPath")).contains("no Secret s")
    );
}

#[test]
fn a_program_that_clients_added_runs_in_an_image_of_a_rule_alone() {
    let rules = json!({ "admin": { "allow": [
        { "command": ["npx", "-y", "@acme/*"], "image": "node:22", "env": ["API_KEY"] },
        { "command": ["npx", "-y", "@acme/*"], "image": "node:24" },
        { "image": "ghcr.io/acme/time:*", "args": ["--utc"] },
    ] } });
    let optimizer: Optimizer = serde_json::from_value(rules).unwrap();
    let added = |spec: &str| {
        let mut server = server(spec);
        server.metadata.labels = Some([("toolhive.stacklok.com/added-by".to_owned(), "x".to_owned())].into());
        server
    };
    let planned = |image: &str, package: &str, variable: &str| {
        let spec = format!(
            "{{image: '{image}', command: [npx], args: [-y, '{package}'], secrets: [{{name: x.added.time-1, key: \
             0-{variable}, targetEnvName: {variable}}}]}}"
        );
        let key = format!("0-{variable}");
        let secrets = ReferencedSecrets::from_values(&[("x.added.time-1", key.as_str(), "v")]);
        let references =
            References { rules_of_adder: Some(optimizer.added_servers()), ..references(secrets) };
        plan(&added(&spec), &references, &settings()).map(drop).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(planned("node:22", "@acme/time", "API_KEY"), Ok(()));
    let other_rule = "{image: 'node:24', command: [npx], args: [-y, '@acme/time']}";
    let references = References { rules_of_adder: Some(optimizer.added_servers()), ..References::default() };
    assert!(plan(&server(other_rule), &references, &settings()).is_ok(), "of any rule, not of the first");
    for (image, package, variable) in [
        ("node:24", "@acme/time", "API_KEY"),
        ("evil:1", "@acme/time", "API_KEY"),
        ("node:22", "@evil/time", "API_KEY"),
        ("node:22", "@acme/time", "NODE_OPTIONS"),
    ] {
        let refused = planned(image, package, variable).unwrap_err();
        assert!(refused.starts_with("spec.image: clients of the VirtualMCPServer"), "{refused}");
    }
    for (image, argument, is_planned) in [
        ("ghcr.io/acme/time:1.2", "--utc", true),
        ("evil:1", "--utc", false),
        ("ghcr.io/acme/time:1.2", "--root=/", false),
    ] {
        let spec = format!("{{image: '{image}', transport: streamable-http, args: ['{argument}']}}");
        let references =
            References { rules_of_adder: Some(optimizer.added_servers()), ..References::default() };
        let outcome = plan(&server(&spec), &references, &settings());
        assert_eq!(outcome.is_ok(), is_planned, "{image} {argument}: {:?}", outcome.err());
    }
    for foreign in [
        "serviceAccount: admin",
        "podTemplateSpec: {spec: {hostNetwork: true}}",
        "volumes: [{name: host, hostPath: /, mountPath: /host}]",
        "imagePullSecrets: [{name: registry}]",
        "secrets: [{name: tools-vmcp-keys, key: k, targetEnvName: API_KEY}]",
        "permissionProfile: {type: builtin, name: network}",
    ] {
        let spec = format!("{{image: 'node:22', command: [npx], args: [-y, '@acme/time'], {foreign}}}");
        let secrets = ReferencedSecrets::from_values(&[("tools-vmcp-keys", "k", "v")]);
        let references =
            References { rules_of_adder: Some(optimizer.added_servers()), ..self::references(secrets) };
        let refused = plan(&added(&spec), &references, &settings()).unwrap_err().to_string();
        assert!(refused.contains("x added the server, and may not set this"), "{foreign}: {refused}");
        let of_a_person = References { rules_of_adder: None, ..references };
        let free = plan(&server(&spec), &of_a_person, &settings()).map(drop).map_err(|all| all.to_string());
        let message = free.err().unwrap_or_default();
        assert!(!message.contains("may not set this"), "{foreign}: {message}");
    }
    let without_rules = References { rules_of_adder: Some(Admin::default()), ..References::default() };
    assert!(plan(&server(STDIO), &without_rules, &settings()).is_err());
    let off = STDIO.replace("args:", "enabled: false, args:");
    assert!(plan(&server(&off), &without_rules, &settings()).is_ok(), "its pods end");
}

#[test]
fn what_makes_no_sense_says_what_would() {
    let port = refused("{image: x, command: [run], mcpPort: 1}");
    assert!(port.starts_with("spec.mcpPort: means nothing with `transport: stdio`"), "{port}");
    let twice = "{image: x, command: [run], env: [{name: T, value: b}], secrets: [{name: s, key: T}]}";
    let error =
        plan(&server(twice), &references(ReferencedSecrets::from_values(&[("s", "T", "v")])), &settings())
            .unwrap_err()
            .to_string();
    assert!(error.contains("the variable `T` is given twice"), "{error}");
}

#[test]
fn without_a_command_the_bridge_starts_what_the_image_starts() {
    let of = |spec: &str, image_program| {
        let references = References { image_program, ..references(ReferencedSecrets::default()) };
        plan(&server(spec), &references, &settings())
    };
    let program = || {
        let program = json!({ "entrypoint": ["node", "/srv/time.js"], "cmd": ["--utc"] });
        ImageProgramState::Known(serde_json::from_value(program).unwrap())
    };
    let started = |spec: &str| {
        let desired = of(spec, program()).unwrap();
        let child = desired.children.iter().find(|child| child.kind() == ChildKind::Deployment).unwrap();
        let deployment = serde_json::to_value(child.object()).unwrap();
        let command = &deployment["spec"]["template"]["spec"]["containers"][0]["command"];
        let words: Vec<_> = command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let program = words.split(|word| *word == "--").next_back().unwrap().join(" ");
        (program, deployment["metadata"]["annotations"]["toolhive.stacklok.com/image-program"].clone())
    };
    let (words, note) = started("{image: 'x:1'}");
    assert_eq!(words, "node /srv/time.js --utc");
    assert_eq!(note, r#"{"image":"x:1","entrypoint":["node","/srv/time.js"],"cmd":["--utc"]}"#);
    assert_eq!(started("{image: 'x:1', args: [--local]}").0, "node /srv/time.js --local");

    let failed = ImageProgramState::Failed(RegistryError::NoProgram);
    for (state, why) in
        [(failed, "neither an entrypoint nor a command"), (ImageProgramState::Off, "asks no registry")]
    {
        let refusal = of("{image: x}", state).unwrap_err();
        assert!(matches!(refusal, SpecRefusal::EntrypointUnknown(_)), "{refusal}");
        let refusal = refusal.to_string();
        assert!(refusal.starts_with("spec.command: missing") && refusal.contains(why), "{refusal}");
    }
}

#[test]
fn fields_without_an_effect_are_ignored_by_an_annotation_alone() {
    let mut server = server(&STDIO.replace("args:", "endpointPrefix: /a, backendReplicas: 3, args:"));
    let refusal =
        plan(&server, &references(ReferencedSecrets::default()), &settings()).unwrap_err().to_string();
    assert!(refusal.starts_with("spec.endpointPrefix: nothing follows this field; remove it ("), "{refusal}");
    assert!(refusal.ends_with("annotation `toolhive.stacklok.com/unfollowed-fields: ignore`"), "{refusal}");
    server.metadata.annotations =
        Some([("toolhive.stacklok.com/unfollowed-fields".to_owned(), "ignore".to_owned())].into());
    let desired = plan(&server, &references(ReferencedSecrets::default()), &settings()).unwrap();
    let deployment = desired.children.iter().find(|child| child.kind() == ChildKind::Deployment).unwrap();
    let deployment = serde_json::to_value(deployment.object()).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3, "backendReplicas is followed");
}

#[test]
fn pull_secrets_of_the_pod_template_count_for_the_entrypoint() {
    let spec = "{image: i, imagePullSecrets: [{name: a}], podTemplateSpec: {spec: {imagePullSecrets: [{name: b}, {name: a}]}}}";
    let names: Vec<_> = server(spec).spec.all_pull_secrets().into_iter().map(|secret| secret.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        server("{image: i, podTemplateSpec: {spec: {imagePullSecrets: 3}}}").spec.all_pull_secrets(),
        []
    );
}

#[test]
fn a_field_that_takes_a_right_is_refused_where_nothing_checks_authors() {
    let settings = BuildSettings { authors_checked: false, ..settings() };
    let ingress = "networkPolicy: {ingressFrom: [{ipBlock: {cidr: 0.0.0.0/0}}]}, args:";
    let refusal =
        plan(&server(&STDIO.replace("args:", ingress)), &references(ReferencedSecrets::default()), &settings)
            .unwrap_err()
            .to_string();
    assert!(refusal.starts_with("spec.networkPolicy.ingressFrom: adds callers"), "{refusal}");
    let plain = plan(&server(STDIO), &references(ReferencedSecrets::default()), &settings);
    assert!(plain.is_ok(), "{plain:?}");
}

#[test]
fn a_server_that_is_switched_off_runs_no_pod() {
    let off = STDIO.replace("args:", "enabled: false, replicas: 3, args:");
    assert_eq!(planned(&off, ReferencedSecrets::default()).0["spec"]["replicas"], 0);
}
