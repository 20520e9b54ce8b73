//! URLs of `presign` work with curl until they expire. They work for no other request.

use crate::support;

use std::process::Command;

use firstbyte_testkit::{ACCESS_KEY, SECRET_KEY, bytes, scratch, until};
use support::World;
use support::servers::S3;

/// Returns the status and the body that curl receives.
fn curl(args: &[&str], url: &str) -> (u16, Vec<u8>) {
    let output = Command::new("curl")
        .args(["-s", "-w", "%{stderr}%{http_code}"])
        .args(args)
        .arg(url)
        .output()
        .unwrap();
    let status = String::from_utf8(output.stderr).unwrap();
    (status.trim().parse().unwrap_or_else(|_| panic!("{status}")), output.stdout)
}

fn url(world: &World, args: &[&str]) -> String {
    let ran = world.run(&[&["presign"], args].concat()).ok();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn curl_reads_and_writes_one_object_until_the_url_expires() {
    let keys = scratch();
    let file = keys.path().join("keys");
    std::fs::write(&file, format!("{ACCESS_KEY} {SECRET_KEY} write\n")).unwrap();
    let ours = S3::ours_with(&["--write", "--auth", file.to_str().unwrap()]);
    for s3 in [ours, S3::minio()] {
        let world = World::with_s3(&s3);
        let content = bytes(1, 300_000);
        world.write("file", &content);
        let key = "s3://bucket/a b/\u{e4}+&=?.bin";
        let put = url(&world, &["--put", key]);
        let path = world.path("file");
        assert_eq!(curl(&["-T", path.to_str().unwrap()], &put).0, 200, "{put}");
        let get = url(&world, &["--expires", "2m", key]);
        assert!(get.contains("X-Amz-Expires=120"), "{get}");
        assert!(curl(&[], &get) == (200, content.clone()), "{get}");
        // The URL is valid only for its method, for its object, and with its signature.
        assert_eq!(curl(&["-T", path.to_str().unwrap()], &get).0, 403);
        assert_eq!(curl(&["-X", "DELETE"], &put).0, 403);
        assert_eq!(curl(&[], &get.replace(".bin", ".bim")).0, 403);
        let (start, end) = get.split_once("X-Amz-Signature=").unwrap();
        let other = if end.starts_with('0') { "1" } else { "0" };
        assert_eq!(curl(&[], &format!("{start}X-Amz-Signature={other}{}", &end[1..])).0, 403);
        let brief = url(&world, &["--expires", "1s", key]);
        until("the URL expires", || curl(&[], &brief).0 == 403);
        world.run(&["cp", "--no-glob", key, "copy"]).ok();
        assert!(world.read("copy") == content);
    }
}

#[test]
fn what_cannot_be_presigned_is_refused() {
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:1");
    world.set("AWS_REGION", "us-east-1");
    world.run(&["presign", "s3://bucket/key"]).fails(1, &["credentials"]);
    world.run(&["presign", "s3://bucket/key", "--no-sign-request"]).fails(2, &["--no-sign-request"]);
    world.run(&["presign", "s3://bucket"]).fails(2, &["s3://BUCKET/KEY"]);
    world.run(&["presign", "file"]).fails(2, &["not an S3 object"]);
    for wrong in ["0s", "8d", "500ms", "soon"] {
        let ran = world.run(&["presign", "s3://bucket/key", "--expires", wrong]);
        assert!(ran.code == Some(2) && ran.stderr.contains("--expires"), "{ran:?}");
    }
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    world.set("AWS_SESSION_TOKEN", "to/ken=");
    let ran = world.run(&["presign", "s3://bucket/key"]).ok();
    assert!(ran.stderr.contains("the credentials are temporary"), "{ran:?}");
    let url = url(&world, &["s3://bucket/key"]);
    assert!(url.contains("X-Amz-Security-Token=to%2Fken%3D") && url.contains("key%2F"), "{url}");
    let receipt = world.run(&["--json", "presign", "--put", "s3://bucket/key"]).ok().receipt();
    assert_eq!((&receipt["method"], &receipt["expires_seconds"]), (&"PUT".into(), &3600.into()));
    for words in [
        &["presign", "s3://bucket/key"][..],
        &["doctor", "."],
        &["advise", "run", "--data", "5GB", "--at", "lambda:3008MB"],
    ] {
        let receipt = world.run(&[&["--json"], words].concat()).ok().receipt();
        assert_eq!((&receipt["schema"], &receipt["verb"]), (&1.into(), &words[0].into()), "{receipt}");
        assert_eq!(receipt["failed"].as_array().map(Vec::len), Some(0), "{receipt}");
    }
}
