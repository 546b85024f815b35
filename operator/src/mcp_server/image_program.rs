//! The program that the image of a stdio server starts by itself, a part of step 1, dereference.
//!
//! An answer of the registry is kept as an annotation of the Deployment for as long as the server has that
//! image: neither a restart of the operator nor a registry that is down changes the program.

use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use vmcp_crds::MCPServer;
use vmcp_crds::mcp_server::MCPServerTransport;

use crate::registry::{
    DOCKER_CONFIG_KEY, ImageProgram, ImageReference, Lookup, ProgramLookups, PullCredentials, RegistryClient,
    RegistryError,
};
use crate::runtime::{BuildSettings, CallError, Context, Requeue};
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
        if let Some(note) = noted.filter(|note| note.image == *image) {
            return Ok(ImageProgramState::Known(note.program));
        }
        let Some(lookups) = &self.lookups else { return Ok(ImageProgramState::Off) };
        let Some(reference) = ImageReference::parse(image) else {
            return Ok(ImageProgramState::Failed(RegistryError::Reference(image.clone())));
        };
        let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
        let mut credentials = PullCredentials::default();
        for secret in server.spec.all_pull_secrets() {
            let data = context.secret(&namespace, &secret.name).await?;
            if let Some(config) = data.as_ref().and_then(|data| data.get(DOCKER_CONFIG_KEY)) {
                credentials.add(&config.0);
            }
        }
        let requeue = self.requeue.clone();
        let done = async move { requeue(&namespace, &name).await }.boxed();
        Ok(match lookups.program(reference, credentials, done) {
            Lookup::Pending => ImageProgramState::Pending,
            Lookup::Done(Ok(program)) => ImageProgramState::Known(program),
            Lookup::Done(Err(error)) => ImageProgramState::Failed(error),
        })
    }
}
