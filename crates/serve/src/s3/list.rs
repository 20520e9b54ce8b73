//! Makes one page of a listing: keys in byte order after a given key, grouped by a delimiter.
//!
//! The walk begins in the directory of the prefix, goes straight to the entry after the last key in
//! each directory on the way, and stops when the page is full. So, once [`Index`] has the sorted
//! directories, the cost of a page depends only on its own entries.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::access::keys::{KeyRights, RequestRights};
use crate::http::etag::EtagIdentity;
use crate::object::directory::{identity_at, is_left_out};
use crate::object::metadata;
use crate::object::root::ServedRoot;
use crate::path::EntryPath;
use crate::s3::index::Index;
use crate::s3::page_builder::{KeyQuery, ListingPage, PageBuilder, PagePosition, Step};

/// Lists one page of the directory `bucket`, within the rights of `access`. Blocking.
pub(crate) fn page(
    root: &ServedRoot,
    index: &Index,
    bucket: &EntryPath,
    query: &KeyQuery,
    access: &RequestRights,
) -> io::Result<ListingPage> {
    let mut walk = Walk { root, index, query, access, page: PageBuilder::new(query), depth: 0 };
    if query.limit == 0 {
        return Ok(walk.page.page);
    }
    // The base is the deepest directory that contains all matching keys.
    let base = query.prefix.rfind('/').map_or("", |at| &query.prefix[..=at]);
    if query.after.has_passed(base) {
        return Ok(walk.page.page);
    }
    let mut path = bucket.clone();
    if !base.is_empty() {
        let Ok(below) = EntryPath::parse(base.as_bytes()) else { return Ok(walk.page.page) };
        if below.is_root() || base.starts_with('/') || below.as_bytes().len() + 1 != base.len() {
            return Ok(walk.page.page);
        }
        path = path.join(below.as_path().as_os_str());
    }
    match walk.directory(&path, base) {
        Ok(_) => Ok(walk.page.page),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(ListingPage::default())
        }
        Err(error) => Err(error),
    }
}

/// Maximum length of a key in bytes, as in S3. Longer keys cannot be requested.
const MAX_KEY_BYTES: usize = 1024;

/// Maximum number of open directories of a walk, counted from the outermost. Deeper directories are
/// reopened when the walk returns to them.
const MAX_OPEN_LEVELS: usize = 16;

struct Walk<'a> {
    root: &'a ServedRoot,
    index: &'a Index,
    query: &'a KeyQuery,
    access: &'a RequestRights,
    page: PageBuilder<'a, EtagIdentity>,
    /// Number of directories in which the walk currently is.
    depth: usize,
}

impl Walk<'_> {
    /// Walks the directory whose keys start with `key`.
    fn directory(&mut self, path: &EntryPath, key: &str) -> io::Result<Step> {
        let path = &self.access.fenced_directory(path.clone());
        let is_open = self.access.allows(KeyRights::Read, path.as_bytes());
        let sorted = self.index.get(self.root, path, self.query.freshness)?;
        let open = self.root.open_directory(path)?;
        let is_key = !key.is_empty() && is_open && (sorted.is_empty() || metadata::is_object(&open));
        if is_key && self.marker(&open, key)? == Step::Full {
            return Ok(Step::Full);
        }
        let mut directory = Some(open);
        let mut names = sorted.skip_while(|name| self.lies_before(key, name))?;
        while let Some(name) = names.next_name()? {
            let Ok(name) = std::str::from_utf8(name) else {
                let name = name.escape_ascii();
                tracing::warn!(%path, %name, "left out of an S3 list: the name is not UTF-8, as keys are");
                continue;
            };
            let full = [key, name].concat();
            if !full.starts_with(&self.query.prefix) {
                if full.as_str() > self.query.prefix.as_str() {
                    return Ok(Step::Continue);
                }
                continue;
            }
            if !is_open && !self.may_show(path, name) {
                continue;
            }
            if full.len() > MAX_KEY_BYTES {
                tracing::warn!(%path, "left out of an S3 list: a key has at most {MAX_KEY_BYTES} bytes");
                continue;
            }
            if self.entry(path, &mut directory, full, name)? == Step::Full {
                return Ok(Step::Full);
            }
        }
        Ok(Step::Continue)
    }

    /// True if the entry `name` may be shown in a directory that may only be read in part: the
    /// entry is readable, or is a directory that leads to readable entries.
    fn may_show(&self, directory: &EntryPath, name: &str) -> bool {
        match name.strip_suffix('/') {
            Some(name) => self.access.reaches(&directory.join(name.as_ref()).as_directory()),
            None => self.access.allows(KeyRights::Read, directory.join(name.as_ref()).as_bytes()),
        }
    }

    /// Adds the entry `name` of `path`. `directory` is `None` if it was closed while a directory
    /// below it was walked.
    fn entry(
        &mut self,
        path: &EntryPath,
        directory: &mut Option<OwnedFd>,
        full: String,
        name: &str,
    ) -> io::Result<Step> {
        if let Some(prefix) = self.query.common_prefix(&full) {
            return Ok(self.page.put_prefix(prefix));
        }
        if let Some(name) = name.strip_suffix('/') {
            if self.depth >= MAX_OPEN_LEVELS {
                *directory = None;
            }
            let below = path.join(name.as_ref());
            self.depth += 1;
            let done = self.directory(&below, &full);
            self.depth -= 1;
            return match done {
                Err(error) if is_left_out(&below, &error) => Ok(Step::Continue),
                done => done,
            };
        }
        let directory = match directory {
            Some(open) => open,
            None => match self.root.open_directory(path) {
                Ok(open) => directory.insert(open),
                // The directory was removed in the meantime, and its remaining names with it.
                Err(error) if is_left_out(path, &error) => return Ok(Step::Continue),
                Err(error) => return Err(error),
            },
        };
        match identity_at(self.root, directory.as_fd(), path, name.as_ref()) {
            Some(identity) => Ok(self.page.put_object(full, identity)),
            None => Ok(Step::Continue),
        }
    }

    /// Adds a directory as an empty object whose key ends in `/`: one that is empty, or that was
    /// put.
    fn marker(&mut self, directory: &OwnedFd, key: &str) -> io::Result<Step> {
        if self.query.after.is_after(key) || !key.starts_with(&self.query.prefix) {
            return Ok(Step::Continue);
        }
        let identity = EtagIdentity::of_directory(&rustix::fs::fstat(directory)?);
        Ok(self.page.put_object(key.to_owned(), identity))
    }

    /// True if all keys of the entry `name` of the directory `key` are before the page or before
    /// the prefix.
    fn lies_before(&self, key: &str, name: &[u8]) -> bool {
        let before = |bound: &str, inclusive: bool| {
            let Some(rest) = bound.strip_prefix(key) else { return false };
            let rest = rest.as_bytes();
            let leads_there = name.ends_with(b"/") && rest.starts_with(name);
            (if inclusive { name <= rest } else { name < rest }) && !leads_there
        };
        let passed = match &self.query.after {
            PagePosition::Start => false,
            PagePosition::Key(after) => before(after, true),
            PagePosition::Prefix(after) => {
                before(after, true)
                    || after
                        .strip_prefix(key)
                        .is_some_and(|rest| !rest.is_empty() && name.starts_with(rest.as_bytes()))
            }
        };
        passed || before(&self.query.prefix, false)
    }
}

#[cfg(test)]
mod tests;
