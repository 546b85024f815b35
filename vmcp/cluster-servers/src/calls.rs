//! Calls of the API server with the rights of the pod's ServiceAccount, on single objects of one namespace.
//! Each call is bounded in time and in bytes.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::core::Request as Calls;
use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_error_chain::error_chain;

use crate::ownership::AddedServer;
use crate::server_kind::ServerKind;
use crate::virtual_server::VirtualServer;

/// Time of one call.
const CALL: Duration = Duration::from_secs(10);
/// Longest answer, in bytes; a longer one fails the call. An object has at most 1.5 MiB.
const MAX_ANSWER: usize = 4 << 20;
/// Longest message of the API server in an error, in characters; a longer one is cut.
const MAX_MESSAGE: usize = 500;
/// Name under which the API server keeps the fields that are written here.
const FIELD_MANAGER: &str = "vmcp";

/// The API server, as far as it concerns the servers of one VirtualMCPServer.
pub(crate) struct ClusterApi<'a> {
    client: Client,
    server: &'a VirtualServer,
}

/// Error of a call.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CallError {
    text: String,
    /// Status of the answer; `None` without an answer.
    status: Option<StatusCode>,
}

impl CallError {
    fn new(text: String) -> CallError {
        CallError { text, status: None }
    }

    /// True if the object is missing.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND)
    }

    /// True if the object exists already, or was changed by others meanwhile.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status == Some(StatusCode::CONFLICT)
    }
}

impl<'a> ClusterApi<'a> {
    pub(crate) fn new(client: Client, server: &'a VirtualServer) -> ClusterApi<'a> {
        ClusterApi { client, server }
    }

    /// Returns an object; `None` if it is missing.
    pub(crate) async fn get(&self, kind: ServerKind, name: &str) -> Result<Option<Value>, CallError> {
        match self.call(self.of(kind).get(name, &GetParams::default())).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object, and returns it as it was stored.
    pub(crate) async fn create(&self, kind: ServerKind, manifest: &Value) -> Result<Value, CallError> {
        self.call(self.of(kind).create(&creation(), manifest.to_string().into_bytes())).await
    }

    /// Creates a Secret. An error names the status alone: a message could quote the manifest.
    pub(crate) async fn create_secret(&self, manifest: &Value) -> Result<(), CallError> {
        let secrets = Calls::new(format!("/api/v1/namespaces/{}/secrets", self.server.namespace));
        let created = self.call(secrets.create(&creation(), manifest.to_string().into_bytes())).await;
        created.map(drop).map_err(|error| match error.status {
            Some(status) => {
                CallError { text: format!("the Secret was refused ({status})"), status: Some(status) }
            }
            None => error,
        })
    }

    /// Deletes an object, unless it has changed since it was read.
    pub(crate) async fn delete(&self, added: &AddedServer) -> Result<(), CallError> {
        let preconditions =
            Preconditions { uid: Some(added.uid.clone()), resource_version: added.resource_version.clone() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.call(self.of(added.kind).delete(&added.name, &parameters)).await.map(drop)
    }

    /// Switches a server on or off, unless its object has changed since it was read.
    pub(crate) async fn set_enabled(&self, added: &AddedServer, enabled: bool) -> Result<(), CallError> {
        let patch = json!({
            "metadata": { "uid": added.uid, "resourceVersion": added.resource_version },
            "spec": { "enabled": enabled },
        });
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.call(self.of(added.kind).patch(&added.name, &parameters, &Patch::Merge(&patch))).await.map(drop)
    }

    fn of(&self, kind: ServerKind) -> Calls {
        let VirtualServer { api_version, namespace, .. } = self.server;
        Calls::new(format!("/apis/{api_version}/namespaces/{namespace}/{}", kind.plural()))
    }

    async fn call<E>(&self, request: Result<Request<Vec<u8>>, E>) -> Result<Value, CallError>
    where
        E: std::error::Error + 'static,
    {
        let request = request.map_err(|error| CallError::new(error_chain(&error)))?;
        let exchange = async {
            let answer = self.client.send(request.map(Body::from)).await;
            let (head, body) = answer.map_err(|error| CallError::new(error_chain(&error)))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let body = body.map_err(|error| CallError::new(format!("the answer cannot be read: {error}")))?;
            Ok::<_, CallError>((head.status, body.to_bytes()))
        };
        let Ok(answer) = timeout(CALL, exchange).await else {
            let text = format!("the API server gave no answer in {} s", CALL.as_secs());
            return Err(CallError::new(text));
        };
        let (status, body) = answer?;
        let object: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(object);
        }
        let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
        let words: Vec<_> = message.split_whitespace().collect();
        let message: String = words.join(" ").chars().take(MAX_MESSAGE).collect();
        Err(CallError { text: format!("{message} ({status})"), status: Some(status) })
    }
}

fn creation() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
