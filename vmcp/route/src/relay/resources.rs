//! `resources/read`: of kept results, of vmcp's own state, of listed resources and of unlisted ones whose
//! backend is certain.

use std::time::Instant;

use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::own_tools::large_results::resource;
use crate::relay::own_resources;
use crate::router::{self, BackendTarget};
use crate::subject;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::Origin;

/// Handles `resources/read`.
pub async fn read_resource(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let uri = match subject::subject(params, "uri") {
        Ok(uri) => uri,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::no_resource(&uri);
    if let Some(reference) = router::kept_reference(context, &uri) {
        if let Some(answer) = resource::read(context, &uri, reference).await {
            return answer;
        }
        hidden::hold(context, begun).await;
        return unknown();
    }
    if let Some(resource) = router::own_resource(context, &uri) {
        if let Some(answer) = own_resources::read(context, &uri, resource) {
            return answer;
        }
        hidden::hold(context, begun).await;
        return unknown();
    }
    let Some(backend) = router::resource(context, &uri) else {
        hidden::record_resource(context, &uri, methods::RESOURCES_READ);
        hidden::hold(context, begun).await;
        return unknown();
    };
    let item = Item::Resource(&uri);
    let target = BackendTarget::read(context.snapshot, backend, methods::RESOURCES_READ, item);
    let Ok(call) = call::authorize(context, context.start_record(Origin::Client), target, None) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    call.relay(params).await
}
