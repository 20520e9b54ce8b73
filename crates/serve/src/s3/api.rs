//! The operations, each in S3's shape: names become paths, rights beyond the request's own path are checked, files do the
//! rest.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::ByteRange;
use http::{HeaderMap, StatusCode};
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::auth::{Access, Keys, Rights};
use crate::config::{Authentication, Buckets, Config, Writing};
use crate::directory::{Kind, Reader};
use crate::root::{EntryPath, Root};
use crate::s3::access::access;
use crate::s3::chunked::Trailers;
use crate::s3::error::{from_io, from_path};
use crate::s3::index::Index;
use crate::s3::list::{After, Page, Query, page};
use crate::s3::metadata::ObjectMetadata;
use crate::s3::multipart::Uploads;
use crate::s3::objects::{self, Found, blocking};
use crate::s3::outputs::{self, modified, tag, with_checksums};
use crate::s3::pages::{from_token, is_url, limit, token};
use crate::s3::reads::{asked, check_read, head_output};
use crate::s3::{FileRange, multipart, staging};

/// The operations over one served directory.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) root: Root,
    index: Arc<Index>,
    writing: Writing,
    buckets: Buckets,
    keys: Option<Keys>,
    pub(crate) uploads: Uploads,
    /// How long an upload may lie untouched.
    pub(crate) abandoned: Duration,
}

/// What a request works on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) bucket: EntryPath,
    pub(crate) path: EntryPath,
}

impl Api {
    pub(crate) fn new(root: Root, config: &Config) -> Self {
        let keys = match &config.authentication {
            Authentication::Keys(keys) => Some(keys.clone()),
            Authentication::None => None,
        };
        let (writing, buckets) = (config.writing, config.buckets.clone());
        let (uploads, abandoned) = (Uploads::default(), config.limits.abandoned);
        Self { root, index: Arc::default(), writing, buckets, keys, uploads, abandoned }
    }

    /// The directory of an existing bucket.
    pub(crate) async fn bucket(&self, name: &str) -> S3Result<EntryPath> {
        let path = match &self.buckets {
            Buckets::Named(own) if own == name => return Ok(EntryPath::default()),
            Buckets::Named(_) => return Err(s3_error!(NoSuchBucket, "there is no such bucket")),
            Buckets::FirstLevel => EntryPath::parse(name.as_bytes()).map_err(from_path)?,
        };
        let entry = self.root.open_entry(&path).await.and_then(|entry| entry.metadata());
        match entry {
            Ok(metadata) if metadata.is_dir() => Ok(path),
            _ => Err(s3_error!(NoSuchBucket, "there is no such bucket")),
        }
    }

    /// The bucket and path of an object.
    pub(crate) async fn target(&self, bucket: &str, key: &str) -> S3Result<Target> {
        let bucket = self.bucket(bucket).await?;
        let below = EntryPath::parse(key.as_bytes()).map_err(from_path)?;
        if below.is_root() || key.starts_with('/') {
            return Err(s3_error!(InvalidArgument, "no file can be named after this key"));
        }
        Ok(Target { path: bucket.join(below.as_path().as_os_str()), bucket })
    }

    pub(crate) fn check_writing(&self) -> S3Result<()> {
        match self.writing {
            Writing::Allowed => Ok(()),
            Writing::Refused => {
                Err(s3_error!(AccessDenied, "this server takes no writes; start it with --write"))
            }
        }
    }

    fn access<T>(&self, request: &S3Request<T>) -> Access {
        access(self.keys.as_ref(), request.credentials.as_ref())
    }

    /// The source of a copy, which the signer must be allowed to read.
    pub(crate) async fn source<T>(&self, request: &S3Request<T>, source: &CopySource) -> S3Result<Found> {
        let CopySource::Bucket { bucket, key, version_id } = source else {
            return Err(s3_error!(NotImplemented, "a copy's source must be bucket and key"));
        };
        if version_id.as_deref().is_some_and(|version| version != "null") {
            return Err(s3_error!(NoSuchVersion, "versions are not kept"));
        }
        let target = self.target(bucket, key).await?;
        if !self.access(request).allows(Rights::Read, target.path.as_bytes()) {
            return Err(s3_error!(AccessDenied, "this key gives no right to read the source"));
        }
        objects::open(&self.root, &target.path, key).await
    }

    async fn page(&self, bucket: &str, query: Query) -> S3Result<Page> {
        let bucket = self.bucket(bucket).await?;
        let (root, index) = (self.root.clone(), self.index.clone());
        blocking(move || page(&root, &index, &bucket, &query)).await
    }
}

/// The trailers behind a request's body, from s3s or from our own decoder.
pub(crate) fn trailers<T>(request: &S3Request<T>) -> impl Fn() -> HeaderMap + use<T> {
    let (verified, unread) =
        (request.trailing_headers.clone(), request.extensions.get::<Trailers>().cloned());
    move || {
        let verified = verified.as_ref().and_then(|trailers| trailers.read(HeaderMap::clone));
        verified.or_else(|| unread.as_ref().map(Trailers::get)).unwrap_or_default()
    }
}

/// What is kept of an object, as the headers of its request tell it.
pub(crate) fn described(headers: &HeaderMap) -> ObjectMetadata {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let user = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("x-amz-meta-")?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    ObjectMetadata {
        content_type: text("content-type"),
        cache_control: text("cache-control"),
        content_disposition: text("content-disposition"),
        content_encoding: text("content-encoding").filter(|coding| coding != "aws-chunked"),
        content_language: text("content-language"),
        user: user.collect(),
        checksums: Default::default(),
    }
}

#[async_trait::async_trait]
impl S3 for Api {
    async fn list_buckets(
        &self,
        request: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let bucket = |name: String| Bucket {
            name: Some(name),
            creation_date: Some(outputs::now()),
            ..Bucket::default()
        };
        let mut names = match &self.buckets {
            Buckets::Named(name) => vec![name.clone()],
            Buckets::FirstLevel => {
                let root = self.root.clone();
                blocking(move || {
                    let entries =
                        Reader::open(&root, &EntryPath::default())?.collect::<Result<Vec<_>, _>>()?;
                    let directories = entries.into_iter().filter(|entry| entry.kind != Kind::File);
                    Ok(directories.filter_map(|entry| entry.name.into_string().ok()).collect())
                })
                .await?
            }
        };
        let access = self.access(&request);
        if self.buckets == Buckets::FirstLevel {
            names.retain(|name| access.reaches(format!("{name}/").as_bytes()));
        }
        names.sort_unstable();
        let buckets = Some(names.into_iter().map(bucket).collect());
        Ok(S3Response::new(ListBucketsOutput {
            buckets,
            owner: Some(Owner::default()),
            ..Default::default()
        }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.bucket(&request.input.bucket).await?;
        Ok(S3Response::new(HeadBucketOutput {
            bucket_region: Some("us-east-1".to_owned()),
            ..Default::default()
        }))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.bucket(&request.input.bucket).await?;
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        self.bucket(&request.input.bucket).await?;
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        self.check_writing()?;
        let name = &request.input.bucket;
        match self.bucket(name).await {
            Ok(_) => return Err(s3_error!(BucketAlreadyOwnedByYou, "the bucket is there already")),
            Err(error) if *error.code() != s3s::S3ErrorCode::NoSuchBucket => return Err(error),
            Err(_) => {}
        }
        if self.buckets != Buckets::FirstLevel {
            return Err(s3_error!(InvalidBucketName, "this server has one bucket only"));
        }
        let path = EntryPath::parse(name.as_bytes()).map_err(from_path)?;
        objects::make_directory(&self.root, &path).await?;
        Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{name}")) }))
    }

    async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        self.check_writing()?;
        let path = self.bucket(&request.input.bucket).await?;
        let root = self.root.clone();
        let removed = tokio::task::spawn_blocking(move || {
            staging::remove_staging(&root, &path);
            root.remove(&path, rustix::fs::AtFlags::REMOVEDIR)
        });
        match removed.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(()) => Ok(S3Response::new(DeleteBucketOutput::default())),
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                Err(s3_error!(BucketNotEmpty, "the bucket is not empty"))
            }
            Err(error) => Err(from_io(&error)),
        }
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let max_keys = limit(input.max_keys)?;
        let after = match (&input.continuation_token, &input.start_after) {
            (Some(token), _) => from_token(token)?,
            (None, Some(key)) => After::Key(key.clone()),
            (None, None) => After::Start,
        };
        let prefix = input.prefix.clone().unwrap_or_default();
        let query = Query { prefix, delimiter: input.delimiter.clone(), after, limit: max_keys as usize };
        let page = self.page(&input.bucket, query).await?;
        let encoded = is_url(input.encoding_type.as_ref());
        let shown = |text: Option<String>| text.map(|text| outputs::shown(&text, encoded));
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            key_count: i32::try_from(page.objects.len() + page.prefixes.len()).ok(),
            max_keys: Some(max_keys),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_ref().and_then(token),
            continuation_token: input.continuation_token,
            contents: Some(outputs::objects(page.objects, encoded)),
            common_prefixes: Some(outputs::prefixes(page.prefixes, encoded)),
            prefix: shown(Some(input.prefix.unwrap_or_default())),
            delimiter: shown(input.delimiter),
            start_after: shown(input.start_after),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }

    async fn list_objects(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = request.input;
        let max_keys = limit(input.max_keys)?;
        let after = match (&input.marker, &input.delimiter) {
            (None, _) => After::Start,
            // The next marker of a page that ended with a common prefix.
            (Some(marker), Some(delimiter)) if marker.ends_with(delimiter.as_str()) => {
                After::Prefix(marker.clone())
            }
            (Some(marker), _) => After::Key(marker.clone()),
        };
        let prefix = input.prefix.clone().unwrap_or_default();
        let query = Query { prefix, delimiter: input.delimiter.clone(), after, limit: max_keys as usize };
        let page = self.page(&input.bucket, query).await?;
        let encoded = is_url(input.encoding_type.as_ref());
        let shown = |text: Option<String>| text.map(|text| outputs::shown(&text, encoded));
        let next_marker = match &page.next {
            Some(After::Key(text) | After::Prefix(text)) => Some(text.clone()),
            _ => None,
        };
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            max_keys: Some(max_keys),
            is_truncated: Some(page.next.is_some()),
            next_marker: shown(next_marker),
            marker: shown(Some(input.marker.unwrap_or_default())),
            contents: Some(outputs::objects(page.objects, encoded)),
            common_prefixes: Some(outputs::prefixes(page.prefixes, encoded)),
            prefix: shown(Some(input.prefix.unwrap_or_default())),
            delimiter: shown(input.delimiter),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let key = &request.input.key;
        let target = self.target(&request.input.bucket, key).await?;
        let found = objects::open(&self.root, &target.path, key).await?;
        check_read(&request.headers, &found)?;
        let range = asked(request.input.part_number, &request.headers, found.identity.size)?;
        Ok(S3Response::new(head_output(found, key, range)))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let key = &request.input.key;
        let target = self.target(&request.input.bucket, key).await?;
        let found = objects::open(&self.root, &target.path, key).await?;
        check_read(&request.headers, &found)?;
        let size = found.identity.size;
        let range = asked(request.input.part_number, &request.headers, size)?;
        let sent = FileRange { file: found.file.clone(), range: range.unwrap_or(ByteRange::new(0, size)) };
        let head = head_output(found, key, range);
        let mut response = S3Response::new(GetObjectOutput {
            accept_ranges: head.accept_ranges,
            cache_control: head.cache_control,
            checksum_crc32: head.checksum_crc32,
            checksum_crc32c: head.checksum_crc32c,
            checksum_crc64nvme: head.checksum_crc64nvme,
            checksum_sha1: head.checksum_sha1,
            checksum_sha256: head.checksum_sha256,
            checksum_type: head.checksum_type,
            content_disposition: head.content_disposition,
            content_encoding: head.content_encoding,
            content_language: head.content_language,
            content_length: head.content_length,
            content_range: head.content_range,
            content_type: head.content_type,
            e_tag: head.e_tag,
            last_modified: head.last_modified,
            metadata: head.metadata,
            ..GetObjectOutput::default()
        });
        response.extensions.insert(sent);
        Ok(response)
    }

    async fn put_object(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.check_writing()?;
        let target = self.target(&request.input.bucket, &request.input.key).await?;
        let replace = objects::check_write(&self.root, &target.path, &request.headers).await?;
        let (body, trailers) = (request.input.body.take(), trailers(&request));
        if request.input.key.ends_with('/') {
            if request.input.content_length.is_some_and(|length| length > 0) {
                return Err(s3_error!(
                    InvalidArgument,
                    "a key ending in `/` is a directory: it holds no bytes"
                ));
            }
            let identity = objects::make_directory(&self.root, &target.path).await?;
            return Ok(S3Response::new(PutObjectOutput {
                e_tag: Some(tag(identity.etag())),
                ..Default::default()
            }));
        }
        let temporary = objects::create(&self.root, &target.path).await?;
        let received = objects::receive(temporary.file().clone(), 0, body, &request.headers, trailers).await;
        let (_, mut checksums) = received?;
        checksums.remove(&crate::s3::checksum::Algorithm::Md5);
        if replace == crate::upload::Replace::Any {
            // It may have changed while the body came.
            objects::check_write(&self.root, &target.path, &request.headers).await?;
        }
        let kept = ObjectMetadata { checksums: checksums.clone(), ..described(&request.headers) };
        let identity = objects::commit(temporary, kept, replace).await?;
        let output = PutObjectOutput {
            e_tag: Some(tag(identity.etag())),
            checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            ..Default::default()
        };
        Ok(S3Response::new(with_checksums!(output, checksums)))
    }

    async fn copy_object(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        self.check_writing()?;
        let input = &request.input;
        let target = self.target(&input.bucket, &input.key).await?;
        let source = self.source(&request, &input.copy_source).await?;
        objects::check_source(
            &source.identity,
            input.copy_source_if_match.as_ref(),
            input.copy_source_if_none_match.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
            input.copy_source_if_modified_since.as_ref(),
        )?;
        let replaced =
            input.metadata_directive.as_ref().is_some_and(|directive| directive.as_str() == "REPLACE");
        let mut kept = if replaced { described(&request.headers) } else { source.metadata.clone() };
        kept.checksums.clone_from(&source.metadata.checksums);
        let temporary = objects::create(&self.root, &target.path).await?;
        let (from, to, size) = (source.file, temporary.file().clone(), source.identity.size);
        blocking(move || objects::copy_range(&from, ByteRange::new(0, size), &to, 0)).await?;
        let identity = objects::commit(temporary, kept, crate::upload::Replace::Any).await?;
        let result = CopyObjectResult {
            e_tag: Some(tag(identity.etag())),
            last_modified: Some(modified(&identity)),
            ..Default::default()
        };
        Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.check_writing()?;
        let Target { bucket, path } = self.target(&request.input.bucket, &request.input.key).await?;
        objects::delete(&self.root, path, &request.input.key, bucket).await?;
        Ok(S3Response::with_status(DeleteObjectOutput::default(), StatusCode::NO_CONTENT))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.check_writing()?;
        let access = self.access(&request);
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for ObjectIdentifier { key, .. } in request.input.delete.objects {
            let removed = match self.target(&request.input.bucket, &key).await {
                Ok(target) if !access.allows(Rights::Write, target.path.as_bytes()) => {
                    Err(s3_error!(AccessDenied, "this key gives no right to do so"))
                }
                Ok(Target { bucket, path }) => objects::delete(&self.root, path, &key, bucket).await,
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
                Err(error) => errors.push(Error {
                    key: Some(key),
                    code: Some(error.code().as_str().to_owned()),
                    message: error.message().map(str::to_owned),
                    ..Default::default()
                }),
            }
        }
        if request.input.delete.quiet == Some(true) {
            deleted.clear();
        }
        let (deleted, errors) = (Some(deleted), (!errors.is_empty()).then_some(errors));
        Ok(S3Response::new(DeleteObjectsOutput { deleted, errors, ..Default::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        multipart::create(self, request).await
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        multipart::upload_part(self, request).await
    }

    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        multipart::copy_part(self, request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        multipart::complete(self, request).await
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        multipart::abort(self, request).await
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        multipart::list_parts(self, request).await
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        multipart::list_uploads(self, request).await
    }
}
