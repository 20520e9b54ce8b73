//! Multipart uploads: parts are written in parallel into the file they will be (see [`crate::s3::placement`]), which
//! completing only renames. How they lie on disk is [`crate::s3::staging`]'s.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firstbyte_location::ByteRange;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::random_token;
use crate::etag::Identity;
use crate::range::{RangeAnswer, parse_range};
use crate::root::{EntryPath, Root};
use crate::s3::api::Api;
use crate::s3::checksum::{Checksums, combine};
use crate::s3::metadata::ObjectMetadata;
use crate::s3::objects::{self, blocking, copy_digesting};
use crate::s3::outputs::{self, tag, with_checksums};
use crate::s3::staging::{Description, PartRecord, Upload, lock, remove_abandoned, staging};
use crate::s3::writes::described;
use crate::upload::Replace;

/// The uploads this server has touched since it started.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    open: Mutex<HashMap<String, Arc<Upload>>>,
    /// When each bucket was last looked through for abandoned uploads.
    swept: Mutex<HashMap<EntryPath, Instant>>,
}

/// How often a bucket is looked through for abandoned uploads, by whoever begins one. They only take room.
const SWEEP: Duration = Duration::from_secs(3600);

impl Uploads {
    fn sweep_is_due(&self, bucket: &EntryPath) -> bool {
        let now = Instant::now();
        let mut swept = lock(&self.swept);
        let due = swept.get(bucket).is_none_or(|last| now.duration_since(*last) > SWEEP);
        if due {
            swept.insert(bucket.clone(), now);
        }
        due
    }
}

/// Removes what others abandoned in the bucket, when that is due.
async fn sweep(api: &Api, bucket: &EntryPath) {
    if !api.uploads.sweep_is_due(bucket) {
        return;
    }
    let open: HashSet<String> = lock(&api.uploads.open).keys().cloned().collect();
    let (root, staging, age) = (api.root.clone(), staging(bucket), api.abandoned);
    let removed = blocking(move || remove_abandoned(&root, &staging, age, |id| open.contains(id))).await;
    if let Err(error) = removed {
        tracing::warn!(?error, "abandoned uploads could not be removed");
    }
}

pub(crate) async fn find(api: &Api, bucket: &str, key: &str, id: &str) -> S3Result<Arc<Upload>> {
    let unknown = || s3_error!(NoSuchUpload, "there is no such upload of this key");
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    let directory = staging(&api.bucket(bucket).await?).join(id.as_ref());
    let known = lock(&api.uploads.open).get(id).cloned();
    let upload = match known {
        Some(upload) => upload,
        None => {
            let (root, below) = (api.root.clone(), directory.clone());
            let loaded = blocking(move || Upload::load(&root, below)).await.map_err(|_| unknown())?;
            lock(&api.uploads.open).entry(id.to_owned()).or_insert_with(|| Arc::new(loaded)).clone()
        }
    };
    if upload.directory == directory && upload.description.key == key { Ok(upload) } else { Err(unknown()) }
}

pub(crate) async fn create(
    api: &Api,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&input.bucket, &input.key).await?;
    if input.key.ends_with('/') {
        return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
    }
    sweep(api, &target.bucket).await;
    let algorithm = input.checksum_algorithm.as_ref().map(|algorithm| algorithm.as_str().to_owned());
    let description = Description { key: input.key.clone(), object: described(&request.headers), algorithm };
    let id = random_token();
    let (root, directory) = (api.root.clone(), staging(&target.bucket).join(id.as_ref()));
    let upload = blocking(move || Upload::create(&root, directory, description)).await?;
    lock(&api.uploads.open).insert(id.clone(), Arc::new(upload));
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(id),
        checksum_algorithm: input.checksum_algorithm.clone(),
        checksum_type: input.checksum_type.clone(),
        ..Default::default()
    }))
}

/// The upload that part `number` is for.
async fn upload_of_part(api: &Api, bucket: &str, key: &str, id: &str, number: i32) -> S3Result<Arc<Upload>> {
    api.check_writing()?;
    if !(1..=10_000).contains(&number) {
        return Err(s3_error!(InvalidArgument, "part numbers go from 1 to 10,000"));
    }
    find(api, bucket, key, id).await
}

pub(crate) async fn upload_part(
    api: &Api,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let body = request.input.body.take();
    let UploadPartInput { bucket, key, upload_id, part_number: number, .. } = &request.input;
    let number = *number;
    let upload = upload_of_part(api, bucket, key, upload_id, number).await?;
    let announced =
        request.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let length =
        announced.ok_or_else(|| s3_error!(MissingContentLength, "a part's length must be announced"))?;
    let (root, opening) = (api.root.clone(), upload.clone());
    let (file, place) = blocking(move || opening.destination(&root, number, length)).await?;
    let (length, checksums) = objects::receive(&request, body, file, place.offset()).await?;
    let (root, part) = (api.root.clone(), PartRecord { length, place, checksums: checksums.clone() });
    let etag = blocking(move || upload.record(&root, number, part)).await?;
    let output = UploadPartOutput { e_tag: Some(tag(etag)), ..Default::default() };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

pub(crate) async fn copy_part(
    api: &Api,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let UploadPartCopyInput { bucket, key, upload_id, part_number: number, .. } = &request.input;
    let number = *number;
    let upload = upload_of_part(api, bucket, key, upload_id, number).await?;
    let source = api.source(&request, &request.input.copy_source).await?;
    let size = source.identity.size;
    let range = match request.input.copy_source_range.as_deref().map(|range| parse_range(range, size)) {
        None | Some(RangeAnswer::Whole) => ByteRange::new(0, size),
        Some(RangeAnswer::Part(range)) => range,
        Some(RangeAnswer::Unsatisfiable) => {
            return Err(s3_error!(InvalidRange, "the range is outside the source"));
        }
    };
    let (root, from, mut checksums) =
        (api.root.clone(), source.file, Checksums::for_request(&request.headers));
    let etag = blocking(move || {
        let (file, place) = upload.destination(&root, number, range.len())?;
        copy_digesting(&from, range, &file, place.offset(), &mut checksums)?;
        let part = PartRecord { length: range.len(), place, checksums: checksums.finish() };
        upload.record(&root, number, part)
    })
    .await?;
    let result =
        CopyPartResult { e_tag: Some(tag(etag)), last_modified: Some(outputs::now()), ..Default::default() };
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

/// The records of the parts a client lists, in its order.
fn listed(upload: &Upload, parts: &[CompletedPart]) -> S3Result<Vec<(i32, PartRecord)>> {
    let known = lock(&upload.parts);
    let mut last = 0;
    let mut records = Vec::with_capacity(parts.len());
    for part in parts {
        let number = part.part_number.unwrap_or_default();
        if number <= last {
            return Err(s3_error!(InvalidPartOrder, "parts must be listed in ascending order"));
        }
        last = number;
        let record = known
            .get(&number)
            .filter(|record| part.e_tag.as_ref().is_none_or(|etag| etag.value() == record.etag()));
        let record =
            record.ok_or_else(|| s3_error!(InvalidPart, "part {number} is not what was uploaded"))?;
        records.push((number, record.clone()));
    }
    if records.is_empty() {
        return Err(s3_error!(MalformedXML, "at least one part must be listed"));
    }
    Ok(records)
}

pub(crate) async fn complete(
    api: &Api,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&input.bucket, &input.key).await?;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    let parts =
        input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
    let records = listed(&upload, parts)?;
    let checksums = combine(records.iter().map(|(_, part)| (&part.checksums, part.length)));
    let composite = input.checksum_type.as_ref().is_some_and(|kind| kind.as_str() == ChecksumType::COMPOSITE);
    if let (false, Some(name)) = (composite, crate::s3::checksum::mismatch(&checksums, &request.headers)) {
        return Err(s3_error!(BadDigest, "the object does not have the announced {name}"));
    }
    let replace = objects::check_write(&api.root, &target.path, &request.headers).await?;
    let (root, path) = (api.root.clone(), target.path.clone());
    let kept = ObjectMetadata { checksums: checksums.clone(), ..upload.description.object.clone() };
    let id = input.upload_id.clone();
    let identity = blocking(move || {
        let (file, name, _) = upload.assemble(&root, &records)?;
        kept.write(&file)?;
        put_in_place(&root, &upload.directory, name, &path, replace)?;
        let identity = Identity::from(&file.metadata()?);
        if let Err(error) = upload.remove(&root) {
            tracing::warn!(%error, "what is left of a complete upload could not be removed");
        }
        Ok(identity)
    })
    .await?;
    lock(&api.uploads.open).remove(&id);
    let output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        e_tag: Some(tag(identity.etag())),
        checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        ..Default::default()
    };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

fn put_in_place(
    root: &Root,
    from: &EntryPath,
    name: &str,
    to: &EntryPath,
    replace: Replace,
) -> io::Result<()> {
    let source = root.open_directory(from)?;
    let target = root.make_directory(&to.parent())?;
    let final_name = to.name().ok_or(io::ErrorKind::IsADirectory)?;
    let flags = match replace {
        Replace::Any => rustix::fs::RenameFlags::empty(),
        Replace::Nothing => rustix::fs::RenameFlags::NOREPLACE,
    };
    Ok(rustix::fs::renameat_with(&source, name, &target, final_name, flags)?)
}

pub(crate) async fn abort(
    api: &Api,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    api.check_writing()?;
    let input = &request.input;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    lock(&api.uploads.open).remove(&input.upload_id);
    let root = api.root.clone();
    blocking(move || upload.remove(&root)).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
