//! Signed requests below a base path.
//!
//! A signature covers the path as it was sent, but s3s verifies and answers by one and the same
//! URI. So below a base path there are two services. The first knows the keys, gets the path as it
//! was sent, and only verifies. Its single route passes the request, without signature and base
//! path, to the second service, which answers. The verified signer is passed in the request's
//! extensions, which a client cannot set. If the chunks of a body are signed, the first service
//! verifies them while the second reads the body.

use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, Method, Uri};
use s3s::auth::Credentials;
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3, S3Request, S3Response, S3Result, TrailingHeaders, s3_error};

use crate::s3::{join, unsigned_query};

/// The facts about a request that the first service verified.
#[derive(Clone, Debug)]
struct Verified {
    credentials: Credentials,
    trailers: Option<TrailingHeaders>,
}

/// Whose signature the first service verified.
pub(super) fn signer(extensions: &Extensions) -> Option<&Credentials> {
    extensions.get::<Verified>().map(|verified| &verified.credentials)
}

/// The trailers the first service verifies as the body is read.
pub(super) fn trailers(extensions: &Extensions) -> Option<&TrailingHeaders> {
    extensions.get::<Verified>().and_then(|verified| verified.trailers.as_ref())
}

/// The first service's operations: none, for its route takes every request.
pub(super) struct NoOperations;

impl S3 for NoOperations {}

/// The first service's way to the second.
pub(super) struct Below {
    /// The base path, without a `/` at its end.
    pub(super) base: String,
    pub(super) service: S3Service,
}

#[async_trait::async_trait]
impl S3Route for Below {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        // `check_access` has refused requests without credentials.
        let credentials = request.credentials.ok_or_else(|| s3_error!(AccessDenied))?;
        let path = match request.uri.path().strip_prefix(self.base.as_str()) {
            Some("") => "/",
            Some(rest) => rest,
            None => return Err(s3_error!(NoSuchBucket, "everything here is below {}/", self.base)),
        };
        let target = join(path, &unsigned_query(request.uri.query().unwrap_or_default()));
        let uri: Uri = target.parse().map_err(|error| s3_error!(error, InvalidURI))?;
        let mut inner = http::Request::new(request.input);
        (*inner.method_mut(), *inner.uri_mut()) = (request.method, uri);
        (*inner.headers_mut(), *inner.extensions_mut()) = (request.headers, request.extensions);
        inner.headers_mut().remove(AUTHORIZATION);
        inner.extensions_mut().insert(Verified { credentials, trailers: request.trailing_headers });
        let answered = self.service.call(inner).await;
        let (parts, body) = answered
            .map_err(|error| s3_error!(InternalError, "the S3 service failed: {error:?}"))?
            .into_parts();
        Ok(S3Response {
            output: body,
            status: Some(parts.status),
            headers: parts.headers,
            extensions: parts.extensions,
        })
    }
}
