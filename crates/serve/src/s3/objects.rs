//! Opens, receives, publishes and deletes single objects as files. Called by the operations that
//! read, write and copy objects.

use std::fs::File;
use std::io;
use std::sync::Arc;

use futures::StreamExt;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Request, S3Result, s3_error};
use tokio::task::spawn_blocking;

use crate::http::condition::Condition;
use crate::http::etag::EtagIdentity;
use crate::object::checksum::ChecksumValues;
use crate::object::metadata::ObjectMetadata;
use crate::object::publish::{self, RemovedKind};
use crate::object::root::ServedRoot;
use crate::object::staging::TemporaryFile;
use crate::object::stated::StatedChecksums;
use crate::object::writer::{PieceWriter, WriteAt};
use crate::path::EntryPath;
use crate::s3::error::{from_io, from_publish};

/// The content type of a directory that was stored without one.
pub(crate) const DIRECTORY_TYPE: &str = "application/x-directory";

/// The bucket and the path of a request's object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectTarget {
    pub(crate) bucket: EntryPath,
    pub(crate) path: EntryPath,
}

/// An open object.
#[derive(Debug)]
pub(crate) struct FoundObject {
    pub(crate) file: Arc<File>,
    pub(crate) identity: EtagIdentity,
    pub(crate) metadata: ObjectMetadata,
}

/// Converts an error of opening an object. A key below a file names no object.
fn from_open(error: &io::Error) -> S3Error {
    match error.kind() {
        io::ErrorKind::NotADirectory => from_io(&io::ErrorKind::NotFound.into()),
        _ => from_io(error),
    }
}

/// Opens the object at `path`. If `key` ends in `/`, the object is a directory and has no bytes.
pub(crate) async fn open(root: &ServedRoot, path: &EntryPath, key: &str) -> S3Result<FoundObject> {
    if key.ends_with('/') {
        let opened = root.open_to_read(path).await;
        let file = opened.map_err(|error| from_open(&error))?;
        let metadata = file.metadata().map_err(|error| from_io(&error))?;
        if !metadata.is_dir() {
            return Err(s3_error!(NoSuchKey, "there is no such object"));
        }
        let identity = EtagIdentity::of_directory(&metadata);
        let mut metadata = ObjectMetadata::read(&file);
        metadata.content_type.get_or_insert_with(|| DIRECTORY_TYPE.to_owned());
        return Ok(FoundObject { file: Arc::new(file), identity, metadata });
    }
    let file = root.open_file(path).await.map_err(|error| from_open(&error))?;
    let identity = EtagIdentity::from(&file.metadata().map_err(|error| from_io(&error))?);
    let metadata = ObjectMetadata::read(&file);
    Ok(FoundObject { file: Arc::new(file), identity, metadata })
}

/// Returns the checksums that a request states for its content, parsed from its head.
pub(crate) fn stated<T>(request: &S3Request<T>) -> StatedChecksums {
    request.extensions.get::<StatedChecksums>().cloned().unwrap_or_default()
}

/// Writes `body` to `file` from offset 0. Compares its checksums with `stated`. Returns the length
/// in bytes and the checksums to store.
pub(crate) async fn receive(
    stated: &StatedChecksums,
    body: Option<StreamingBlob>,
    file: Arc<dyn WriteAt>,
) -> S3Result<(u64, ChecksumValues)> {
    let mut writer = PieceWriter::new(file, 0, stated.hashers());
    if let Some(mut body) = body {
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(from_stream)?;
            writer.write(piece).await.map_err(|error| from_io(&error))?;
        }
    }
    let length = writer.offset();
    let values = writer.finish().await.map_err(|error| from_io(&error))?.finish();
    Ok((length, stated.check(values)?))
}

/// Reads `body`, which must be empty because it belongs to a directory, and compares its checksums
/// with `stated`.
pub(crate) async fn receive_nothing(stated: &StatedChecksums, body: Option<StreamingBlob>) -> S3Result<()> {
    if let Some(mut body) = body {
        while let Some(piece) = body.next().await {
            if !piece.map_err(from_stream)?.is_empty() {
                return Err(s3_error!(
                    InvalidArgument,
                    "a key ending in `/` is a directory: it holds no bytes"
                ));
            }
        }
    }
    Ok(stated.check_document(b"")?)
}

/// Converts an error of reading a body. The error comes from the decoder ([`crate::s3::payload`])
/// or from a form that s3s parses.
fn from_stream(error: s3s::StdError) -> S3Error {
    match error.downcast::<S3Error>() {
        Ok(error) => *error,
        Err(error) => s3_error!(IncompleteBody, "the request's body cannot be read: {error}"),
    }
}

/// Refuses a write whose condition does not hold now. Publishing evaluates the condition again.
pub(crate) async fn check_write(root: &ServedRoot, path: &EntryPath, condition: &Condition) -> S3Result<()> {
    if *condition == Condition::default() {
        return Ok(());
    }
    let (root, path, condition) = (root.clone(), path.clone(), condition.clone());
    publishing(move || publish::check(&root, &path, &condition)).await
}

pub(crate) async fn create(root: &ServedRoot, bucket: &EntryPath) -> S3Result<TemporaryFile> {
    let (root, bucket) = (root.clone(), bucket.clone());
    let made = spawn_blocking(move || TemporaryFile::create(&root, &bucket)).await;
    made.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| from_publish(&publish::Error::Io(error)))
}

/// Publishes a complete file with its metadata `kept` if `condition` holds. Returns the file's new
/// version.
pub(crate) async fn commit(
    root: &ServedRoot,
    temporary: TemporaryFile,
    target: ObjectTarget,
    kept: ObjectMetadata,
    condition: Condition,
) -> S3Result<EtagIdentity> {
    let root = root.clone();
    publishing(move || {
        kept.write(temporary.file())?;
        let put = publish::publish_temporary(&root, temporary, &target.bucket, &target.path, &condition)?;
        Ok(put.identity)
    })
    .await
}

/// Makes the directory for a key that ends in `/`, with metadata `kept`, if `condition` holds.
pub(crate) async fn make_directory(
    root: &ServedRoot,
    target: ObjectTarget,
    kept: ObjectMetadata,
    condition: Condition,
) -> S3Result<EtagIdentity> {
    let root = root.clone();
    publishing(move || {
        let describe = |directory: &File| kept.write_directory(directory);
        publish::publish_directory(&root, &target.bucket, &target.path, &condition, describe)
    })
    .await
}

/// Removes an object if `condition` holds. Also removes directories that become empty, because in
/// S3 a prefix disappears with its last key, unless a directory is a key itself. A missing object
/// counts as removed.
pub(crate) async fn delete(
    root: &ServedRoot,
    target: ObjectTarget,
    key: &str,
    condition: Condition,
) -> S3Result<()> {
    let kind = if key.ends_with('/') { RemovedKind::DirectoryObject } else { RemovedKind::File };
    let root = root.clone();
    publishing(move || match publish::remove(&root, &target.path, kind, &condition) {
        Ok(removed) => {
            if removed {
                root.remove_empty_parents(&target.path, &target.bucket);
            }
            Ok(())
        }
        Err(error) => Err(error),
    })
    .await
}

/// Runs a change of names on a blocking thread.
pub(crate) async fn publishing<T: Send + 'static>(
    task: impl FnOnce() -> publish::Result<T> + Send + 'static,
) -> S3Result<T> {
    let done = spawn_blocking(task).await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    done.map_err(|error| from_publish(&error))
}

/// Runs a file operation on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> S3Result<T> {
    let done = spawn_blocking(task).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| from_io(&error))
}
