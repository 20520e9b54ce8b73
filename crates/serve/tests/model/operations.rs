//! Implements a client of the model. It performs random operations on few keys, and records each
//! before its request and after its response.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use firstbyte_location::{Algorithm, Hasher};
use serde_json::{Value, json};

use crate::client::{Answer, Client, S3, elements};
use crate::content::{content, writes};
use crate::model::{Action, Bound, Event, Outcome};
use crate::server::Server;

pub(crate) const KEYS: [&str; 5] = ["a", "b", "d/x", "d/e/y", "d/e/z"];

/// A multipart upload to which several clients send parts. The client that began it completes it.
struct Board {
    key: &'static str,
    id: String,
    /// Writes and tags of every acknowledged part.
    acknowledged: Mutex<BTreeMap<u32, Vec<(u64, String)>>>,
    /// Number of writes that were begun, by part.
    begun: Mutex<BTreeMap<u32, usize>>,
}

/// State that all clients share.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) left: AtomicI64,
    numbers: AtomicU64,
    pub(crate) history: Mutex<BTreeMap<&'static str, Vec<Event>>>,
    /// Version that results from each sequence of part writes.
    made: Mutex<HashMap<Vec<u64>, u64>>,
    tags: Mutex<HashMap<String, u64>>,
    latest: Mutex<HashMap<&'static str, (String, u64)>>,
    boards: Mutex<Vec<Arc<Board>>>,
}

impl Shared {
    pub(crate) fn new(server: Server, operations: i64) -> Self {
        let history = Mutex::new(KEYS.iter().map(|key| (*key, Vec::new())).collect());
        let (left, numbers) = (AtomicI64::new(operations), AtomicU64::new(1));
        let (made, tags, latest) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { server, left, numbers, history, made, tags, latest, boards: Mutex::default() }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, SeqCst)
    }

    /// Records a tag. Within a key, a tag must always identify the same version.
    fn note(&self, key: &'static str, tag: String, version: u64) {
        let other = self.tags.lock().unwrap().insert(format!("{key} {tag}"), version);
        assert!(
            other.is_none_or(|other| other == version),
            "{other:?} and {version} of {key} are both {tag}"
        );
        self.latest.lock().unwrap().insert(key, (tag, version));
    }
}

pub(crate) struct RandomClient<'a> {
    shared: &'a Shared,
    client: Client<'a>,
    seen_start: u64,
    random: u64,
}

/// Guard that stops all clients if one panics.
struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.left.store(0, SeqCst);
        }
    }
}

/// Error: the server was killed, so the operation has no response.
struct Killed;

type RequestResult = Result<Answer, Killed>;

impl<'a> RandomClient<'a> {
    pub(crate) fn new(shared: &'a Shared, seed: u64) -> Self {
        let client = Client::new(&shared.server);
        Self { shared, client, seen_start: 0, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % bound
    }

    pub(crate) fn work(&mut self) {
        let _guard = StopOnPanic(self.shared);
        while self.shared.left.fetch_sub(1, SeqCst) > 0 {
            let key = KEYS[self.below(KEYS.len() as u64) as usize];
            match self.below(20) {
                0..6 => self.put(key),
                6..11 => self.read(key),
                11..14 => self.remove(key),
                14..16 => self.page(key),
                16 | 17 => self.disturb(),
                _ => self.upload(key),
            }
        }
    }

    fn ask(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> RequestResult {
        let start = self.shared.server.starts();
        if start != self.seen_start {
            (self.client, self.seen_start) = (Client::new(&self.shared.server), start);
        }
        self.client.ask(method, target, headers, body).map_err(|_| {
            self.shared.server.wait_for_start_after(start);
            Killed
        })
    }

    /// Records an operation before and after `ask` sends its request.
    fn record<T>(
        &mut self,
        key: &'static str,
        action: Action,
        ask: impl FnOnce(&mut Self) -> RequestResult,
        judge: impl FnOnce(&Answer) -> (Outcome, T),
        cut: T,
    ) -> T {
        let operation = self.shared.number();
        self.event(key, Event::Begin { operation, action });
        let (outcome, result) = match ask(self) {
            Ok(answer) => judge(&answer),
            Err(Killed) => (Outcome::Cut, cut),
        };
        self.event(key, Event::End { operation, outcome });
        result
    }

    fn event(&self, key: &'static str, event: Event) {
        self.shared.history.lock().unwrap().get_mut(key).unwrap().push(event);
    }

    fn bound(&mut self, key: &'static str) -> (Bound, String) {
        let latest = self.shared.latest.lock().unwrap().get(key).cloned();
        match (self.below(4), latest) {
            (0, _) => (Bound::Absent, "If-None-Match: *\r\n".to_owned()),
            (1 | 2, Some((tag, version))) => (Bound::Version(version), format!("If-Match: \"{tag}\"\r\n")),
            _ => (Bound::None, String::new()),
        }
    }

    fn put(&mut self, key: &'static str) {
        let id = self.shared.number();
        let bytes = content(id, self.below(200) as u32 + 1);
        self.shared.made.lock().unwrap().insert(vec![id], id);
        let (bound, condition) = self.bound(key);
        let plain = self.below(3) == 0;
        let headers = if plain { condition } else { format!("{S3}{condition}") };
        let shared = self.shared;
        let judge = |answer: &Answer| match answer.status {
            200 | 201 | 204 => {
                shared.note(key, answer.etag(), id);
                (Outcome::Done, ())
            }
            404 => (Outcome::Missing, ()),
            // Plain HTTP answers a missing version with the same status.
            412 if plain && matches!(bound, Bound::Version(_)) => (Outcome::Failed, ()),
            412 => (Outcome::Different, ()),
            status => panic!("PUT {key}: {status} {}", answer.text()),
        };
        let ask = |worker: &mut Self| worker.ask("PUT", &format!("/bucket/{key}"), &headers, &bytes);
        self.record(key, Action::Write { id, bound: bound.clone() }, ask, judge, ());
    }

    pub(crate) fn read(&mut self, key: &'static str) {
        let shared = self.shared;
        let judge = |answer: &Answer| match answer.status {
            404 => (Outcome::Seen(None), ()),
            200 => {
                let found = writes(&answer.body).unwrap_or_else(|mixture| panic!("{key}: {mixture}"));
                let version = shared.made.lock().unwrap().get(&found).copied();
                let version = version.unwrap_or_else(|| panic!("{key} holds {found:?}, which no write made"));
                shared.note(key, answer.etag(), version);
                (Outcome::Seen(Some(version)), ())
            }
            status => panic!("GET {key}: {status} {}", answer.text()),
        };
        let headers = if self.below(2) == 0 { S3 } else { "" };
        let ask = |worker: &mut Self| worker.ask("GET", &format!("/bucket/{key}"), headers, b"");
        self.record(key, Action::Read, ask, judge, ());
    }

    fn remove(&mut self, key: &'static str) {
        let (bound, condition) = match self.bound(key) {
            (Bound::Absent, _) => (Bound::None, String::new()),
            bound => bound,
        };
        let judge = |answer: &Answer| match answer.status {
            204 => (Outcome::Done, ()),
            404 => (Outcome::Missing, ()),
            412 => (Outcome::Different, ()),
            status => panic!("DELETE {key}: {status} {}", answer.text()),
        };
        let headers = format!("{S3}{condition}");
        let ask = |worker: &mut Self| worker.ask("DELETE", &format!("/bucket/{key}"), &headers, b"");
        self.record(key, Action::Remove { bound }, ask, judge, ());
    }

    /// Uploads a file by the page's protocol.
    fn page(&mut self, key: &'static str) {
        let id = self.shared.number();
        let bytes = content(id, self.below(200) as u32 + 1);
        self.shared.made.lock().unwrap().insert(vec![id], id);
        let (directory, name) = key.rsplit_once('/').unwrap_or(("", key));
        let query = format!("path=/bucket/{directory}");
        let page = "x-firstbyte-page: 1\r\n";
        let about = json!({ "name": name, "size": bytes.len(), "mtime": id }).to_string();
        let Ok(begun) = self.ask("POST", &format!("/.firstbyte/uploads?{query}"), page, about.as_bytes())
        else {
            return;
        };
        assert_eq!(begun.status, 200, "{}", begun.text());
        let begun: Value = serde_json::from_slice(&begun.body).unwrap();
        let upload = begun["id"].as_str().unwrap();
        let crc = Hasher::of(Algorithm::Crc32c, &bytes).to_hex();
        let headers = format!("{page}x-firstbyte-crc32c: {crc}\r\n");
        let Ok(sent) = self.ask("PUT", &format!("/.firstbyte/uploads/{upload}/0?{query}"), &headers, &bytes)
        else {
            return;
        };
        assert_eq!(sent.status, 201, "{}", sent.text());
        let (existing, bound) =
            if self.below(2) == 0 { ("replace", Bound::None) } else { ("refuse", Bound::Absent) };
        let body = json!({ "existing": existing }).to_string();
        let target = format!("/.firstbyte/uploads/{upload}/complete?{query}");
        let judge = |answer: &Answer| match answer.status {
            200 => (Outcome::Done, ()),
            409 => (Outcome::Different, ()),
            status => panic!("{target}: {status} {}", answer.text()),
        };
        let ask = |worker: &mut Self| worker.ask("POST", &target, page, body.as_bytes());
        self.record(key, Action::Write { id, bound }, ask, judge, ());
    }

    /// Sends a part to an upload of another client.
    fn disturb(&mut self) {
        let boards = self.shared.boards.lock().unwrap().clone();
        if !boards.is_empty() {
            let board = boards[self.below(boards.len() as u64) as usize].clone();
            let number = self.below(4) as u32 + 1;
            self.part(&board, number);
        }
    }

    fn part(&mut self, board: &Board, number: u32) {
        let id = self.shared.number();
        // Most parts have the same length, so that they have a slot in the staged file.
        let cells = if self.below(3) == 0 { self.below(300) as u32 + 1 } else { 256 };
        *board.begun.lock().unwrap().entry(number).or_default() += 1;
        let target = format!("/bucket/{}?uploadId={}&partNumber={number}", board.key, board.id);
        let Ok(answer) = self.ask("PUT", &target, S3, &content(id, cells)) else { return };
        match answer.status {
            200 => board.acknowledged.lock().unwrap().entry(number).or_default().push((id, answer.etag())),
            // The owner has completed or aborted the upload in the meantime.
            404 | 409 => {}
            status => panic!("{target}: {status} {}", answer.text()),
        }
    }

    /// Runs a multipart upload from start to end.
    fn upload(&mut self, key: &'static str) {
        let Ok(begun) = self.ask("POST", &format!("/bucket/{key}?uploads"), S3, b"") else { return };
        let id = begun.element("UploadId").unwrap_or_else(|| panic!("{}", begun.text()));
        let board = Arc::new(Board { key, id, acknowledged: Mutex::default(), begun: Mutex::default() });
        self.shared.boards.lock().unwrap().push(board.clone());
        for number in 1..=self.below(4) as u32 + 1 {
            self.part(&board, number);
        }
        let mut attempts = 0;
        while attempts < 8 && !self.complete(&board) {
            attempts += 1;
        }
        self.shared.boards.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &board));
        if attempts == 8 {
            let _ = self.ask("DELETE", &format!("/bucket/{key}?uploadId={}", board.id), S3, b"");
        }
    }

    /// Returns the parts that the server lists. `None` if the server was killed.
    fn list_parts(&mut self, board: &Board) -> Option<Vec<(u32, u64, String)>> {
        let before = board.acknowledged.lock().unwrap().clone();
        let answer =
            self.ask("GET", &format!("/bucket/{}?uploadId={}", board.key, board.id), S3, b"").ok()?;
        assert_eq!(answer.status, 200, "the upload is lost: {}", answer.text());
        let text = answer.text();
        let rows = text.split("<Part>").skip(1).map(|row| {
            let element = |name| elements(row, name).remove(0);
            (element("PartNumber").parse::<u32>().unwrap(), element("ETag"))
        });
        let rows: BTreeMap<u32, String> = rows.collect();
        for (number, acknowledged) in &before {
            let tag = rows.get(number).unwrap_or_else(|| panic!("part {number} is lost: {text}"));
            let alone = board.begun.lock().unwrap()[number] == 1;
            assert!(!alone || *tag == acknowledged[0].1, "part {number} is another");
        }
        let known = board.acknowledged.lock().unwrap();
        let write = |number: &u32, tag: &String| {
            known.get(number)?.iter().find(|(_, own)| own == tag).map(|(write, _)| *write)
        };
        Some(
            rows.iter()
                .filter_map(|(number, tag)| Some((*number, write(number, tag)?, tag.clone())))
                .collect(),
        )
    }

    /// Completes the upload. Returns true if it has ended.
    fn complete(&mut self, board: &Board) -> bool {
        let Some(mut parts) = self.list_parts(board) else { return false };
        if parts.len() > 1 && self.below(4) == 0 {
            parts.remove(self.below(parts.len() as u64) as usize);
        }
        if parts.is_empty() {
            return false;
        }
        let (key, id) = (board.key, self.shared.number());
        self.shared.made.lock().unwrap().insert(parts.iter().map(|part| part.1).collect(), id);
        let (bound, condition) = self.bound(key);
        let rows: String = parts
            .iter()
            .map(|(number, _, tag)| {
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
            })
            .collect();
        let body = format!("<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>");
        let target = format!("/bucket/{key}?uploadId={}", board.id);
        let headers = format!("{S3}{condition}");
        loop {
            let shared = self.shared;
            let judge = |answer: &Answer| {
                let code = answer.element("Code").unwrap_or_default();
                match (answer.status, code.as_str()) {
                    (200, _) => {
                        shared.note(key, answer.element("ETag").unwrap(), id);
                        (Outcome::Done, Some(true))
                    }
                    (412, _) => (Outcome::Different, Some(false)),
                    (404, "NoSuchKey") => (Outcome::Missing, Some(false)),
                    (404, "NoSuchUpload") => (Outcome::Unknown, Some(true)),
                    // Another client overwrote a part after this client listed it.
                    (400, "InvalidPart") => (Outcome::Refused, Some(false)),
                    (status, _) => panic!("{target}: {status} {}", answer.text()),
                }
            };
            let ask = |worker: &mut Self| worker.ask("POST", &target, &headers, body.as_bytes());
            let action = Action::Complete { id, bound: bound.clone() };
            // After a kill, the same request is repeated. It returns the result of the first
            // request, or publishes the object now.
            if let Some(ended) = self.record(key, action, ask, judge, None) {
                return ended;
            }
        }
    }
}
