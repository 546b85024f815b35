//! Errors of responses in place of which a two-way stream was wanted.

use http::response::Parts;
use http::{Response, StatusCode};

use crate::http_client::ResponseBody;
use crate::transport::body;
use crate::transport::endpoint::Endpoint;
use crate::transport::link_error::{self, HttpRefusal, LinkError, ServerWords};
use crate::transport::mux::Mux;

/// Returns the error of a response without a status of success.
pub(super) async fn refusal(endpoint: &Endpoint, mux: &Mux, response: Response<ResponseBody>) -> LinkError {
    let (head, said) = words(endpoint, mux, response).await;
    match head.status {
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            LinkError::refused(status, &head.headers, said)
        }
        status => LinkError::Status(HttpRefusal::new(status, &head.headers, said)),
    }
}

/// Reads the beginning of a response without the secrets that the server was sent.
pub(super) async fn words(
    endpoint: &Endpoint,
    mux: &Mux,
    response: Response<ResponseBody>,
) -> (Parts, ServerWords) {
    let (mut head, body) = response.into_parts();
    let proof = head.extensions.remove();
    let secrets = endpoint.secrets(mux.inbound.secrets.load_full(), proof.as_ref());
    let body = body::beginning(body).await;
    let said = ServerWords::new(&link_error::telling(head.status, &head.headers, &body), &secrets);
    (head, said)
}
