//! Single objects as files: open, receive, publish, delete. Called by the operations that read,
//! write and copy objects.

use std::fs::File;
use std::io;
use std::sync::Arc;

use firstbyte_location::Algorithm;
use futures::StreamExt;
use http::HeaderMap;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Request, S3Result, s3_error};
use tokio::task::spawn_blocking;

use crate::condition::Condition;
use crate::etag::Identity;
use crate::publish::{self, Kind};
use crate::root::{EntryPath, Root};
use crate::s3::below;
use crate::s3::checksum::{Checksums, Values, mismatch};
use crate::s3::chunked::Trailers;
use crate::s3::error::{from_io, from_publish};
use crate::s3::metadata::ObjectMetadata;
use crate::staging::TemporaryFile;
use crate::writer::{WriteAt, Writer};

/// The bucket and the path of a request's object.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) bucket: EntryPath,
    pub(crate) path: EntryPath,
}

/// An object as it is now.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) file: Arc<File>,
    pub(crate) identity: Identity,
    pub(crate) metadata: ObjectMetadata,
}

/// Opens the object at `path`; `key` ending in `/` names a directory, an empty object.
pub(crate) async fn open(root: &Root, path: &EntryPath, key: &str) -> S3Result<Found> {
    if key.ends_with('/') {
        let file = root.open_entry(path).await.map_err(|error| from_io(&error))?;
        let metadata = file.metadata().map_err(|error| from_io(&error))?;
        if !metadata.is_dir() {
            return Err(s3_error!(NoSuchKey, "there is no such object"));
        }
        let identity = Identity::of_directory(&metadata);
        let content_type = Some("application/x-directory".to_owned());
        return Ok(Found {
            file: Arc::new(file),
            identity,
            metadata: ObjectMetadata { content_type, ..ObjectMetadata::default() },
        });
    }
    let file = root.open_file(path).await.map_err(|error| from_io(&error))?;
    let identity = Identity::from(&file.metadata().map_err(|error| from_io(&error))?);
    let metadata = ObjectMetadata::read(&file);
    Ok(Found { file: Arc::new(file), identity, metadata })
}

/// Writes `body`, taken from `request`, to `file` from `offset` on; gives its length and the
/// checksums to keep, compared with those announced in the request's headers and in the trailers
/// that follow the body.
pub(crate) async fn receive<T>(
    request: &S3Request<T>,
    body: Option<StreamingBlob>,
    file: Arc<dyn WriteAt>,
    offset: u64,
) -> S3Result<(u64, Values)> {
    let headers = &request.headers;
    let mut writer = Writer::new(file, offset, Checksums::for_request(headers));
    if let Some(mut body) = body {
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(body_error)?;
            writer.write(piece).await.map_err(|error| from_io(&error))?;
        }
    }
    let length = writer.offset() - offset;
    let mut values = writer.finish().await.map_err(|error| from_io(&error))?.finish();
    let announced = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // The length of a POST is that of the whole form, not of the file. s3s has checked that the
    // form is complete.
    let announced = announced.filter(|_| request.method != http::Method::POST);
    if announced.is_some_and(|announced| announced != length) {
        return Err(s3_error!(
            IncompleteBody,
            "the body is {length} bytes long, not what its length announced"
        ));
    }
    if let Some(name) = mismatch(&values, headers).or_else(|| mismatch(&values, &trailers(request))) {
        return Err(s3_error!(BadDigest, "the body does not have the announced {name}"));
    }
    // It guards one request; nothing shows it later.
    values.remove(&Algorithm::Md5);
    Ok((length, values))
}

/// The trailers behind a request's body, once it was read, from s3s or from our own decoder.
fn trailers<T>(request: &S3Request<T>) -> HeaderMap {
    let before = || below::trailers(&request.extensions);
    let verified = request.trailing_headers.as_ref().or_else(before);
    let verified = verified.and_then(|trailers| trailers.read(HeaderMap::clone));
    verified.or_else(|| request.extensions.get::<Trailers>().map(Trailers::get)).unwrap_or_default()
}

/// Converts an error of reading a body. It is one of this server's, or one of s3s (a chunk's
/// signature).
fn body_error(error: s3s::StdError) -> S3Error {
    match error.downcast::<io::Error>() {
        Ok(error) => from_io(&error),
        Err(error) => match error.downcast::<S3Error>() {
            Ok(error) => *error,
            // s3s gives its reason as text only.
            Err(error) if ["Incomplete", "Underlying"].iter().any(|why| error.to_string().contains(why)) => {
                s3_error!(IncompleteBody, "the request's body ends before its last chunk")
            }
            Err(error) => s3_error!(SignatureDoesNotMatch, "a chunk of the body cannot be verified: {error}"),
        },
    }
}

/// Refuses early a write whose condition does not hold now; it is judged again when the write is
/// published.
pub(crate) async fn check_write(root: &Root, path: &EntryPath, condition: &Condition) -> S3Result<()> {
    if *condition == Condition::default() {
        return Ok(());
    }
    let (root, path, condition) = (root.clone(), path.clone(), condition.clone());
    publishing(move || publish::check(&root, &path, &condition)).await
}

/// Makes the temporary file for an object of `bucket`.
pub(crate) async fn create(root: &Root, bucket: &EntryPath) -> S3Result<TemporaryFile> {
    let (root, bucket) = (root.clone(), bucket.clone());
    let made = spawn_blocking(move || TemporaryFile::create(&root, &bucket)).await;
    made.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| from_publish(&publish::Error::Io(error)))
}

/// Puts a complete file and what is kept beside it in place if `condition` holds; gives its new
/// version.
pub(crate) async fn commit(
    root: &Root,
    temporary: TemporaryFile,
    target: Target,
    kept: ObjectMetadata,
    condition: Condition,
) -> S3Result<Identity> {
    let root = root.clone();
    publishing(move || {
        kept.write(temporary.file())?;
        Ok(temporary.publish(&root, &target.bucket, &target.path, &condition)?.identity)
    })
    .await
}

/// Makes the directory a key ending in `/` names, if `condition` holds.
pub(crate) async fn make_directory(root: &Root, target: Target, condition: Condition) -> S3Result<Identity> {
    let root = root.clone();
    publishing(move || publish::publish_directory(&root, &target.bucket, &target.path, &condition)).await
}

/// Removes an object if `condition` holds, and the directories it leaves empty, as a prefix
/// disappears with its last key. What is not there is removed already.
pub(crate) async fn delete(root: &Root, target: Target, key: &str, condition: Condition) -> S3Result<()> {
    let kind = if key.ends_with('/') { Kind::Directory } else { Kind::File };
    let root = root.clone();
    publishing(move || match publish::remove(&root, &target.path, kind, &condition) {
        Ok(removed) => {
            if removed {
                root.remove_empty_parents(&target.path, &target.bucket);
            }
            Ok(())
        }
        // A directory in use stays, since the keys below it do.
        Err(publish::Error::Io(error)) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) => Err(error),
    })
    .await
}

/// Changes a name where it may block.
pub(crate) async fn publishing<T: Send + 'static>(
    task: impl FnOnce() -> publish::Result<T> + Send + 'static,
) -> S3Result<T> {
    let done = spawn_blocking(task).await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    done.map_err(|error| from_publish(&error))
}

/// Runs a file operation where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> S3Result<T> {
    let done = spawn_blocking(task).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| from_io(&error))
}
