//! The type of a watch: an object whose API group is known at run time only.

use std::borrow::Cow;
use std::fmt::Debug;

use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Parsed;

/// A [`Parsed`] object whose URL comes from an [`ApiResource`], for kinds that are served in several groups.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent, bound(deserialize = "K: DeserializeOwned"))]
pub(in crate::runtime::watch) struct Watched<K>(Parsed<K>);

impl<K: Resource + Clone> Resource for Watched<K> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }

    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }

    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }

    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Takes the objects of an event out of the type of the watch.
pub(in crate::runtime::watch) fn parsed<K>(event: Event<Watched<K>>) -> Event<Parsed<K>> {
    match event {
        Event::Apply(Watched(object)) => Event::Apply(object),
        Event::Delete(Watched(object)) => Event::Delete(object),
        Event::Init => Event::Init,
        Event::InitApply(Watched(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
    }
}
