//! Implements GetObjectAttributes, which returns the metadata of an object that the request asks
//! for.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::object::metadata::ObjectMetadata;
use crate::s3::api::S3Api;
use crate::s3::outputs::{sent_tag, with_checksums};

/// Maximum number of parts on a page, as in S3.
const MAX_PAGE_PARTS: i32 = 1000;

pub(crate) async fn get(
    api: &S3Api,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = &request.input;
    let found = api.open(&request, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    // The names come in one header, separated by commas, or in several headers.
    let asked = input.object_attributes.iter().flat_map(|attributes| attributes.as_str().split(','));
    let asked: Vec<&str> = asked.map(str::trim).collect();
    let asks = |name: &str| asked.contains(&name);
    let (checksums, kind) = found.metadata.shown_checksums();
    let checksum = (asks(ObjectAttributes::CHECKSUM) && !checksums.is_empty()).then(|| {
        let kind = Some(ChecksumType::from_static(kind.name()));
        with_checksums!(Checksum { checksum_type: kind, ..Default::default() }, checksums)
    });
    let metadata = found.metadata;
    let object_parts = (asks(ObjectAttributes::OBJECT_PARTS) && !metadata.parts.is_empty())
        .then(|| page(&metadata, input.part_number_marker, input.max_parts));
    let size = found.described.size.and_then(|size| i64::try_from(size).ok());
    Ok(S3Response::new(GetObjectAttributesOutput {
        checksum,
        e_tag: found.described.etag.clone().map(sent_tag).filter(|_| asks(ObjectAttributes::ETAG)),
        last_modified: found.described.modified.map(Timestamp::from),
        object_parts,
        object_size: size.filter(|_| asks(ObjectAttributes::OBJECT_SIZE)),
        storage_class: asks(ObjectAttributes::STORAGE_CLASS)
            .then(|| StorageClass::from_static(StorageClass::STANDARD)),
        ..Default::default()
    }))
}

/// Makes a page of at most `most` parts after `marker`.
fn page(metadata: &ObjectMetadata, marker: Option<i32>, most: Option<i32>) -> GetObjectAttributesParts {
    let parts = &metadata.parts;
    let after = marker.unwrap_or(0).max(0);
    let most = most.unwrap_or(MAX_PAGE_PARTS).clamp(0, MAX_PAGE_PARTS);
    let part = |(number, length): (i32, u64)| {
        let part =
            ObjectPart { part_number: Some(number), size: i64::try_from(length).ok(), ..Default::default() };
        with_checksums!(part, metadata.checksums_of_part(number))
    };
    let numbered = (1..).zip(parts.ranges().map(|range| range.len()));
    let mut rest = numbered.skip_while(|(number, _)| *number <= after);
    let page: Vec<ObjectPart> = rest.by_ref().take(usize::try_from(most).unwrap_or(0)).map(part).collect();
    GetObjectAttributesParts {
        is_truncated: Some(rest.next().is_some()),
        max_parts: Some(most),
        next_part_number_marker: page.last().and_then(|part| part.part_number),
        part_number_marker: Some(after),
        total_parts_count: i32::try_from(parts.count()).ok(),
        parts: Some(page),
    }
}
