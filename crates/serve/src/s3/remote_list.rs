//! Makes one page of a listing from the pages of a gateway's origin, in the origin's order. A page
//! has only keys that the request may see, whatever the origin sends.

use firstbyte_listing::Order;
use firstbyte_location::{Entry, Kind};
use firstbyte_store::{ListOptions, Marker};

use crate::access::keys::Access;
use crate::gateway::{Gateway, Unserved, Visible};
use crate::object::described::Described;
use crate::s3::list::{After, Page, Query};

/// Behind every key that has this text and more: the last character of Unicode.
const LAST: char = char::MAX;

/// One page of the keys of `bucket` that `access` may see.
///
/// # Errors
/// The origin cannot be asked.
pub(crate) async fn page(
    gateway: &Gateway,
    access: &Access,
    bucket: &str,
    query: &Query,
) -> Result<Page<Described>, Unserved> {
    let visible = gateway.visible(access, bucket);
    let mut made = Made { query, visible, page: Page::default(), last: After::Start };
    let Some(prefix) = made.asked_prefix().filter(|_| query.limit > 0) else { return Ok(made.page) };
    let cut = prefix.rfind('/').map_or(0, |slash| slash + 1);
    let (base, beginning) = prefix.split_at(cut);
    let mut after = query.after.clone();
    loop {
        let options = ListOptions {
            recursive: made.lists_all(&prefix),
            beginning: beginning.to_owned(),
            start_after: position(&after).and_then(|key| behind(&key, base)),
            order: Order::Bytes,
            marker: Marker::Listed,
            ..ListOptions::default()
        };
        let listed = gateway.list_page(bucket, base, options).await;
        let listed = match listed {
            Err(Unserved::NotFound) => return Ok(made.page),
            listed => listed?,
        };
        let next = listed.entries.last().and_then(|entry| made.position(base, entry));
        for entry in listed.entries {
            if made.add(base, entry) == Step::Full {
                return Ok(made.page);
            }
        }
        match next {
            Some(next) if !listed.is_last && next != after => after = next,
            _ => return Ok(made.page),
        }
    }
}

/// Whether the page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    On,
    Full,
}

/// A page being made.
struct Made<'a> {
    query: &'a Query,
    visible: Visible<'a>,
    page: Page<Described>,
    /// The last entry of the page so far.
    last: After,
}

impl Made<'_> {
    /// The prefix to ask the origin for: the request's, or that of all visible keys if it is
    /// longer. `None`: no visible key has the request's prefix.
    fn asked_prefix(&self) -> Option<String> {
        let (root, prefix) = (self.visible.root()?, &self.query.prefix);
        if root.starts_with(prefix.as_str()) {
            return Some(root);
        }
        self.visible.reaches(prefix).then(|| prefix.clone())
    }

    /// Whether the origin has to list all keys, not one level.
    fn lists_all(&self, asked: &str) -> bool {
        self.query.delimiter.as_deref() != Some("/") || asked != self.query.prefix
    }

    /// The key of an entry of a listing below `base`; that of a directory ends in `/`. `None` for a
    /// name that no key can be.
    fn key(&self, base: &str, entry: &Entry) -> Option<String> {
        let name = std::str::from_utf8(&entry.name).ok()?;
        let slash = if entry.kind == Kind::Directory { "/" } else { "" };
        Some(format!("{base}{name}{slash}"))
    }

    /// The position behind an entry.
    fn position(&self, base: &str, entry: &Entry) -> Option<After> {
        let key = self.key(base, entry)?;
        Some(if entry.kind == Kind::Directory { After::Prefix(key) } else { After::Key(key) })
    }

    fn add(&mut self, base: &str, entry: Entry) -> Step {
        let Some(key) = self.key(base, &entry) else { return Step::On };
        let is_passed = match &self.query.after {
            After::Start => false,
            After::Key(after) => key <= *after && !(entry.kind == Kind::Directory && after.starts_with(&key)),
            After::Prefix(after) => key.starts_with(after.as_str()) || key < *after,
        };
        if is_passed || key.is_empty() || !key.starts_with(&self.query.prefix) {
            return Step::On;
        }
        let is_directory = entry.kind == Kind::Directory;
        if let Some(prefix) = self.common_prefix(&key) {
            let shown = if is_directory { self.visible.reaches(&key) } else { self.visible.shows(&key) };
            return if shown { self.put_prefix(prefix) } else { Step::On };
        }
        // A listing of all keys has no directories but those that are empty, on some file systems.
        if is_directory || !self.visible.shows(&key) {
            return Step::On;
        }
        self.put_object(key, entry)
    }

    fn common_prefix(&self, key: &str) -> Option<String> {
        let delimiter = self.query.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
        let start = self.query.prefix.len();
        let at = key[start..].find(delimiter)?;
        Some(key[..start + at + delimiter.len()].to_owned())
    }

    fn put_prefix(&mut self, prefix: String) -> Step {
        let is_shown = self.page.prefixes.last() == Some(&prefix)
            || matches!(&self.query.after, After::Prefix(after) if *after == prefix);
        if is_shown {
            return Step::On;
        }
        if self.is_full() {
            return Step::Full;
        }
        self.last = After::Prefix(prefix.clone());
        self.page.prefixes.push(prefix);
        Step::On
    }

    fn put_object(&mut self, key: String, entry: Entry) -> Step {
        if self.is_full() {
            return Step::Full;
        }
        self.last = After::Key(key.clone());
        let described = Described {
            size: entry.size.unwrap_or(0),
            etag: entry.etag,
            modified: entry.modified,
            storage_class: entry.storage_class,
            ..Described::default()
        };
        self.page.objects.push((key, described));
        Step::On
    }

    /// Called with one more in hand: when full, that one begins the next page.
    fn is_full(&mut self) -> bool {
        let is_full = self.page.objects.len() + self.page.prefixes.len() >= self.query.limit;
        if is_full {
            self.page.next = Some(self.last.clone());
        }
        is_full
    }
}

/// The key behind which the origin's listing begins.
fn position(after: &After) -> Option<String> {
    match after {
        After::Start => None,
        After::Key(key) => Some(key.clone()),
        After::Prefix(prefix) => Some(format!("{prefix}{LAST}")),
    }
}

/// A key as a name below `base`. `None` if all names below it come behind the key.
fn behind(key: &str, base: &str) -> Option<String> {
    match key.strip_prefix(base) {
        Some(rest) => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
        // All of them come before it: nothing follows.
        None if key > base => Some(LAST.to_string()),
        None => None,
    }
}
