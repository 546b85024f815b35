//! `resources/read`, of listed resources and of unlisted ones whose backend is certain.

use serde_json::value::RawValue;
use vmcp_wire::methods;

use super::answer::Answer;
use super::call::{self, Denied};
use super::caller::CallContext;
use super::router::{self, BackendTarget};
use super::subject::Subject;
use crate::access::policy::Item;
use crate::telemetry::calls::Origin;

/// Handles `resources/read`.
pub async fn read_resource(context: CallContext<'_>, params: &RawValue) -> Answer {
    let uri = match Subject::parse(params, "uri") {
        Ok(parsed) => parsed.subject,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::no_resource(&uri);
    let Some(backend) = router::resource(context, &uri) else { return unknown() };
    let item = Item::Resource(&uri);
    let target = BackendTarget::read(context.snapshot, backend, methods::RESOURCES_READ, item);
    match call::authorize(context, context.start_record(Origin::Client), target, None) {
        Ok(call) => call.relay(params).await,
        Err(Denied) => unknown(),
    }
}
