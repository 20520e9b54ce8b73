//! Tests wrong secrets, by form and by HTTP Basic, and the redirection after signing in.

use base64::Engine as _;
use firstbyte_serve::{Authentication, ServerKeys};

use crate::client::{Answer, Client, Fixture, serve};

fn with_keys(lines: &str) -> Fixture {
    let keys = ServerKeys::parse(lines).unwrap();
    let fixture = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::create_dir_all(fixture.directory.path().join("bucket/public")).unwrap();
    std::fs::write(fixture.directory.path().join("bucket/public/f"), "x").unwrap();
    fixture
}

fn basic(fixture: &Fixture, key: &str, secret: &str) -> Answer {
    let credentials = base64::engine::general_purpose::STANDARD.encode(format!("{key}:{secret}"));
    let line = format!("Authorization: Basic {credentials}\r\n");
    Client::new(&fixture.server).ask("GET", "/bucket/public/f", &line, b"")
}

fn form(fixture: &Fixture, key: &str, secret: &str, next: &str) -> Answer {
    let body = format!("key={key}&secret={secret}&next={next}");
    Client::new(&fixture.server).ask("POST", "/.firstbyte/login", "", body.as_bytes())
}

/// Sends wrong secrets of alice's key until they are refused without a check.
fn guess_until_refused(fixture: &Fixture) {
    let refused = (0..100).any(|_| basic(fixture, "alice", "guess").status == 429);
    assert!(refused, "100 wrong secrets were all weighed");
}

const KEYS: &str = "alice secret read\nbob word read\n";

#[test]
fn guessing_a_secret_is_slowed_down_by_basic_as_by_the_form() {
    for by_form in [false, true] {
        let fixture = with_keys(KEYS);
        let guess = |number: usize| {
            let secret = format!("guess-{number}");
            if by_form { form(&fixture, "alice", &secret, "/") } else { basic(&fixture, "alice", &secret) }
        };
        let answers: Vec<Answer> = (0..40).map(guess).collect();
        assert_eq!(answers[0].status, 401);
        let refused = answers.iter().find(|answer| answer.status == 429);
        let refused = refused.unwrap_or_else(|| panic!("40 guesses were all weighed; by form: {by_form}"));
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=300).contains(&wait), "{wait}");
    }
}

#[test]
fn what_is_refused_by_basic_is_refused_by_the_form_and_by_signature() {
    let fixture = with_keys(KEYS);
    guess_until_refused(&fixture);
    assert_eq!(form(&fixture, "alice", "guess", "/").status, 429);
    let (target, signed) = crate::signing::Signed::new("GET", "/bucket/public/f").by_header();
    let answer = Client::new(&fixture.server).ask("GET", &target, &signed, b"");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("<Code>SlowDown</Code>"), "{}", answer.text());
}

#[test]
fn secrets_are_not_guessed_by_signatures_either() {
    let fixture = with_keys(KEYS);
    let mut client = Client::new(&fixture.server);
    let refused = (0..400).any(|number| {
        let (target, lines) = crate::signing::Signed::new("GET", "/bucket/public/f").by_header();
        let at = lines.find("Signature=").unwrap() + "Signature=".len();
        let wrong = format!("{}{number:064x}{}", &lines[..at], &lines[at + 64..]);
        client.ask("GET", &target, &wrong, b"").status == 503
    });
    assert!(refused, "400 wrong signatures were all weighed");
    // Other clients are not affected.
    assert_eq!(basic(&fixture, "bob", "word").status, 200);
}

#[test]
fn an_attack_on_one_key_locks_out_no_other_behind_the_same_address() {
    let fixture = with_keys(KEYS);
    guess_until_refused(&fixture);
    for number in 0..200 {
        form(&fixture, &format!("unknown-{number}"), "guess", "/");
    }
    assert_eq!(basic(&fixture, "bob", "word").status, 200);
    let signed_in = form(&fixture, "bob", "word", "/");
    assert_eq!(signed_in.status, 303, "{}", signed_in.text());
}

#[test]
fn a_typing_error_or_two_delay_nothing_and_are_forgotten_with_the_right_secret() {
    let fixture = with_keys(KEYS);
    for _ in 0..20 {
        assert_eq!(basic(&fixture, "alice", "typo").status, 401);
        assert_eq!(form(&fixture, "alice", "typo", "/").status, 401);
        assert_eq!(basic(&fixture, "alice", "secret").status, 200);
    }
}

#[test]
fn signing_in_with_a_key_for_a_prefix_leads_to_what_it_may_read() {
    let fixture = with_keys("alice secret read bucket/public\n");
    for next in ["/", "/elsewhere/", "/bucket/private"] {
        let answer = form(&fixture, "alice", "secret", next);
        assert_eq!(answer.status, 303);
        let location = answer.header("location").unwrap().to_owned();
        assert_eq!(location, "/bucket/public/", "{next}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let lines = format!("Cookie: {cookie}\r\nAccept: text/html\r\n");
        let mut client = Client::new(&fixture.server);
        let page = client.ask("GET", &location, &lines, b"");
        assert_eq!(page.status, 200, "{next} leads to {location}: {}", page.text());
        assert!(page.text().contains("/bucket/public/f"), "{next}: {location} shows nothing");
        let refused = client.ask("GET", "/elsewhere/", &lines, b"");
        assert_eq!(refused.status, 403);
        assert!(refused.text().contains("<form"), "no way on: {}", refused.text());
        assert!(refused.text().contains("href=\"/bucket/public/\""), "no way back: {}", refused.text());
    }
    assert_eq!(form(&fixture, "alice", "secret", "/bucket/").header("location"), Some("/bucket/"));
    assert_eq!(
        form(&fixture, "alice", "secret", "/bucket/public/").header("location"),
        Some("/bucket/public/")
    );
}

#[test]
fn a_key_begins_at_the_nearest_directory_that_is_there() {
    for (lines, home) in [
        ("alice secret read bucket/public/f\n", "/bucket/public/"),
        ("alice secret read bucket/missing/deep\n", "/bucket/"),
        ("alice secret read gone\n", "/"),
        ("alice secret read bucket/public\nalice secret write bucket/own\n", "/bucket/"),
        ("alice secret read\n", "/"),
    ] {
        let fixture = with_keys(lines);
        assert_eq!(form(&fixture, "alice", "secret", "/").header("location"), Some(home), "{lines}");
    }
}

#[test]
fn a_key_for_a_part_of_the_one_bucket_begins_below_its_name() {
    let keys = ServerKeys::parse("alice secret read bucket/public\n").unwrap();
    let fixture = serve(|config| {
        config.authentication = Authentication::Keys(keys);
        config.buckets = firstbyte_serve::Buckets::Named("bucket".to_owned());
        config.base_path = "/base".to_owned();
    });
    std::fs::create_dir_all(fixture.directory.path().join("bucket/public")).unwrap();
    let body = b"key=alice&secret=secret&next=/";
    let answer = Client::new(&fixture.server).ask("POST", "/base/.firstbyte/login", "", body);
    let location = answer.header("location").unwrap();
    assert_eq!(location, "/base/bucket/bucket/public/");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    let lines = format!("Cookie: {cookie}\r\nAccept: text/html\r\n");
    assert_eq!(Client::new(&fixture.server).ask("GET", location, &lines, b"").status, 200);
}
