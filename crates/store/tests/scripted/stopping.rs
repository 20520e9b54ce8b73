//! Tests that every call of a scoped store ends when the scope is cancelled, whatever the server
//! does.

use std::sync::mpsc;

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_store::{
    Cancel, Error, Get, ListOptions, Payload, PutOptions, Result, Signing, Store, StoreOptions, Upload,
};
use firstbyte_testkit::{Scripted, ScriptedReply, until, wait_limit};

type Call = fn(&Store, &Location) -> Result<()>;

/// One call of each kind.
const CALLS: [(&str, Call); 12] = [
    ("stat", |store, at| store.stat(at).map(drop)),
    ("get", |store, at| {
        let mut body = store.get(at, &Get::default())?;
        while body.read(&mut [0; 100])? > 0 {}
        Ok(())
    }),
    ("list", |store, at| store.list(at, &ListOptions::default())?.try_for_each(|entry| entry.map(drop))),
    ("put", |store, at| store.put(at, Payload::Bytes(b"x"), &PutOptions::default()).map(drop)),
    ("begin_upload", |store, at| store.begin_upload(at, &PutOptions::default()).map(drop)),
    ("put_part", |store, at| {
        store.put_part(&upload(at), 1, Payload::Bytes(b"x"), &Cancel::new().into()).map(drop)
    }),
    ("copy_part", |store, at| {
        store.copy_part(&upload(at), 1, at, &Version::default(), ByteRange::new(0, 1)).map(drop)
    }),
    ("list_parts", |store, at| store.list_parts(&upload(at)).map(drop)),
    ("complete_upload", |store, at| {
        store.complete_upload(&upload(at), &[], &PutOptions::default()).map(drop)
    }),
    ("stale_uploads", |store, at| store.stale_uploads(at).map(drop)),
    ("copy", |store, at| store.copy(at, &Version::default(), at, &PutOptions::default()).map(drop)),
    ("delete", |store, at| store.delete(at)),
];

fn upload(at: &Location) -> Upload {
    Upload { location: at.clone(), id: "id".into() }
}

/// Makes every call to a server that sends `reply`, and cancels each call while it runs. Returns
/// the result of each call.
fn cancelled(reply: fn() -> ScriptedReply) -> Vec<(&'static str, Result<()>)> {
    let server = Scripted::start(move |_, _| reply());
    let options = StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        signing: Signing::Anonymous,
        region: Some("us-east-1".into()),
        ..StoreOptions::default()
    };
    let store = Store::new(options).unwrap();
    let at = Location::parse("s3://bucket/key".as_ref()).unwrap();
    let cancel = Cancel::new();
    let scoped = store.scoped(&cancel);
    let (send, receive) = mpsc::channel();
    for (name, call) in CALLS {
        let (scoped, at, send) = (scoped.clone(), at.clone(), send.clone());
        std::thread::spawn(move || send.send((name, call(&scoped, &at))));
    }
    drop(send);
    until("every call has asked", || server.count() >= CALLS.len());
    cancel.cancel();
    let outcome = || receive.recv_timeout(wait_limit()).expect("every call ends");
    let outcomes = CALLS.map(|_| outcome()).into();
    assert!(matches!(scoped.stat(&at), Err(Error::Cancelled)), "and every later one");
    outcomes
}

#[test]
fn calls_that_wait_for_a_response_end_with_their_scope() {
    for (name, outcome) in cancelled(|| ScriptedReply::Silence) {
        assert!(matches!(outcome, Err(Error::Cancelled)), "{name}: {outcome:?}");
    }
}

#[test]
fn calls_that_wait_for_a_retry_end_with_their_scope() {
    for (name, outcome) in cancelled(|| ScriptedReply::answer("503 Slow Down", &["retry-after: 60"], b"")) {
        // The store does not retry reads, so they fail.
        let refused = matches!(outcome, Err(Error::SlowDown { .. })) && name == "get";
        assert!(refused || matches!(outcome, Err(Error::Cancelled)), "{name}: {outcome:?}");
    }
}

#[test]
fn cancelling_a_scoped_store_does_not_affect_the_original() {
    let page = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    let server = Scripted::start(move |_, _| ScriptedReply::answer("200 OK", &[], page));
    let options = StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        signing: Signing::Anonymous,
        ..StoreOptions::default()
    };
    let store = Store::new(options).unwrap();
    let bucket = Location::parse("s3://bucket/".as_ref()).unwrap();
    let cancel = Cancel::new();
    assert!(store.scoped(&cancel).list(&bucket, &ListOptions::default()).is_ok());
    cancel.cancel();
    assert!(store.list(&bucket, &ListOptions::default()).is_ok());
}
