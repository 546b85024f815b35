//! The program that the image of a stdio server starts by itself, a part of step 1, dereference.
//!
//! An answer of the registry is kept as an annotation of the Deployment for as long as the server has that
//! image: neither a restart of the operator nor a registry that is down changes the program. Where the
//! kubelet pulls the image at every start, the registry is asked again from time to time.

use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{LocalObjectReference, ServiceAccount};
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use vmcp_crds::MCPServer;
use vmcp_crds::fields::workload::ImagePullPolicy;
use vmcp_crds::mcp_server::MCPServerTransport;

use crate::registry::{
    DOCKER_CONFIG_KEY, ImageProgram, ImageReference, Lookup, ProgramLookups, PullCredentials, RegistryClient,
    RegistryError,
};
use crate::runtime::{BuildSettings, CallError, Context, Requeue, Verb};
use crate::workload::spec_refusal::SpecRefusal;

/// The annotation of the Deployment with an [`ImageNote`].
pub(super) const IMAGE_PROGRAM: &str = "toolhive.stacklok.com/image-program";

/// Knowledge of the program that the image starts.
#[derive(Debug, Default)]
pub(super) enum ImageProgramState {
    /// The server names its command, or its image starts it.
    #[default]
    NotNeeded,
    /// The registry is being asked; the server is reconciled again after the answer.
    Pending,
    Known(ImageProgram),
    Failed(RegistryError),
    /// The operator is told to ask no registry.
    Off,
}

/// The annotation: a program, and the image that it is of.
#[derive(Debug, Serialize, Deserialize)]
struct ImageNote {
    image: String,
    #[serde(flatten)]
    program: ImageProgram,
}

/// Returns the value of the annotation.
pub(super) fn note(image: &str, program: &ImageProgram) -> String {
    let note = ImageNote { image: image.to_owned(), program: program.clone() };
    // Strings and lists of them always become JSON.
    serde_json::to_string(&note).unwrap_or_default()
}

impl ImageProgramState {
    /// Returns the refusal of a server whose program is not known.
    pub(super) fn refusal(&self, image: &str) -> Option<SpecRefusal> {
        let why = match self {
            Self::NotNeeded | Self::Pending | Self::Known(_) => return None,
            Self::Off => "this operator asks no registry".to_owned(),
            Self::Failed(error) => error.to_string(),
        };
        Some(SpecRefusal::EntrypointUnknown(format!(
            "spec.command: missing, and the program of image {image} is not known: {why}; write the program that speaks \
             stdio, such as `[npx, -y, \"@modelcontextprotocol/server-time\"]`, or correct spec.image or \
             spec.imagePullSecrets"
        )))
    }
}

/// Returns true if only the image knows the program.
pub(super) fn is_needed(server: &MCPServer) -> bool {
    server.spec.transport == MCPServerTransport::Stdio && server.spec.command.is_empty()
}

/// Finds the programs of images.
pub(super) struct ImagePrograms {
    lookups: Option<Arc<ProgramLookups>>,
    requeue: Arc<Requeue>,
}

impl ImagePrograms {
    /// Makes it from the settings; `requeue` reconciles a server after a lookup.
    pub(super) fn new(settings: &BuildSettings, requeue: Requeue) -> Self {
        let client = || RegistryClient::new(settings.plain_http_registries.clone());
        let lookups = settings.look_up_images.then(|| ProgramLookups::new(client()));
        Self { lookups, requeue: Arc::new(requeue) }
    }

    /// Returns the known program, or begins a lookup.
    pub(super) async fn state(
        &self,
        server: &MCPServer,
        context: &Context,
        deployment: Option<&Deployment>,
    ) -> Result<ImageProgramState, CallError> {
        if !is_needed(server) {
            return Ok(ImageProgramState::NotNeeded);
        }
        let image = &server.spec.image;
        let noted = deployment.and_then(|deployment| deployment.annotations().get(IMAGE_PROGRAM));
        let noted = noted.and_then(|note| serde_json::from_str::<ImageNote>(note).ok());
        let noted = noted.filter(|note| note.image == *image).map(|note| note.program);
        let known = |program: ImageProgram| Ok(ImageProgramState::Known(program));
        if let Some(program) = noted.clone().filter(|_| self.lookups.is_none() || !follows_tag(server)) {
            return known(program);
        }
        let Some(lookups) = &self.lookups else { return Ok(ImageProgramState::Off) };
        let Some(reference) = ImageReference::parse(image) else {
            return Ok(ImageProgramState::Failed(RegistryError::Reference(image.clone())));
        };
        let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
        let mut credentials = PullCredentials::default();
        for secret in pull_secrets(server, context, &namespace).await? {
            let data = context.secret(&namespace, &secret.name).await?;
            if let Some(config) = data.as_ref().and_then(|data| data.get(DOCKER_CONFIG_KEY)) {
                credentials.add(&config.0);
            }
        }
        let requeue = self.requeue.clone();
        let done = async move { requeue(&namespace, &name).await }.boxed();
        Ok(match (lookups.program(reference, credentials, done), noted) {
            // A registry that is slow or down stops no server that runs.
            (Lookup::Done(Ok(program)), _) | (_, Some(program)) => ImageProgramState::Known(program),
            (Lookup::Pending, None) => ImageProgramState::Pending,
            (Lookup::Done(Err(error)), None) => ImageProgramState::Failed(error),
        })
    }
}

/// Returns true if the program follows a tag that moves: the kubelet pulls the image at every start, so that
/// the next pod has another program. Otherwise nodes may have the older image, and the older program fits it.
pub(super) fn follows_tag(server: &MCPServer) -> bool {
    let spec = &server.spec;
    let version = ImageReference::parse(&spec.image).map(|reference| reference.version);
    is_needed(server)
        && version.is_some_and(|version| {
            let is_always = spec
                .image_pull_policy
                .map_or(version == "latest", |policy| policy == ImagePullPolicy::Always);
            // A digest names one image for ever.
            is_always && !version.contains(':')
        })
}

/// Returns the Secrets that the kubelet pulls with: those of the pod, else those of its ServiceAccount.
async fn pull_secrets(
    server: &MCPServer,
    context: &Context,
    namespace: &str,
) -> Result<Vec<LocalObjectReference>, CallError> {
    let own = context.settings.pull_secrets(&server.spec.all_pull_secrets());
    if !own.is_empty() {
        return Ok(own);
    }
    let pod = server.spec.pod_template_spec.get("spec");
    let of_template = pod.and_then(|pod| pod.get("serviceAccountName")?.as_str());
    let account = of_template.or(server.spec.service_account.as_deref()).unwrap_or("default");
    let api: Api<ServiceAccount> = Api::namespaced(context.client.clone(), namespace);
    let found = context.call(Verb::Get, "ServiceAccount", account, api.get_opt(account)).await?;
    Ok(found.and_then(|found| found.image_pull_secrets).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_follows_the_tag_where_every_start_pulls() {
        let follows = |spec: &str| {
            let text = format!("{{metadata: {{name: a}}, spec: {{transport: stdio, {spec}}}}}");
            follows_tag(&serde_saphyr::from_str(&text).expect("a server"))
        };
        assert!(follows("image: 'a.example/b'") && follows("image: 'a.example/b:latest'"));
        assert!(follows("image: 'a.example/b:1', imagePullPolicy: Always"));
        for spec in [
            "image: 'a.example/b:1'",
            "image: 'a.example/b:latest', imagePullPolicy: IfNotPresent",
            "image: 'a.example/b:latest', command: [c]",
            "image: 'a.example/b@sha256:0000', imagePullPolicy: Always",
        ] {
            assert!(!follows(spec), "{spec}");
        }
    }
}
