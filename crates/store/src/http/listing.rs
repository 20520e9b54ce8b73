//! Lists a tree of an HTTP server: reads directory pages, and parses their links into entries.

use std::sync::Arc;

use firstbyte_location::{Entry, HttpUrl, Kind, Location};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::{Call, Http, place, protocol};
use crate::walk::{Tree, Walk};
use crate::wire::Method;
use crate::{Cancel, Error, ListOptions, Result, answer};

/// Longest page accepted. `serve` writes about 100 bytes per entry, so this is a directory of a
/// million entries.
const LONGEST_PAGE: usize = 128 << 20;

/// The directory pages below a URL.
struct Pages {
    http: Arc<Http>,
    root: HttpUrl,
}

impl Pages {
    /// The URL of a directory's page.
    fn url(&self, directory: &[u8]) -> HttpUrl {
        let Location::Http(mut url) = Location::Http(self.root.clone()).join(directory) else {
            return self.root.clone();
        };
        if !url.target.ends_with('/') {
            url.target.push('/');
        }
        url
    }
}

impl Tree for Pages {
    const AHEAD: usize = 0;
    const HAS_DIRECTORIES: bool = false;

    fn read(&self, directory: &[u8]) -> Result<Vec<Entry>> {
        self.http.page(&self.url(directory))
    }

    fn may_skip(&self, _error: &Error) -> bool {
        false
    }

    fn place(&self, directory: &[u8]) -> String {
        place(&self.url(directory))
    }
}

pub(super) fn list(
    http: Arc<Http>,
    url: &HttpUrl,
    options: &ListOptions,
) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
    Ok(Box::new(Walk::begin(Arc::new(Pages { http, root: url.clone() }), options)?))
}

/// A line of a listing by `serve`.
#[derive(Deserialize)]
struct Line {
    name: String,
    /// The name's bytes in hex, if they are not UTF-8.
    name_hex: Option<String>,
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
        let call = Call { headers, ..Call::new(Method::Get, &cancel) };
        let place = place(url);
        let (head, body) = self.retrying(&call, || {
            let (head, incoming) = self.send(url, &call)?.success(&place)?;
            Ok((head, incoming.collect(LONGEST_PAGE)?))
        })?;
        let kind = head.get("content-type").unwrap_or_default();
        if kind.starts_with("application/x-ndjson") {
            let lines = body.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            return lines
                .map(|line| {
                    serde_json::from_slice(line)
                        .map(entry)
                        .map_err(|error| protocol(&place, format!("a listing line: {error}")))
                })
                .collect();
        }
        if kind.starts_with("text/html") {
            return Ok(links(&String::from_utf8_lossy(&body), url));
        }
        Err(protocol(&place, "no directory listing in the response".to_owned()))
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
    let name =
        line.name_hex.and_then(|bytes| hex::decode(bytes).ok()).unwrap_or_else(|| name.as_bytes().to_vec());
    // The listing has it without the quotes of the header.
    let etag = line.etag.map(|etag| if etag.ends_with('"') { etag } else { format!("\"{etag}\"") });
    Entry { name, kind, size: line.size, modified, etag, storage_class: None, version: None }
}

/// The links of a directory page (nginx, Apache, Python) that lead one level down. Sizes are
/// omitted: their format differs between servers.
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
        if name.is_empty()
            || name.contains('/')
            || name.contains(':') && !path.starts_with(base)
            || matches!(name, "." | "..")
        {
            continue;
        }
        let kind = if relative.ends_with('/') { Kind::Directory } else { Kind::File };
        let name: Vec<u8> = percent_decode_str(name).collect();
        if seen.insert(name.clone()) {
            entries.push(Entry::named(name, kind));
        }
    }
    entries
}
