//! Represents an object that a request reads, in a file of the served directory or behind a
//! gateway.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::ByteRange;
use http::HeaderMap;
use rustix_futex_sync::Mutex;
use s3s::S3Result;

use crate::gateway::{BlockFrames, Gateway, RemoteObject};
use crate::http::etag::EtagIdentity;
use crate::http::response::{FileContent, ResponseBody};
use crate::object::described::Described;
use crate::object::metadata::ObjectMetadata;
use crate::s3::objects::FoundObject;

/// An open object.
pub(crate) struct OpenedObject {
    pub(crate) described: Described,
    pub(crate) metadata: ObjectMetadata,
    content: Content,
}

enum Content {
    File(Arc<File>, EtagIdentity),
    Remote(Arc<Gateway>, RemoteObject),
}

impl From<FoundObject> for OpenedObject {
    fn from(found: FoundObject) -> Self {
        let FoundObject { file, identity, metadata } = found;
        Self { described: Described::from(&identity), metadata, content: Content::File(file, identity) }
    }
}

impl OpenedObject {
    /// Returns an object behind a gateway.
    pub(crate) fn remote(gateway: &Arc<Gateway>, found: RemoteObject) -> Self {
        let (described, metadata) = (found.described(), found.metadata());
        Self { described, metadata, content: Content::Remote(Arc::clone(gateway), found) }
    }

    /// Returns the age of the look-up if it is outdated because the origin could not be asked.
    pub(crate) fn stale(&self) -> Option<Duration> {
        match &self.content {
            Content::File(..) => None,
            Content::Remote(_, found) => found.stale,
        }
    }

    /// Returns the form in which the client wants the bytes of `range`.
    pub(crate) fn frames(&self, headers: &HeaderMap, range: Option<ByteRange>) -> BlockFrames {
        match &self.content {
            Content::File(..) => BlockFrames::None,
            Content::Remote(_, found) => Gateway::frames(headers, range, found),
        }
    }

    /// Returns the body with the bytes of a range, or of the whole object, which the connection
    /// loop sends.
    ///
    /// # Errors
    /// The first bytes do not arrive from the gateway's origin.
    pub(crate) async fn body(&self, part: Option<ByteRange>, frames: BlockFrames) -> S3Result<SentBody> {
        let body = match &self.content {
            Content::File(file, identity) => {
                let range = part.unwrap_or(ByteRange::new(0, identity.size));
                ResponseBody::File(FileContent { file: Arc::clone(file), range, version: *identity })
            }
            Content::Remote(gateway, found) => gateway.read(found, part, frames).await?,
        };
        Ok(SentBody::new(body))
    }
}

/// A body on its way to the connection loop, in the extensions of a response. Extensions are
/// cloned, so the body is shared.
#[derive(Clone)]
pub(crate) struct SentBody(Arc<Mutex<Option<ResponseBody>>>);

impl SentBody {
    pub(crate) fn new(body: ResponseBody) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Returns the body at the first call, then `None`.
    pub(crate) fn take(self) -> Option<ResponseBody> {
        self.0.lock().take()
    }
}
