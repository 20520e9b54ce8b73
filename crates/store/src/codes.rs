//! Lists the error codes of object stores: the usual status of each code, and whether the failed
//! request may be repeated.
//!
//! A code has priority over the status of its response, because S3 also sends codes inside a 200,
//! and proxies replace statuses. Unlisted codes are judged by the status. The backends of S3,
//! Google and Azure and [`Error::is_transient`](crate::Error::is_transient) share this list, so all
//! operations follow one rule.
//!
//! Sources, as of 27 November 2026: the list of codes
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>), "Retry InternalErrors"
//! (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/ErrorBestPractices.html>), InternalError
//! and SlowDown inside a 200 (<https://repost.aws/knowledge-center/s3-resolve-200-internalerror>),
//! the transient and throttling codes of boto3's standard mode
//! (<https://docs.aws.amazon.com/boto3/latest/guide/retries.html>), and Azure's codes
//! (<https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>).

/// The consequence of an error code for the failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The server requests a lower rate.
    SlowDown,
    /// A transient failure: the same request may succeed.
    Transient,
    /// A permanent failure: the same request fails again.
    Permanent,
}

use Meaning::{Permanent, SlowDown, Transient};

/// Error codes, each with its usual status and its meaning.
const CODES: [(&str, u16, Meaning); 41] = [
    ("InternalError", 500, Transient),
    ("InternalFailure", 500, Transient),
    ("OperationAborted", 409, Transient),
    ("OperationTimedOut", 500, Transient),
    ("PriorRequestNotComplete", 400, Transient),
    ("RequestTimeout", 400, Transient),
    ("RequestTimeoutException", 400, Transient),
    ("BandwidthLimitExceeded", 503, SlowDown),
    ("RequestLimitExceeded", 503, SlowDown),
    ("RequestThrottled", 503, SlowDown),
    ("RequestThrottledException", 503, SlowDown),
    ("ServerBusy", 503, SlowDown),
    ("ServiceUnavailable", 503, SlowDown),
    ("SlowDown", 503, SlowDown),
    // MinIO's codes.
    ("SlowDownRead", 503, SlowDown),
    ("SlowDownWrite", 503, SlowDown),
    ("ThrottledException", 503, SlowDown),
    ("Throttling", 503, SlowDown),
    ("ThrottlingException", 503, SlowDown),
    ("TooManyRequests", 429, SlowDown),
    ("TooManyRequestsException", 429, SlowDown),
    ("AccessDenied", 403, Permanent),
    ("BadDigest", 400, Permanent),
    ("EntityTooLarge", 400, Permanent),
    ("EntityTooSmall", 400, Permanent),
    ("InvalidArgument", 400, Permanent),
    ("InvalidDigest", 400, Permanent),
    ("InvalidObjectState", 403, Permanent),
    ("InvalidPart", 400, Permanent),
    ("InvalidPartOrder", 400, Permanent),
    ("InvalidRequest", 400, Permanent),
    ("InvalidStorageClass", 400, Permanent),
    ("KeyTooLongError", 400, Permanent),
    ("MalformedXML", 400, Permanent),
    ("MethodNotAllowed", 405, Permanent),
    ("NoSuchBucket", 404, Permanent),
    ("NoSuchKey", 404, Permanent),
    ("NoSuchUpload", 404, Permanent),
    ("NotImplemented", 501, Permanent),
    ("PreconditionFailed", 412, Permanent),
    ("QuotaExceeded", 403, Permanent),
];

/// Returns the meaning of an error that has this code and this status.
pub(crate) fn meaning(code: &str, status: u16) -> Meaning {
    match (find(code), status) {
        (Some((_, meaning)), _) => meaning,
        (None, 429 | 503) => SlowDown,
        // RFC 9110, 15.5.9: the client may repeat the request after a 408. Proxies and stores send
        // 408 for transient failures (https://github.com/minio/minio-go/issues/2035, as of 28
        // November 2026). RFC 8470, 5.2: a 425 asks the client to send the same request again.
        (None, 408 | 425) => Transient,
        (None, 501 | 508) => Permanent,
        (None, 500..) => Transient,
        (None, _) => Permanent,
    }
}

/// Returns the usual status of a code, and 500 for an unknown code.
pub(crate) fn status(code: &str) -> u16 {
    find(code).map_or(500, |(status, _)| status)
}

fn find(code: &str) -> Option<(u16, Meaning)> {
    CODES.iter().find(|(known, ..)| *known == code).map(|(_, status, meaning)| (*status, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_counts_more_than_its_status() {
        for status in [200, 400, 403, 500, 503] {
            assert_eq!(meaning("InternalError", status), Transient);
            assert_eq!(meaning("SlowDown", status), SlowDown);
            assert_eq!(meaning("AccessDenied", status), Permanent);
        }
        assert_eq!(meaning("Bad Gateway", 502), Transient);
        assert_eq!(meaning("Service Unavailable", 503), SlowDown);
        assert_eq!(meaning("Request Time-out", 408), Transient);
        assert_eq!(meaning("Not Found", 404), Permanent);
    }

    #[test]
    fn each_code_is_listed_once() {
        for (place, (code, ..)) in CODES.iter().enumerate() {
            assert!(CODES[..place].iter().all(|(other, ..)| other != code), "{code}");
        }
    }
}
