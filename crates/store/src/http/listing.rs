//! What a server shows of a directory, as entries.

use std::collections::VecDeque;
use std::sync::Arc;

use firstbyte_location::{Entry, HttpUrl, Kind};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::{Call, Http, place, protocol};
use crate::wire::Method;
use crate::{Cancel, ListOptions, Payload, Result, answer};

/// Longest page taken. A line of ours has about 100 bytes: this is a directory of a million entries.
const LONGEST_PAGE: usize = 128 << 20;

/// Directories still to be read, and the entries of the one read last.
struct Walk {
    http: Arc<Http>,
    root: HttpUrl,
    options: ListOptions,
    entries: VecDeque<Entry>,
    /// Names of directories, `/` at their end.
    pending: Vec<Vec<u8>>,
}

pub(super) fn list(http: Arc<Http>, url: &HttpUrl, options: &ListOptions) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
    let mut walk =
        Walk { http, root: url.clone(), options: options.clone(), entries: VecDeque::new(), pending: Vec::new() };
    walk.read(&[])?;
    Ok(Box::new(walk))
}

impl Walk {
    fn read(&mut self, directory: &[u8]) -> Result<()> {
        use firstbyte_location::Location;
        let root = Location::Http(self.root.clone());
        let mut url = match root.join(directory) {
            Location::Http(url) => url,
            _ => self.root.clone(),
        };
        if !url.target.ends_with('/') {
            url.target.push('/');
        }
        let entries = self.http.page(&url)?;
        for mut entry in entries {
            let mut name = directory.to_vec();
            name.append(&mut entry.name);
            entry.name = name;
            if entry.kind == Kind::Directory && self.options.recursive {
                let mut below = entry.name;
                below.push(b'/');
                self.pending.push(below);
            } else if self.options.start_after.as_deref().is_none_or(|after| entry.name.as_slice() > after.as_bytes()) {
                self.entries.push_back(entry);
            }
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.entries.is_empty() {
            let directory = self.pending.pop()?;
            if let Err(error) = self.read(&directory) {
                self.pending.clear();
                return Some(Err(error));
            }
        }
        self.entries.pop_front().map(Ok)
    }
}

/// A line of our own `serve`'s listing.
#[derive(Deserialize)]
struct Line {
    name: String,
    kind: LineKind,
    size: Option<u64>,
    modified: Option<Time>,
    etag: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum LineKind {
    File,
    Directory,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Text(String),
    Seconds(f64),
}

impl Http {
    fn page(&self, url: &HttpUrl) -> Result<Vec<Entry>> {
        let cancel = Cancel::new();
        let headers = vec![("accept".to_owned(), "application/x-ndjson, text/html;q=0.5".to_owned())];
        let call = Call { method: Method::Get, headers, payload: Payload::Bytes(b""), cancel: &cancel };
        let place = place(url);
        let (head, body) = self.retrying(&call, || {
            let (head, incoming) = self.send(url, &call)?.success(&place)?;
            Ok((head, incoming.collect(LONGEST_PAGE)?))
        })?;
        let kind = head.get("content-type").unwrap_or_default();
        if kind.starts_with("application/x-ndjson") {
            let lines = body.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            return lines.map(|line| serde_json::from_slice(line).map(entry).map_err(|error| protocol(&place, format!("a listing line: {error}")))).collect();
        }
        if kind.starts_with("text/html") {
            return Ok(links(&String::from_utf8_lossy(&body), url));
        }
        Err(protocol(&place, "no directory listing in the answer".to_owned()))
    }
}

fn entry(line: Line) -> Entry {
    let modified = match line.modified {
        Some(Time::Text(text)) => answer::rfc3339(&text),
        Some(Time::Seconds(seconds)) => answer::parse_unix(&format!("{seconds:.9}")),
        None => None,
    };
    let kind = match line.kind {
        LineKind::File => Kind::File,
        LineKind::Directory => Kind::Directory,
        LineKind::Other => Kind::Other,
    };
    let name = line.name.strip_suffix('/').filter(|_| kind == Kind::Directory).unwrap_or(&line.name);
    Entry { name: name.as_bytes().to_vec(), kind, size: line.size, modified, etag: line.etag, storage_class: None }
}

/// The links of a directory page (nginx, Apache, Python's) that lead one level down. Sizes stand in prose there, in as
/// many forms as there are servers: they are left open.
fn links(page: &str, url: &HttpUrl) -> Vec<Entry> {
    let base = url.target.split('?').next().unwrap_or("/");
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for piece in page.split("href=").skip(1) {
        let Some(quote) = piece.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        let Some(link) = piece[1..].split(quote).next() else { continue };
        let link = link.replace("&amp;", "&").replace("&#39;", "'").replace("&quot;", "\"");
        let link = link.strip_prefix("./").unwrap_or(&link);
        let path = link.split(['?', '#']).next().unwrap_or_default();
        let relative = path.strip_prefix(base).unwrap_or(path);
        let name = relative.strip_suffix('/').unwrap_or(relative);
        if name.is_empty() || name.contains('/') || name.contains(':') && !path.starts_with(base) || matches!(name, "." | "..") {
            continue;
        }
        let kind = if relative.ends_with('/') { Kind::Directory } else { Kind::File };
        let name: Vec<u8> = percent_decode_str(name).collect();
        if seen.insert(name.clone()) {
            entries.push(Entry { name, kind, size: None, modified: None, etag: None, storage_class: None });
        }
    }
    entries
}
