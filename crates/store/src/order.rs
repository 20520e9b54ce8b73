//! Checks the order of listings. Some stores list names by directory or by hash instead of in byte
//! order, and merging such a listing would lose names.
//!
//! [`OrderedListing`] compares every entry of an ordered listing with the previous one, across
//! pages and ranges. [`UnsortedBuckets`] remembers the buckets whose listings failed this check;
//! their later listings are sorted here ([`SortedListing`](crate::sorted::SortedListing)).
//! `Store::list` wraps each listing in `OrderedListing` or `SortedListing`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use firstbyte_location::{Entry, EntryKind, Escaped, Location, ObjectLocation, Service};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::object::in_listing_order;

/// Suffixes of the names of S3 Express One Zone directory buckets, and of their access points. Such
/// a bucket lists its names in no order
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>).
pub(crate) const DIRECTORY_BUCKET_SUFFIXES: [&str; 2] = ["--x-s3", "--xa-s3"];

/// The buckets that are known to list their names out of order.
#[derive(Debug, Default)]
pub(crate) struct UnsortedBuckets(Mutex<HashSet<(Service, String)>>);

impl UnsortedBuckets {
    /// Returns true if a bucket is known to list its names out of order.
    pub(crate) fn has(&self, object: &ObjectLocation) -> bool {
        let buckets = self.0.lock();
        is_directory_bucket(object) || buckets.contains(&(object.service, object.bucket.clone()))
    }

    pub(crate) fn add(&self, object: &ObjectLocation) {
        let mut buckets = self.0.lock();
        buckets.insert((object.service, object.bucket.clone()));
    }
}

/// Returns true for a directory bucket of S3. Such a bucket accepts no `start-after`, and only
/// prefixes that end in `/`.
pub(crate) fn is_directory_bucket(object: &ObjectLocation) -> bool {
    object.service.is_s3() && DIRECTORY_BUCKET_SUFFIXES.iter().any(|end| object.bucket.ends_with(end))
}

/// Two neighbouring names of a listing that are in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disorder {
    pub(crate) previous: Vec<u8>,
    pub(crate) next: Vec<u8>,
}

impl Disorder {
    /// Returns the first two neighbouring entries in the wrong order. Equal names are not in the
    /// wrong order.
    pub(crate) fn among(entries: &[Entry]) -> Option<Self> {
        let wrong =
            entries.windows(2).find(|pair| in_listing_order(&pair[1]).lt(in_listing_order(&pair[0])))?;
        Some(Self { previous: wrong[0].name.clone(), next: wrong[1].name.clone() })
    }

    pub(crate) fn at(&self, location: String) -> Error {
        let (previous, next) = (Escaped(&self.previous).to_string(), Escaped(&self.next).to_string());
        Error::Disordered { location, previous, name: next }
    }
}

/// A listing that drops repeated entries, and ends with an error if its order is wrong.
pub(crate) struct OrderedListing {
    entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
    location: String,
    /// The listed bucket, and the set to which the bucket is added if its order is wrong.
    bucket: Option<(ObjectLocation, Arc<UnsortedBuckets>)>,
    /// The name of the previous entry. If the entry was a directory, its name is followed by `/`.
    last: Vec<u8>,
    last_kind: Option<EntryKind>,
    has_ended: bool,
}

impl OrderedListing {
    pub(crate) fn new(entries: Box<dyn Iterator<Item = Result<Entry>> + Send>, location: &Location) -> Self {
        let location = location.to_string();
        Self { entries, location, bucket: None, last: Vec::new(), last_kind: None, has_ended: false }
    }

    pub(crate) fn of_bucket(
        entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
        object: &ObjectLocation,
        unsorted: &Arc<UnsortedBuckets>,
    ) -> Self {
        let bucket = Some((object.clone(), Arc::clone(unsorted)));
        Self { bucket, ..Self::new(entries, &Location::Object(object.clone())) }
    }

    /// Compares an entry with the previous entry.
    fn compare(&self, entry: &Entry) -> Ordering {
        match entry.kind {
            EntryKind::Directory => in_listing_order(entry).cmp(self.last.iter().copied()),
            _ => entry.name.as_slice().cmp(&self.last),
        }
    }

    /// Ends the listing with an error, because its order is wrong.
    fn end(&mut self, error: Error) -> Option<Result<Entry>> {
        if let Some((object, unsorted)) = &self.bucket {
            unsorted.add(object);
        }
        self.has_ended = true;
        Some(Err(error))
    }
}

impl Iterator for OrderedListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error @ Error::Disordered { .. }) => return self.end(error),
                Err(error) => return Some(Err(error)),
            };
            let Some(last_kind) = self.last_kind else {
                self.keep(&entry);
                return Some(Ok(entry));
            };
            match self.compare(&entry) {
                Ordering::Less => {
                    let disorder = Disorder { previous: self.last.clone(), next: entry.name };
                    let error = disorder.at(self.location.clone());
                    return self.end(error);
                }
                // This page repeats the last name of the previous page.
                Ordering::Equal if last_kind == entry.kind => {}
                Ordering::Equal | Ordering::Greater => {
                    self.keep(&entry);
                    return Some(Ok(entry));
                }
            }
        }
    }
}

impl OrderedListing {
    fn keep(&mut self, entry: &Entry) {
        self.last.clear();
        self.last.extend_from_slice(&entry.name);
        if entry.kind == EntryKind::Directory {
            self.last.push(b'/');
        }
        self.last_kind = Some(entry.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<std::result::Result<String, String>> {
        let entry = |name: &&str| {
            let kind = if name.ends_with('/') { EntryKind::Directory } else { EntryKind::File };
            Ok(Entry::named(name.trim_end_matches('/').as_bytes().to_vec(), kind))
        };
        let entries: Vec<Result<Entry>> = names.iter().map(entry).collect();
        let location = Location::parse("s3://b/p".as_ref()).unwrap();
        OrderedListing::new(Box::new(entries.into_iter()), &location)
            .map(|entry| match entry {
                Ok(entry) => Ok(String::from_utf8(entry.name).unwrap()),
                Err(error) => Err(error.to_string()),
            })
            .collect()
    }

    #[test]
    fn a_listing_ends_where_a_name_comes_before_the_last() {
        assert_eq!(listed(&["a", "a-1", "a/", "b"]).len(), 4);
        let found = listed(&["a", "b/", "b-1", "c"]);
        assert_eq!(found.len(), 3);
        assert!(found[2].as_ref().is_err_and(|error| error.contains("b-1 behind b/")), "{found:?}");
    }

    #[test]
    fn a_repeated_name_is_listed_once() {
        assert_eq!(listed(&["a", "b", "b", "c"]), ["a", "b", "c"].map(|name| Ok(name.to_owned())));
    }

    #[test]
    fn directory_buckets_are_known_by_their_names() {
        let object = |text: &str| match Location::parse(text.as_ref()).unwrap() {
            Location::Object(object) => object,
            other => panic!("{other}"),
        };
        let unsorted = UnsortedBuckets::default();
        assert!(unsorted.has(&object("s3://logs--use1-az4--x-s3/a")));
        assert!(!unsorted.has(&object("s3://logs/a")) && !unsorted.has(&object("gs://logs--x-s3/a")));
        unsorted.add(&object("s3://logs/a"));
        assert!(unsorted.has(&object("s3://logs/b")) && !unsorted.has(&object("az://logs/b")));
    }
}
