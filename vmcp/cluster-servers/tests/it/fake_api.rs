//! [`FakeApi`]: keeps objects as an API server does, and what it was asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;
use vmcp_cluster_servers::{KubernetesRegistrar, VirtualServer};
use vmcp_config::Secret;
use vmcp_engine::server_registrar::{NewServer, RegisteredServer, ServerPlace};
use vmcp_registry::entry::ServerEntry;
use vmcp_registry::plan::{Draft, Target, Text};

/// Path of the entries of the namespace.
pub(crate) const ENTRIES: &str = "/apis/toolhive.stacklok.com/v1alpha1/namespaces/n/mcpserverentries";
/// Path of the programs of the namespace.
pub(crate) const PROGRAMS: &str = "/apis/toolhive.stacklok.com/v1alpha1/namespaces/n/mcpservers";
/// Path of the Secrets of the namespace.
pub(crate) const SECRETS: &str = "/api/v1/namespaces/n/secrets";

/// A request: method, path and body.
pub(crate) type SeenRequest = (String, String, Value);

#[derive(Default)]
struct State {
    /// Objects by their path.
    objects: BTreeMap<String, Value>,
    seen: Vec<SeenRequest>,
    made: usize,
    /// Requests by method and path that are answered with a status, once each.
    refusals: Vec<(Method, String, StatusCode)>,
    /// Bytes of white space before each answer.
    padding: usize,
}

/// The API server of a test.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

impl FakeApi {
    /// Returns a registrar of the server `x`; `runs_programs` tells whether it may add programs.
    pub(crate) fn registrar(&self, runs_programs: bool) -> KubernetesRegistrar {
        let name = |name: &str| name.to_owned();
        let server = VirtualServer {
            name: name("x"),
            uid: name("uid-of-x"),
            namespace: name("n"),
            api_version: name("toolhive.stacklok.com/v1alpha1"),
            group: Some(name("tools")),
            runs_programs,
        };
        let api = self.clone();
        let service = tower::service_fn(move |request| api.clone().answer(request));
        KubernetesRegistrar::new(server, Client::new(service, "n"))
    }

    /// Adds an object of others.
    pub(crate) fn put(&self, path: &str, name: &str, mut object: Value) {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!("uid-of-others");
        object["metadata"]["resourceVersion"] = json!("1");
        self.0.lock().objects.insert(format!("{path}/{name}"), object);
    }

    /// Answers the next request of this method for this path with a status.
    pub(crate) fn refuse_once(&self, method: Method, path: &str, status: StatusCode) {
        self.0.lock().refusals.push((method, path.to_owned(), status));
    }

    /// Puts white space before each answer.
    pub(crate) fn pad(&self, bytes: usize) {
        self.0.lock().padding = bytes;
    }

    /// Returns an object.
    pub(crate) fn object(&self, path: &str, name: &str) -> Option<Value> {
        self.0.lock().objects.get(&format!("{path}/{name}")).cloned()
    }

    /// Returns the requests so far, and forgets them.
    pub(crate) fn take_seen(&self) -> Vec<SeenRequest> {
        std::mem::take(&mut self.0.lock().seen)
    }

    /// Returns method and path of each request so far, and forgets them.
    pub(crate) fn take_lines(&self) -> Vec<String> {
        self.take_seen().into_iter().map(|(method, path, _)| format!("{method} {path}")).collect()
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path().to_owned();
        // Requests at once take turns, as at an API server.
        tokio::task::yield_now().await;
        let mut state = self.0.lock();
        state.seen.push((head.method.to_string(), path.clone(), body.clone()));
        let refusal = state.refusals.iter().position(|(method, at, _)| *method == head.method && *at == path);
        let (status, object) = match refusal.map(|index| state.refusals.remove(index)) {
            Some((_, _, status)) => (status, message(&format!("refused: {body}"))),
            None => state.make(&head.method, &path, body),
        };
        let text = format!("{}{object}", " ".repeat(state.padding));
        Ok(Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap())
    }
}

impl State {
    fn make(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        if *method == Method::POST {
            let key = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            if self.objects.contains_key(&key) {
                return (StatusCode::CONFLICT, message("already exists"));
            }
            self.made += 1;
            let mut object = body;
            object["metadata"]["uid"] = json!(format!("uid-{}", self.made));
            object["metadata"]["resourceVersion"] = json!("1");
            self.objects.insert(key, object.clone());
            return (StatusCode::CREATED, object);
        }
        let Some(object) = self.objects.get_mut(path) else {
            return (StatusCode::NOT_FOUND, message("not found"));
        };
        let is_other = |wanted: &Value, is: &Value| !wanted.is_null() && wanted != is;
        let wanted = if *method == Method::PATCH { &body["metadata"] } else { &body["preconditions"] };
        let is = &object["metadata"];
        if is_other(&wanted["uid"], &is["uid"])
            || is_other(&wanted["resourceVersion"], &is["resourceVersion"])
        {
            return (StatusCode::CONFLICT, message("the object was changed"));
        }
        if *method == Method::DELETE {
            let object = self.objects.remove(path).unwrap();
            return (StatusCode::OK, object);
        }
        if *method == Method::PATCH {
            object["spec"]["enabled"] = body["spec"]["enabled"].clone();
            object["metadata"]["resourceVersion"] = json!("2");
        }
        (StatusCode::OK, object.clone())
    }
}

fn message(text: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "message": text })
}

/// Returns a server at an address, with headers.
pub(crate) fn remote(name: &str, url: &str, headers: &[(&str, &str)]) -> NewServer {
    let place = ServerPlace::Remote { url: Url::parse(url).unwrap(), headers: values(headers) };
    NewServer::new(name, place)
}

/// Returns a program of the image `node:22`, with variables.
pub(crate) fn program(name: &str, line: &str, env: &[(&str, &str)]) -> NewServer {
    let words = line.split(' ').map(str::to_owned).collect();
    let (place, image) = (ServerPlace::Program { words, env: values(env) }, Some("node:22".to_owned()));
    NewServer { image, ..NewServer::new(name, place) }
}

/// Returns an image with arguments for its own program.
pub(crate) fn image(name: &str, image: &str, args: &[&str]) -> NewServer {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let place = ServerPlace::Image { image: image.to_owned(), args, env: BTreeMap::new() };
    NewServer::new(name, place)
}

/// Returns a server of a registry, as its entry with these ways becomes one; each required input has the
/// value `placeholder`.
pub(crate) fn of_registry(name: &str, ways: &Value) -> NewServer {
    let mut entry = json!({ "name": "com.example/weather", "version": "1.0.0" });
    entry.as_object_mut().unwrap().extend(ways.as_object().unwrap().clone());
    let entry = ServerEntry::read(&entry).unwrap();
    let missing = Draft::new(&entry, None, &BTreeMap::new()).unwrap().missing;
    let answers = missing.into_iter().map(|label| (label, "placeholder".to_owned())).collect();
    let draft = Draft::new(&entry, None, &answers).unwrap();
    let all = |texts: &BTreeMap<String, Text>| {
        texts.iter().map(|(name, text)| (name.clone(), Secret::from(text.plain()))).collect()
    };
    let (place, image) = match &draft.target {
        Target::Program { command, env } => {
            let words = command.iter().map(Text::plain).collect();
            (ServerPlace::Program { words, env: all(env) }, Some("node:22".to_owned()))
        }
        Target::Remote { url, headers, .. } => {
            let url = Url::parse(&url.plain()).unwrap();
            (ServerPlace::Remote { url, headers: all(headers) }, None)
        }
    };
    let registered = RegisteredServer { draft, origin: "com.example/weather 1.0.0".to_owned() };
    NewServer { image, registered: Some(Box::new(registered)), ..NewServer::new(name, place) }
}

fn values(given: &[(&str, &str)]) -> BTreeMap<String, Secret> {
    given.iter().map(|(name, value)| ((*name).to_owned(), Secret::from(*value))).collect()
}
