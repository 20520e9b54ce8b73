//! Sends XML bodies of S3 requests to the same service that `serve` calls. Any body ends in an
//! answer.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use s3s::S3;
use s3s::service::{S3Service, S3ServiceBuilder};

/// Implements no operation, because only the reading of bodies is tested.
struct Nothing;

impl S3 for Nothing {}

/// Operations whose body is XML.
const TARGETS: [(&str, &str); 4] = [
    ("POST", "/bucket?delete"),
    ("POST", "/bucket/key?uploadId=1"),
    ("PUT", "/bucket"),
    ("PUT", "/bucket/key?tagging"),
];

thread_local! {
    static SERVICE: LazyCell<(S3Service, tokio::runtime::Runtime)> = LazyCell::new(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        (S3ServiceBuilder::new(Nothing).build(), runtime)
    });
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, body)) = bytes.split_first() else { return };
    let (method, target) = TARGETS[usize::from(*choice) % TARGETS.len()];
    let request = http::Request::builder()
        .method(method)
        .uri(target)
        .header("host", "localhost")
        .header("content-length", body.len())
        .body(s3s::Body::from(body.to_vec()))
        .expect("a request");
    SERVICE.with(|both| {
        let (service, runtime) = &**both;
        // Refusals are answers too; only a panic is a finding.
        let _ = runtime.block_on(service.call(request));
    });
});
