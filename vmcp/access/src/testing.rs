//! An identity provider for tests: keys that rotate, metadata over HTTP, tokens with any header and claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::IncomingAuth;

use crate::authentication::Authentication;
use crate::identity::Identity;
use crate::identity::credential::{Credential, Scheme};
use crate::oidc::rejection::Rejection;

/// A provider that listens on loopback.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    shared: Arc<Shared>,
    _server: AbortOnDropHandle<()>,
}

struct Shared {
    key: Mutex<Key>,
    /// False: answers 500.
    up: Mutex<bool>,
    /// True: the key set has no keys.
    is_empty: Mutex<bool>,
    /// Requests for keys.
    fetches: AtomicU32,
}

pub(crate) struct Key {
    id: String,
    pair: EcdsaKeyPair,
}

impl Key {
    pub(crate) fn new(id: &str) -> Key {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        Key { id: id.to_owned(), pair }
    }

    /// A JWT with these texts as header and claims.
    pub(crate) fn sign(&self, header: &str, claims: &str) -> String {
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let part = |range| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({
            "kty": "EC", "crv": "P-256", "kid": self.id, "alg": "ES256", "use": "sig",
            "x": part(1..33), "y": part(33..65),
        })
    }
}

impl Provider {
    pub(crate) async fn start() -> Provider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            key: Mutex::new(Key::new("first")),
            up: Mutex::new(true),
            is_empty: Mutex::default(),
            fetches: AtomicU32::new(0),
        });
        let server = tokio::spawn(serve(listener, issuer.clone(), Arc::clone(&shared)));
        Provider { issuer, shared, _server: AbortOnDropHandle::new(server) }
    }

    /// The configuration that trusts this provider, with further settings.
    pub(crate) fn config(&self, more: &str) -> IncomingAuth {
        let text = format!(
            "incomingAuth:\n  type: oidc\n  oidc:\n    issuer: {}\n    audience: vmcp\n    \
             insecureAllowHttp: true\n    jwksAllowPrivateIp: true\n    {more}\n",
            self.issuer
        );
        vmcp_config::load(&text, "test", &|_| None).unwrap().config.incoming_auth
    }

    pub(crate) fn rotate(&self, id: &str) {
        *self.shared.key.lock() = Key::new(id);
    }

    /// Withdraws all keys.
    pub(crate) fn withdraw(&self) {
        *self.shared.is_empty.lock() = true;
    }

    pub(crate) fn set_up(&self, up: bool) {
        *self.shared.up.lock() = up;
    }

    pub(crate) fn fetches(&self) -> u32 {
        self.shared.fetches.load(Ordering::Relaxed)
    }

    /// The claims of a good token.
    pub(crate) fn claims(&self) -> Value {
        json!({"iss": self.issuer, "aud": "vmcp", "sub": "alice", "exp": now() + 600, "scope": "read write"})
    }

    /// A token of the present key.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let id = self.shared.key.lock().id.clone();
        self.token_of(&json!({"alg": "ES256", "kid": id}).to_string(), &claims.to_string())
    }

    /// A token with this type.
    pub(crate) fn token_of_type(&self, typ: &str, claims: &Value) -> String {
        let id = self.shared.key.lock().id.clone();
        self.token_of(&json!({"alg": "ES256", "kid": id, "typ": typ}).to_string(), &claims.to_string())
    }

    /// A token of the present key with these texts as header and claims.
    pub(crate) fn token_of(&self, header: &str, claims: &str) -> String {
        self.shared.key.lock().sign(header, claims)
    }

    /// The bytes of the current public key.
    pub(crate) fn public_key(&self) -> Vec<u8> {
        self.shared.key.lock().pair.public_key().as_ref().to_vec()
    }
}

impl Authentication {
    /// Returns the client that a bearer token or a key proves, on a connection without a certificate.
    pub(crate) async fn identify_bearer(&self, token: Option<&str>) -> Result<Identity, Rejection> {
        let bearer = |token| Credential { scheme: Scheme::Bearer, token, certificate: None, request: None };
        self.identify(token.map(bearer).as_ref()).await
    }
}

/// Header and claims of a token, without the signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

async fn serve(listener: TcpListener, issuer: String, shared: Arc<Shared>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = match path {
            "/.well-known/openid-configuration" => {
                json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})
            }
            "/keys" => {
                shared.fetches.fetch_add(1, Ordering::Relaxed);
                if *shared.is_empty.lock() {
                    json!({"keys": []})
                } else {
                    json!({"keys": [shared.key.lock().jwk(), {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]})
                }
            }
            _ => json!({}),
        };
        let up = *shared.up.lock();
        let status = if up { "200 OK" } else { "500 Down" };
        let body = body.to_string();
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        // The client may have gone.
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
