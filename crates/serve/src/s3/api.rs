//! Defines functions for all S3 operations. They convert bucket and key to paths, and check rights
//! that the request's own path does not cover. [`operations`](crate::s3::operations) lists the
//! operations and their modules.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::NULL_VERSION;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use crate::access::keys::{KeyRights, RequestRights, ServerKeys};
use crate::config::{Authentication, Buckets, SignatureVersions, WritePolicy};
use crate::gateway::{Gateway, GatewayRefusal};
use crate::http::condition::{ConditionResult, CurrentVersion, judge_copy_source};
use crate::object::root::ServedRoot;
use crate::object::uploads::Uploads;
use crate::path::EntryPath;
use crate::s3::accepted;
use crate::s3::access::access;
use crate::s3::address::ServerAddress;
use crate::s3::error::{from_path, read_only};
use crate::s3::index::Index;
use crate::s3::objects::{self, FoundObject, ObjectTarget};
use crate::s3::opened::OpenedObject;
use crate::s3::signed::version_2_refused;
use crate::s3::verify;
use crate::state::{ServedSource, ServerState};

/// The S3 operations on the served source.
#[derive(Debug)]
pub(crate) struct S3Api {
    pub(crate) objects: ObjectStorage,
    pub(crate) buckets: Buckets,
    pub(crate) address: ServerAddress,
    keys: Option<ServerKeys>,
    signatures: SignatureVersions,
}

/// The storage of the objects.
#[derive(Debug)]
pub(crate) enum ObjectStorage {
    Directory(ServedDirectory),
    Gateway(Arc<Gateway>),
}

/// The served directory.
#[derive(Debug)]
pub(crate) struct ServedDirectory {
    pub(crate) root: ServedRoot,
    pub(crate) index: Arc<Index>,
    writing: WritePolicy,
    pub(crate) uploads: Arc<Uploads>,
    /// Time for which an upload may receive nothing before it is removed.
    pub(crate) abandoned: Duration,
    /// Minimum size in bytes of each part of an upload except the last.
    pub(crate) smallest_part: u64,
}

impl S3Api {
    pub(crate) fn new(served: &ServedSource, state: &ServerState) -> Self {
        let config = &state.config;
        let keys = match &config.authentication {
            Authentication::Keys(keys) => Some(keys.clone()),
            Authentication::None => None,
        };
        let objects = match served {
            ServedSource::Directory(directory) => ObjectStorage::Directory(ServedDirectory {
                root: directory.root.clone(),
                index: Arc::default(),
                writing: config.writing,
                uploads: Arc::clone(&directory.uploads),
                abandoned: config.limits.abandoned,
                smallest_part: config.limits.smallest_part,
            }),
            ServedSource::Gateway(gateway) => ObjectStorage::Gateway(Arc::clone(gateway)),
        };
        let (buckets, signatures) = (config.buckets.clone(), config.signatures);
        Self { objects, buckets, address: ServerAddress::new(state), keys, signatures }
    }

    /// Returns the served directory, for operations that a gateway does not support.
    ///
    /// # Errors
    /// The served source is a gateway, which is read-only.
    pub(crate) fn directory(&self) -> S3Result<&ServedDirectory> {
        match &self.objects {
            ObjectStorage::Directory(directory) => Ok(directory),
            ObjectStorage::Gateway(gateway) => Err(read_only(gateway)),
        }
    }

    /// Returns the path of an existing bucket whose configuration is asked for.
    ///
    /// # Errors
    /// The served source is a gateway: the answer would have to be the origin's, and a gateway does
    /// not ask for it.
    pub(crate) async fn configured_bucket(&self, name: &str) -> S3Result<EntryPath> {
        self.check_configuration()?;
        self.bucket(name).await
    }

    /// Refuses a request for tags, access lists, locks or the configuration of buckets on a
    /// gateway, which does not know those of its origin.
    pub(crate) fn check_configuration(&self) -> S3Result<()> {
        match &self.objects {
            ObjectStorage::Directory(_) => Ok(()),
            ObjectStorage::Gateway(gateway) => Err(s3_error!(
                NotImplemented,
                "a gateway knows objects and their metadata only; ask the origin: {}",
                gateway.location()
            )),
        }
    }

    /// Returns the path of an existing bucket.
    pub(crate) async fn bucket(&self, name: &str) -> S3Result<EntryPath> {
        let path = match &self.buckets {
            Buckets::Named(own) if own == name => return Ok(EntryPath::default()),
            Buckets::Named(_) => return Err(s3_error!(NoSuchBucket, "there is no such bucket")),
            Buckets::FirstLevel => EntryPath::parse(name.as_bytes()).map_err(from_path)?,
        };
        let directory = match &self.objects {
            ObjectStorage::Directory(directory) => directory,
            // Existence is not checked here: the origin reports a missing bucket when an object or
            // a list is requested.
            ObjectStorage::Gateway(_) => return Ok(path),
        };
        let entry = directory.root.open_entry(&path).await.and_then(|entry| entry.metadata());
        match entry {
            Ok(metadata) if metadata.is_dir() => Ok(path),
            _ => Err(s3_error!(NoSuchBucket, "there is no such bucket")),
        }
    }

    /// Returns the bucket and path of an object that `access` has `rights` to, with the fence of
    /// these rights. The rights are checked by the names alone, before the bucket is looked up.
    pub(crate) async fn target(
        &self,
        access: &RequestRights,
        rights: KeyRights,
        bucket: &str,
        key: &str,
    ) -> S3Result<ObjectTarget> {
        let directory = match &self.buckets {
            Buckets::Named(_) => EntryPath::default(),
            Buckets::FirstLevel => EntryPath::parse(bucket.as_bytes()).map_err(from_path)?,
        };
        let below = match EntryPath::parse(key.as_bytes()) {
            _ if rights == KeyRights::Read && !can_exist(key) => {
                return Err(s3_error!(NoSuchKey, "there is no such object"));
            }
            Ok(_) if !can_exist(key) => {
                return Err(s3_error!(InvalidArgument, "no file can be named after this key"));
            }
            below => below.map_err(from_path)?,
        };
        let path = directory.join(below.as_path().as_os_str());
        let Some(fence) = access.fence(rights, path.as_bytes()) else {
            return Err(s3_error!(AccessDenied, "this key gives no right to do so"));
        };
        Ok(ObjectTarget { bucket: self.bucket(bucket).await?, path: path.fenced(fence) })
    }

    /// Returns the served directory, if it accepts writes.
    pub(crate) fn check_writing(&self) -> S3Result<&ServedDirectory> {
        let directory = self.directory()?;
        match directory.writing {
            WritePolicy::Allowed => Ok(directory),
            WritePolicy::Refused => {
                Err(s3_error!(AccessDenied, "this server takes no writes; start it with --write"))
            }
        }
    }

    /// Returns the bucket and path of an object that the signer may read.
    pub(crate) async fn readable<T>(
        &self,
        request: &S3Request<T>,
        bucket: &str,
        key: &str,
    ) -> S3Result<ObjectTarget> {
        self.target(&self.access(request), KeyRights::Read, bucket, key).await
    }

    /// Opens the object `key` of `bucket`, if the signer may read it.
    pub(crate) async fn open<T>(
        &self,
        request: &S3Request<T>,
        bucket: &str,
        key: &str,
        version: Option<&str>,
    ) -> S3Result<OpenedObject> {
        match &self.objects {
            ObjectStorage::Directory(directory) => {
                check_version(version)?;
                let target = self.readable(request, bucket, key).await?;
                Ok(objects::open(&directory.root, &target.path, key).await?.into())
            }
            ObjectStorage::Gateway(gateway) => {
                self.bucket(bucket).await?;
                let asked = (version, &request.headers);
                match gateway.look_up(&self.access(request), bucket, key, asked).await {
                    // The answer to a HEAD does not say what is missing.
                    Err(absence @ (GatewayRefusal::NotFound | GatewayRefusal::NoVersion)) => {
                        let bucket = gateway.check_bucket(bucket).await;
                        Err(bucket.err().filter(GatewayRefusal::is_no_bucket).unwrap_or(absence).into())
                    }
                    found => Ok(OpenedObject::remote(gateway, found?)),
                }
            }
        }
    }

    /// Returns the bucket and path of an object that the signer may write, if the server accepts
    /// writes.
    pub(crate) async fn writable<T>(
        &self,
        request: &S3Request<T>,
        bucket: &str,
        key: &str,
    ) -> S3Result<ObjectTarget> {
        self.check_writing()?;
        self.target(&self.access(request), KeyRights::Write, bucket, key).await
    }

    /// Refuses an HTML form signed by Signature Version 2 if the server accepts only version 4.
    /// Only a version 4 signature names a region.
    pub(crate) fn check_form<T>(&self, request: &S3Request<T>) -> S3Result<()> {
        let is_version_2 = request.region.is_none();
        if self.keys.is_some() && is_version_2 && self.signatures == SignatureVersions::V4Only {
            return Err(version_2_refused());
        }
        Ok(())
    }

    /// Returns the rights of a request.
    pub(crate) fn access<T>(&self, request: &S3Request<T>) -> RequestRights {
        let before = || verify::signer(&request.extensions);
        access(self.keys.as_ref(), request.credentials.as_ref().or_else(before))
    }

    /// Opens the source of a copy. The signer must have the right to read the source, and the
    /// source must meet the request's conditions.
    pub(crate) async fn source<T>(
        &self,
        request: &S3Request<T>,
        source: &CopySource,
    ) -> S3Result<FoundObject> {
        let (bucket, key, version) = match (request.extensions.get::<accepted::AcceptedSource>(), source) {
            (Some(source), _) => (&*source.bucket, &*source.key, source.version.as_deref()),
            (None, CopySource::Bucket { bucket, key, version_id }) => {
                (&**bucket, &**key, version_id.as_deref())
            }
            _ => return Err(s3_error!(NotImplemented, "a copy's source must be bucket and key")),
        };
        check_version(version)?;
        let target = self.readable(request, bucket, key).await?;
        let source = objects::open(&self.directory()?.root, &target.path, key).await?;
        let etag = source.identity.etag();
        let current = CurrentVersion { etag: &etag, modified: Some(source.identity.last_modified()) };
        if judge_copy_source(&request.headers, current) != ConditionResult::Proceed {
            return Err(s3_error!(PreconditionFailed, "the source is not what the request expects"));
        }
        Ok(source)
    }
}

/// True if an object can have this key: a file can be named after it. An object with any other key
/// counts as missing for reads and deletions, as in S3; only writes are refused.
pub(crate) fn can_exist(key: &str) -> bool {
    !key.starts_with('/') && EntryPath::parse(key.as_bytes()).is_ok_and(|path| !path.is_root())
}

/// Refuses a version other than `null`, the only version of an object without versioning.
pub(crate) fn check_version(version_id: Option<&str>) -> S3Result<()> {
    match version_id {
        None | Some(NULL_VERSION) => Ok(()),
        Some(_) => {
            Err(s3_error!(NoSuchVersion, "versions are not kept: the only one of an object is `null`"))
        }
    }
}
