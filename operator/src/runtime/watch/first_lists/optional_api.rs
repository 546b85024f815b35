//! Kinds that a cluster may lack, because their definitions come with another project. Their lists are
//! complete while the kind is missing.

use std::time::Duration;

use kube::api::ApiResource;
use vmcp_error_chain::error_chain;

use super::WatchName;
use crate::runtime::watch::WatchEnvironment;

/// The interval at which the operator looks again for an optional API that the cluster lacks.
const MISSING_API_POLL_INTERVAL: Duration = Duration::from_mins(1);
/// The interval at which the operator asks again whether there is an optional API, if it got no answer.
const FAILED_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Waits until the cluster has an optional kind. Calls `found` with each answer.
pub(in crate::runtime::watch) async fn await_api(
    environment: &WatchEnvironment<'_>,
    resource: &ApiResource,
    watches: &[WatchName],
    found: impl Fn(bool),
) {
    loop {
        match has_api(environment, resource).await {
            Ok(true) => break,
            Ok(false) => {
                found(false);
                // A kind that does not exist has no objects: its lists are complete.
                for watch in watches {
                    environment.first_lists.complete(watch);
                }
                tokio::time::sleep(MISSING_API_POLL_INTERVAL).await;
            }
            // No answer says nothing about the kind: objects of it must not be taken for impossible.
            Err(error) => {
                let text = error_chain(&error);
                for watch in watches {
                    environment.first_lists.failed(watch, &text);
                }
                tokio::time::sleep(FAILED_PROBE_INTERVAL).await;
            }
        }
    }
    found(true);
}

/// Looks whether the cluster has an optional kind.
async fn has_api(environment: &WatchEnvironment<'_>, resource: &ApiResource) -> kube::Result<bool> {
    match environment.clients.for_calls().list_api_group_resources(&resource.api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|found| found.kind == resource.kind)),
        // The group itself is unknown.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;
    use vmcp_crds::ApiGroup;

    use super::*;
    use crate::runtime::Metrics;
    use crate::runtime::watch::{ChildKind, Clients, FirstLists, History, ReferenceGrant, Scope};

    #[tokio::test]
    async fn an_api_is_missing_only_if_the_server_says_so() {
        let resources = |version: &str, plural: &str, kind: &str| {
            let group_version = format!("gateway.networking.k8s.io/{version}");
            let list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": [
                { "name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list"] },
            ] });
            axum::routing::get(async move || axum::Json(list))
        };
        let refused = axum::routing::get(async || StatusCode::FORBIDDEN);
        let api = axum::Router::new()
            .route("/apis/gateway.networking.k8s.io/v1", resources("v1", "httproutes", "HTTPRoute"))
            .route(
                "/apis/gateway.networking.k8s.io/v1beta1",
                resources("v1beta1", "referencegrants", "ReferenceGrant"),
            )
            .route("/apis/monitoring.coreos.com/v1", refused);
        let ask = async |router: axum::Router, resource: ApiResource| {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            tokio::spawn(async move { axum::serve(listener, router).await });
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = kube::Config::new(url.parse().expect("a URL"));
            let (client, scope) =
                (kube::Client::try_from(config.clone()).expect("a client"), Scope::parse("", ""));
            let environment = WatchEnvironment {
                clients: &Clients::new(client, &config, &scope),
                scope: &scope,
                api_group: ApiGroup::default(),
                metrics: &Metrics::default(),
                first_lists: &FirstLists::awaiting([]),
                history: &History::default(),
            };
            has_api(&environment, &resource).await.ok()
        };
        let route = ChildKind::HTTPRoute.resource();
        assert_eq!(ask(api.clone(), route.clone()).await, Some(true));
        assert_eq!(ask(api.clone(), ApiResource::erase::<ReferenceGrant>(&())).await, Some(true));
        let monitor = ChildKind::ServiceMonitor.resource();
        assert_eq!(ask(api, monitor).await, None, "a refusal says nothing about the kind");
        let nothing = axum::Router::new().fallback(async || {
            let status = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
            (StatusCode::NOT_FOUND, axum::Json(status))
        });
        assert_eq!(ask(nothing, route).await, Some(false));
    }
}
