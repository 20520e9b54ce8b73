//! Implements the operations on buckets, which are directories: list, make and remove.

use std::time::Duration;

use rustix::fs::{AtFlags, FileType};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::access::keys::RequestRights;
use crate::config::Buckets;
use crate::http::condition::Condition;
use crate::object::directory::{EntryReader, VisibleKind};
use crate::object::metadata::ObjectMetadata;
use crate::object::reserved;
use crate::object::root::ServedRoot;
use crate::object::staging;
use crate::object::trash;
use crate::path::EntryPath;
use crate::s3::api::{ObjectStorage, S3Api};
use crate::s3::error::{from_io, from_path};
use crate::s3::list::page;
use crate::s3::objects::{self, ObjectTarget, blocking};
use crate::s3::page_builder::KeyQuery;
use crate::s3::{outputs, private};

/// The region of all buckets.
const REGION: &str = "us-east-1";

/// Lists the buckets that the signer may reach.
pub(crate) async fn list(
    api: &S3Api,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let bucket =
        |name: String| Bucket { name: Some(name), creation_date: Some(outputs::now()), ..Bucket::default() };
    let mut names = match &api.buckets {
        Buckets::Named(name) => vec![name.clone()],
        Buckets::FirstLevel => first_level(&api.objects).await?,
    };
    let access = api.access(&request);
    if api.buckets == Buckets::FirstLevel {
        names.retain(|name| access.reaches(format!("{name}/").as_bytes()));
    }
    let ListBucketsInput { bucket_region, continuation_token, max_buckets, prefix } = request.input;
    let after = continuation_token.map(|token| decode_token(&token)).transpose()?;
    let prefix_text = prefix.as_deref().unwrap_or_default();
    names.retain(|name| name.starts_with(prefix_text) && after.as_ref().is_none_or(|after| name > after));
    if bucket_region.is_some_and(|region| region != REGION) {
        names.clear();
    }
    names.sort_unstable();
    let most = most_buckets(max_buckets)?;
    let next = (names.len() > most).then(|| hex::encode(&names[most - 1]));
    names.truncate(most);
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(names.into_iter().map(bucket).collect()),
        owner: Some(private::owner()),
        continuation_token: next,
        prefix,
    }))
}

/// Returns the names of all buckets of a source with several buckets.
async fn first_level(objects: &ObjectStorage) -> S3Result<Vec<String>> {
    let root = match objects {
        ObjectStorage::Directory(directory) => directory.root.clone(),
        ObjectStorage::Gateway(gateway) => return Ok(gateway.buckets().await?),
    };
    blocking(move || {
        let entries = EntryReader::open(&root, &EntryPath::default())?.collect::<Result<Vec<_>, _>>()?;
        let directories = entries.into_iter().filter(|entry| entry.kind != VisibleKind::File);
        Ok(directories.filter_map(|entry| entry.name.into_string().ok()).collect())
    })
    .await
}

/// Returns the bucket name after which a page of buckets begins.
fn decode_token(token: &str) -> S3Result<String> {
    let name = hex::decode(token).ok().and_then(|name| String::from_utf8(name).ok());
    name.ok_or_else(|| s3_error!(InvalidArgument, "this server gave no such continuation token"))
}

/// Returns the maximum number of buckets on a page: unlimited, unless the request sets a limit.
fn most_buckets(requested: Option<i32>) -> S3Result<usize> {
    match requested.map(usize::try_from) {
        None => Ok(usize::MAX),
        Some(Ok(most @ 1..=10_000)) => Ok(most),
        Some(_) => Err(s3_error!(InvalidArgument, "max-buckets goes from 1 to 10,000")),
    }
}

/// Answers whether a bucket exists.
pub(crate) async fn head(
    api: &S3Api,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    api.bucket(&request.input.bucket).await?;
    if let ObjectStorage::Gateway(gateway) = &api.objects {
        gateway.check_bucket(&request.input.bucket).await?;
    }
    Ok(S3Response::new(HeadBucketOutput { bucket_region: Some(REGION.to_owned()), ..Default::default() }))
}

/// Answers with an empty location, S3's default region.
pub(crate) async fn location(
    api: &S3Api,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    api.bucket(&request.input.bucket).await?;
    Ok(S3Response::new(GetBucketLocationOutput::default()))
}

/// True if S3 allows a bucket of this name. Directories with other names are served too. S3 clients
/// that put the bucket's name into a host name cannot reach them.
fn is_bucket_name(name: &str) -> bool {
    const RESERVED_STARTS: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
    const RESERVED_ENDS: [&str; 4] = ["-s3alias", "--ol-s3", ".mrap", "--table-s3"];
    s3s::path::check_bucket_name(name)
        // Ensures that each label between dots begins and ends with a letter or digit.
        && !name.contains(".-")
        && !name.contains("-.")
        && !RESERVED_STARTS.iter().any(|start| name.starts_with(start))
        && !RESERVED_ENDS.iter().any(|end| name.ends_with(end))
}

/// Makes a bucket, if the first-level directories are the buckets.
pub(crate) async fn create(
    api: &S3Api,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let root = &api.check_writing()?.root;
    let name = &request.input.bucket;
    match api.bucket(name).await {
        Ok(_) => return Err(s3_error!(BucketAlreadyOwnedByYou, "the bucket is there already")),
        Err(error) if *error.code() != s3s::S3ErrorCode::NoSuchBucket => return Err(error),
        Err(_) => {}
    }
    if api.buckets != Buckets::FirstLevel {
        return Err(s3_error!(InvalidBucketName, "this server has one bucket only"));
    }
    if !is_bucket_name(name) {
        return Err(s3_error!(
            InvalidBucketName,
            "bucket names have 3 to 63 lowercase letters, digits, `-` and `.`, begin and end with a letter or digit, \
             as does each part between dots, and have none of S3's reserved beginnings and ends"
        ));
    }
    let path = EntryPath::parse(name.as_bytes()).map_err(from_path)?;
    let target = ObjectTarget { bucket: EntryPath::default(), path };
    objects::make_directory(root, target, ObjectMetadata::default(), Condition::default()).await?;
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{name}")) }))
}

/// Checks, before the bucket's trash is deleted, that the bucket can be removed: it must be a plain
/// directory that contains only `.firstbyte`.
fn check_removable(root: &ServedRoot, path: &EntryPath) -> std::io::Result<()> {
    let refused = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let parent = root.open_directory(&path.parent())?;
    let own = rustix::fs::statat(&parent, path.name().ok_or_else(refused)?, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_plain = FileType::from_raw_mode(own.st_mode) == FileType::Directory
        && own.st_dev == rustix::fs::fstat(&parent)?.st_dev;
    if !is_plain {
        return Err(refused());
    }
    for entry in rustix::fs::Dir::new(root.open_directory(path)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !reserved::is_reserved(name) {
            return Err(std::io::ErrorKind::DirectoryNotEmpty.into());
        }
    }
    Ok(())
}

/// Removes a bucket without objects, with its unfinished uploads and its trash.
pub(crate) async fn delete(
    api: &S3Api,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let directory = api.check_writing()?;
    let path = api.bucket(&request.input.bucket).await?;
    let (root, index) = (directory.root.clone(), directory.index.clone());
    let (uploads, abandoned) = (directory.uploads.clone(), directory.abandoned);
    let removed = tokio::task::spawn_blocking(move || {
        let query = KeyQuery { limit: 1, ..KeyQuery::default() };
        if !page(&root, &index, &path, &query, &RequestRights::Everyone)?.objects.is_empty() {
            return Err(std::io::ErrorKind::DirectoryNotEmpty.into());
        }
        check_removable(&root, &path)?;
        uploads.remove_all(&path)?;
        trash::sweep(&root, &path, Duration::ZERO)?;
        staging::sweep(&root, &path, abandoned)?;
        reserved::tidy(&root, &path);
        root.remove(&path, AtFlags::REMOVEDIR)
    });
    match removed.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        Ok(()) => Ok(S3Response::new(DeleteBucketOutput::default())),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
            Err(s3_error!(BucketNotEmpty, "the bucket is not empty"))
        }
        Err(error) => Err(from_io(&error)),
    }
}
