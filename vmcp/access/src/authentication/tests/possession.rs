//! Tokens that are bound to a key of their holder, by proofs (DPoP) and by certificates.

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use super::*;
use crate::identity::client_certificate::ClientCertificate;
use crate::identity::credential::{Credential, ProvedRequest, Scheme};
use crate::oidc::rejection::ProofError;
use crate::testing::Key;

const URL: &str = "https://tools.example.com/mcp";
const RESOURCE: &str = "resource: https://tools.example.com/mcp";

/// The claim `ath` of a token.
fn token_hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}

/// A client with a key.
struct Holder(Key);

impl Holder {
    fn new() -> Self {
        Self(Key::new("holder"))
    }

    fn thumbprint(&self) -> String {
        let jwk = self.0.jwk();
        let (x, y) = (jwk["x"].as_str().unwrap(), jwk["y"].as_str().unwrap());
        let text = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        URL_SAFE_NO_PAD.encode(Sha256::digest(text))
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.0.jwk()})
    }

    fn proof(&self, token: &str) -> String {
        self.0.sign(&self.header().to_string(), &proof_claims(token).to_string())
    }
}

/// The claims of a good proof, each with an identifier of its own.
fn proof_claims(token: &str) -> Value {
    let id = format!("{:x}", fastrand::u128(..));
    json!({"jti": id, "htm": "POST", "htu": URL, "iat": now(), "ath": token_hash(token)})
}

/// A token of alice, bound to the key of a holder.
fn bound(provider: &Provider, holder: &Holder) -> String {
    let mut claims = provider.claims();
    claims["cnf"] = json!({"jkt": holder.thumbprint()});
    provider.token(&claims)
}

/// Presents a token with a proof, to a server at [`URL`].
async fn prove(authentication: &Authentication, token: &str, proof: Option<&str>) -> Result<(), Rejection> {
    let request = ProvedRequest { proof, method: "POST", urls: vec![URL.parse().unwrap()] };
    let credential = Credential { scheme: Scheme::Dpop, token, certificate: None, request: Some(request) };
    authentication.identify(Some(&credential)).await.map(|identity| assert_eq!(identity.subject(), "alice"))
}

#[tokio::test]
async fn a_bound_token_is_of_use_with_a_proof_of_its_key_only() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(RESOURCE));
    let (holder, thief) = (Holder::new(), Holder::new());
    let token = bound(&provider, &holder);
    for _ in 0..3 {
        assert_eq!(prove(&authentication, &token, Some(&holder.proof(&token))).await, Ok(()));
    }
    assert_eq!(refusal(&authentication, &token).await, TokenError::NoProof.into(), "as a bearer token");
    let of_thief = thief.proof(&token);
    assert_eq!(prove(&authentication, &token, Some(&of_thief)).await, Err(ProofError::Holder.into()));
    assert_eq!(prove(&authentication, &token, None).await, Err(ProofError::Missing.into()));
    let plain = provider.token(&provider.claims());
    let proof = holder.proof(&plain);
    let refused = prove(&authentication, &plain, Some(&proof)).await;
    assert_eq!(
        refused,
        Err(TokenError::Unbound.into()),
        "the token of another flow gains nothing by a proof"
    );
    // Where no URL of this server is configured, no proof can be for it.
    let unknown_url = ProvedRequest { proof: Some(&proof), method: "POST", urls: Vec::new() };
    let credential =
        Credential { scheme: Scheme::Dpop, token: &token, certificate: None, request: Some(unknown_url) };
    let refused = authentication.identify(Some(&credential)).await;
    assert_eq!(refused.unwrap_err(), TokenError::Bound.into());
    // A stream that is open has shown its proof.
    let stream = Credential { scheme: Scheme::Dpop, token: &token, certificate: None, request: None };
    assert!(authentication.identify(Some(&stream)).await.is_ok());
}

#[tokio::test]
async fn a_proof_is_good_once_also_after_a_reload() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(RESOURCE));
    let holder = Holder::new();
    let token = bound(&provider, &holder);
    let proof = holder.proof(&token);
    assert_eq!(prove(&authentication, &token, Some(&proof)).await, Ok(()));
    assert_eq!(prove(&authentication, &token, Some(&proof)).await, Err(ProofError::Replayed.into()));
    let reloaded = Authentication::with_timing(&provider.config(RESOURCE), &authentication, EAGER);
    assert_eq!(prove(&reloaded, &token, Some(&proof)).await, Err(ProofError::Replayed.into()));
    // An identifier counts per key: under another key it is another proof.
    let other = Holder::new();
    let (others, mut claims) = (bound(&provider, &other), proof_claims(""));
    claims["jti"] = json!("shared");
    for (holder, token) in [(&other, &others), (&holder, &token)] {
        claims["ath"] = json!(token_hash(token));
        let proof = holder.0.sign(&holder.header().to_string(), &claims.to_string());
        assert_eq!(prove(&authentication, token, Some(&proof)).await, Ok(()));
    }
}

#[tokio::test]
async fn each_member_of_a_proof_that_is_wrong_is_refused() {
    let provider = Provider::start().await;
    let authentication = start(&provider.config(RESOURCE));
    let holder = Holder::new();
    let token = bound(&provider, &holder);
    for (claim, value, refused) in [
        ("htm", json!("GET"), ProofError::Method),
        ("htm", json!("post"), ProofError::Method),
        ("htu", json!("https://evil.example/mcp"), ProofError::Url),
        ("htu", json!("http://tools.example.com/mcp"), ProofError::Url),
        ("htu", json!("https://tools.example.com/mcp/dev"), ProofError::Url),
        ("htu", json!("https://tools.example.com:444/mcp"), ProofError::Url),
        ("htu", json!("https://a@tools.example.com/mcp"), ProofError::Url),
        ("htu", json!("/mcp"), ProofError::Url),
        ("iat", json!(now() - 120), ProofError::Time),
        ("iat", json!(now() + 120), ProofError::Time),
        ("iat", json!("now"), ProofError::Malformed),
        ("ath", json!(token_hash("another token")), ProofError::Token),
        ("ath", json!(""), ProofError::Token),
        ("ath", json!(null), ProofError::Malformed),
        ("jti", json!(""), ProofError::Malformed),
        ("jti", json!("x".repeat(1000)), ProofError::Malformed),
    ] {
        let mut claims = proof_claims(&token);
        claims[claim] = value.clone();
        let proof = holder.0.sign(&holder.header().to_string(), &claims.to_string());
        let outcome = prove(&authentication, &token, Some(&proof)).await;
        assert_eq!(outcome, Err(refused.into()), "{claim}: {value}");
    }
    let mut private = holder.0.jwk();
    private["d"] = json!("AAAA");
    for (member, value, refused) in [
        ("typ", json!("JWT"), ProofError::Type),
        ("typ", json!(null), ProofError::Type),
        ("alg", json!("none"), ProofError::Algorithm),
        ("alg", json!("HS256"), ProofError::Algorithm),
        ("alg", json!("ES384"), ProofError::Signature),
        ("alg", json!("RS256"), ProofError::Signature),
        ("jwk", json!(null), ProofError::Key),
        ("jwk", json!({"kty": "oct", "k": "c2VjcmV0"}), ProofError::Key),
        ("jwk", private, ProofError::Key),
        ("crit", json!(["b64"]), ProofError::Key),
    ] {
        let mut header = holder.header();
        header[member] = value.clone();
        let proof = holder.0.sign(&header.to_string(), &proof_claims(&token).to_string());
        let outcome = prove(&authentication, &token, Some(&proof)).await;
        assert_eq!(outcome, Err(refused.into()), "{member}: {value}");
    }
    // The public key as the secret of an HMAC, and another's signature over the same key.
    let mut header = holder.header();
    header["alg"] = json!("HS256");
    let signed = unsigned(&header, &proof_claims(&token));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[4; 65]), signed.as_bytes());
    let confused = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
    let refused = prove(&authentication, &token, Some(&confused)).await;
    assert_eq!(refused, Err(ProofError::Algorithm.into()));
    let forged = Holder::new().0.sign(&holder.header().to_string(), &proof_claims(&token).to_string());
    assert_eq!(prove(&authentication, &token, Some(&forged)).await, Err(ProofError::Signature.into()));
    let twice = proof_claims(&token).to_string().replacen('{', r#"{"htu":"https://evil.example/","#, 1);
    let twice = holder.0.sign(&holder.header().to_string(), &twice);
    for rubbish in [twice.as_str(), "", "a.b.c", &"x".repeat(100_000), &format!("{}.x", holder.proof(&token))]
    {
        let refused = prove(&authentication, &token, Some(rubbish)).await;
        assert_eq!(refused, Err(ProofError::Malformed.into()), "{rubbish:.40}");
    }
    // Normal forms of the same URL (RFC 3986, 6.2.2).
    for same in ["HTTPS://Tools.Example.COM:443/mcp", "https://tools.example.com/a/../mcp?q=1#f"] {
        let mut claims = proof_claims(&token);
        claims["htu"] = json!(same);
        let proof = holder.0.sign(&holder.header().to_string(), &claims.to_string());
        assert_eq!(prove(&authentication, &token, Some(&proof)).await, Ok(()), "{same}");
    }
}

#[tokio::test]
async fn an_issuer_may_require_a_binding() {
    let provider = Provider::start().await;
    let holder = Holder::new();
    let (plain, token) = (provider.token(&provider.claims()), bound(&provider, &holder));
    let required = start(&provider.config(&format!("{RESOURCE}\n    requiredBinding: dpop")));
    assert_eq!(refusal(&required, &plain).await, TokenError::Unbound.into());
    assert_eq!(prove(&required, &token, Some(&holder.proof(&token))).await, Ok(()));
    assert_eq!(refusal(&required, &token).await, TokenError::NoProof.into());
    let mut certificates = provider.config(RESOURCE);
    Arc::make_mut(&mut certificates.issuers[0]).required_binding = vmcp_config::TokenBinding::Certificate;
    let certificates = start(&certificates);
    let refused = prove(&certificates, &token, Some(&holder.proof(&token))).await;
    assert_eq!(refused, Err(TokenError::Unbound.into()), "a key is no certificate");
}

#[tokio::test]
async fn a_token_of_a_certificate_is_of_use_on_connections_with_it_only() {
    let provider = Provider::start().await;
    let mut config = provider.config("");
    config.client_authorities = Some("the authorities".to_owned());
    let authentication = start(&config);
    let certificate = || {
        let mut params = CertificateParams::new(vec!["ci.example.com".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(certificate.der()));
        let read = |by: &str| ClientCertificate::read(certificate.der(), by.into()).unwrap();
        (digest, read("the authorities"), read("others"))
    };
    let ((digest, own, by_others), (_, another, _)) = (certificate(), certificate());
    let mut claims = provider.claims();
    claims["cnf"] = json!({"x5t#S256": digest});
    let token = provider.token(&claims);
    let present = async |certificate: Option<&ClientCertificate>| {
        let credential = Credential { scheme: Scheme::Bearer, token: &token, certificate, request: None };
        authentication.identify(Some(&credential)).await.map(|identity| identity.subject().to_owned())
    };
    assert_eq!(present(Some(&own)).await, Ok("alice".to_owned()));
    for other in [None, Some(&another), Some(&by_others)] {
        assert_eq!(present(other).await, Err(TokenError::NoCertificate.into()));
    }
    assert_eq!(present(Some(&own)).await, Ok("alice".to_owned()), "from the cache too");
}
