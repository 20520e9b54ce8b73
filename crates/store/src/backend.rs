//! Declares the operations of every object store as traits, by which [`Store`](crate::Store) calls
//! the backends. A store that is not part of the build is refused in one place.

use std::sync::Arc;

use firstbyte_location::{Entry, Location, ObjectLocation, Version};

#[cfg(feature = "azure")]
use crate::azure::Azure;
use crate::body::Body;
use crate::error::{Error, Result};
#[cfg(feature = "google")]
use crate::google::Google;
use crate::object::Stat;
use crate::query::{Get, ListOptions, ListedPage};
#[cfg(any(feature = "azure", feature = "google"))]
use crate::rest::RestStore;
use crate::s3::S3;
use crate::upload::{Part, Payload, PutOptions, Sending, Upload, Written};

pub(crate) type Entries = Box<dyn Iterator<Item = Result<Entry>> + Send>;

/// Backend of an object store, that is, of a store that has buckets.
pub(crate) trait ObjectBackend: Send + Sync {
    /// Describes an object. If there is no such object, describes the prefix of the same name.
    fn stat(&self, object: &ObjectLocation) -> Result<Stat>;
    /// Describes an object, never a prefix.
    fn head(&self, object: &ObjectLocation) -> Result<Stat>;
    fn has_below(&self, object: &ObjectLocation) -> Result<bool>;
    fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body>;
    fn list(self: Arc<Self>, object: &ObjectLocation, options: &ListOptions) -> Result<Entries>;
    fn list_page(&self, object: &ObjectLocation, options: &ListOptions) -> Result<ListedPage>;
    fn put(&self, object: &ObjectLocation, payload: Payload<'_>, options: &PutOptions) -> Result<Written>;
    /// Copies one version within the service.
    fn copy(
        &self,
        from: &ObjectLocation,
        version: &Version,
        to: &ObjectLocation,
        options: &PutOptions,
    ) -> Result<Written>;
    fn delete(&self, object: &ObjectLocation) -> Result<()>;
    /// Deletes many objects. Returns the failures.
    fn delete_many(&self, objects: &[ObjectLocation]) -> Vec<(Location, Error)>;
    fn create_bucket(&self, bucket: &ObjectLocation) -> Result<()>;
    fn delete_bucket(&self, bucket: &ObjectLocation) -> Result<()>;
}

/// Backend of an object store that accepts large objects in parts.
pub(crate) trait PartsBackend {
    fn begin_upload(&self, object: &ObjectLocation, options: &PutOptions) -> Result<Upload>;
    fn put_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part>;
    fn list_parts(&self, object: &ObjectLocation, id: &str) -> Result<Vec<Part>>;
    fn complete_upload(
        &self,
        object: &ObjectLocation,
        id: &str,
        parts: &[Part],
        options: &PutOptions,
    ) -> Result<Written>;
}

/// Implements [`ObjectBackend`] by methods with the same names: methods of the backend's type or,
/// for reads, of its trait `$reads`.
macro_rules! object_backend {
    ($backend:ident, [$($reads:tt)+], $head:expr) => {
        impl ObjectBackend for $backend {
            fn stat(&self, object: &ObjectLocation) -> Result<Stat> {
                <$($reads)+>::stat(self, object)
            }

            fn head(&self, object: &ObjectLocation) -> Result<Stat> {
                $head(self, object)
            }

            fn has_below(&self, object: &ObjectLocation) -> Result<bool> {
                <$($reads)+>::has_below(self, object)
            }

            fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body> {
                $backend::get(self, object, get)
            }

            fn list(self: Arc<Self>, object: &ObjectLocation, options: &ListOptions) -> Result<Entries> {
                <$($reads)+>::list(&self, object, options)
            }

            fn list_page(&self, object: &ObjectLocation, options: &ListOptions) -> Result<ListedPage> {
                <$($reads)+>::list_page(self, object, options)
            }

            fn put(
                &self,
                object: &ObjectLocation,
                payload: Payload<'_>,
                options: &PutOptions,
            ) -> Result<Written> {
                $backend::put(self, object, payload, options)
            }

            fn copy(
                &self,
                from: &ObjectLocation,
                version: &Version,
                to: &ObjectLocation,
                options: &PutOptions,
            ) -> Result<Written> {
                $backend::copy(self, from, version, to, options)
            }

            fn delete(&self, object: &ObjectLocation) -> Result<()> {
                <$($reads)+>::delete(self, object)
            }

            fn delete_many(&self, objects: &[ObjectLocation]) -> Vec<(Location, Error)> {
                <$($reads)+>::delete_many(self, objects)
            }

            fn create_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
                $backend::create_bucket(self, bucket)
            }

            fn delete_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
                $backend::delete_bucket(self, bucket)
            }
        }
    };
}

object_backend!(S3, [S3], |s3: &S3, object| s3.head(object, None));
#[cfg(feature = "google")]
object_backend!(Google, [Google as RestStore], RestStore::head);
#[cfg(feature = "azure")]
object_backend!(Azure, [Azure as RestStore], RestStore::head);

impl PartsBackend for S3 {
    fn begin_upload(&self, object: &ObjectLocation, options: &PutOptions) -> Result<Upload> {
        Self::begin_upload(self, object, options)
    }

    fn put_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        Self::put_part(self, object, id, number, payload, sending)
    }

    fn list_parts(&self, object: &ObjectLocation, id: &str) -> Result<Vec<Part>> {
        Self::list_parts(self, object, id)
    }

    fn complete_upload(
        &self,
        object: &ObjectLocation,
        id: &str,
        parts: &[Part],
        options: &PutOptions,
    ) -> Result<Written> {
        Self::complete_upload(self, object, id, parts, options)
    }
}

#[cfg(feature = "azure")]
impl PartsBackend for Azure {
    fn begin_upload(&self, object: &ObjectLocation, _: &PutOptions) -> Result<Upload> {
        Self::begin_upload(self, object)
    }

    fn put_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        Self::put_part(self, object, id, number, payload, sending)
    }

    fn list_parts(&self, object: &ObjectLocation, id: &str) -> Result<Vec<Part>> {
        Self::list_parts(self, object, id)
    }

    fn complete_upload(
        &self,
        object: &ObjectLocation,
        _: &str,
        parts: &[Part],
        options: &PutOptions,
    ) -> Result<Written> {
        Self::complete_upload(self, object, parts, options)
    }
}
