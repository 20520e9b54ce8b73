//! Single objects: get, put, copy, delete.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use firstbyte_location::{Algorithm, ByteRange};
use futures::StreamExt;
use http::HeaderMap;
use rustix::fs::AtFlags;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Request, S3Result, s3_error};
use tokio::task::spawn_blocking;

use crate::condition::{Current, Verdict, judge_write};
use crate::etag::Identity;
use crate::root::{EntryPath, Root};
use crate::s3::below;
use crate::s3::checksum::{Checksums, Values, mismatch};
use crate::s3::chunked::Trailers;
use crate::s3::error::from_io;
use crate::s3::metadata::ObjectMetadata;
use crate::upload::{Digest, Replace, TemporaryFile, Writer};

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

/// Writes `body`, taken from `request`, to `file` from `offset` on; gives its length and the checksums to keep, compared
/// with those announced in the request's headers and in the trailers that follow the body.
pub(crate) async fn receive<T>(
    request: &S3Request<T>,
    body: Option<StreamingBlob>,
    file: Arc<File>,
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

/// What went wrong while a body was read: ours, or s3s's (a chunk's signature).
fn body_error(error: s3s::StdError) -> S3Error {
    match error.downcast::<io::Error>() {
        Ok(error) => from_io(&error),
        Err(error) => match error.downcast::<S3Error>() {
            Ok(error) => *error,
            Err(error) => s3_error!(SignatureDoesNotMatch, "a chunk of the body cannot be verified: {error}"),
        },
    }
}

/// Refuses a write whose `If-Match` or `If-None-Match` does not hold.
pub(crate) async fn check_write(root: &Root, path: &EntryPath, headers: &HeaderMap) -> S3Result<Replace> {
    let identity = match root.open_entry(path).await.and_then(|file| file.metadata()) {
        Ok(metadata) => Some(Identity::from(&metadata)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(error) => return Err(from_io(&error)),
    };
    let tag = identity.map(|identity| identity.etag());
    let current = identity.zip(tag.as_deref());
    let current = current.map(|(identity, etag)| Current { etag, modified: identity.last_modified() });
    if judge_write(headers, current) != Verdict::Proceed {
        return Err(s3_error!(PreconditionFailed, "the object is not what the request expects"));
    }
    let absent = headers.get("if-none-match").is_some_and(|value| value.as_bytes() == b"*");
    Ok(if absent { Replace::Nothing } else { Replace::Any })
}

/// Makes the temporary file that will become `path`.
pub(crate) async fn create(root: &Root, path: &EntryPath) -> S3Result<TemporaryFile> {
    let (root, path) = (root.clone(), path.clone());
    blocking(move || TemporaryFile::create(&root, &path)).await
}

/// Puts a complete file and what is kept beside it in place; gives its new version.
pub(crate) async fn commit(
    temporary: TemporaryFile,
    kept: ObjectMetadata,
    replace: Replace,
) -> S3Result<Identity> {
    let done = blocking(move || {
        kept.write(temporary.file())?;
        let file = temporary.commit(replace)?;
        Ok(Identity::from(&file.metadata()?))
    });
    match done.await {
        Err(error) if replace == Replace::Nothing && *error.code() == s3s::S3ErrorCode::InvalidArgument => {
            Err(s3_error!(PreconditionFailed, "the object is there already"))
        }
        done => done,
    }
}

/// Makes the directory a key ending in `/` names.
pub(crate) async fn make_directory(root: &Root, path: &EntryPath) -> S3Result<Identity> {
    let (root, path) = (root.clone(), path.clone());
    blocking(move || {
        let directory = File::from(root.make_directory(&path)?);
        Ok(Identity::of_directory(&directory.metadata()?))
    })
    .await
}

/// Removes an object and the directories it leaves empty, as a prefix disappears with its last key. What is not there is
/// removed already.
pub(crate) async fn delete(root: &Root, path: EntryPath, key: &str, bucket: EntryPath) -> S3Result<()> {
    let flags = if key.ends_with('/') { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let root = root.clone();
    blocking(move || {
        match root.remove(&path, flags) {
            Ok(()) => root.remove_empty_parents(&path, &bucket),
            Err(error) => match error.kind() {
                // A directory under an object's key, or the other way round: no such object. A directory in use stays,
                // since the keys below it do.
                io::ErrorKind::NotFound
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::DirectoryNotEmpty => {}
                _ => return Err(error),
            },
        }
        Ok(())
    })
    .await
}

/// Runs a file operation where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> S3Result<T> {
    let done = spawn_blocking(task).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| from_io(&error))
}

/// Copies `range` of `from` to `offset` of `to`, inside the kernel where it can. Blocking.
pub(crate) fn copy_range(from: &File, range: ByteRange, to: &File, offset: u64) -> io::Result<()> {
    let (mut rest, mut offset) = (range, offset);
    while !rest.is_empty() {
        let (mut source, mut target) = (rest.start, offset);
        let count = usize::try_from(rest.len()).unwrap_or(usize::MAX);
        let copied = match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), count)
        {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => copied as u64,
            // Another file system, or one that cannot.
            Err(_) => return copy_digesting(from, rest, to, offset, &mut ()),
        };
        rest = rest.skip(copied);
        offset += copied;
    }
    Ok(())
}

/// Copies through memory, for `digest` to see every byte. Blocking.
pub(crate) fn copy_digesting(
    from: &File,
    range: ByteRange,
    to: &File,
    offset: u64,
    digest: &mut impl Digest,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let (mut rest, mut offset) = (range, offset);
    while !rest.is_empty() {
        let most = usize::try_from(rest.len()).unwrap_or(usize::MAX).min(buffer.len());
        let count = from.read_at(&mut buffer[..most], rest.start)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(&buffer[..count], offset)?;
        digest.update(&buffer[..count]);
        rest = rest.skip(count as u64);
        offset += count as u64;
    }
    Ok(())
}
