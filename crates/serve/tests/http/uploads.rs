//! Tests multipart uploads over S3 whose requests overlap, are repeated, or end in an unexpected
//! order.

use crate::client::{Answer, Client, Fixture, S3, content, element, serve};

pub(crate) fn begin(client: &mut Client, key: &str) -> String {
    let answer = client.ask("POST", &format!("/bucket/{key}?uploads"), "", b"");
    element(&answer, "UploadId").unwrap_or_else(|| panic!("no upload id in {}", answer.text()))
}

/// Uploads a part. Returns its tag.
pub(crate) fn part(client: &mut Client, key: &str, id: &str, number: usize, bytes: &[u8]) -> String {
    let target = format!("/bucket/{key}?uploadId={id}&partNumber={number}");
    let answer = client.ask("PUT", &target, S3, bytes);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("etag").unwrap().to_owned()
}

pub(crate) fn complete(
    client: &mut Client,
    key: &str,
    id: &str,
    parts: &[(usize, &str)],
    headers: &str,
) -> Answer {
    let part = |(number, etag): &(usize, &str)| {
        let etag = etag.replace('"', "&quot;");
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    client.ask("POST", &format!("/bucket/{key}?uploadId={id}"), &format!("{S3}{headers}"), body.as_bytes())
}

/// Sends the head of a part and half of its bytes. Returns the connection.
fn half(fixture: &Fixture, key: &str, id: &str, number: usize, bytes: &[u8]) -> Client {
    let mut client = Client::new(&fixture.server);
    let length = bytes.len();
    let head = format!(
        "PUT /bucket/{key}?uploadId={id}&partNumber={number} HTTP/1.1\r\nHost: localhost\r\n{S3}\
         Content-Length: {length}\r\n\r\n"
    );
    client.send(head.as_bytes());
    client.send(&bytes[..length / 2]);
    // Waits until these bytes are on disk, so that the staged files have grown.
    settle();
    client
}

/// Gives the server time to receive the bytes. If the time is too short, a test checks less, but
/// does not fail.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(150));
}

const SIZE: usize = 1 << 20;

fn other(seed: u8) -> Vec<u8> {
    content(SIZE).into_iter().map(|byte| byte ^ seed).collect()
}

fn object(client: &mut Client, key: &str) -> Vec<u8> {
    let answer = client.ask("GET", &format!("/bucket/{key}"), "", b"");
    assert_eq!(answer.status, 200);
    answer.body
}

#[test]
fn a_part_sent_twice_at_once_is_one_of_the_two_and_whole() {
    for finishes in [false, true] {
        let fixture = serve(|_| {});
        let mut client = Client::new(&fixture.server);
        let id = begin(&mut client, "key");
        let (first, second) = (other(1), other(2));
        let mut slow = half(&fixture, "key", &id, 1, &first);
        let tag = part(&mut client, "key", &id, 1, &second);
        let (tag, whole) = if finishes {
            slow.send(&first[SIZE / 2..]);
            let answer = slow.answer(false);
            assert_eq!(answer.status, 200);
            assert_eq!(complete(&mut client, "key", &id, &[(1, &tag)], "").status, 400, "it was overwritten");
            (answer.header("etag").unwrap().to_owned(), &first)
        } else {
            (tag, &second)
        };
        assert_eq!(complete(&mut client, "key", &id, &[(1, &tag)], "").status, 200);
        assert!(object(&mut client, "key") == *whole, "a mixture, where the slow one finishes: {finishes}");
    }
}

#[test]
fn a_part_still_arriving_never_reaches_the_published_object() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let (first, second, late) = (other(1), other(2), other(3));
    let tags = [part(&mut client, "key", &id, 1, &first), part(&mut client, "key", &id, 2, &second)];
    let mut slow = half(&fixture, "key", &id, 2, &late);
    let mut third = half(&fixture, "key", &id, 3, &late);
    let done = complete(&mut client, "key", &id, &[(1, &tags[0]), (2, &tags[1])], "");
    assert_eq!(done.status, 200, "{}", done.text());
    for slow in [&mut slow, &mut third] {
        slow.send(&late[SIZE / 2..]);
        let status = slow.answer(false).status;
        assert!((400..500).contains(&status), "{status}");
    }
    assert!(object(&mut client, "key") == [first, second].concat());
}

#[test]
fn an_overwritten_part_stays_valid_until_the_new_one_has_arrived() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let tag = part(&mut client, "key", &id, 1, &other(1));
    let slow = half(&fixture, "key", &id, 1, &other(2));
    drop(slow);
    settle();
    let wrong = format!("{S3}x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n");
    let target = format!("/bucket/key?uploadId={id}&partNumber=1");
    assert_eq!(client.ask("PUT", &target, &wrong, &other(3)).status, 400);
    assert_eq!(complete(&mut client, "key", &id, &[(1, &tag)], "").status, 200);
    assert!(object(&mut client, "key") == other(1));
}

#[test]
fn completing_some_parts_keeps_the_others_as_they_are_when_it_is_refused() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.ask("PUT", "/bucket/key", S3, b"old");
    let id = begin(&mut client, "key");
    let parts = [other(1), other(2), other(3), other(4)[..1000].to_vec()];
    // Part 3 goes to a separate file, because the common length of the parts is not known yet.
    let third = part(&mut client, "key", &id, 3, &parts[2]);
    let tags = [1, 2, 4].map(|number| part(&mut client, "key", &id, number, &parts[number - 1]));
    let [first, second, fourth] = &tags;
    let absent = "If-None-Match: *\r\n";
    for some in [&[(1, first.as_str()), (3, &third)][..], &[(2, second)], &[(3, &third), (4, fourth)]] {
        assert_eq!(complete(&mut client, "key", &id, some, absent).status, 412);
    }
    let all = [(1, first.as_str()), (2, second), (3, &third), (4, fourth)];
    assert_eq!(complete(&mut client, "key", &id, &all, "").status, 200);
    assert!(object(&mut client, "key") == parts.concat());
}

#[test]
fn parts_of_any_lengths_make_the_whole_after_a_restart_too() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let bytes = other(1);
    // Parts 3 and 4 determine the common length, 3,000 bytes. Part 1 is then sent again with fewer
    // bytes.
    for (number, length) in [(3, 3000), (4, 3000), (1, 3000), (1, 700)] {
        part(&mut client, "key", &id, number, &bytes[number..number + length]);
    }
    let again = serve_again(&fixture);
    let mut client = Client::new(&again);
    let tags: Vec<(usize, usize, String)> = [(2, 3000), (5, 700), (6, 5000), (7, 10)]
        .into_iter()
        .map(|(number, length)| {
            let bytes = &bytes[number..number + length];
            (number, length, part(&mut client, "key", &id, number, bytes))
        })
        .collect();
    let listed = client.ask("GET", &format!("/bucket/key?uploadId={id}"), S3, b"").text();
    let tags_before: Vec<_> = [(1, 700), (3, 3000), (4, 3000)]
        .into_iter()
        .map(|(number, length)| (number, length, listed_tag(&listed, number)))
        .collect();
    let mut all: Vec<_> = tags.into_iter().chain(tags_before).collect();
    all.sort();
    let named: Vec<(usize, &str)> = all.iter().map(|(number, _, tag)| (*number, tag.as_str())).collect();
    assert_eq!(complete(&mut client, "key", &id, &named, "").status, 200);
    let whole: Vec<u8> =
        all.iter().flat_map(|(number, length, _)| bytes[*number..number + length].to_vec()).collect();
    assert!(object(&mut client, "key") == whole);
}

fn serve_again(fixture: &Fixture) -> firstbyte_serve::RunningServer {
    let mut config = firstbyte_serve::Config::new(fixture.directory.path());
    config.writing = firstbyte_serve::WritePolicy::Allowed;
    config.limits.smallest_part = 1;
    firstbyte_serve::Server::start(config).unwrap()
}

fn listed_tag(list: &str, number: usize) -> String {
    let (_, behind) = list.split_once(&format!("<PartNumber>{number}</PartNumber>")).unwrap();
    let part = behind.split("</Part>").next().unwrap();
    let before = list.split(&format!("<PartNumber>{number}</PartNumber>")).next().unwrap();
    let part = format!("{}{part}", before.rsplit("<Part>").next().unwrap());
    let (_, tag) = part.split_once("<ETag>").unwrap();
    tag.split_once('<').unwrap().0.replace("&quot;", "\"")
}

#[test]
fn completing_again_answers_the_same_while_the_object_is_unchanged() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let tags = [part(&mut client, "key", &id, 1, &other(1)), part(&mut client, "key", &id, 2, b"end")];
    let parts = [(1, tags[0].as_str()), (2, tags[1].as_str())];
    let first = complete(&mut client, "key", &id, &parts, "");
    let again = complete(&mut client, "key", &id, &parts, "");
    assert_eq!((first.status, again.status), (200, 200), "{}", again.text());
    assert_eq!(element(&first, "ETag"), element(&again, "ETag"));
    let restarted = serve_again(&fixture);
    assert_eq!(complete(&mut Client::new(&restarted), "key", &id, &parts, "").status, 200);
    assert_eq!(complete(&mut client, "key", &id, &parts[..1], "").status, 404, "another list of parts");
    let copy = format!("{S3}x-amz-copy-source: /bucket/key\r\n");
    assert_eq!(client.ask("PUT", "/bucket/copy", &copy, b"").status, 200);
    assert_eq!(complete(&mut client, "copy", &id, &parts, "").status, 404, "another key");
    client.ask("PUT", "/bucket/key", S3, b"new");
    assert_eq!(complete(&mut client, "key", &id, &parts, "").status, 404);
    assert_eq!(object(&mut client, "key"), b"new");
}

#[test]
fn one_of_two_completions_at_once_publishes_and_both_say_so() {
    let fixture = serve(|_| {});
    for round in 0..20 {
        let mut client = Client::new(&fixture.server);
        let id = begin(&mut client, "key");
        let (late, early) =
            (part(&mut client, "key", &id, 2, b"end"), part(&mut client, "key", &id, 1, &other(1)));
        let etags: Vec<_> = std::thread::scope(|scope| {
            let completions: Vec<_> = (0..4)
                .map(|_| {
                    let (fixture, id, parts) = (&fixture, &id, [(1, early.as_str()), (2, late.as_str())]);
                    scope.spawn(move || {
                        let done = complete(&mut Client::new(&fixture.server), "key", id, &parts, "");
                        assert_eq!(done.status, 200, "{}", done.text());
                        element(&done, "ETag")
                    })
                })
                .collect();
            completions.into_iter().map(|completion| completion.join().unwrap()).collect()
        });
        assert!(etags.iter().all(|etag| *etag == etags[0]), "round {round}: {etags:?}");
    }
}

#[test]
fn a_part_refused_as_too_long_spares_its_neighbour() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let tags = [part(&mut client, "key", &id, 1, &[1; 1000]), part(&mut client, "key", &id, 3, &[3; 1000])];
    // The request announces ten bytes and sends three thousand.
    let head = format!(
        "{S3}x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nx-amz-decoded-content-length: 10\r\n\
         x-amz-trailer: x-amz-checksum-crc32\r\n"
    );
    let body = [b"bb8\r\n".as_slice(), &[2; 3000], b"\r\n0\r\n\r\n"].concat();
    let target = format!("/bucket/key?uploadId={id}&partNumber=2");
    assert_eq!(Client::new(&fixture.server).ask("PUT", &target, &head, &body).status, 400);
    let parts = [(1, tags[0].as_str()), (3, tags[1].as_str())];
    assert_eq!(complete(&mut client, "key", &id, &parts, "").status, 200);
    assert!(object(&mut client, "key") == [[1; 1000], [3; 1000]].concat());
}

#[test]
fn an_aborted_upload_takes_no_part_that_was_under_way() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let mut slow = half(&fixture, "key", &id, 1, &other(1));
    assert_eq!(client.ask("DELETE", &format!("/bucket/key?uploadId={id}"), S3, b"").status, 204);
    slow.send(&other(1)[SIZE / 2..]);
    assert!((400..500).contains(&slow.answer(false).status));
    assert!(!fixture.directory.path().join("bucket/.firstbyte/uploads").exists());
}

#[test]
fn a_part_that_is_too_small_makes_no_object_unless_it_is_the_last() {
    let fixture = serve(|config| config.limits.smallest_part = 1000);
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "key");
    let bytes = [[1; 999].as_slice(), &[2; 1000], &[3; 10]];
    let tags: Vec<_> =
        bytes.iter().zip(1..).map(|(bytes, number)| part(&mut client, "key", &id, number, bytes)).collect();
    let all: Vec<_> = (1..).zip(tags.iter().map(String::as_str)).collect();
    let refused = complete(&mut client, "key", &id, &all, "");
    assert_eq!((refused.status, element(&refused, "Code").as_deref()), (400, Some("EntityTooSmall")));
    let announced = |length: usize| format!("x-amz-mp-object-size: {length}\r\n");
    assert_eq!(complete(&mut client, "key", &id, &all[1..], &announced(1011)).status, 400);
    assert_eq!(complete(&mut client, "key", &id, &all[1..], &announced(1010)).status, 200);
    assert!(object(&mut client, "key") == [&[2; 1000][..], &[3; 10]].concat());
}

#[test]
fn unfinished_uploads_are_grouped_by_the_delimiter_on_pages_of_any_size() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for key in ["a/1", "a/2", "b", "b", "c/1", "d"] {
        begin(&mut client, key);
    }
    for most in 1..7 {
        let (mut shown, mut next) = (Vec::new(), String::new());
        loop {
            let target = format!("/bucket?uploads&delimiter=/&max-uploads={most}{next}");
            let page = client.ask("GET", &target, S3, b"");
            let text = page.text();
            let all = |tag: &str| {
                let rest = text.split(tag).skip(1);
                rest.map(|rest| rest.split('<').next().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let mut rows = [all("<Key>"), all("<CommonPrefixes><Prefix>")].concat();
            rows.sort();
            shown.append(&mut rows);
            if element(&page, "IsTruncated").as_deref() != Some("true") {
                break;
            }
            let key = element(&page, "NextKeyMarker").unwrap();
            let id = element(&page, "NextUploadIdMarker").filter(|id| !id.is_empty());
            next = format!("&key-marker={key}");
            next.extend(id.map(|id| format!("&upload-id-marker={id}")));
        }
        assert_eq!(shown, ["a/", "b", "b", "c/", "d"], "{most}");
    }
}

#[test]
fn a_completed_upload_names_the_url_of_its_object() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "a%20b");
    let tag = part(&mut client, "a%20b", &id, 1, b"x");
    let done = complete(&mut client, "a%20b", &id, &[(1, &tag)], "");
    assert_eq!(element(&done, "Location").as_deref(), Some("http://localhost/bucket/a%20b"));
}
