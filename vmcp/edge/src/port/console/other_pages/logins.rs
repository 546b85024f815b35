//! The data of the page on which a person sees their own logins, and the order to forget one. A person is
//! known by the sign-in at the provider alone: neither role nor a query shows another person's logins.

use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use vmcp_access::outgoing::logins::Logins;
use vmcp_config::{Config, UpstreamKind};
use vmcp_console::frame::Frame;
use vmcp_console::links::link;
use vmcp_console::pages::clients::Replicas;
use vmcp_console::pages::sign_in::logins::{
    BegunLogin, MyLogin, MyLogins, ServerLogin, logins as logins_page,
};
use vmcp_engine::access::outgoing::logins_folder;
use vmcp_engine::engine::replicas::{ClientLogin, ClientName};
use vmcp_engine::random::now;

use crate::port::admin::guard::audit::OperatorAddress;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::catalog::{Done, unknown};

/// The query `?server=NAME&done=WORD`.
#[derive(Debug, Default, Deserialize)]
pub(in crate::port::console) struct LoginsQuery {
    #[serde(default)]
    server: String,
    done: Option<Done>,
}

/// Answers `GET /console/logins`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<LoginsQuery>,
) -> Html<String> {
    let data = data(&door, &visitor).await;
    let frame = Frame { notice: query.done.map(Done::notice), ..door.frame(&visitor) };
    Html(logins_page(&frame, &data))
}

/// Returns the logins that a visitor sees: their own, and those of this server unless they are a viewer.
async fn data(door: &ConsoleDoor, visitor: &Visitor) -> MyLogins {
    let config = door.engine().snapshot().config.clone();
    let mut data = MyLogins { subject: visitor.subject().map(str::to_owned), ..MyLogins::default() };
    for client in visitor.subject().map(|subject| names_of(&config, subject)).unwrap_or_default() {
        let total = door.engine().total_logins_of(&client).await;
        data.logins.extend(total.logins.into_iter().map(shown));
        data.replicas = total
            .census
            .map(|census| Replicas { answering: census.replicas, unreachable: census.unreachable });
    }
    if !visitor.is_viewer() {
        data.of_server = Some(logins_of_server(&config).await);
    }
    data
}

/// Returns the logins of `vmcp login` that are in use.
async fn logins_of_server(config: &Config) -> Vec<ServerLogin> {
    let signed_in = config.backends.iter().filter(|backend| backend.credentials.signed_in_at().is_some());
    let names: Vec<String> = signed_in.map(|backend| backend.name.to_string()).collect();
    let Some(logins) = logins_folder().map(Logins::in_folder).filter(|_| !names.is_empty()) else {
        return Vec::new();
    };
    let read = move || {
        let login = |server: String| {
            // The tokens themselves stay here.
            let tokens = logins.read(&server).ok();
            let expires = tokens.as_ref().and_then(|tokens| tokens.expires_at);
            let is_renewed = tokens.is_some_and(|tokens| tokens.refresh_token.is_some());
            let is_expired = expires.is_some_and(|at| at <= now());
            ServerLogin { server, expires: expires.map(time), is_expired, is_renewed }
        };
        names.into_iter().map(login).collect::<Vec<_>>()
    };
    // The task fails only when the runtime is going down.
    spawn_blocking(read).await.unwrap_or_default()
}

/// Answers `POST /console/logins/sign-in`: begins a login of this server, as `vmcp login` does, for an
/// operator on its machine. The provider sends the browser back to a loopback address.
pub(in crate::port::console) async fn sign_in(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    address: Option<Extension<OperatorAddress>>,
    Query(query): Query<LoginsQuery>,
) -> Response {
    if !has_login(&door, &query.server) {
        return unknown("server with a login", &query.server).into_response();
    }
    let is_local =
        address.is_some_and(|Extension(OperatorAddress(address))| address.to_canonical().is_loopback());
    let Some(begin) = door.admin().0.console.login.clone().filter(|_| is_local) else {
        let words = "a login ends on the machine of this server: run `vmcp login NAME` there\n";
        return (StatusCode::CONFLICT, words).into_response();
    };
    let started = match begin(query.server.clone()).await {
        Ok(address) => BegunLogin { server: query.server, address: Some(address), reason: String::new() },
        Err(reason) => BegunLogin { server: query.server, address: None, reason },
    };
    let data = MyLogins { begun: Some(started), ..data(&door, &visitor).await };
    Html(logins_page(&door.frame(&visitor), &data)).into_response()
}

/// Answers `POST /console/logins/sign-out`: deletes the tokens of this server's login, as `vmcp logout` does.
pub(in crate::port::console) async fn sign_out(
    State(door): State<ConsoleDoor>,
    Query(query): Query<LoginsQuery>,
) -> Response {
    let folder = logins_folder().filter(|_| has_login(&door, &query.server));
    let Some(logins) = folder.map(Logins::in_folder) else {
        return unknown("server with a login", &query.server).into_response();
    };
    match spawn_blocking(move || logins.remove(&query.server)).await {
        Ok(Ok(_)) => Redirect::to(&link("logins", &[("done", Done::SignedOut.word())])).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        // Not reached: the task neither panics nor is aborted.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns true if a login of `vmcp login` is in use for a server of the configuration.
fn has_login(door: &ConsoleDoor, server: &str) -> bool {
    let config = door.engine().snapshot().config.clone();
    config
        .backends
        .iter()
        .any(|backend| *backend.name == *server && backend.credentials.signed_in_at().is_some())
}

/// Answers `POST /console/logins/forget`: the person's own tokens for a server, and no other ones.
pub(in crate::port::console) async fn forget(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<LoginsQuery>,
) -> Response {
    let Some(subject) = visitor.subject() else {
        let words =
            "logins are a person's: sign in at the provider (server.console: oidc), not with a token\n";
        return (StatusCode::FORBIDDEN, words).into_response();
    };
    let config = door.engine().snapshot().config.clone();
    if !config.backends.iter().any(|backend| *backend.name == *query.server) {
        return unknown("server", &query.server).into_response();
    }
    for client in names_of(&config, subject) {
        if let Err(error) = door.engine().forget_login(&client, &query.server, false).await {
            return (StatusCode::INSUFFICIENT_STORAGE, format!("{error}\n")).into_response();
        }
    }
    Redirect::to(&link("logins", &[("done", Done::LoginForgotten.word())])).into_response()
}

/// Returns the names under which a person of the console is known as a client: at the provider itself, and at
/// vmcp's authorization server if that provider tells who a person is there.
fn names_of(config: &Config, subject: &str) -> Vec<ClientName> {
    let Some(sign_in) = &config.server.console_sign_in else { return Vec::new() };
    let UpstreamKind::Oidc { issuer: provider, subject_claim: claim } = &sign_in.provider.kind else {
        return Vec::new();
    };
    let own = config.incoming_auth.auth_server.as_ref().filter(|server| {
        let first = server.upstreams.first().map(|first| &first.kind);
        matches!(first, Some(UpstreamKind::Oidc { issuer, subject_claim })
            if issuer.issuer == provider.issuer && subject_claim == claim)
    });
    let issuers = std::iter::once(&provider.issuer).chain(own.map(|server| &server.issuer));
    issuers.map(|issuer| ClientName { issuer: issuer.clone(), subject: subject.to_owned() }).collect()
}

fn shown(login: ClientLogin) -> MyLogin {
    let ClientLogin { server, kind, provider, expires } = login;
    MyLogin { server, kind, provider, expires: time(expires) }
}

/// Returns seconds since 1970 as RFC 3339; a time after the year 9999 as the last second of that year.
fn time(seconds: u64) -> String {
    let last = 253_402_300_799;
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(last)));
    at.map(|at| humantime::format_rfc3339_seconds(at).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Json, Router};
    use serde_json::{Map, json};
    use vmcp_access::outgoing::Subject;
    use vmcp_engine::access::identity::Identity;
    use vmcp_engine::testing::{KEYWORDS, config, engine};

    use super::*;
    use crate::port::admin::Admin;
    use crate::port::admin::guard::AdminGuard;

    /// Form of the row of a login.
    const ROW: &str = "action=\"/console/logins/forget?server=forge\"";
    const ISSUER: &str = "http://127.0.0.1:1";
    const SIGN_IN: &str = "{ console: oidc, consoleSignIn: { issuerUrl: \"http://127.0.0.1:1\", clientId: x, \
                           viewers: [a], insecureAllowHttp: true, allowPrivateIPs: true, \
                           redirectUri: \"http://localhost:9090/console/oidc/callback\" } }";

    async fn page(door: &ConsoleDoor, visitor: Visitor) -> String {
        show(State(door.clone()), Extension(visitor), Query(LoginsQuery::default())).await.0
    }

    async fn forgotten(door: &ConsoleDoor, visitor: Visitor, server: &str) -> StatusCode {
        let query = LoginsQuery { server: server.to_owned(), done: None };
        forget(State(door.clone()), Extension(visitor), Query(query)).await.status()
    }

    #[tokio::test]
    async fn a_person_sees_and_forgets_their_own_logins_and_no_other_ones() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let answer =
            || async { Json(json!({"access_token": "s3cret", "token_type": "Bearer", "expires_in": 600})) };
        let app = Router::new().route("/token", post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let engine = engine(&format!(
            "server: {SIGN_IN}\nbackends: [{{ name: forge, url: \"http://127.0.0.1:1/mcp\" }}]\n\
             outgoingAuth: {{ backends: {{ forge: {{ type: tokenExchange, tokenExchange: {{ \
             tokenUrl: \"{url}\", audience: x, clientId: v, clientSecret: a-secret }} }} }} }}\n{KEYWORDS}"
        ))
        .await;
        let tokens = engine.snapshot().tokens["forge"].clone();
        for (issuer, subject) in [(ISSUER, "ann"), (ISSUER, "bob"), ("https://other.example", "eve")] {
            let client = Identity::known(issuer, subject, Map::new(), Some("own".into()));
            tokens.token(Subject::Client(&client), None).await.unwrap();
        }
        let guard = AdminGuard::new(Admin::new(engine.clone(), None), ([127, 0, 0, 1], 9090).into());
        let door = ConsoleDoor::new(guard);
        for (visitor, is_there) in [
            (Visitor::person("ann"), true),
            (Visitor::person("bob"), true),
            (Visitor::person("eve"), false),
            (Visitor::default(), false),
        ] {
            let page = page(&door, visitor.clone()).await;
            assert_eq!(page.contains(ROW), is_there, "{visitor:?}: {page}");
            assert!(!page.contains("s3cret"), "{page}");
        }
        assert_eq!(forgotten(&door, Visitor::default(), "forge").await, StatusCode::FORBIDDEN, "an operator");
        assert_eq!(forgotten(&door, Visitor::person("ann"), "gone").await, StatusCode::NOT_FOUND);
        assert_eq!(forgotten(&door, Visitor::person("eve"), "forge").await, StatusCode::SEE_OTHER);
        assert!(page(&door, Visitor::person("ann")).await.contains(ROW), "by another person");
        assert_eq!(forgotten(&door, Visitor::person("ann"), "forge").await, StatusCode::SEE_OTHER);
        assert!(!page(&door, Visitor::person("ann")).await.contains(ROW));
        assert!(page(&door, Visitor::person("bob")).await.contains(ROW), "bob keeps his");
    }

    #[test]
    fn a_person_has_a_name_at_the_authorization_server_whose_first_provider_is_the_consoles() {
        let names = |first: &str| {
            let provider = |issuer: &str, name: &str| {
                json!({"name": name, "type": "oidc", "oidcConfig": {"issuerUrl": issuer, "clientId": "x",
                    "insecureAllowHttp": true, "allowPrivateIPs": true}})
            };
            let second = provider("http://127.0.0.1:3", "second");
            let text = json!({"authServer": {"issuer": "http://localhost:4483",
                "hmacSecrets": ["a secret of thirty-two characters"],
                "upstreamProviders": [provider(first, "corp"), second]}});
            let names =
                names_of(&config(&format!("server: {SIGN_IN}\nauthServer: {}", text["authServer"])), "ann");
            names.into_iter().map(|name| (name.issuer, name.subject)).collect::<Vec<_>>()
        };
        let of = |issuer: &str| (issuer.to_owned(), "ann".to_owned());
        assert_eq!(names(ISSUER), [of(ISSUER), of("http://localhost:4483")]);
        assert_eq!(names("http://127.0.0.1:2"), [of(ISSUER)], "another first provider");
    }
}
