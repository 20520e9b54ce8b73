//! Tests responses specific to S3: error codes, regions, checksums, archived objects, pages.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_store::{
    Algorithm, Error, Get, Hasher, ListOptions, Metadata, Part, Payload, PutOptions, Result, Sending,
    Signing, Store, StoreOptions, Upload,
};
use firstbyte_testkit::{Quirk, QuirkStore, Scripted, ScriptedReply};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::server::{Server, Step, part, refusal, whole};

fn object(key: &str) -> Location {
    Location::parse(format!("s3://bucket/{key}").as_ref()).unwrap()
}

fn code(status: &str, code: &str) -> String {
    refusal(
        status,
        "",
        &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>why</Message></Error>"),
    )
}

#[test]
fn error_responses_become_specific_errors() {
    let error = |text: String| {
        let server = Server::start(vec![Step::Close(text)]);
        server.store().get(&object("k"), &Get::default()).err().unwrap()
    };
    assert!(
        matches!(error(code("404 Not Found", "NoSuchKey")), Error::NotFound { location, .. } if location == "s3://bucket/k")
    );
    assert!(
        matches!(error(code("404 Not Found", "NoSuchBucket")), Error::NotFound { location, .. } if location == "s3://bucket")
    );
    assert!(matches!(error(code("403 Forbidden", "AccessDenied")), Error::Denied { .. }));
    assert!(matches!(error(code("403 Forbidden", "InvalidObjectState")), Error::Archived { .. }));
    assert!(matches!(error(code("503 Slow", "SlowDown")), Error::SlowDown { .. }));
    assert!(matches!(error(code("500 Oops", "InternalError")), Error::Server { status: 500, .. }));
    assert!(matches!(error(refusal("404 Not Found", "", "<html>")), Error::NotFound { .. }));
}

fn upload() -> Upload {
    Upload { location: object("k"), id: "u".to_owned() }
}

/// The response to an operation, and a call that sends the request.
type Operation = (&'static str, fn(&Store) -> Result<()>);

const OPERATIONS: [Operation; 6] = [
    ("<CopyObjectResult><ETag>e</ETag></CopyObjectResult>", |store| {
        store.copy(&object("a"), &Version::default(), &object("k"), &PutOptions::default()).map(drop)
    }),
    ("<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>", |store| {
        store.complete_upload(&upload(), &[], &PutOptions::default()).map(drop)
    }),
    ("<CopyPartResult><ETag>e</ETag></CopyPartResult>", |store| {
        let range = ByteRange::new(0, 1);
        store.copy_part(&upload(), 1, &object("a"), &Version::default(), range).map(drop)
    }),
    ("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>", |store| {
        store.begin_upload(&object("k"), &PutOptions::default()).map(drop)
    }),
    ("<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>", |store| {
        store.list_parts(&upload()).map(drop)
    }),
    ("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", |store| {
        store.list(&object(""), &ListOptions::default())?.collect::<Result<Vec<_>>>().map(drop)
    }),
];

#[test]
fn an_error_inside_a_200_is_retried_by_every_operation_if_its_code_is_transient() {
    let inside = |code: &str| whole("", &format!("<Error><Code>{code}</Code><Message>why</Message></Error>"));
    for (success, operation) in OPERATIONS {
        for passing in ["InternalError", "SlowDown"] {
            let server = Server::start(vec![Step::Keep(inside(passing)), Step::Close(whole("", success))]);
            let done = operation(&server.store());
            assert!(done.is_ok(), "{success} after {passing}: {done:?}");
        }
        let server = Server::start(vec![Step::Close(inside("AccessDenied"))]);
        let denied = operation(&server.store());
        assert!(matches!(denied, Err(Error::Denied { .. })), "{success}: {denied:?}");
        assert_eq!(server.heads().len(), 1);
    }
}

#[test]
fn a_code_decides_whether_a_request_is_sent_again_and_not_its_status() {
    let requests = |status: &str, name: &str| {
        let server = Server::answering({
            let answer = code(status, name);
            move |_| answer.clone()
        });
        assert!(server.store().list_parts(&upload()).is_err());
        server.heads().len()
    };
    for (status, name) in [("400 Bad", "RequestTimeout"), ("409 Conflict", "OperationAborted")] {
        assert_eq!(requests(status, name), 3, "{name}");
    }
    for (status, name) in [("500 Oops", "AccessDenied"), ("503 Oops", "NotImplemented")] {
        assert_eq!(requests(status, name), 1, "{name}");
    }
}

#[test]
fn keys_whose_deletion_fails_transiently_are_deleted_one_by_one() {
    let refused = |key: &str, code: &str| format!("<Error><Key>{key}</Key><Code>{code}</Code></Error>");
    let result = format!(
        "<DeleteResult>{}{}</DeleteResult>",
        refused("a", "InternalError"),
        refused("b", "AccessDenied")
    );
    let server = Server::answering(move |head| match head.split(' ').next() {
        Some("POST") => whole("", &result),
        _ => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
    });
    let failed = server.store().delete_many(&[object("a"), object("b"), object("c")]);
    let failed: Vec<_> = failed.into_iter().map(|(location, _)| location).collect();
    assert_eq!(failed, [object("b")]);
    assert!(server.heads()[1].starts_with("DELETE /bucket/a"));
}

/// Completes an upload whose first response is lost, in a store without CRC-64. The object has the
/// headers `object_head`, and ends with `bytes`. On a `reused` connection, the HTTP client itself
/// repeats the request.
fn complete_without_answer(
    object_head: &str,
    bytes: &'static [u8],
    options: &PutOptions,
    reused: bool,
) -> Result<()> {
    let head = object_head.to_owned();
    let completions = AtomicUsize::new(0);
    let server = Scripted::start(move |_, request| {
        let method = request.split(' ').next();
        match method {
            Some("POST") if completions.fetch_add(1, Ordering::SeqCst) == 0 => ScriptedReply::Close,
            Some("POST") => ScriptedReply::Send(code("404 Not Found", "NoSuchUpload").into_bytes()),
            Some("HEAD") => ScriptedReply::raw("200 OK", &head.lines().collect::<Vec<_>>(), b""),
            _ => ScriptedReply::answer("206 Partial Content", &["content-range: bytes 3-5/6"], bytes),
        }
    });
    let store = Store::new(StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        signing: Signing::Anonymous,
        ..StoreOptions::default()
    })
    .unwrap();
    if reused {
        store.stat(&object("k")).unwrap();
    }
    let etag = Hasher::of(Algorithm::Md5, b"def").to_hex();
    let part = |number, etag: &str| Part { number, size: 3, etag: format!("\"{etag}\""), checksum: None };
    let parts = [part(1, "0"), part(2, &etag)];
    store.complete_upload(&upload(), &parts, options).map(drop)
}

#[test]
fn a_completion_whose_answer_was_lost_is_found_by_length_and_metadata_or_date_or_bytes() {
    let old = "last-modified: Fri, 02 Jan 1998 03:04:05 GMT";
    let now = OffsetDateTime::now_utc().format(&Rfc2822).unwrap().replace("+0000", "GMT");
    let dated = PutOptions {
        metadata: Metadata {
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(7)),
            ..Metadata::default()
        },
        ..PutOptions::default()
    };
    let plain = PutOptions::default();
    let cases = [
        (format!("content-length: 6\n{old}\nx-amz-meta-mtime: 7"), b"xxx", &dated, true),
        (format!("content-length: 6\n{old}\nx-amz-meta-mtime: 8"), b"def", &dated, false),
        (format!("content-length: 6\nlast-modified: {now}"), b"xxx", &plain, true),
        (format!("content-length: 6\n{old}"), b"def", &plain, true),
        (format!("content-length: 6\n{old}"), b"xxx", &plain, false),
        (format!("content-length: 7\nlast-modified: {now}"), b"def", &plain, false),
    ];
    for (head, bytes, options, is_found) in cases {
        for reused in [false, true] {
            let done = complete_without_answer(&head, bytes, options, reused);
            assert_eq!(done.is_ok(), is_found, "{head}, {bytes:?}, {reused}: {done:?}");
        }
    }
}

#[test]
fn a_completion_or_copy_whose_answer_is_cut_is_repeated_or_found() {
    for (success, operation) in &OPERATIONS[..3] {
        for cut in ["", "<html>busy</html>", &success[..success.len() - 9]] {
            let server = Server::answering({
                let (cut, success, posts) = (cut.to_owned(), (*success).to_owned(), AtomicUsize::new(0));
                move |head| match head.starts_with("HEAD") {
                    true => refusal("404 Not Found", "", ""),
                    false if posts.fetch_add(1, Ordering::SeqCst) == 0 => whole("", &cut),
                    false => whole("", &success),
                }
            });
            let done = operation(&server.store());
            assert!(done.is_ok(), "{success} after {cut}: {done:?}");
        }
    }
    // The object exists, so no request is repeated.
    let server = Server::answering(|head| match head.starts_with("HEAD") {
        true => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"d41d8cd98f00b204e9800998ecf8427e\"\r\n\
                 x-amz-meta-mtime: 7\r\n\r\n"
            .to_owned(),
        false => whole("", ""),
    });
    let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
    let metadata = Metadata { modified, ..Metadata::default() };
    let options = PutOptions { metadata, ..PutOptions::default() };
    server.store().complete_upload(&upload(), &[], &options).unwrap();
    assert_eq!(server.heads().len(), 2);
    let named =
        "<x:CompleteMultipartUploadResult xmlns:x=\"y\"><x:ETag>e</x:ETag></x:CompleteMultipartUploadResult>";
    let server = Server::start(vec![Step::Close(whole("", named))]);
    server.store().complete_upload(&upload(), &[], &PutOptions::default()).unwrap();
}

#[test]
fn content_md5_is_sent_to_a_service_that_requires_it() {
    let server = Server::answering(|head| match head.contains("content-md5: ") {
        true => whole("ETag: \"e\"\r\n", ""),
        false => {
            let why =
                "Content-MD5 HTTP header is required for Put Object requests with Object Lock parameters";
            let body = format!("<Error><Code>InvalidRequest</Code><Message>{why}</Message></Error>");
            refusal("400 Bad Request", "", &body)
        }
    });
    let store = server.store();
    for _ in 0..2 {
        store.put(&object("k"), Payload::Bytes(b"abc"), &PutOptions::default()).unwrap();
    }
    store.put_part(&upload(), 1, Payload::Bytes(b"abc"), &Sending::default()).unwrap();
    let heads = server.heads();
    assert_eq!(heads.len(), 4, "learnt once");
    let md5 = Hasher::of(Algorithm::Md5, b"abc").to_base64();
    assert!(heads[1..].iter().all(|head| head.contains(&format!("content-md5: {md5}\r\n"))));
}

#[test]
fn a_store_whose_head_always_fails_is_described_by_get() {
    for failure in ["500 Oops", "503 Slow", "410 Gone", "302 Found"] {
        let server = Server::answering(move |head| match head.starts_with("HEAD") {
            true => refusal(failure, "Retry-After: 0\r\n", ""),
            false => part("bytes 0-0/3", "ETag: \"e\"\r\n", "a"),
        });
        assert_eq!(server.store().stat(&object("k")).unwrap().size(), Some(3), "{failure}");
    }
}

#[test]
fn a_region_in_the_message_of_a_refusal_is_learnt() {
    let why = "The authorization header is malformed; the region 'here-1' is wrong; expecting 'there-1'";
    let body = format!("<Error><Code>AuthorizationHeaderMalformed</Code><Message>{why}</Message></Error>");
    let server =
        Server::start(vec![Step::Keep(refusal("400 Bad Request", "", &body)), Step::Close(whole("", "abc"))]);
    assert!(server.store().get(&object("k"), &Get::default()).is_ok());
}

#[test]
fn a_request_for_a_bucket_elsewhere_is_sent_again() {
    let moved = refusal("301 Moved", "x-amz-bucket-region: there-1\r\n", "");
    let server = Server::start(vec![Step::Keep(moved), Step::Close(whole("", "abc"))]);
    assert!(server.store().get(&object("k"), &Get::default()).is_ok());
    // Repeated redirects are an error, not a loop.
    let moved = || Step::Keep(refusal("301 Moved", "x-amz-bucket-region: nowhere-1\r\n", ""));
    let server = Server::start(vec![moved(), moved(), moved()]);
    assert!(server.store().get(&object("k"), &Get::default()).is_err());
    // If the refusal hides the region, the bucket is asked for it.
    let hidden = Step::Keep(code("400 Bad", "IllegalLocationConstraintException"));
    let told = Step::Keep(refusal("403 No", "x-amz-bucket-region: there-1\r\n", ""));
    let server = Server::start(vec![hidden, told, Step::Close(whole("", "abc"))]);
    assert!(server.store().get(&object("k"), &Get::default()).is_ok());
}

#[test]
fn control_requests_are_retried_after_slow_down() {
    let page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    let server = Server::start(vec![Step::Keep(code("503 Slow", "SlowDown")), Step::Close(whole("", page))]);
    let store = server.store();
    assert_eq!(store.list(&object(""), &ListOptions::default()).unwrap().count(), 0);
    assert_eq!(store.counters().retries, 1);
}

#[test]
fn only_full_object_checksums_are_used_and_never_an_etag() {
    let crc = Hasher::of(Algorithm::Crc64Nvme, b"abc");
    let md5_like = "ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\n";
    let checksum = |headers: String| {
        let server = Server::start(vec![Step::Close(whole(&headers, "abc"))]);
        server
            .store()
            .get(&object("k"), &Get { checksum: true, ..Get::default() })
            .unwrap()
            .stat()
            .checksum
            .clone()
    };
    let line = format!("x-amz-checksum-crc64nvme: {}\r\n", crc.to_base64());
    assert_eq!(checksum(format!("{line}x-amz-checksum-type: FULL_OBJECT\r\n")), Some(crc));
    assert_eq!(checksum(format!("{line}x-amz-checksum-type: COMPOSITE\r\n")), None);
    assert_eq!(checksum("x-amz-checksum-crc32: AAAAAA==-3\r\n".to_owned()), None);
    assert_eq!(checksum(md5_like.to_owned()), None);
}

#[test]
fn a_version_id_is_sent_with_the_request() {
    let server = Server::start(vec![Step::Close(part("bytes 0-0/3", "x-amz-version-id: v/1\r\n", "a"))]);
    let version = firstbyte_location::Version { version_id: Some("v/1".into()), ..Default::default() };
    let get = Get {
        range: Some(firstbyte_location::ByteRange::new(0, 1)),
        version: Some(version),
        ..Get::default()
    };
    assert!(server.store().get(&object("k"), &get).is_ok());
    assert!(server.heads()[0].starts_with("GET /bucket/k?versionId=v%2F1 HTTP/1.1\r\n"));
}

#[test]
fn a_checksum_mismatch_is_an_error_and_missing_checksum_support_is_not() {
    let wrong = Hasher::of(Algorithm::Crc64Nvme, b"other").to_base64();
    let server =
        Server::start(vec![Step::Close(whole(&format!("x-amz-checksum-crc64nvme: {wrong}\r\n"), ""))]);
    let put =
        |server: &Server| server.store().put(&object("k"), Payload::Bytes(b"abc"), &PutOptions::default());
    assert!(matches!(put(&server), Err(Error::Checksum { .. })));
    let server = Server::start(vec![
        Step::Close(code("501 No", "NotImplemented")),
        Step::Close(whole("ETag: \"e\"\r\n", "")),
    ]);
    assert_eq!(put(&server).unwrap().verified, None);
    let sent: Vec<_> = server.heads().iter().map(|head| head.contains("x-amz-checksum-crc64nvme")).collect();
    assert_eq!(sent, [true, false]);
}

#[test]
fn all_pages_are_read_and_odd_keys_are_preserved() {
    let page = |key: &str, next: &str| {
        let more = !next.is_empty();
        let token = if more {
            format!("<NextContinuationToken>{next}</NextContinuationToken>")
        } else {
            String::new()
        };
        Step::Keep(whole(
            "",
            &format!(
                "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated>{token}\
             <Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents></ListBucketResult>"
            ),
        ))
    };
    // The first page with an escape, and the first page with a plus, are each requested again
    // without encoding. The second of these responses is not XML, so it excludes no form of
    // encoding.
    let pages = [page("p/a%2F%2Fb", "t/1"), page("p/a//b", "t/1"), page("p/z%2F", "t2")];
    let last = [page("p/%C3%BC+%2B%01", ""), Step::Keep(whole("", "<not XML"))];
    let server = Server::start(pages.into_iter().chain(last).collect());
    // Pages are requested one after another, because a slow response would start requests for other
    // ranges.
    let options = ListOptions { recursive: true, requests: NonZeroUsize::new(1), ..ListOptions::default() };
    let entries: Result<Vec<_>> = server.store().list(&object("p"), &options).unwrap().collect();
    let names: Vec<_> =
        entries.unwrap().into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect();
    assert_eq!(names, ["a//b", "z/", "ü +\u{1}"]);
    let heads = server.heads();
    assert!(heads[0].contains("prefix=p%2F") && heads[2].contains("continuation-token=t%2F1"));
}

/// Returns a page of the keys `00000` to `29999`. The page starts after the request's
/// `start-after`, or at its token.
fn page_of_numbers(head: &str) -> String {
    let parameter = |name: &str| {
        let value = head.split_once(name)?.1;
        value.split(['&', ' ']).next()?.parse::<u32>().ok()
    };
    let first =
        parameter("start-after=").map(|last| last + 1).or(parameter("continuation-token=")).unwrap_or(0);
    let next = (first + 1000).min(30_000);
    let keys: String = (first..next)
        .map(|number| format!("<Contents><Key>{number:05}</Key><Size>1</Size></Contents>"))
        .collect();
    let more = next < 30_000;
    let token =
        if more { format!("<NextContinuationToken>{next}</NextContinuationToken>") } else { String::new() };
    let page = format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{keys}</ListBucketResult>");
    whole("", &page)
}

#[test]
fn ranges_of_a_listing_may_be_as_old_as_the_listing_and_its_first_page_is_current() {
    let server = Server::answering(page_of_numbers);
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let names: Vec<_> =
        server.store().list(&object(""), &options).unwrap().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names.len(), 30_000);
    let heads = server.heads();
    assert!(heads.iter().any(|head| head.contains("start-after")), "nothing was split");
    for head in heads {
        assert_eq!(head.contains("start-after="), head.contains("cache-control: max-age="), "{head}");
    }
}

#[test]
fn an_error_in_the_body_of_a_success_is_an_error() {
    let hidden = whole(
        "",
        "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>late</Message></Error>",
    );
    let server = Server::start((0..3).map(|_| Step::Keep(hidden.clone())).collect());
    let version = firstbyte_location::Version::default();
    let copied = server.store().copy(&object("a"), &version, &object("b"), &PutOptions::default());
    assert!(copied.is_err_and(|error| error.to_string().contains("InternalError")));
}

#[test]
fn names_in_a_listing_are_decoded_only_as_the_server_encodes_them() {
    for (quirks, keys) in [
        (&[][..], &["a b", "a+b"][..]),
        (&[Quirk::PlusForSpace], &["a b"]),
        (&[Quirk::PlusForSpace], &["a b", "a+b"]),
        (&[Quirk::UnencodedNames], &["a+b"]),
        (&[Quirk::UnencodedNames], &["a b", "a+b"]),
        (&[Quirk::UnencodedNames], &["100%25", "a%41b", "a+b"]),
        (&[], &["100%25", "a%41b", "a+b"]),
    ] {
        let server = QuirkStore::start(quirks);
        keys.iter().for_each(|key| server.insert(key, b"x"));
        let options = StoreOptions {
            endpoint_url: Some(server.url().to_owned()),
            signing: Signing::Anonymous,
            ..StoreOptions::default()
        };
        let store = Store::new(options).unwrap();
        let entries = store.list(&object(""), &ListOptions::default()).unwrap();
        let names: Vec<_> = entries.map(|entry| String::from_utf8(entry.unwrap().name).unwrap()).collect();
        assert_eq!(names, keys, "{quirks:?}");
    }
}
