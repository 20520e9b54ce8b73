//! Answers of stores and web servers that other clients survive. A copy has every byte of one
//! version and says how it was checked, or it fails. `sync --delete` deletes nothing that the
//! source still has.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstbyte_testkit::{Scripted, ScriptedReply, bytes};
use support::World;
use support::servers::S3;

const DATE: &str = "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT";

/// Some parts of the head of a request.
struct RequestHead<'a> {
    method: &'a str,
    target: &'a str,
    range: Option<(usize, usize)>,
}

impl<'a> RequestHead<'a> {
    fn new(head: &'a str) -> Self {
        let mut words = head.split(' ');
        let range = head.split_once("range: bytes=").and_then(|(_, rest)| {
            let (first, last) = rest.lines().next()?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().unwrap_or(usize::MAX)))
        });
        Self { method: words.next().unwrap(), target: words.next().unwrap(), range }
    }

    fn is_list(&self) -> bool {
        matches!(self.target.split('?').next(), Some("/b" | "/b/"))
    }

    /// Answers like a web server or store with this object.
    fn object(&self, content: &[u8], headers: &[&str]) -> ScriptedReply {
        if self.method == "HEAD" {
            let length = format!("Content-Length: {}", content.len());
            return ScriptedReply::raw("200 OK", &[headers, &[&length]].concat(), b"");
        }
        let Some((first, last)) = self.range else {
            return ScriptedReply::answer("200 OK", headers, content);
        };
        let last = last.min(content.len() - 1);
        let range = format!("Content-Range: bytes {first}-{last}/{}", content.len());
        ScriptedReply::answer("206 Partial", &[headers, &[&range]].concat(), &content[first..=last])
    }
}

fn listing(elements: &str, keys: &[(&str, usize)]) -> ScriptedReply {
    let keys: String = keys
        .iter()
        .map(|(key, size)| {
            format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified>\
                 <ETag>&quot;listed&quot;</ETag></Contents>"
            )
        })
        .collect();
    let text = format!("<ListBucketResult>{elements}{keys}</ListBucketResult>");
    ScriptedReply::answer("200 OK", &[], text.as_bytes())
}

fn page(names: &[&str]) -> ScriptedReply {
    let links: String = names.iter().map(|name| format!("<a href=\"{name}\">{name}</a>")).collect();
    let text = format!("<html><title>Index of /d/</title>{links}</html>");
    ScriptedReply::answer("200 OK", &["Content-Type: text/html"], text.as_bytes())
}

#[test]
fn content_that_a_server_compresses_unasked_is_no_file() {
    let server = Scripted::start(|_, head| match RequestHead::new(head) {
        request if request.method == "HEAD" => request.object(&[b'x'; 900], &[DATE]),
        request if request.target.ends_with(".gz") => {
            request.object(b"a file", &["Content-Encoding: gzip", "Vary: *"])
        }
        request if request.target.ends_with("/stored") => {
            request.object(b"an object", &["Content-Encoding: gzip"])
        }
        _ => {
            let lines = ["Content-Encoding: gzip", "Vary: Accept-Encoding", "Transfer-Encoding: chunked"];
            ScriptedReply::raw("200 OK", &lines, b"3\r\n\x1f\x8b\x08\r\n0\r\n\r\n").then_close()
        }
    });
    let world = World::new();
    let at = |name: &str| format!("{}/{name}", server.url());
    for words in [&["cp", &at("page.txt"), "."][..], &["cat", &at("page.txt")]] {
        let ran = world.run(words);
        assert!(ran.code == Some(1) && ran.stdout.is_empty(), "{ran:?}");
        assert!(
            ran.stderr.contains("compressed by gzip") && ran.stderr.contains("Accept-Encoding"),
            "{ran:?}"
        );
    }
    assert!(world.names().is_empty());
    world.run(&["cp", &at("page.txt"), ".", "--header", "Accept-Encoding: gzip"]).ok();
    assert_eq!(world.read("page.txt"), b"\x1f\x8b\x08");
    // Files and objects whose stored content has the coding.
    world.run(&["cp", &at("a.gz"), &at("stored"), "."]).ok();
    assert_eq!((world.read("a.gz"), world.read("stored")), (b"a file".to_vec(), b"an object".to_vec()));
}

/// A world whose S3 service is the server.
fn world_of(server: &Scripted) -> World {
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    world.set("AWS_REGION", "here-1");
    world
}

#[test]
fn a_file_of_a_server_that_refuses_ranges_is_copied_whole() {
    for line in
        ["X: none", "Content-Range: bytes */*", "Content-Range: bytes */0", "Content-Range: bytes */900"]
    {
        let server = Scripted::start(move |_, head| match RequestHead::new(head) {
            request if request.range.is_some() => ScriptedReply::answer("416 No", &[line], b"no"),
            request => request.object(&bytes(1, 900), &["ETag: \"e\"", DATE]),
        });
        let world = world_of(&server);
        for source in [format!("{}/f", server.url()), "s3://b/f".to_owned()] {
            world.run(&["cp", &source, "copy"]).ok();
            assert!(world.read("copy") == bytes(1, 900), "{line} {source}");
            let part = world.run(&["cat", "--range", "0-99999", &source]).ok();
            assert!(part.stdout == bytes(1, 900), "{line} {source}");
        }
    }
}

#[test]
fn a_large_object_whose_partial_answers_are_unusable_is_copied_whole() {
    let content = bytes(2, 6 << 20);
    let server = Scripted::start(move |_, head| match RequestHead::new(head) {
        request if request.range.is_some() => ScriptedReply::answer("206 Partial", &["ETag: \"e\""], b"x"),
        request => request.object(&bytes(2, 6 << 20), &["ETag: \"e\"", DATE]),
    });
    let world = world_of(&server);
    for source in [format!("{}/f", server.url()), "s3://b/f".to_owned()] {
        world.run(&["cp", &source, "copy"]).ok();
        assert!(world.read("copy") == content, "{source}");
    }
}

#[test]
fn sync_delete_keeps_what_an_odd_page_does_not_name() {
    for elements in [
        "<IsTruncated>True</IsTruncated><NextContinuationToken>t</NextContinuationToken>",
        "<IsTruncated>1</IsTruncated><NextContinuationToken>t</NextContinuationToken>",
        "<IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken>",
    ] {
        let server = Scripted::start(move |_, head| match RequestHead::new(head) {
            request if request.is_list() => {
                let is_later = ["continuation-token=", "start-after=", "marker="]
                    .iter()
                    .any(|name| request.target.contains(name));
                match is_later {
                    true => listing("<IsTruncated>false</IsTruncated>", &[("c", 1), ("d", 1)]),
                    false => listing(elements, &[("a", 1), ("b", 1)]),
                }
            }
            request => request.object(b"x", &["ETag: \"listed\"", DATE]),
        });
        let world = world_of(&server);
        world.run(&["sync", "--delete", "s3://b/", "tree"]).ok();
        let again = world.run(&["--json", "sync", "--delete", "s3://b/", "tree"]).ok().receipt();
        assert_eq!(support::names_below(&world.path("tree")), ["a", "b", "c", "d"], "{elements}");
        assert_eq!(again["skipped"], 4, "{elements}: {again}");
    }
}

#[test]
fn a_file_of_a_web_server_that_an_older_one_replaced_is_copied_again() {
    let replaced = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&replaced);
    let server = Scripted::start(move |_, head| match RequestHead::new(head) {
        request if request.target == "/d/" => page(&["a"]),
        request if seen.load(Ordering::SeqCst) == 0 => {
            request.object(b"first", &["ETag: \"1\"", "Last-Modified: Thu, 05 Feb 2026 03:04:05 GMT"])
        }
        request => request.object(b"other", &["ETag: \"2\"", DATE]),
    });
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let source = format!("{}/d/", server.url());
    for (destination, copied) in [("tree", "tree/a"), ("s3://bucket/tree/", "s3://bucket/tree/a")] {
        replaced.store(0, Ordering::SeqCst);
        world.run(&["sync", &source, destination]).ok();
        let again = world.run(&["--json", "sync", &source, destination]).ok().receipt();
        assert_eq!(again["skipped"], 1, "{destination}: {again}");
        replaced.store(1, Ordering::SeqCst);
        world.run(&["sync", &source, destination]).ok();
        assert_eq!(world.run(&["cat", copied]).ok().stdout, b"other", "{destination}");
        let again = world.run(&["--json", "sync", &source, destination]).ok().receipt();
        assert_eq!(again["skipped"], 1, "{destination}: {again}");
    }
}

#[test]
fn two_versions_with_an_empty_etag_are_never_mixed() {
    for line in ["ETag: \"\"", "ETag:", "ETag: W/\"\""] {
        let answers = AtomicUsize::new(0);
        let server = Scripted::start(move |_, head| {
            let request = RequestHead::new(head);
            let (seed, date) = match answers.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => (1, DATE),
                _ => (2, "Last-Modified: Sat, 03 Jan 2026 03:04:05 GMT"),
            };
            request.object(&bytes(seed, 8 << 20), &[line, date])
        });
        let world = world_of(&server);
        for source in [format!("{}/f", server.url()), "s3://b/f".to_owned()] {
            let ran = world.run(&["cp", &source, "copy"]);
            if ran.code == Some(0) {
                let copy = world.read("copy");
                assert!(copy == bytes(1, 8 << 20) || copy == bytes(2, 8 << 20), "{line} {source}: mixed");
            } else {
                ran.fails(1, &["changed while it was read"]);
            }
        }
    }
}

/// Starts a server that answers GET without a length. The first `cut` answers end in the middle.
/// `heads` is the length that its answers to HEAD state, if any.
fn unframed(cut: usize, heads: Option<usize>) -> Scripted {
    let answers = AtomicUsize::new(0);
    Scripted::start(move |_, head| match RequestHead::new(head) {
        request if request.target == "/d/" => page(&["f"]),
        request if request.is_list() => listing("<IsTruncated>false</IsTruncated>", &[("f", 30_000)]),
        request if request.method == "HEAD" => {
            let length = heads.map(|length| format!("Content-Length: {length}"));
            let lines: Vec<&str> = [DATE].into_iter().chain(length.as_deref()).collect();
            ScriptedReply::raw("200 OK", &lines, b"").then_close()
        }
        _ => {
            let is_cut = answers.fetch_add(1, Ordering::SeqCst) < cut;
            let end = if is_cut { 10_000 } else { 30_000 };
            ScriptedReply::raw("200 OK", &[DATE, "Connection: close"], &bytes(3, 30_000)[..end]).then_close()
        }
    })
}

#[test]
fn a_body_that_ends_with_its_connection_is_compared_with_the_length_that_is_known() {
    for (recursive, source) in [(false, "URL/f"), (false, "s3://b/f"), (true, "URL/d/"), (true, "s3://b/")] {
        // The first GET of a single file only shows that the server ignores ranges. The run then
        // sends a second one, so two answers are cut.
        let server = unframed(if recursive { 1 } else { 2 }, Some(30_000));
        let world = world_of(&server);
        let source = source.replace("URL", server.url());
        let args = if recursive { vec!["--json", "cp", "-r"] } else { vec!["--json", "cp"] };
        let to = if recursive { "tree" } else { "tree/f" };
        let receipt = world.run(&[args, vec![source.as_str(), to]].concat()).ok().receipt();
        assert!(world.read("tree/f") == bytes(3, 30_000), "{source}");
        assert_eq!(receipt["verified"], "length", "{source}");
    }
    // Bytes written to the standard output cannot be taken back.
    let server = unframed(1, Some(30_000));
    let cat = World::new().run(&["cat", &format!("{}/f", server.url())]);
    cat.fails(1, &["the body ended 20000 bytes early"]);
}

#[test]
fn a_body_without_any_length_is_copied_and_not_called_verified() {
    for source in ["URL/f", "s3://b/f"] {
        let server = unframed(usize::MAX, None);
        let world = world_of(&server);
        let source = source.replace("URL", server.url());
        let receipt = world.run(&["--json", "cp", &source, "copy"]).ok().receipt();
        assert_eq!((&receipt["bytes"], &receipt["verified"]), (&10_000.into(), &"none".into()), "{source}");
    }
}

#[test]
fn sync_delete_deletes_nothing_after_a_page_that_was_cut() {
    let pages = AtomicUsize::new(0);
    let server = Scripted::start(move |_, head| match RequestHead::new(head) {
        request if request.target == "/d/" => {
            let page =
                b"<html><title>Index of /d/</title><a href=a>a</a><a href=b>b</a><a href=c>c</a></html>";
            let end = if pages.fetch_add(1, Ordering::SeqCst) == 0 { 50 } else { page.len() };
            let lines = ["Content-Type: text/html", "Connection: close"];
            ScriptedReply::raw("200 OK", &lines, &page[..end]).then_close()
        }
        request => request.object(b"x", &["ETag: \"e\"", DATE]),
    });
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.write(&format!("tree/{name}"), b"x");
    }
    world.run(&["sync", "--delete", &format!("{}/d/", server.url()), "tree"]).ok();
    assert_eq!(support::names_below(&world.path("tree")), ["a", "b", "c"]);
}

#[test]
fn an_object_whose_listed_tag_is_not_its_own_is_copied_if_length_and_date_agree() {
    let server = Scripted::start(|_, head| match RequestHead::new(head) {
        request if request.is_list() => listing("<IsTruncated>false</IsTruncated>", &[("f", 5), ("g", 5)]),
        _ if head.contains("if-match: \"listed\"") => ScriptedReply::answer("412 Failed", &[], b""),
        request if request.target.starts_with("/b/g") => {
            request.object(b"other", &["ETag: \"own\"", "Last-Modified: Sat, 03 Jan 2026 03:04:05 GMT"])
        }
        request => request.object(b"right", &["ETag: \"own\"", DATE]),
    });
    let world = world_of(&server);
    world.run(&["cp", "-r", "s3://b/", "tree"]).fails(3, &["s3://b/g", "changed while it was read"]);
    assert_eq!(world.read("tree/f"), b"right");
}

#[test]
fn a_tree_whose_prefix_is_listed_below_itself_has_an_end() {
    let server = Scripted::start(|_, head| match RequestHead::new(head) {
        request if request.is_list() => listing(
            "<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>\
             <CommonPrefixes><Prefix></Prefix></CommonPrefixes>",
            &[("p/file", 1)],
        ),
        request => request.object(b"x", &[DATE]),
    });
    let world = world_of(&server);
    let tree = String::from_utf8(world.run(&["tree", "s3://b/p/"]).ok().stdout).unwrap();
    assert!(tree.contains("file"), "{tree}");
}

#[test]
fn a_described_object_whose_head_fails_is_described_and_copied_by_get() {
    for status in ["404 Not Found", "410 Gone", "500 Oops", "502 Bad Gateway", "401 Unauthorized"] {
        let server = Scripted::start(move |_, head| match RequestHead::new(head) {
            request if request.target == "/d/" => page(&["f"]),
            request if request.method == "HEAD" => ScriptedReply::raw(status, &["Content-Length: 0"], b""),
            request => request.object(&bytes(4, 900), &["ETag: \"e\"", DATE]),
        });
        let world = world_of(&server);
        let url = format!("{}/f", server.url());
        assert_eq!(world.run(&["--json", "stat", &url]).ok().receipt()["size"], 900, "{status}");
        let tree = format!("{}/d/", server.url());
        world.run(&["cp", "-r", &tree, "tree"]).ok();
        // A copy from an S3 store sends HEAD only to learn a checksum, so it succeeds without HEAD.
        world.run(&["cp", "s3://b/f", "copy"]).ok();
        assert!(world.read("copy") == bytes(4, 900) && world.read("tree/f") == bytes(4, 900), "{status}");
    }
}

#[test]
fn a_redirect_of_a_store_is_followed_to_its_region_and_else_names_its_target() {
    let body = |code: &str, endpoint: &str| {
        format!(
            "<Error><Code>{code}</Code><Message>elsewhere</Message><Endpoint>{endpoint}</Endpoint></Error>"
        )
    };
    let run = |server: &Scripted| {
        let mut world = World::new();
        let variables =
            [("AWS_ENDPOINT_URL", server.url()), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
        variables.into_iter().for_each(|(name, value)| world.set(name, value));
        world.set("AWS_REGION", "us-east-1");
        world.run(&["cat", "s3://bucket/key"])
    };
    let regional = Scripted::start(move |_, head| match head.contains("/eu-west-3/s3/aws4_request") {
        true => ScriptedReply::answer("200 OK", &[], b"content"),
        false => {
            let body = body("PermanentRedirect", "bucket.s3-eu-west-3.amazonaws.com");
            ScriptedReply::answer("301 Moved Permanently", &[], body.as_bytes())
        }
    });
    assert_eq!(run(&regional).ok().stdout, b"content");
    let other = Scripted::start(move |_, _| {
        let body = body("TemporaryRedirect", "elsewhere.example");
        let to = "Location: http://other.example:9000/bucket/key";
        ScriptedReply::answer("307 Temporary Redirect", &[to], body.as_bytes())
    });
    run(&other).fails(1, &["it redirects to other.example:9000", "--endpoint-url"]);
}
