//! Signatures of posted bodies, by which a service knows their sender.

use reqwest::RequestBuilder;
use ring::hmac;
use vmcp_config::Secret;

use crate::clock::now;

/// Names of the two headers of a signed body.
pub(super) struct SignatureHeaders {
    pub(super) timestamp: &'static str,
    pub(super) signature: &'static str,
}

impl SignatureHeaders {
    /// Adds the present time and the signature; without a secret, the request stays as it is.
    pub(super) fn sign(
        &self,
        request: RequestBuilder,
        secret: Option<&Secret>,
        body: &[u8],
    ) -> RequestBuilder {
        let Some(secret) = secret else { return request };
        let timestamp = now();
        let signature = signature(secret.expose(), timestamp, body);
        request.header(self.timestamp, timestamp).header(self.signature, signature)
    }
}

/// Returns HMAC-SHA256 of the timestamp, a dot and the body, as `sha256=HEX`.
pub(super) fn signature(secret: &str, timestamp: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    context.update(format!("{timestamp}.").as_bytes());
    context.update(body);
    format!("sha256={}", hex::encode(context.sign()))
}
