//! Lists the names of a manifest instead of the origin's, without requests to the origin.
//!
//! The objects are sorted once, when the gateway starts, in bounded memory. A record holds the path
//! that rights are checked against, a NUL byte, and the attributes. No path contains NUL, so
//! records sort in the order of their paths. The gateway calls this module; the gateway's callers
//! filter the names by rights.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_location::{Entry, EntryKind};
use firstbyte_store::{Error as StoreError, ListOptions, ListedPage, Listing, Result as StoreResult};

use super::origin::GatewayOrigin;
use crate::config::NameSource;
use crate::error::{Error, Result};
use crate::object::sorted::SortedNames;

/// Bytes of memory for sorting.
const SORT_MEMORY_BYTES: usize = 4 << 20;

/// Maximum number of entries in a page, as in S3.
const MAX_PAGE_ENTRIES: usize = 1000;

/// The served objects of a manifest.
pub(super) struct ManifestNames {
    sorted: SortedNames,
}

impl ManifestNames {
    /// Reads and sorts a manifest. Objects that are not served are skipped.
    ///
    /// # Errors
    /// The manifest cannot be read or sorted, or has no served object.
    pub(super) fn sorted(source: &NameSource, origin: &GatewayOrigin) -> Result<Self> {
        let failed = |error: io::Error| Error::Names(error.to_string());
        let objects = source().map_err(failed)?;
        let records = objects.filter_map(|object| match object {
            Ok((location, entry)) => origin.path_of(&location).map(|path| Ok(record(&path, &entry))),
            Err(error) => Some(Err(error)),
        });
        let sorted = SortedNames::collect(records, SORT_MEMORY_BYTES).map_err(failed)?;
        if sorted.is_empty() {
            return Err(Error::Names(format!(
                "the manifest has no object of {}; plan that location",
                origin.location()
            )));
        }
        Ok(Self { sorted })
    }

    /// Reads one page of the entries below `base`, which is empty or ends in `/`.
    ///
    /// # Errors
    /// The sorted names cannot be read.
    pub(super) fn page(&self, base: &str, options: &ListOptions) -> StoreResult<ListedPage> {
        self.read_page(base, options)
            .map_err(|source| StoreError::Io { location: "the names of --names".to_owned(), source })
    }

    /// Lists all entries below `base`, reading page by page.
    pub(super) fn listing(self: &Arc<Self>, base: String, options: ListOptions) -> Listing {
        let (names, mut next) = (Arc::clone(self), Some(options));
        let pages = std::iter::from_fn(move || {
            let options = next.take()?;
            let page = names.page(&base, &options);
            if let Ok(ListedPage { entries, is_last: false }) = &page {
                next = entries.last().map(|last| ListOptions { start_after: Some(name_of(last)), ..options });
            }
            Some(page)
        });
        Listing::of(pages.flat_map(|page| match page {
            Ok(page) => page.entries.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }))
    }

    fn read_page(&self, base: &str, options: &ListOptions) -> io::Result<ListedPage> {
        let prefix = format!("{base}{}", options.beginning);
        let after = options.start_after.as_ref().map(|after| format!("{base}{after}"));
        let mut records = self.sorted.skip_while(|record| {
            let path = path(record);
            path < prefix.as_bytes() || after.as_ref().is_some_and(|after| path <= after.as_bytes())
        })?;
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(record) = records.next_name()? {
            if !path(record).starts_with(prefix.as_bytes()) {
                break;
            }
            if entries.len() == MAX_PAGE_ENTRIES {
                return Ok(ListedPage { entries, is_last: false });
            }
            let below = &path(record)[base.len()..];
            match below.iter().position(|byte| *byte == b'/').filter(|_| !options.recursive) {
                Some(slash) => {
                    let level = path(record)[..=base.len() + slash].to_vec();
                    entries.push(Entry::named(below[..slash].to_vec(), EntryKind::Directory));
                    let is_passed =
                        |record: &[u8]| path(record) < &level[..] || path(record).starts_with(&level);
                    records = self.sorted.skip_while(is_passed)?;
                }
                // The sources of a manifest may overlap, so an object can occur twice.
                None if entries
                    .last()
                    .is_some_and(|last| last.kind == EntryKind::File && last.name == below) => {}
                None => entries.push(entry(below, record)?),
            }
        }
        Ok(ListedPage { entries, is_last: true })
    }
}

/// Returns the name to start after, so that a listing continues behind `entry`.
fn name_of(entry: &Entry) -> String {
    let name = String::from_utf8_lossy(&entry.name);
    match entry.kind {
        EntryKind::Directory => format!("{name}/{}", char::MAX),
        _ => name.into_owned(),
    }
}

fn record(path: &str, entry: &Entry) -> Vec<u8> {
    let modified = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let modified = modified.map(|since| since.as_micros().to_string()).unwrap_or_default();
    let etag = entry.etag.as_deref().unwrap_or_default();
    let size = entry.size.map(|size| size.to_string()).unwrap_or_default();
    format!("{path}\0{size}\0{modified}\0{etag}").into_bytes()
}

fn path(record: &[u8]) -> &[u8] {
    record.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn entry(name: &[u8], record: &[u8]) -> io::Result<Entry> {
    let text = std::str::from_utf8(record).map_err(io::Error::other)?;
    let mut fields = text.splitn(4, '\0').skip(1);
    let mut field = || fields.next().unwrap_or_default();
    let (size, modified, etag) = (field(), field(), field());
    let modified = modified.parse().ok().map(Duration::from_micros);
    Ok(Entry {
        size: size.parse().ok(),
        modified: modified.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)),
        etag: Some(etag.to_owned()).filter(|etag| !etag.is_empty()),
        ..Entry::named(name.to_vec(), EntryKind::File)
    })
}
