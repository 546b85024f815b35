//! The key of digests of Secret values. It lies in a Secret that the resource owns: a digest by anything that
//! readers of pods know, such as the uid of the resource, would confirm a guess of a value.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::DereferenceError;
use crate::runtime::{Context, GeneratedSecret};

/// The key in the data of the Secret.
const DIGEST_KEY: &str = "digest-key";

/// Returns the key of a resource, from its Secret, or a new one.
pub(crate) async fn digest_key<K: Resource<DynamicType = ()> + Sync>(
    context: &Context,
    owner: &K,
    secret: &str,
) -> Result<Vec<u8>, DereferenceError> {
    let kept = context.child::<Secret, K>(owner, secret).await?;
    GeneratedSecret::from_secret(kept).take(DIGEST_KEY).map_err(DereferenceError::Randomness)
}

/// Returns the Secret that keeps the key.
pub(crate) fn digest_key_secret(metadata: ObjectMeta, key: &[u8]) -> Secret {
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some([(DIGEST_KEY.to_owned(), ByteString(key.to_vec()))].into()),
        ..Secret::default()
    }
}
