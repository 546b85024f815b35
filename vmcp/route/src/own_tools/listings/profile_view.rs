//! The part of a caller's view that belongs to a profile which the call names.

use std::sync::Arc;

use crate::caller::CallContext;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::View;

/// Returns the caller's view under the profile `name`; `None` if the caller has no such profile. A client
/// under a profile has that one only: another would widen what it gets.
pub(super) fn under_profile(context: CallContext<'_>, name: &str) -> Option<Arc<View>> {
    let principal = &context.caller.principal;
    let (profile, _) =
        context.snapshot.config.profiles.get_key_value(name).filter(|(name, _)| is_its(context, name))?;
    let narrowed = Principal { profile: Some(Arc::clone(profile)), ..principal.clone() };
    Some(context.snapshot.view(&narrowed))
}

/// Returns the names of the caller's profiles.
pub(super) fn profiles(context: CallContext<'_>) -> impl Iterator<Item = &str> {
    let names = context.snapshot.config.profiles.keys().map(AsRef::as_ref);
    names.filter(move |name: &&str| is_its(context, name))
}

fn is_its(context: CallContext<'_>, name: &str) -> bool {
    context.caller.principal.profile.as_deref().is_none_or(|own| own == name)
}
