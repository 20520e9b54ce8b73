//! Tests directory buckets: every request for an object is signed with the key of a session, and a
//! session is renewed before it ends and after it was refused.

use std::time::{Duration, SystemTime};

use firstbyte_location::Location;
use firstbyte_store::{Get, ListOptions, Payload, PutOptions, Signing, SigningKeys, Store, StoreOptions};
use firstbyte_testkit::{Scripted, ScriptedReply};

const BUCKET: &str = "s3://fast--use1-az4--x-s3";

fn at(key: &str) -> Location {
    Location::parse(format!("{BUCKET}/{key}").as_ref()).unwrap()
}

/// Starts a server that issues sessions which live for `life`, and that accepts only requests
/// signed with the last session.
fn server(life: Duration) -> Scripted {
    let begun = std::sync::Mutex::new(0_u32);
    Scripted::start(move |_, head| {
        let mut begun = begun.lock().unwrap();
        let head = head.to_lowercase();
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let denied = |why: &str| {
            let text = format!("<Error><Code>ExpiredToken</Code><Message>{why}</Message></Error>");
            ScriptedReply::answer("400 Bad Request", &[], text.as_bytes())
        };
        if !head.contains("/s3express/aws4_request") {
            return denied("not signed for directory buckets");
        }
        if target.ends_with("?session=") {
            if head.contains("x-amz-s3session-token") || !head.contains("credential=own/") {
                return denied("a session begins with the user's own key");
            }
            *begun += 1;
            let ends = time::OffsetDateTime::from(SystemTime::now() + life);
            let ends = ends.format(&time::format_description::well_known::Rfc3339).unwrap();
            let text = format!(
                "<?xml version=\"1.0\"?><CreateSessionResult><Credentials><SessionToken>token{begun}</SessionToken>\
                 <SecretAccessKey>s</SecretAccessKey><AccessKeyId>key{begun}</AccessKeyId><Expiration>{ends}</Expiration>\
                 </Credentials></CreateSessionResult>"
            );
            return ScriptedReply::answer("200 OK", &[], text.as_bytes());
        }
        let is_known = head.contains(&format!("x-amz-s3session-token: token{begun}"))
            && head.contains(&format!("credential=key{begun}/"))
            && !head.contains("x-amz-security-token");
        // The first session ends before its stated time.
        if !is_known || (target.contains("ends-early") && *begun == 1) {
            return denied("not of this session");
        }
        match target.contains("list-type") {
            false => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content"),
            true if target.contains("start-after") => denied("no start-after"),
            true => {
                let key = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
                let keys = ["b", "a", "c"].map(key).concat();
                let text =
                    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>");
                ScriptedReply::answer("200 OK", &[], text.as_bytes())
            }
        }
    })
}

fn store(server: &Scripted) -> Store {
    let keys = SigningKeys {
        access_key_id: "own".into(),
        secret_access_key: "secret".into(),
        session_token: Some("t".into()),
    };
    let options = StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        region: Some("us-east-1".into()),
        signing: Signing::Keys(keys),
        ..StoreOptions::default()
    };
    Store::new(options).unwrap()
}

fn sessions(server: &Scripted) -> usize {
    server.heads().iter().filter(|head| head.contains("?session=")).count()
}

#[test]
fn requests_for_a_directory_bucket_share_a_session() {
    let server = server(Duration::from_secs(300));
    let store = store(&server);
    store.put(&at("k"), Payload::Bytes(b"content"), &PutOptions::default()).unwrap();
    let mut content = vec![0; 7];
    let mut body = store.get(&at("k"), &Get::default()).unwrap();
    assert_eq!(body.read(&mut content).unwrap(), 7);
    let names: Vec<_> = store
        .list(&at(""), &ListOptions { order: firstbyte_store::EntryOrder::Bytes, ..ListOptions::default() })
        .unwrap()
        .map(|entry| entry.unwrap().name)
        .collect();
    assert_eq!(names, [b"a", b"b", b"c"]);
    assert_eq!(sessions(&server), 1);
}

#[test]
fn the_first_page_of_a_directory_bucket_is_all_that_follows_in_order() {
    let server = server(Duration::from_secs(300));
    let options = ListOptions { start_after: Some("a".into()), ..ListOptions::default() };
    let page = store(&server).list_page(&at(""), &options).unwrap();
    let names: Vec<_> = page.entries.into_iter().map(|entry| entry.name).collect();
    assert_eq!((names, page.is_last), (vec![b"b".to_vec(), b"c".to_vec()], true));
}

#[test]
fn a_session_is_renewed_before_its_end_and_after_a_refusal() {
    let short = server(Duration::from_secs(30));
    let store_of_short = store(&short);
    (0..2).for_each(|_| drop(store_of_short.get(&at("k"), &Get::default()).unwrap()));
    assert_eq!(sessions(&short), 2);
    let refusing = server(Duration::from_secs(300));
    store(&refusing).get(&at("ends-early"), &Get::default()).unwrap();
    assert_eq!(sessions(&refusing), 2);
}
