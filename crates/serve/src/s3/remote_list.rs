//! Makes one page of a listing from the pages of a gateway's origin, in the origin's order.
//! Whatever the origin sends, a page has only keys that the request may see.

use firstbyte_listing::EntryOrder;
use firstbyte_location::{Entry, EntryKind};
use firstbyte_store::{ListOptions, Marker};

use crate::access::keys::RequestRights;
use crate::gateway::{Gateway, GatewayRefusal, Visible};
use crate::object::described::Described;
use crate::s3::page_builder::{KeyQuery, ListingPage, PageBuilder, PagePosition, Step};

/// Last character of Unicode. A prefix followed by this character sorts after every key with the
/// prefix.
const LAST_CHARACTER: char = char::MAX;

/// Makes one page of the keys of `bucket` that `access` may see.
///
/// # Errors
/// The origin does not answer.
pub(crate) async fn page(
    gateway: &Gateway,
    access: &RequestRights,
    bucket: &str,
    query: &KeyQuery,
) -> Result<ListingPage<Described>, GatewayRefusal> {
    let visible = gateway.visible(access, bucket);
    let mut made = RemotePage { query, visible, page: PageBuilder::new(query) };
    let Some(prefix) = made.requested_prefix().filter(|_| query.limit > 0) else { return Ok(made.page.page) };
    let cut = prefix.rfind('/').map_or(0, |slash| slash + 1);
    let (base, beginning) = prefix.split_at(cut);
    let mut after = query.after.clone();
    loop {
        let options = ListOptions {
            recursive: made.lists_all(&prefix),
            beginning: beginning.to_owned(),
            start_after: position(&after).and_then(|key| name_below(&key, base)),
            order: EntryOrder::Bytes,
            marker: Marker::Listed,
            ..ListOptions::default()
        };
        let listed = gateway.list_page(bucket, base, options).await;
        let listed = match listed {
            Err(GatewayRefusal::NotFound) => return Ok(made.page.page),
            listed => listed?,
        };
        let next = listed.entries.last().and_then(|entry| made.position(base, entry));
        for entry in listed.entries {
            if made.add(base, entry) == Step::Full {
                return Ok(made.page.page);
            }
        }
        match next {
            Some(next) if !listed.is_last && next != after => after = next,
            _ => return Ok(made.page.page),
        }
    }
}

/// A page in progress.
struct RemotePage<'a> {
    query: &'a KeyQuery,
    visible: Visible<'a>,
    page: PageBuilder<'a, Described>,
}

impl RemotePage<'_> {
    /// Returns the prefix to request from the origin: the request's prefix, or the common prefix of
    /// all visible keys if that is longer. `None`: no visible key has the request's prefix.
    fn requested_prefix(&self) -> Option<String> {
        let (root, prefix) = (self.visible.root()?, &self.query.prefix);
        if root.starts_with(prefix.as_str()) {
            return Some(root);
        }
        self.visible.reaches(prefix).then(|| prefix.clone())
    }

    /// True if the origin has to list all keys instead of one level.
    fn lists_all(&self, requested: &str) -> bool {
        self.query.delimiter.as_deref() != Some("/") || requested != self.query.prefix
    }

    /// Returns the key of an entry in a listing below `base`. The key of a directory ends in `/`.
    /// `None` if the name is not valid in a key.
    fn key(&self, base: &str, entry: &Entry) -> Option<String> {
        let name = std::str::from_utf8(&entry.name).ok()?;
        let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
        Some(format!("{base}{name}{slash}"))
    }

    /// Returns the position after an entry.
    fn position(&self, base: &str, entry: &Entry) -> Option<PagePosition> {
        let key = self.key(base, entry)?;
        Some(if entry.kind == EntryKind::Directory {
            PagePosition::Prefix(key)
        } else {
            PagePosition::Key(key)
        })
    }

    fn add(&mut self, base: &str, entry: Entry) -> Step {
        let Some(key) = self.key(base, &entry) else { return Step::Continue };
        let is_directory = entry.kind == EntryKind::Directory;
        let leads_on =
            is_directory && matches!(&self.query.after, PagePosition::Key(after) if after.starts_with(&key));
        let is_passed = self.query.after.is_after(&key) && !leads_on;
        if is_passed || key.is_empty() || !key.starts_with(&self.query.prefix) {
            return Step::Continue;
        }
        if let Some(prefix) = self.query.common_prefix(&key) {
            let shown = if is_directory { self.visible.reaches(&key) } else { self.visible.shows(&key) };
            return if shown { self.page.put_prefix(prefix) } else { Step::Continue };
        }
        // On some file systems, a recursive listing contains empty directories. They are skipped.
        if is_directory || !self.visible.shows(&key) {
            return Step::Continue;
        }
        let described = Described {
            size: entry.size,
            etag: entry.etag,
            modified: entry.modified,
            storage_class: entry.storage_class,
            ..Described::default()
        };
        self.page.put_object(key, described)
    }
}

/// Returns the key after which the origin's listing begins.
fn position(after: &PagePosition) -> Option<String> {
    match after {
        PagePosition::Start => None,
        PagePosition::Key(key) => Some(key.clone()),
        PagePosition::Prefix(prefix) => Some(format!("{prefix}{LAST_CHARACTER}")),
    }
}

/// Converts a key to a name below `base`. `None` if all names below `base` are after the key.
fn name_below(key: &str, base: &str) -> Option<String> {
    match key.strip_prefix(base) {
        Some(rest) => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
        // All names below `base` are before the key, so nothing follows.
        None if key > base => Some(LAST_CHARACTER.to_string()),
        None => None,
    }
}
