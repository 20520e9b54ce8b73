//! Lists the tree below a URL of an HTTP server. Reads directory pages: either NDJSON lines from
//! `serve`, or HTML.
//!
//! A link without a final slash may lead to a file or to a directory; for a directory, the server
//! redirects to the name with a slash. So each such link gets a HEAD request, as in rclone, which
//! also gives the length and the time. A page without entries that is not recognised as a directory
//! page is an error, because the names below it are unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstbyte_location::{Entry, EntryKind, HttpUrl, Location, etag};
use rustix_futex_sync::Mutex;
use serde::Deserialize;

use super::page::LinkPage;
use super::{Call, Http, place, protocol};
use crate::cancel::Cancel;
use crate::error::{Error, LISTS_NOTHING, Result};
use crate::limits::STACK;
use crate::query::ListOptions;
use crate::walk::{DirectoryTree, StoreWalk, WalkedNames};
use crate::wire::HttpMethod;
use crate::{answer, dates};

/// Maximum length of a page, in bytes. `serve` writes about 100 bytes per entry, so the page of a
/// directory with a million entries is accepted.
const MAX_PAGE_BYTES: usize = 128 << 20;

/// Number of concurrent HEAD requests for the links of a page.
const CONCURRENT_HEADS: usize = 16;

/// The tree of directory pages below a URL.
struct Pages {
    http: Arc<Http>,
    root: HttpUrl,
    recursive: bool,
}

impl Pages {
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

impl Pages {
    /// Sends a HEAD request for each link without a final slash, to find out which of them lead to
    /// directories.
    fn complete_entries(&self, directory: &HttpUrl, mut entries: Vec<Entry>) -> Result<Vec<Entry>> {
        let files: Vec<_> =
            entries.iter_mut().filter(|entry| entry.kind == EntryKind::File).map(Mutex::new).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut entry = file.lock();
                if let Err(error) = self.http.complete_entry(directory, &mut entry) {
                    failed.lock().get_or_insert(error);
                    next.store(files.len(), Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok();
            // This thread works too: a listing succeeds even if no other thread can start.
            let others: Vec<_> = (1..CONCURRENT_HEADS.min(files.len())).filter_map(start).collect();
            work();
            drop(others);
        });
        drop(files);
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(entries),
        }
    }
}

impl DirectoryTree for Pages {
    const AHEAD: usize = 0;
    const HAS_DIRECTORIES: bool = false;

    fn read(&self, directory: &[u8]) -> Result<WalkedNames> {
        let url = self.url(directory);
        match self.http.page(&url)? {
            DirectoryPage::Lines(entries) => Ok(entries.into()),
            // In a recursive listing, an empty root page is an error, because a copy would
            // otherwise silently copy nothing.
            DirectoryPage::Html(page)
                if page.lists_no_names() && (directory.is_empty() && self.recursive) =>
            {
                Err(protocol(&place(&url), LISTS_NOTHING.to_owned()))
            }
            DirectoryPage::Html(page) if page.lists_no_names() && !page.is_directory => {
                Err(protocol(&place(&url), LISTS_NOTHING.to_owned()))
            }
            DirectoryPage::Html(page) => self.complete_entries(&url, page.entries).map(WalkedNames::from),
        }
    }

    fn may_skip(&self, error: &Error) -> bool {
        matches!(error, Error::Protocol { detail, .. } if detail == LISTS_NOTHING)
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
    Ok(Box::new(StoreWalk::begin(
        Arc::new(Pages { http, root: url.clone(), recursive: options.recursive }),
        options,
    )?))
}

/// A line of a listing from `serve`.
#[derive(Deserialize)]
struct ListingLine {
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

/// The content of a directory page, in one of two formats.
enum DirectoryPage {
    Lines(Vec<Entry>),
    Html(LinkPage),
}

impl Http {
    /// Completes the entry of a link by a HEAD request. If the server refuses the request, the
    /// entry remains a file, and a copy of it will report the reason.
    fn complete_entry(&self, directory: &HttpUrl, entry: &mut Entry) -> Result<()> {
        let Location::Http(url) = Location::Http(directory.clone()).join(&entry.name) else { return Ok(()) };
        match self.stat(&url) {
            Ok(stat) if stat.kind == EntryKind::Directory => entry.kind = EntryKind::Directory,
            Ok(stat) => (entry.size, entry.modified) = (stat.size(), stat.modified),
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) if error.is_transient() || error.concerns_store() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn page(&self, url: &HttpUrl) -> Result<DirectoryPage> {
        let cancel = Cancel::new();
        let headers = vec![("accept".to_owned(), "application/x-ndjson, text/html;q=0.5".to_owned())];
        let call = Call { headers, ..Call::new(HttpMethod::Get, &cancel) };
        let place = place(url);
        let (head, (body, at)) = self.retrying(&call, || {
            let reply = self.send(url, &call)?;
            let at = reply.at.clone();
            let (head, incoming) = reply.success(&place)?;
            let is_open_ended = incoming.is_open_ended();
            let body = incoming.collect(MAX_PAGE_BYTES)?;
            // If the connection is lost, a page without a length looks complete. With `--delete`,
            // the files whose names are missing would be deleted.
            if is_open_ended && !ends_as_html(&body) {
                return Err(Error::Disconnected {
                    location: place.clone(),
                    detail: "the page states no length and ends without </html>".to_owned(),
                    trace: None,
                });
            }
            Ok((head, (body, at)))
        })?;
        let kind = head.get("content-type").unwrap_or_default();
        if kind.starts_with("application/x-ndjson") {
            let lines = body.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            let parsed = lines.map(|line| {
                serde_json::from_slice(line)
                    .map(entry)
                    .map_err(|error| protocol(&place, format!("a listing line: {error}")))
            });
            return parsed.collect::<Result<_>>().map(DirectoryPage::Lines);
        }
        if kind.to_ascii_lowercase().starts_with("text/html") {
            return Ok(DirectoryPage::Html(LinkPage::parse(&String::from_utf8_lossy(&body), &at)));
        }
        Err(protocol(&place, "no directory listing in the response".to_owned()))
    }
}

/// Returns true if a page has its end tag. The server may add comments after it.
fn ends_as_html(body: &[u8]) -> bool {
    let end = b"</html";
    body.windows(end.len()).any(|window| window.eq_ignore_ascii_case(end))
}

fn entry(line: ListingLine) -> Entry {
    let modified = match line.modified {
        Some(Time::Text(text)) => dates::rfc3339(&text),
        Some(Time::Seconds(seconds)) => answer::parse_unix(&format!("{seconds:.9}")),
        None => None,
    };
    let kind = match line.kind {
        LineKind::File => EntryKind::File,
        LineKind::Directory => EntryKind::Directory,
        LineKind::Other => EntryKind::Other,
    };
    let name = line.name.strip_suffix('/').filter(|_| kind == EntryKind::Directory).unwrap_or(&line.name);
    let name =
        line.name_hex.and_then(|bytes| hex::decode(bytes).ok()).unwrap_or_else(|| name.as_bytes().to_vec());
    let etag = line.etag.as_deref().and_then(etag::quoted);
    Entry { size: line.size, modified, etag, ..Entry::named(name, kind) }
}
