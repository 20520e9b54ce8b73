//! Finds out whether an upload was completed, if the response to its completion was lost.
//!
//! A repeated completion is refused, because the upload no longer exists. So the object is compared
//! with the upload: both must have the same length and the same checksum. In a store without
//! CRC-64, the modification time in the object's metadata must be the one that this client sent. If
//! the client sent none, the object must have been written since the completion was first sent, or
//! must end with the bytes of the last part.

use std::time::Instant;

use firstbyte_location::{Algorithm, ByteRange, Checksum, Hasher, ObjectLocation};

use crate::dates;
use crate::error::Result;
use crate::limits::BUFFER;
use crate::object::{Metadata, Stat};
use crate::query::Get;
use crate::upload::{Part, Written};

use super::{S3, protocol};

/// An upload that its store no longer knows, because it may be complete.
pub(super) struct LostAnswer<'a> {
    pub(super) object: &'a ObjectLocation,
    pub(super) id: &'a str,
    /// The parts, in order.
    pub(super) parts: &'a [Part],
    /// The checksum of the whole object, if the parts have checksums.
    pub(super) whole: Option<&'a Checksum>,
    pub(super) metadata: &'a Metadata,
    pub(super) began: Instant,
}

impl LostAnswer<'_> {
    fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }
}

impl S3 {
    /// Returns the result of an upload that was already completed. Returns an error if the object
    /// is not the result of that upload.
    pub(super) fn completed_before(&self, lost: &LostAnswer<'_>) -> Result<Written> {
        let stat = self.head(lost.object, None)?;
        if self.is_result(lost, &stat) {
            let verified = stat.checksum.filter(|sum| Some(sum) == lost.whole);
            return Ok(Written { version: stat.version, verified });
        }
        let id = lost.id;
        let why = format!("upload {id} does not exist any more, and neither does its object");
        Err(protocol(&lost.object.to_string(), why))
    }

    fn is_result(&self, lost: &LostAnswer<'_>, stat: &Stat) -> bool {
        if stat.size() != Some(lost.size()) {
            return false;
        }
        if let (Some(found), Some(whole)) = (&stat.checksum, lost.whole)
            && found.algorithm == whole.algorithm
        {
            return found == whole;
        }
        match (stat.metadata.modified, lost.metadata.modified) {
            (Some(found), Some(sent)) => found == sent,
            _ => self.is_since(lost, stat) || self.has_last_part(lost, stat),
        }
    }

    /// Returns true if the object was written since the completion was first sent, by the store's
    /// clock.
    fn is_since(&self, lost: &LostAnswer<'_>, stat: &Stat) -> bool {
        let written = stat.version.last_modified.as_deref().and_then(dates::parse_http_date);
        let clocks = &self.client.clocks;
        written.is_some_and(|date| clocks.is_within(lost.object.service, date, lost.began.elapsed()))
    }

    /// Returns true if the object ends with the bytes of the last part. The `ETag` of that part is
    /// the MD5 of its bytes.
    fn has_last_part(&self, lost: &LostAnswer<'_>, stat: &Stat) -> bool {
        let Some(last) = lost.parts.last() else { return false };
        let range = Some(ByteRange::new(lost.size() - last.size, lost.size()));
        let get = Get { range, version: Some(stat.version.clone()), ..Get::default() };
        let hash = || -> Result<Checksum> {
            let mut body = self.get(lost.object, &get)?;
            let (mut hasher, mut buffer) = (Hasher::new(Algorithm::Md5), vec![0; BUFFER]);
            loop {
                match body.read(&mut buffer)? {
                    0 => return Ok(hasher.finish()),
                    read => hasher.update(&buffer[..read]),
                }
            }
        };
        let found = hash().inspect_err(|error| tracing::debug!(%error, "the last part cannot be compared"));
        found.is_ok_and(|found| found.to_hex().eq_ignore_ascii_case(last.etag.trim_matches('"')))
    }
}
