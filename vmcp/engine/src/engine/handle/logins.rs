//! Tokens of one client that vmcp keeps for calls of backends: a person sees and forgets their own.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vmcp_access::authentication::revocations::{RevocationError, RevokedCredentials};
use vmcp_access::identity::{Identity, KnownIdentity};
use vmcp_config::Credentials;

use crate::engine::Engine;
use crate::engine::replicas::{ClientLogin, ClientName, TotalLogins};

impl Engine {
    /// Returns the tokens of a client that this process keeps, sorted as the backends are configured.
    pub fn logins_of(&self, client: &ClientName) -> Vec<ClientLogin> {
        let (snapshot, digest) = (self.snapshot(), client.digest());
        let sign_ins = snapshot.authentication.sign_ins_of(&digest);
        // Whole seconds: the end may be almost a second later.
        let end = |life: Duration| {
            let end = SystemTime::now().checked_add(life)?.duration_since(UNIX_EPOCH).ok()?;
            Some(end.as_secs())
        };
        let login = |backend: &vmcp_config::Backend| {
            let tokens = snapshot.tokens.get(&*backend.name)?;
            let (provider, expires) = match &backend.credentials {
                Credentials::UpstreamInject(inject) => {
                    let known = sign_ins.iter().filter_map(Identity::as_known);
                    let carry = known.filter(|it| it.upstream_tokens().access(&inject.provider).is_some());
                    (Some(inject.provider.clone()), carry.filter_map(KnownIdentity::expires).max()?)
                }
                credentials if credentials.is_per_client() => {
                    (None, tokens.lives_of(&digest).into_iter().filter_map(end).max()?)
                }
                _ => return None,
            };
            let (server, kind) = (backend.name.to_string(), backend.credentials.kind().to_owned());
            Some(ClientLogin { server, kind, provider, expires })
        };
        snapshot.config.backends.iter().filter_map(login).collect()
    }

    /// Returns the tokens of a client that this process and the other replicas keep.
    pub async fn total_logins_of(&self, client: &ClientName) -> TotalLogins {
        let config = Arc::clone(&self.snapshot().config);
        self.0.shared.replicas.total_logins(&config, client, self.logins_of(client)).await
    }

    /// Forgets the tokens of a client for one backend, here and unless `only_here` at the other replicas;
    /// false if it had none here. Tokens that vmcp fetched are dropped, and the next call fetches another
    /// one. For tokens that the client carries, its sign-ins are withdrawn: the client asks the person to
    /// sign in again.
    pub async fn forget_login(
        &self,
        client: &ClientName,
        server: &str,
        only_here: bool,
    ) -> Result<bool, RevocationError> {
        let snapshot = self.snapshot();
        let Some(backend) = snapshot.config.backends.iter().find(|backend| *backend.name == *server) else {
            return Ok(false);
        };
        if matches!(backend.credentials, Credentials::UpstreamInject(_)) {
            // The other replicas take the order over by themselves.
            let own = snapshot.config.incoming_auth.auth_server.as_ref();
            let own = own.filter(|own| own.issuer == client.issuer);
            let Some(auth_server) = own else { return Ok(false) };
            let of = RevokedCredentials {
                issuer: Some(client.issuer.clone()),
                subject: Some(client.subject.clone()),
                token_id: None,
            };
            return self.revoke(of, auth_server.refresh_life, false).map(|_| true);
        }
        let had = snapshot.tokens.get(server).is_some_and(|tokens| tokens.forget(&client.digest()));
        if !only_here {
            self.0.shared.replicas.forget_login(&snapshot.config, client, server).await;
        }
        Ok(had)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Json, Router};
    use serde_json::{Map, json};
    use vmcp_access::outgoing::Subject;

    use super::*;
    use crate::testing::{KEYWORDS, engine};

    #[tokio::test]
    async fn a_client_has_the_logins_of_its_own_calls_and_forgets_them() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let answer =
            || async { Json(json!({"access_token": "t", "token_type": "Bearer", "expires_in": 600})) };
        let app = Router::new().route("/token", post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let exchange = format!(
            "{{ type: tokenExchange, tokenExchange: {{ tokenUrl: \"{url}\", audience: x, clientId: v, \
             clientSecret: a-secret }} }}"
        );
        let engine = engine(&format!(
            "backends: [{{ name: a, url: \"http://127.0.0.1:1/mcp\" }}, \
             {{ name: b, url: \"http://127.0.0.1:1/mcp\" }}]\n\
             outgoingAuth: {{ backends: {{ a: {exchange} }} }}\n{KEYWORDS}"
        ))
        .await;
        let name = |issuer: &str, subject: &str| ClientName {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
        };
        let (ann, bob) = (name("https://idp", "ann"), name("https://idp", "bob"));
        assert!(engine.logins_of(&ann).is_empty());
        let known = Identity::known("https://idp", "ann", Map::new(), Some("own".into()));
        let tokens = engine.snapshot().tokens["a"].clone();
        tokens.token(Subject::Client(&known), None).await.unwrap();
        let logins = engine.total_logins_of(&ann).await;
        let [login] = &*logins.logins else { panic!("{logins:?}") };
        assert_eq!((&*login.server, &*login.kind, &login.provider), ("a", "tokenExchange", &None));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!((590..=601).contains(&(login.expires - now)), "{login:?}");
        for other in [&bob, &name("https://other", "ann")] {
            assert!(engine.logins_of(other).is_empty(), "{other:?}");
            assert_eq!(engine.forget_login(other, "a", false).await, Ok(false));
        }
        assert_eq!(engine.forget_login(&ann, "b", false).await, Ok(false));
        assert_eq!(engine.forget_login(&ann, "gone", false).await, Ok(false));
        assert_eq!(engine.logins_of(&ann).len(), 1);
        assert_eq!(engine.forget_login(&ann, "a", false).await, Ok(true));
        assert!(engine.logins_of(&ann).is_empty());
    }
}
