//! Tests HTML forms that post an object, and guesses of secrets by forms and other requests.

use firstbyte_serve::{Authentication, ServerKeys};

use crate::client::{Answer, Client, Fixture, content, element, serve};
use crate::signing::{Form, Signed, form};

fn with_keys(lines: &str) -> Fixture {
    let keys = ServerKeys::parse(lines).unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::write(fixture.directory.path().join("bucket/f"), "x").unwrap();
    fixture
}

fn post(fixture: &Fixture, form: &Form<'_>) -> Answer {
    Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, &form.body("content"))
}

fn code(answer: &Answer) -> String {
    element(answer, "Code").unwrap_or_default()
}

#[test]
fn a_form_is_valid_as_long_as_its_policy_says() {
    let fixture = with_keys("alice secret write\n");
    let posted = post(&fixture, &Form { days: 6, ..Form::new("old") });
    assert_eq!(posted.status, 204, "{}", posted.text());
    assert_eq!(std::fs::read(fixture.directory.path().join("bucket/old")).unwrap(), b"content");
    let expired = post(&fixture, &Form { expiration: "2020-01-01T00:00:00.000Z", ..Form::new("late") });
    assert_eq!((expired.status, code(&expired).as_str()), (403, "AccessDenied"));
    // Only forms are exempt from the check of the signature's date.
    let mut client = Client::new(&fixture.server);
    let date = "x-amz-date: 20200101T000000Z\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n";
    let signed = "Authorization: AWS4-HMAC-SHA256 Credential=alice/20200101/us-east-1/s3/aws4_request, \
        SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=00\r\n";
    for kind in ["Content-Type: xmultipart/form-data; boundary=edge\r\n", Form::HEAD] {
        let answer = client.ask("POST", "/bucket?delete", &format!("{kind}{date}{signed}"), &form(&[], ""));
        assert!(answer.status >= 400, "{kind}");
    }
}

#[test]
fn a_key_limited_to_a_prefix_signs_forms_for_it() {
    let fixture = with_keys("alice secret write bucket/in\n");
    assert_eq!(post(&fixture, &Form::new("in/f")).status, 204);
    for outside in ["out/f", "in-side", "f"] {
        assert_eq!(post(&fixture, &Form::new(outside)).status, 403, "{outside}");
    }
    let reader = with_keys("alice secret read\n");
    assert_eq!(post(&reader, &Form::new("in/f")).status, 403);
}

#[test]
fn a_form_without_signature_is_refused_before_its_file_comes() {
    let fixture = with_keys("alice secret write\n");
    let whole = form(&[("key", "k")], &"x".repeat(100_000));
    let mut client = Client::new(&fixture.server);
    client.send(
        format!("POST /bucket HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", whole.len()).as_bytes(),
    );
    client.send(format!("{}\r\n", Form::HEAD).as_bytes());
    client.send(&whole[..200]);
    let answer = client.answer(false);
    assert_eq!((answer.status, code(&answer).as_str()), (403, "AccessDenied"));
}

#[test]
fn fields_are_bounded_and_may_come_byte_by_byte() {
    let fixture = with_keys("alice secret write\n");
    let mut client = Client::new(&fixture.server);
    let long = "v".repeat(70_000);
    let answer =
        client.ask("POST", "/bucket", Form::HEAD, &form(&[("key", "k"), ("x-amz-signature", &long)], "x"));
    assert_eq!((answer.status, code(&answer).as_str()), (400, "MaxPostPreDataLengthExceededError"));
    let many: Vec<(&str, &str)> = vec![("x", "y"); 2000];
    let answer = Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, &form(&many, "x"));
    assert_eq!(code(&answer), "MaxPostPreDataLengthExceededError");
    let body = Form::new("slow").body("content");
    let mut client = Client::new(&fixture.server);
    let length = body.len();
    client.send(
        format!("POST /bucket HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{}\r\n", Form::HEAD)
            .as_bytes(),
    );
    body.iter().for_each(|byte| client.send(&[*byte]));
    assert_eq!(client.answer(false).status, 204);
    assert_eq!(std::fs::read(fixture.directory.path().join("bucket/slow")).unwrap(), b"content");
    for cut in ["", "--edge", "--edge\r\n\r\n", "nonsense", "--edge--\r\n"] {
        let answer = Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, cut.as_bytes());
        assert_eq!(answer.status, 400, "{cut:?}: {}", answer.text());
    }
}

/// Sends a correctly signed request for `/bucket/f`.
fn send_valid_request(fixture: &Fixture) -> Answer {
    Client::new(&fixture.server).ask("GET", &Signed::new("GET", "/bucket/f").presigned(), "", b"")
}

#[test]
fn guesses_by_forms_count_like_others() {
    let fixture = with_keys("alice secret write\n");
    for number in 0..10 {
        let guess = post(&fixture, &Form { is_right: false, ..Form::new("k") });
        assert_eq!((guess.status, code(&guess).as_str()), (403, "SignatureDoesNotMatch"), "{number}");
    }
    let delayed = send_valid_request(&fixture);
    assert_eq!((delayed.status, code(&delayed).as_str()), (503, "SlowDown"));
    assert!(delayed.header("retry-after").is_some());
    assert_eq!(code(&post(&fixture, &Form::new("k"))), "SlowDown");
}

/// Sends a request that `bob` signs with a wrong secret.
fn guess_of_bob(fixture: &Fixture) -> Answer {
    let (_, lines) = Signed::new("GET", "/bucket/f").by_header();
    let lines = lines.replace("Credential=alice", "Credential=bob");
    Client::new(&fixture.server).ask("GET", "/bucket/f", &lines, b"")
}

#[test]
fn a_count_is_reset_for_the_key_that_was_verified() {
    let fixture = with_keys("alice secret write\nbob another write\n");
    for _ in 0..9 {
        assert_eq!(code(&guess_of_bob(&fixture)), "SignatureDoesNotMatch");
    }
    // Valid requests of alice that also name bob.
    for name in ["X-Amz-Credential", "AWSAccessKeyId"] {
        let query = [(name, "bob")];
        let (target, lines) = Signed { query: &query, ..Signed::new("GET", "/bucket/f") }.by_header();
        Client::new(&fixture.server).ask("GET", &target, &lines, b"");
        let named = format!("/bucket?{name}=bob");
        Client::new(&fixture.server).ask("POST", &named, Form::HEAD, &Form::new("k").body("x"));
    }
    assert_eq!(code(&guess_of_bob(&fixture)), "SignatureDoesNotMatch");
    assert_eq!(code(&guess_of_bob(&fixture)), "SlowDown", "the tenth in a row");
    assert_eq!(send_valid_request(&fixture).status, 200);
}

#[test]
fn a_wrong_hash_of_a_body_and_head_of_a_presigned_get_are_no_guesses() {
    let fixture = with_keys("alice secret write\n");
    let other = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    for _ in 0..12 {
        let (target, lines, _) = Signed::new("PUT", "/bucket/new").with_payload(other);
        let put = Client::new(&fixture.server).ask("PUT", &target, &lines, b"x");
        assert_eq!((put.status, code(&put).as_str()), (400, "XAmzContentSHA256Mismatch"));
        let url = Signed::new("GET", "/bucket/f").presigned();
        assert_eq!(Client::new(&fixture.server).ask("HEAD", &url, "", b"").status, 403);
    }
    assert!(!fixture.directory.path().join("bucket/new").exists());
    assert_eq!(send_valid_request(&fixture).status, 200);
    let url = Signed::new("GET", "/bucket/f").presigned();
    let wrong = format!("{}00", &url[..url.len() - 2]);
    let wrong = if wrong == url { format!("{}11", &url[..url.len() - 2]) } else { wrong };
    for _ in 0..10 {
        assert_eq!(Client::new(&fixture.server).ask("HEAD", &wrong, "", b"").status, 403);
    }
    assert_eq!(code(&send_valid_request(&fixture)), "SlowDown", "a guess by HEAD is one");
}

#[test]
fn a_form_posts_a_large_file_and_what_follows_the_file_is_ignored() {
    let fixture = serve(|_| {});
    let content = content(5_000_000);
    let head = "--edge\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    let button = "\r\n--edge\r\nContent-Disposition: form-data; name=\"submit\"\r\n\r\nUp\r\n--edge--\r\n";
    let body = [head.as_bytes(), &content, button.as_bytes()].concat();
    let posted = Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, &body);
    assert_eq!(posted.status, 204, "{}", posted.text());
    assert!(std::fs::read(fixture.directory.path().join("bucket/k")).unwrap() == content);
    // The file ends at a boundary only, so a form that is cut is no shorter file.
    let cut = &body[..head.len() + 1_000_000];
    let refused = Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, cut);
    assert_eq!((refused.status, code(&refused).as_str()), (400, "IncompleteBody"));
    assert!(std::fs::read(fixture.directory.path().join("bucket/k")).unwrap() == content);
}

#[test]
fn the_policy_bounds_the_length_of_the_file() {
    let fixture = with_keys("alice secret write\n");
    let post = |lengths, length: usize| {
        let body = Form { lengths: Some(lengths), ..Form::new("k") }.body(&"x".repeat(length));
        let answer = Client::new(&fixture.server).ask("POST", "/bucket", Form::HEAD, &body);
        (answer.status, code(&answer))
    };
    let refused = |code: &str| (400, code.to_owned());
    for lengths in [(3, 5), (3_000_000, 3_000_000)] {
        let (least, most) = lengths;
        assert_eq!(post(lengths, least - 1), refused("EntityTooSmall"));
        assert_eq!(post(lengths, most + 1), refused("EntityTooLarge"));
        assert!(!fixture.directory.path().join("bucket/k").exists());
        assert_eq!((post(lengths, least).0, post(lengths, most).0), (204, 204));
        std::fs::remove_file(fixture.directory.path().join("bucket/k")).unwrap();
    }
}

#[test]
fn the_answer_to_a_form_names_the_object_as_s3_does() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let mut post = |name, value| {
        client.ask("POST", "/bucket", Form::HEAD, &form(&[("key", "a b&c"), (name, value)], "x"))
    };
    let posted = post("success_action_status", "201");
    let tag = posted.header("etag").unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let url = "http://localhost/bucket/a%20b%26c";
    assert_eq!((posted.status, posted.header("location")), (201, Some(url)));
    assert_eq!(element(&posted, "Location").as_deref(), Some(url));
    assert_eq!(element(&posted, "ETag").unwrap().replace("&quot;", "\""), tag);
    let redirected = post("success_action_redirect", "http://other.example/done");
    let location = redirected.header("location").unwrap_or_default();
    assert!(
        location.starts_with("http://other.example/done?bucket=bucket&key=a+b%26c&etag=%22"),
        "{location}"
    );
    assert_eq!(redirected.status, 303);
}
