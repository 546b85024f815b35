//! [`OpenIdProvider`]: a provider of OpenID Connect that makes the ID tokens a test asks for.

use vmcp_config::Secret;

use super::*;

/// A provider with a key of its own.
pub(super) struct OpenIdProvider {
    pub(super) origin: String,
    shared: Arc<Shop>,
}

struct Shop {
    origin: String,
    keys: SigningKeys,
    /// True if answers to authorization requests name the issuer (RFC 9207).
    names_itself: bool,
    /// Nonces of the authorization requests, by code.
    codes: Mutex<HashMap<String, String>>,
    /// Claims that replace the right ones; null takes one away.
    said: Mutex<Value>,
    redeemed: AtomicU64,
}

impl OpenIdProvider {
    /// Starts one whose answers name their issuer.
    pub(super) async fn start() -> Self {
        Self::with(true).await
    }

    /// Starts one; `names_itself`: it announces that its answers name their issuer.
    pub(super) async fn with(names_itself: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let key = Secret::from(pem(&generated()));
        let shared = Arc::new(Shop {
            origin: origin.clone(),
            keys: SigningKeys::new(&[key], &[], &[0; 32]).unwrap(),
            names_itself,
            codes: Mutex::default(),
            said: Mutex::new(json!({})),
            redeemed: AtomicU64::new(0),
        });
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(async |Shared(shop): Shared<Arc<Shop>>| Json(shop.keys.key_set())))
            .route("/token", post(redeem))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { origin, shared }
    }

    /// Returns its block in `upstreamProviders`.
    pub(super) fn provider(&self, name: &str) -> Value {
        json!({"name": name, "type": "oidc", "oidcConfig": {
            "issuerUrl": self.origin, "clientId": "vmcp", "clientSecret": "s3cret",
            "insecureAllowHttp": true, "allowPrivateIPs": true,
        }})
    }

    /// Signs a person in who was sent to `at`; returns the code.
    pub(super) fn code_for(&self, at: &Url) -> String {
        assert!(at.as_str().starts_with(&self.origin), "{at} is elsewhere");
        let mut codes = self.shared.codes.lock();
        let code = format!("code-{}", codes.len() + 1);
        codes.insert(code.clone(), parameter(at, "nonce"));
        code
    }

    /// Puts `claims` in place of the right ones in the ID tokens to come.
    pub(super) fn say(&self, claims: &Value) {
        *self.shared.said.lock() = claims.clone();
    }

    /// Returns the number of codes that reached its token endpoint.
    pub(super) fn redeemed(&self) -> u64 {
        self.shared.redeemed.load(Ordering::SeqCst)
    }
}

async fn metadata(Shared(shop): Shared<Arc<Shop>>) -> Json<Value> {
    let Shop { origin, names_itself, .. } = &*shop;
    Json(json!({
        "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"), "jwks_uri": format!("{origin}/keys"),
        "authorization_response_iss_parameter_supported": names_itself,
    }))
}

async fn redeem(
    Shared(shop): Shared<Arc<Shop>>,
    FormBody(form): FormBody<HashMap<String, String>>,
) -> Json<Value> {
    shop.redeemed.fetch_add(1, Ordering::SeqCst);
    let nonce = form.get("code").and_then(|code| shop.codes.lock().get(code).cloned());
    let mut claims = json!({
        "iss": shop.origin, "sub": "4711", "aud": "vmcp", "exp": now() + 300, "iat": now(), "nonce": nonce,
    });
    let all = claims.as_object_mut().unwrap();
    for (name, value) in shop.said.lock().as_object().unwrap() {
        all.insert(name.clone(), value.clone());
    }
    all.retain(|_, value| !value.is_null());
    let id = shop.keys.sign(&claims).unwrap();
    Json(json!({
        "access_token": "at-provider", "token_type": "bearer", "expires_in": 7200, "id_token": id,
        "refresh_token": "once-more",
    }))
}
