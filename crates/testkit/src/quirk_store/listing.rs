//! Answers `ListObjects`, `ListObjectsV2` and `ListBuckets`.

use std::collections::{BTreeMap, BTreeSet};

use firstbyte_store::{Algorithm, Hasher};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::request::QuirkRequest;
use super::{Object, QuirkState, escape, xml_error};
use crate::quirk::Quirk;
use crate::scripted::ScriptedReply;

/// Characters to percent-encode in names, as AWS does: all except unreserved ones, `/` and `*`.
const NAME: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'*');

/// Sort key of a key in a listing.
type Rank = Vec<(String, bool)>;

/// A page: keys, common prefixes, and the last key or prefix if more pages follow.
#[derive(Default)]
struct Page {
    keys: Vec<String>,
    prefixes: Vec<String>,
    next: Option<String>,
}

impl QuirkState {
    pub(super) fn list(&mut self, request: &QuirkRequest) -> ScriptedReply {
        let second = request.value("list-type") == Some("2");
        if second && self.has(Quirk::NoListV2) {
            return xml_error("501 Not Implemented", "NotImplemented", "ListObjectsV2 is not implemented.");
        }
        let after =
            if second { self.start_after(request) } else { request.value("marker").map(str::to_owned) };
        let mut page = self.page(request, after.as_deref());
        if self.has(Quirk::UnsortedPages) {
            page.keys.sort_by_key(|key| mix(key));
            page.prefixes.sort_by_key(|key| mix(key));
        }
        let encoded = request.value("encoding-type").is_some();
        let name = |text: &str| self.name(text, encoded);
        let mut text = format!(
            "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{}</Name><Prefix>{}</Prefix>\
             <IsTruncated>{}</IsTruncated>",
            request.bucket,
            name(request.value("prefix").unwrap_or_default()),
            page.next.is_some()
        );
        if encoded {
            text.push_str("<EncodingType>url</EncodingType>");
        }
        if let Some(next) = &page.next {
            text.push_str(&if second {
                format!("<NextContinuationToken>{}</NextContinuationToken>", escape(next))
            } else {
                format!("<NextMarker>{}</NextMarker>", name(next))
            });
        }
        for key in &page.keys {
            let stored = (request.bucket.clone(), key.clone());
            let object = self.objects.get(&stored).or_else(|| self.deleted.get(&stored));
            text.push_str(&object.map_or_else(String::new, |object| self.row(&name(key), object)));
        }
        for prefix in &page.prefixes {
            text.push_str(&format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", name(prefix)));
        }
        self.xml(&format!("{text}</ListBucketResult>"))
    }

    fn start_after(&self, request: &QuirkRequest) -> Option<String> {
        let start = request.value("start-after").filter(|_| !self.has(Quirk::IgnoresStartAfter));
        request.value("continuation-token").or(start).map(str::to_owned)
    }

    fn page(&self, request: &QuirkRequest, after: Option<&str>) -> Page {
        let most = request.value("max-keys").and_then(|most| most.parse().ok()).unwrap_or(usize::MAX);
        let most = self.page.min(most).max(1);
        let mut items = self.items(request, after);
        if let Some(after) = after.filter(|_| most > 1 && request.value("continuation-token").is_some())
            && self.has(Quirk::RepeatsKeys)
        {
            items.insert(self.rank(after), (after.to_owned(), after.ends_with('/')));
        }
        let mut page = Page::default();
        let more = items.len() > most;
        for (name, is_prefix) in items.into_values().take(most) {
            page.next = more.then(|| name.clone());
            if is_prefix { page.prefixes.push(name) } else { page.keys.push(name) }
        }
        page
    }

    /// Returns the keys and common prefixes after a name. The boolean is true for a prefix.
    fn items(&self, request: &QuirkRequest, after: Option<&str>) -> BTreeMap<Rank, (String, bool)> {
        let prefix = request.value("prefix").unwrap_or_default();
        let delimiter = request.value("delimiter").filter(|text| !text.is_empty());
        let deleted = self.deleted.keys().filter(|_| self.has(Quirk::ListsDeleted));
        let after = after.map(|name| (name, self.rank(name)));
        let mut items = BTreeMap::new();
        for (bucket, key) in self.objects.keys().chain(deleted) {
            if *bucket != request.bucket || !key.starts_with(prefix) {
                continue;
            }
            let group = delimiter.and_then(|text| {
                let end = key[prefix.len()..].find(text)? + prefix.len() + text.len();
                Some(&key[..end])
            });
            let name = group.unwrap_or(key);
            // In a sorted listing, `after` may be inside a common prefix. The rest of that prefix
            // is still listed.
            let compared = if self.has(Quirk::UnsortedListing) { name } else { key };
            let is_past =
                after.as_ref().is_some_and(|(after, rank)| name == *after || self.rank(compared) <= *rank);
            if !is_past {
                items.insert(self.rank(name), (name.to_owned(), group.is_some()));
            }
        }
        items
    }

    fn rank(&self, key: &str) -> Rank {
        if self.has(Quirk::UnsortedListing) {
            return vec![(mix(key), true)];
        }
        if !self.has(Quirk::ListsByDirectories) {
            return vec![(key.to_owned(), true)];
        }
        let (directories, file) = key.rsplit_once('/').map_or((None, key), |(path, file)| (Some(path), file));
        let parts = directories.iter().flat_map(|path| path.split('/')).map(|part| (part.to_owned(), false));
        parts.chain([(file.to_owned(), true)]).collect()
    }

    fn row(&self, name: &str, object: &Object) -> String {
        let modified = OffsetDateTime::from(self.store_time(object.modified));
        let modified = modified.replace_millisecond(0).unwrap_or(modified);
        let tag = if self.has(Quirk::BareTags) {
            object.etag.clone()
        } else if self.has(Quirk::CapitalTags) {
            format!("&quot;{}&quot;", object.etag.to_ascii_uppercase())
        } else {
            format!("&quot;{}&quot;", object.etag)
        };
        let tag = if self.has(Quirk::NoTags) { String::new() } else { format!("<ETag>{tag}</ETag>") };
        let size = if self.has(Quirk::ListsLengthZero) { 0 } else { object.content.len() };
        format!(
            "<Contents><Key>{name}</Key><LastModified>{}</LastModified>{tag}<Size>{size}</Size>\
             <StorageClass>STANDARD</StorageClass></Contents>",
            modified.format(&Rfc3339).expect("a year of four digits")
        )
    }

    /// Formats a name for a listing, as the store's quirks require.
    fn name(&self, text: &str, encoded: bool) -> String {
        if !encoded || self.has(Quirk::UnencodedNames) {
            return escape(text);
        }
        let encoded = utf8_percent_encode(text, NAME).to_string();
        if self.has(Quirk::PlusForSpace) { encoded.replace("%20", "+") } else { encoded }
    }

    pub(super) fn list_buckets(&self) -> ScriptedReply {
        let names: BTreeSet<&String> = self.objects.keys().map(|(bucket, _)| bucket).collect();
        let rows: String =
            names.iter().map(|name| format!("<Bucket><Name>{}</Name></Bucket>", escape(name))).collect();
        self.xml(&format!("<ListAllMyBucketsResult><Buckets>{rows}</Buckets></ListAllMyBucketsResult>"))
    }
}

/// Converts a key to a string that sorts differently.
fn mix(key: &str) -> String {
    Hasher::of(Algorithm::Md5, key.as_bytes()).to_hex()
}
