//! Lists the versions of objects page by page.

use std::sync::Arc;

use firstbyte_location::ObjectLocation;

use crate::cancel::Cancel;
use crate::endless::{EndlessListingCheck, PageContent};
use crate::error::{Error, Result};
use crate::object::{ObjectVersion, common_prefix};
use crate::query::ListOptions;
use crate::s3::operation::S3Operation;
use crate::s3::{S3, S3Call, protocol};

use super::answer::{ObjectElement, ObjectPage};
use super::page::{self, S3Query};

/// Where a page of versions starts: after this version of this key.
type VersionMarker = (String, Option<String>);

impl S3 {
    /// Lists the versions of the keys below a prefix or in a bucket. Without such keys, lists the
    /// versions of the object with this name.
    pub(crate) fn list_versions(
        self: &Arc<Self>,
        object: &ObjectLocation,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<ObjectVersion>> + Send>> {
        let mut below = Versions::new(Arc::clone(self), S3Query::new(object, options));
        below.fetch()?;
        if object.key.is_empty() || !below.is_empty() {
            return Ok(Box::new(below));
        }
        let bucket = object.with_key("");
        let key = object.key.clone();
        let alone = ListOptions { recursive: true, beginning: key.clone(), ..ListOptions::default() };
        let mut versions = Versions::new(Arc::clone(self), S3Query::new(&bucket, &alone));
        versions.fetch()?;
        // Longer keys that begin with this key may follow it in the listing. Their versions are
        // left out.
        let is_own = move |version: &Result<ObjectVersion>| {
            version.as_ref().map_or(true, |version| version.entry.name == key.as_bytes())
        };
        let mut versions = versions.take_while(is_own).peekable();
        match versions.peek() {
            None => Err(Error::NotFound { location: object.to_string(), trace: None }),
            Some(_) => Ok(Box::new(versions)),
        }
    }
}

struct Versions {
    s3: Arc<S3>,
    query: S3Query,
    page: std::vec::IntoIter<ObjectVersion>,
    /// Where the next page starts; `None` after the last page.
    next: Option<VersionMarker>,
    endless: EndlessListingCheck,
}

impl Versions {
    fn new(s3: Arc<S3>, query: S3Query) -> Self {
        Self { s3, query, page: Vec::new().into_iter(), next: None, endless: EndlessListingCheck::default() }
    }

    /// Returns true if the first page is empty and also the last.
    fn is_empty(&self) -> bool {
        self.page.len() == 0 && self.next.is_none()
    }

    /// Requests the next page.
    fn fetch(&mut self) -> Result<()> {
        let cancel = Cancel::new();
        let mut call = S3Call::new(S3Operation::ListObjectVersions, &self.query.bucket, &cancel);
        call.query.push(("versions", String::new()));
        self.query.add_to(&mut call);
        if let Some((key, version)) = &self.next {
            call.query.push(("key-marker", key.clone()));
            call.query.extend(version.iter().map(|id| ("version-id-marker", id.clone())));
        }
        let (head, body) = self.s3.call_text(&call)?;
        let page = ObjectPage::parse_versions(&body).ok_or_else(|| {
            protocol(&call.place(), "no listing of versions in the response").traced(|| head.trace())
        })?;
        let form = self.s3.form_of_names(&mut call, &page, ObjectPage::parse_versions)?;
        let next = match (page.is_truncated == Some(true), page.next_key_marker) {
            (false, _) => None,
            (true, None) => return Err(protocol(&call.place(), "further pages, and not where they begin")),
            (true, Some(key)) => Some((form.decode(&key).into_owned(), page.next_version_id_marker)),
        };
        let name = |key: &str| Some(self.query.name(&form.decode(key))?.as_bytes().to_vec());
        let mut versions: Vec<ObjectVersion> = Vec::new();
        for object in page.contents {
            versions.extend(name(&object.key).map(|name| version(name, object)));
        }
        for prefix in &page.common_prefixes {
            let entry = name(prefix).and_then(common_prefix);
            versions.extend(entry.map(|entry| ObjectVersion {
                entry,
                id: None,
                is_latest: false,
                is_delete_marker: false,
            }));
        }
        if let Some((key, version)) = &next {
            // No key contains this separator.
            let token = [key, version.as_deref().unwrap_or_default()].join("\0");
            let checked = self.endless.check(&token, PageContent::of(&versions));
            checked.map_err(|why| protocol(&call.place(), why))?;
        }
        self.page = versions.into_iter();
        self.next = next;
        Ok(())
    }
}

impl Iterator for Versions {
    type Item = Result<ObjectVersion>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(version) = self.page.next() {
                return Some(Ok(version));
            }
            self.next.as_ref()?;
            if let Err(error) = self.fetch() {
                self.next = None;
                return Some(Err(error));
            }
        }
    }
}

fn version(name: Vec<u8>, mut object: ObjectElement) -> ObjectVersion {
    let (id, is_latest, is_delete_marker) =
        (object.version_id.take(), object.is_latest, object.is_delete_marker);
    let mut entry = page::entry(name, object);
    entry.size = entry.size.filter(|_| !is_delete_marker);
    ObjectVersion { entry, id, is_latest, is_delete_marker }
}
