//! Verifies the signature of a request's head, before the request is processed.
//!
//! With keys there are two services of s3s. The first service verifies: it gets the head as sent,
//! with the base path and without a bucket from the host name, and an empty body. Its single route
//! takes every request and answers with the signer. The second service answers: it gets the request
//! without signature, base path and body coding. The signer is in the request's extensions, which a
//! client cannot set. An HTML form has its signature among its fields, so the second service
//! verifies that signature.

use http::{Extensions, HeaderMap, Method, Uri};
use s3s::auth::Credentials;
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};

use super::answers::{error_response, from_s3s};
use super::attempt;
use super::chunk_signatures::ChunkSignatures;
use super::payload::is_coded;
use super::query::join;
use super::signed::SignatureScheme;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;

/// The result of the first service for a request.
#[derive(Clone, Debug)]
pub(super) struct VerifiedRequest {
    credentials: Credentials,
    /// Region and service of the signature's scope, for version 4 only.
    scope: Option<(String, String)>,
}

/// Returns the credentials of the verified signer.
pub(super) fn signer(extensions: &Extensions) -> Option<&Credentials> {
    extensions.get::<VerifiedRequest>().map(|verified| &verified.credentials)
}

/// The operations of the first service. There are none, because the service's route takes every
/// request.
pub(super) struct NoOperations;

impl S3 for NoOperations {}

/// The route of the first service. It answers every verified request with its signer.
pub(super) struct Signer;

#[async_trait::async_trait]
impl S3Route for Signer {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        // The default `check_access` of the trait has refused requests without credentials.
        let credentials = request.credentials.ok_or_else(|| s3_error!(AccessDenied))?;
        attempt::record_proved_key(&credentials.access_key);
        let scope = request.region.map(|region| region.as_str().to_owned()).zip(request.service);
        let mut response = S3Response::new(Body::empty());
        response.extensions.insert(VerifiedRequest { credentials, scope });
        Ok(response)
    }
}

/// Verifies the signature of `request` as if its method were `method`. `sent_path` is the path as
/// the client sent it, if it differs from the request's path.
///
/// # Errors
/// The response to a request with an invalid signature.
pub(super) async fn verify(
    verifying: &S3Service,
    request: &HttpRequest,
    method: &Method,
    sent_path: Option<&str>,
) -> Result<VerifiedRequest, Box<HttpResponse>> {
    let target = join(sent_path.unwrap_or(&request.path), &request.query);
    let Ok(uri) = target.parse::<Uri>() else {
        return Err(Box::new(error_response(s3_error!(InvalidURI, "the target is not a URI"))));
    };
    let mut head = http::Request::new(Body::empty());
    (*head.method_mut(), *head.uri_mut(), *head.headers_mut()) =
        (method.clone(), uri, request.headers.clone());
    if is_coded(&request.headers) {
        // s3s requires this header with a coded body, although the body is empty here. In version
        // 4, an unsigned header does not change the signature.
        let length = head.headers_mut().entry("x-amz-decoded-content-length");
        length.or_insert(http::HeaderValue::from_static("0"));
    }
    match verifying.call(head).await {
        Ok(mut answer) => match answer.extensions_mut().remove::<VerifiedRequest>() {
            Some(verified) => Ok(verified),
            None => Err(Box::new(from_s3s(answer))),
        },
        Err(error) => {
            tracing::error!(?error, "the S3 service failed");
            Err(Box::new(error_response(s3_error!(InternalError, "the S3 service failed"))))
        }
    }
}

impl VerifiedRequest {
    /// Returns a request that the holder of `access_key` signed with `secret` for a region and a
    /// service.
    pub(super) fn new(access_key: &str, secret: String, scope: (String, String)) -> Self {
        let credentials = Credentials { access_key: access_key.to_owned(), secret_key: secret.into() };
        Self { credentials, scope: Some(scope) }
    }

    pub(super) fn access_key(&self) -> &str {
        &self.credentials.access_key
    }

    /// Returns the verifier of the body's chunk signatures. The first of them covers the signature
    /// of the head.
    pub(super) fn chunk_signatures(
        &self,
        scheme: &SignatureScheme,
        headers: &HeaderMap,
    ) -> Option<ChunkSignatures> {
        let SignatureScheme::Header { signature, .. } = scheme else { return None };
        let (region, service) = self.scope.as_ref()?;
        let date = headers.get("x-amz-date")?.to_str().ok()?;
        let scope = format!("{}/{region}/{service}/aws4_request", date.get(..8)?);
        Some(ChunkSignatures::new(self.credentials.secret_key.expose(), date, &scope, signature))
    }
}
