//! [`OtlpClient`]: the client of exports to one collector, over HTTP or gRPC.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use http::{Request, Response, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use reqwest::Certificate;
use rustls::pki_types::CertificateDer;
use vmcp_config::{OtlpProtocol, SignalExport};
use vmcp_egress::{Proxies, read_ca_bundle};

use super::TARGET;
use super::grpc::{GrpcClient, GrpcError, MAX_ANSWER_BYTES};
use crate::telemetry::TelemetryError;

/// Media type of messages over HTTP.
const PROTOBUF: &str = "application/x-protobuf";
/// Headers that belong to the body, and the name of the exporter.
const OF_THE_BODY: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_ENCODING, USER_AGENT];

/// Sends exports with the headers of the configuration and no others. Follows no redirect, which could take a
/// key in the headers to another host. Blocks, so exporters call it on threads of their own.
#[derive(Debug, Clone)]
pub(in crate::telemetry) struct OtlpClient {
    transport: Transport,
    headers: Arc<HeaderMap>,
    /// True while calls of gRPC succeed; a change is logged once, for the exporters of the SDK shorten its
    /// reason to a number.
    is_taken: Arc<AtomicBool>,
}

/// The protocol of exports. Both carry the same messages in protobuf.
#[derive(Debug, Clone)]
enum Transport {
    Http(reqwest::blocking::Client),
    Grpc(Box<GrpcClient>),
}

impl OtlpClient {
    /// Makes the client; it connects with its first export. Reads the file of authorities.
    pub(in crate::telemetry) fn new(export: &SignalExport) -> Result<Self, TelemetryError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &export.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value.expose());
            let (Ok(name), Ok(mut value)) = (name, value) else { continue };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let authorities = match &export.ca_bundle_path {
            Some(path) => read_ca_bundle(path).map_err(|reason| {
                let path = path.clone();
                TelemetryError::Certificates { path, reason }
            })?,
            None => Vec::new(),
        };
        let transport = match export.protocol {
            OtlpProtocol::HttpProtobuf => Transport::Http(http_client(export.timeout, authorities)?),
            OtlpProtocol::Grpc => Transport::Grpc(Box::new(GrpcClient::new(export.timeout, &authorities))),
        };
        Ok(Self { transport, headers: Arc::new(headers), is_taken: Arc::new(AtomicBool::new(true)) })
    }

    /// Sends a message in protobuf and returns the answer, whatever its status. An error names neither the
    /// URL nor a header.
    pub(super) fn exchange(&self, url: &str, message: Bytes) -> Result<Response<Bytes>, String> {
        let request = Request::post(url)
            .header(CONTENT_TYPE, PROTOBUF)
            .header(USER_AGENT, concat!("vmcp/", env!("CARGO_PKG_VERSION")));
        let request = request.body(message).map_err(|error| error.to_string())?;
        match &self.transport {
            Transport::Http(http) => self.send(http, request),
            Transport::Grpc(grpc) => self.call(grpc, request).map_err(|error| error.to_string()),
        }
    }

    /// Sends a message in protobuf. An error names neither the URL nor a header.
    pub(super) fn post(&self, url: &str, message: Vec<u8>) -> Result<(), String> {
        let http = match &self.transport {
            Transport::Http(http) => http,
            Transport::Grpc(grpc) => {
                let uri: Uri = url.parse().map_err(|_| "the endpoint is not a URI".to_owned())?;
                let answered = grpc.call(uri, &self.headers, &message);
                return answered.map(drop).map_err(|error| error.to_string());
            }
        };
        let request = Request::post(url).header(CONTENT_TYPE, PROTOBUF);
        let request = request.body(Bytes::from(message)).map_err(|error| error.to_string())?;
        let answer = self.send(http, request)?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(format!("the collector answered with status {}", answer.status().as_u16()))
    }

    fn send(
        &self,
        http: &reqwest::blocking::Client,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, String> {
        let failed = |error: reqwest::Error| vmcp_error_chain::error_chain(&error.without_url());
        let (mut parts, body) = request.into_parts();
        // The library adds headers of the environment, also where the file has others.
        let mut headers = HeaderMap::clone(&self.headers);
        for name in OF_THE_BODY {
            headers.extend(parts.headers.remove(&name).map(|value| (name, value)));
        }
        parts.headers = headers;
        let request =
            reqwest::blocking::Request::try_from(Request::from_parts(parts, body)).map_err(failed)?;
        let answer = http.execute(request).map_err(failed)?;
        let status = answer.status();
        let retry_after = answer.headers().get(RETRY_AFTER).cloned();
        let mut bytes = Vec::new();
        answer.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut response = Response::new(Bytes::from(bytes));
        *response.status_mut() = status;
        response.headers_mut().extend(retry_after.map(|value| (RETRY_AFTER, value)));
        Ok(response)
    }

    /// Sends a message by gRPC, and answers as an HTTP server would.
    fn call(&self, grpc: &GrpcClient, request: Request<Bytes>) -> Result<Response<Bytes>, GrpcError> {
        let (parts, message) = request.into_parts();
        let answered = grpc.call(parts.uri, &self.headers, &message);
        let was_taken = self.is_taken.swap(answered.is_ok(), Ordering::Relaxed);
        match answered {
            Ok(message) => Ok(Response::new(message)),
            Err(error) => {
                if was_taken {
                    tracing::warn!(target: TARGET, %error, "an export by gRPC failed");
                }
                let status = error.http_status().ok_or(error)?;
                let mut response = Response::new(Bytes::new());
                *response.status_mut() = status;
                Ok(response)
            }
        }
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match &self.transport {
            Transport::Http(http) => Ok(self.send(http, request)?),
            Transport::Grpc(grpc) => Ok(self.call(grpc, request)?),
        }
    }
}

/// Makes the client on a thread of its own, because the blocking client must not be made inside a runtime.
fn http_client(
    timeout: Duration,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<reqwest::blocking::Client, TelemetryError> {
    let build = move || {
        let certificates = authorities.iter().map(|authority| Certificate::from_der(authority));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let builder = reqwest::blocking::Client::builder().timeout(timeout).tls_certs_merge(certificates);
        let builder = builder.proxy(Proxies::of_environment().for_reqwest());
        builder.redirect(reqwest::redirect::Policy::none()).build()
    };
    let failed = |why: String| TelemetryError::Exporter(why);
    let made = std::thread::spawn(build).join();
    made.map_err(|_| failed("the HTTP client could not be made".to_owned()))?
        .map_err(|error| failed(error.to_string()))
}
