//! Uploads blobs in parts, by `Put Block` and `Put Block List`.
//!
//! The service keeps no record of an upload: the blocks of an upload only have names with a common
//! prefix. The service deletes uncommitted blocks when the blob is written, or after a week.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firstbyte_location::{Algorithm, Location, ObjectLocation};

use super::{Azure, check_name, path, write, xml};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::requests::RequestKind;
use crate::rest::{RestCall, RestStore as _, protocol};
use crate::s3::xml::escape;
use crate::upload::{Part, Payload, PutOptions, Sending, Upload, Written};
use crate::wire::HttpMethod;

impl Azure {
    /// Chooses the name of an upload. Sends no request: the service learns the name with the first
    /// block.
    pub(crate) fn begin_upload(&self, object: &ObjectLocation) -> Result<Upload> {
        check_name(object)?;
        let id = format!("{:016x}", RandomState::new().hash_one(&object.key));
        Ok(Upload { location: Location::Object(object.clone()), id })
    }

    /// Sends `Put Block`. The service checks the MD5.
    pub(crate) fn put_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        let md5 = payload.checksum(Algorithm::Md5, &object.to_string())?;
        let block = block_id(id, number);
        let mut call = RestCall::new(HttpMethod::Put, object, path(object), &sending.cancel);
        call.throttle = sending.throttle.clone();
        call.payload = payload;
        call.query.push(("comp", "block".to_owned()));
        call.query.push(("blockid", block.clone()));
        call.header("content-md5", md5.to_base64());
        self.call(&call)?;
        Ok(Part { number, size: payload.length(), etag: block, checksum: None })
    }

    /// Sends `Get Block List`. Returns the uncommitted blocks of this upload.
    pub(crate) fn list_parts(&self, object: &ObjectLocation, id: &str) -> Result<Vec<Part>> {
        let cancel = Cancel::new();
        let mut call = RestCall::new(HttpMethod::Get, object, path(object), &cancel);
        call.kind = RequestKind::List;
        call.query.push(("comp", "blocklist".to_owned()));
        call.query.push(("blocklisttype", "uncommitted".to_owned()));
        let body = match self.call(&call) {
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            other => other?.1,
        };
        let list =
            xml::block_list(&body).ok_or_else(|| protocol(&call.place(), "no blocks in the response"))?;
        let part = |block: xml::Block| {
            let number = number_of(id, &block.name)?;
            Some(Part { number, size: block.size, etag: block.name, checksum: None })
        };
        let mut parts: Vec<_> = list.uncommitted_blocks.block.into_iter().filter_map(part).collect();
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    /// Sends `Put Block List`. A retry is harmless: the service finds blocks that the first attempt
    /// has committed in the blob itself.
    pub(crate) fn complete_upload(
        &self,
        object: &ObjectLocation,
        parts: &[Part],
        options: &PutOptions,
    ) -> Result<Written> {
        let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for part in parts {
            body.push_str(&format!("<Latest>{}</Latest>", escape(&part.etag)));
        }
        body.push_str("</BlockList>");
        let mut call = RestCall::new(HttpMethod::Put, object, path(object), &options.sending.cancel);
        call.query.push(("comp", "blocklist".to_owned()));
        call.payload = Payload::Bytes(body.as_bytes());
        self.add_metadata_headers(&mut call, &options.metadata)?;
        call.headers.extend(options.precondition.header());
        let (head, _) = self.call(&call)?;
        let size = parts.iter().map(|part| part.size).sum();
        Ok(Written { version: write::version(&head, Some(size)), verified: None })
    }
}

/// Returns the name of a block. Azure requires all block names of a blob to have the same length.
fn block_id(upload: &str, number: u32) -> String {
    BASE64_STANDARD.encode(format!("{upload}-{number:05}"))
}

/// Returns the number of a block, or `None` if it belongs to another upload.
fn number_of(upload: &str, block: &str) -> Option<u32> {
    let name = String::from_utf8(BASE64_STANDARD.decode(block).ok()?).ok()?;
    name.strip_prefix(upload)?.strip_prefix('-')?.parse().ok()
}
