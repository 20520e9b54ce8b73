//! Properties that uploads give to objects: content types by file extension, headers, and the
//! customer's encryption key.

use crate::support;

use firstbyte_testkit::{ACCESS_KEY, Certificate, CertificateKind, SECRET_KEY, bytes, minio_with, scratch};
use serde_json::Value;
use support::World;
use support::servers::S3;

fn stat(world: &World, location: &str) -> Value {
    world.run(&["--json", "stat", location]).ok().receipt()
}

#[test]
fn uploads_get_the_content_type_of_their_extension() {
    // Uses versitygw, because it does not guess content types itself.
    let s3 = S3::versitygw();
    let world = World::with_s3(&s3);
    for name in ["site/index.html", "site/d/style.CSS", "site/d/reads.bam", "site/none"] {
        world.write(name, b"x");
    }
    world.write("large.json", &bytes(1, 17 << 20));
    world.run(&["cp", "-r", "site/", "s3://bucket/site/"]).ok();
    world.run(&["cp", "large.json", "s3://bucket/other-name"]).ok();
    world.run(&["cp", "site/none", "s3://bucket/by-target.html"]).ok();
    world.run_with_input(&["cp", "-", "s3://bucket/stream.html"], b"x").ok();
    world.run(&["cp", "site/index.html", "s3://bucket/given.html", "--content-type", "text/x-own"]).ok();
    world.run(&["cp", "site/index.html", "s3://bucket/off.html", "--no-guess-mime-type"]).ok();
    for (key, expected) in [
        ("site/index.html", "text/html; charset=utf-8"),
        ("site/d/style.CSS", "text/css; charset=utf-8"),
        ("site/d/reads.bam", "binary/octet-stream"),
        ("site/none", "binary/octet-stream"),
        ("other-name", "application/json"),
        ("by-target.html", "text/html; charset=utf-8"),
        ("stream.html", "text/html; charset=utf-8"),
        ("given.html", "text/x-own"),
        ("off.html", "binary/octet-stream"),
    ] {
        assert_eq!(stat(&world, &format!("s3://bucket/{key}"))["content_type"], expected, "{key}");
    }
    // A copy within the store keeps the content type of its source, whatever its own name is.
    world.run(&["cp", "s3://bucket/off.html", "s3://bucket/copy.json"]).ok();
    assert_eq!(stat(&world, "s3://bucket/copy.json")["content_type"], "binary/octet-stream");
}

#[test]
fn the_headers_of_an_upload_are_kept_with_it_and_by_copies() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world.write("f", b"x");
    let headers = [
        ("--content-encoding", "br"),
        ("--content-disposition", "attachment; filename=\"a b\""),
        ("--content-language", "de"),
        ("--cache-control", "max-age=60"),
        ("--expires", "2031-02-03T05:05:06+01:00"),
    ];
    let words = headers.iter().flat_map(|(option, value)| [*option, *value]);
    let args: Vec<&str> = ["cp", "f", "s3://bucket/f"].into_iter().chain(words).collect();
    world.run(&args).ok();
    world.run(&["cp", "s3://bucket/f", "s3://bucket/g"]).ok();
    for key in ["f", "g"] {
        let stat = stat(&world, &format!("s3://bucket/{key}"));
        for (option, value) in &headers[..4] {
            assert_eq!(stat[option[2..].replace('-', "_")], *value, "{key}: {stat}");
        }
        assert_eq!(stat["expires"], "Mon, 03 Feb 2031 04:05:06 GMT", "{key}: {stat}");
    }
    world.run(&["cp", "f", "s3://bucket/x", "--expires", "tomorrow"]).fails_usage("--expires");
    world
        .run(&["cp", "f", "g", "--content-language", "de"])
        .fails(2, &["--content-language", "applies to uploads, not to local files"]);
}

#[test]
fn objects_of_the_customers_own_key_are_written_read_and_copied() {
    let (certificate, directory) = (Certificate::make(CertificateKind::Authority), scratch());
    let minio = minio_with(directory.path(), Some(&certificate));
    let mut world = World::new();
    for (name, value) in [
        ("FIRSTBYTE_ENDPOINT_URL", minio.url().as_str()),
        ("FIRSTBYTE_CA_BUNDLE", certificate.certificate().to_str().unwrap()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("AWS_REGION", "us-east-1"),
    ] {
        world.set(name, value);
    }
    world.write("key", &bytes(9, 32));
    world.write("other", "ab".repeat(32).as_bytes());
    let content = bytes(1, 17 << 20);
    world.write("large", &content);
    world.write("small", b"small");
    let with = |key: &str, words: &[&str]| world.run(&[&["--sse-c-key", key], words].concat());
    with("key", &["cp", "large", "small", "s3://bucket/"]).ok();
    with("key", &["cp", "s3://bucket/large", "back"]).ok();
    assert!(world.read("back") == content);
    with("key", &["cp", "s3://bucket/large", "s3://bucket/copy"]).ok();
    assert!(with("key", &["cat", "s3://bucket/copy"]).ok().stdout == content);
    // Reading fails without the key, and with another key.
    assert_eq!(world.run(&["cat", "s3://bucket/small"]).code, Some(1));
    assert_eq!(with("other", &["cat", "s3://bucket/small"]).code, Some(1));
    // Objects that are not encrypted can be read, and their copies are encrypted.
    world.run(&["cp", "small", "s3://bucket/plain"]).ok();
    assert_eq!(with("key", &["cat", "s3://bucket/plain"]).ok().stdout, b"small");
    with("key", &["cp", "s3://bucket/plain", "s3://bucket/encrypted"]).ok();
    assert_eq!(world.run(&["cat", "s3://bucket/encrypted"]).code, Some(1));
    world.write("short", b"short");
    with("short", &["cat", "s3://bucket/small"]).fails_usage("--sse-c-key");
}
