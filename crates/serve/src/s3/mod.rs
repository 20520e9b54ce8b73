//! The S3 API over the directory.

use http::StatusCode;

use crate::config::Config;
use crate::request::Request;
use crate::response::Response;
use crate::root::Root;
use crate::site::Site;

/// The S3 API of one server.
#[derive(Debug)]
pub(crate) struct Service {}

impl Service {
    pub(crate) fn new(_root: Root, _config: &Config) -> Self {
        Self {}
    }

    /// Something changed by another way than S3: listings must be read again.
    pub(crate) fn forget_listings(&self) {}
}

/// Answers an S3 request; tells the access key that asked.
pub(crate) async fn answer(_site: &Site, _request: Request) -> (Response, Option<String>) {
    (Response::new(StatusCode::NOT_IMPLEMENTED), None)
}
