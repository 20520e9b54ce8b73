//! Provides an S3 service that can hold any key. Real services store keys as files, or refuse keys
//! that a mount must handle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use firstbyte_location::{Location, ObjectLocation, Service};
use firstbyte_store::{Store, StoreOptions};
use firstbyte_testkit::{Scripted, ScriptedReply, set_credentials};

/// A scripted S3 service. The content of each object is its key.
pub struct Keys {
    _server: Scripted,
    pub store: Store,
    pub base: Location,
}

impl Keys {
    pub fn start(keys: &[&str]) -> Self {
        set_credentials();
        let keys: BTreeMap<String, Vec<u8>> =
            keys.iter().map(|key| ((*key).to_owned(), key.as_bytes().to_vec())).collect();
        let server = Scripted::start(move |_, head| answer(&keys, head));
        let options = StoreOptions {
            endpoint_url: Some(server.url().to_owned()),
            retries: 0,
            ..StoreOptions::default()
        };
        let base = Location::Object(ObjectLocation {
            service: Service::S3,
            bucket: "bucket".into(),
            key: String::new(),
        });
        Self { store: Store::new(options).unwrap(), _server: server, base }
    }
}

fn answer(keys: &BTreeMap<String, Vec<u8>>, head: &str) -> ScriptedReply {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = decoded(path.trim_start_matches("/bucket").trim_start_matches('/'));
    let value = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.map(decoded)
    };
    if value("list-type").is_some() {
        let prefix = value("prefix").unwrap_or_default();
        return ScriptedReply::answer(
            "200 OK",
            &["content-type: application/xml"],
            listing(keys, &prefix, value("delimiter").is_some(), value("encoding-type").is_some()).as_bytes(),
        );
    }
    let Some(content) = keys.get(&key) else {
        return ScriptedReply::answer(
            "404 Not Found",
            &[],
            if method == "HEAD" { b"" } else { b"<Error><Code>NoSuchKey</Code></Error>" },
        );
    };
    let tag = format!("etag: \"{key}\"").replace('\n', "n");
    let length = format!("content-length: {}", content.len());
    if method == "HEAD" {
        return ScriptedReply::raw("200 OK", &[&tag, &length, "accept-ranges: bytes"], b"");
    }
    if !head.to_lowercase().contains("\nrange:") {
        return ScriptedReply::answer("200 OK", &[&tag], content);
    }
    let range = format!("content-range: bytes 0-{}/{}", content.len().saturating_sub(1), content.len());
    ScriptedReply::answer("206 Partial Content", &[&tag, &range], content)
}

fn listing(keys: &BTreeMap<String, Vec<u8>>, prefix: &str, grouped: bool, url: bool) -> String {
    let shown = |key: &str| match url {
        true => encoded(key),
        false => key.replace('&', "&amp;").replace('<', "&lt;"),
    };
    let (mut contents, mut prefixes) = (String::new(), BTreeSet::new());
    for (key, content) in keys.iter().filter(|(key, _)| key.starts_with(prefix)) {
        match key[prefix.len()..].find('/').filter(|_| grouped) {
            Some(slash) => {
                prefixes.insert(&key[..=prefix.len() + slash]);
            }
            None => write!(
                contents,
                "<Contents><Key>{0}</Key><Size>{1}</Size><ETag>\"{key}\"</ETag><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>",
                shown(key),
                content.len()
            )
            .unwrap(),
        }
    }
    let prefixes: String = prefixes
        .iter()
        .map(|prefix| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", shown(prefix)))
        .collect();
    let encoding = if url { "<EncodingType>url</EncodingType>" } else { "" };
    format!(
        "<ListBucketResult>{encoding}<IsTruncated>false</IsTruncated>{contents}{prefixes}</ListBucketResult>"
    )
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&behind[..2]).unwrap(), 16).unwrap());
            rest = &behind[2..];
        } else {
            bytes.push(byte);
            rest = behind;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'/' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
        out
    })
}
