//! Makes presigned URLs, which hold the signature of one request in their query. The verb `presign`
//! prints them, and Python's `presign` returns them.

use std::time::{Duration, SystemTime};

use firstbyte_location::ObjectLocation;

use super::endpoint::{self, BucketAddress};
use super::{S3, sign};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::wire::HttpMethod;

/// The request that a presigned URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresignMethod {
    /// Reading the object.
    Get,
    /// Writing the object.
    Put,
}

/// The parameters of a presigned URL.
#[derive(Clone, Copy, Debug)]
pub struct Presign {
    /// The allowed request.
    pub method: PresignMethod,
    /// The validity, in whole seconds: from 1 second to [`Presign::LONGEST`].
    pub expires: Duration,
}

impl Presign {
    /// The longest validity of a presigned URL.
    pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
}

/// A presigned URL, and whether it expires early.
#[derive(Clone, Debug)]
pub struct Presigned {
    /// The URL.
    pub url: String,
    /// True if the credentials may expire before the requested time. The URL then expires with the
    /// credentials.
    pub ends_early: bool,
}

impl S3 {
    /// Signs a request in its URL.
    pub(crate) fn presign(&self, object: &ObjectLocation, presign: &Presign) -> Result<Presigned> {
        endpoint::check_bucket(&object.bucket)?;
        if crate::order::is_directory_bucket(object) {
            // The key of a session is valid for only five minutes.
            let what = "a presigned URL in a directory bucket";
            return Err(Error::Unsupported { location: object.to_string(), what, trace: None });
        }
        let options = &self.client.options;
        let place = object.to_string();
        let configured = self.identity.settings(options)?;
        if configured.region.is_none() && configured.endpoint_url.is_none() {
            // The signature is for one region. This call learns the region, even if it is refused.
            match self.stat(&object.with_key("")) {
                Ok(_) | Err(Error::Denied { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let region = self.region(&object.bucket)?;
        let address = BucketAddress::of(&object.bucket, configured, &region)?;
        let cancel = self.client.scoped_cancel(&Cancel::new());
        let credentials = self.identity.credentials(&place, options, &cancel)?;
        let credentials = credentials.ok_or_else(|| Error::Options {
            what: "--no-sign-request".to_owned(),
            why: "a presigned URL is signed, and needs credentials".to_owned(),
        })?;
        let payer = ("x-amz-request-payer", "requester".to_owned());
        let query: Vec<_> = options.request_payer.then_some(payer).into_iter().collect();
        let method = match presign.method {
            PresignMethod::Get => HttpMethod::Get,
            PresignMethod::Put => HttpMethod::Put,
        };
        let now = SystemTime::now();
        let ends_early = match credentials.expiry {
            Some(expiry) => expiry < now + presign.expires,
            None => credentials.session_token.is_some(),
        };
        let unsigned = sign::UnsignedRequest {
            place: &place,
            origin: &address.origin,
            method,
            target: address.target(&object.key, &query),
        };
        let url = sign::sign_url(&unsigned, &credentials, &region, presign.expires, now)?;
        Ok(Presigned { url, ends_early })
    }
}
