//! Checks which parts a location has, before an operation that needs them: a bucket, a key, or the
//! protocol of S3.

use firstbyte_location::{Location, ObjectLocation};

use crate::error::{Error, Result, unsupported};

/// Returns an error for a whole service where a bucket is required. A service lists its buckets,
/// but not what is in them, so a tree below it would be empty.
///
/// # Errors
/// [`Error::NoBucket`].
pub fn require_bucket(location: &Location) -> Result<()> {
    match location {
        Location::Object(object) if object.bucket.is_empty() => {
            Err(Error::NoBucket { service: object.service.to_string() })
        }
        _ => Ok(()),
    }
}

/// Returns an error for a bucket where an object is required. Without a key, a request to write an
/// object would create the bucket, a request to delete one would delete the bucket, and a request
/// to read one would return the bucket's listing.
///
/// # Errors
/// [`Error::Io`] for a directory.
pub fn require_key(location: &Location) -> Result<()> {
    match location {
        Location::Object(object) if object.key.is_empty() => {
            Err(Error::Io { location: location.to_string(), source: rustix::io::Errno::ISDIR.into() })
        }
        _ => Ok(()),
    }
}

/// Returns the bucket at a location. Fails if the location has a key.
pub(super) fn bucket_of(location: &Location) -> Result<&ObjectLocation> {
    match location {
        Location::Object(object) if object.key.is_empty() => Ok(object),
        other => Err(unsupported(other, "an operation on buckets")),
    }
}

/// Returns the S3 object at a location. Fails for stores that have no versions.
pub(super) fn object_with_versions(location: &Location) -> Result<&ObjectLocation> {
    object_in_s3(location, "a version of an object").and_then(|object| match object.bucket.is_empty() {
        false => Ok(object),
        true => Err(unsupported(location, "a version of an object")),
    })
}

/// Returns the S3 object at a location. For other stores, returns the error that `what` is not
/// supported.
pub(super) fn object_in_s3<'l>(location: &'l Location, what: &'static str) -> Result<&'l ObjectLocation> {
    match location {
        Location::Object(object) if object.service.is_s3() => Ok(object),
        other => Err(unsupported(other, what)),
    }
}
