//! Identifies the content of an object while it is read in pieces.
//!
//! A transfer reads one object by many requests, over seconds or hours. Two pieces may be combined
//! only if they belong to the same version. How reliably two versions can be compared depends on
//! the source ([`Strength`]). That decides whether a transfer may run in parallel, be resumed or be
//! cached.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::etag;

/// How reliably a version changes when the content changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// There is no version. The object is read as one stream, without resuming, and is not cached
    /// after it is closed.
    None,
    /// A weak `ETag`, or a modification time and a length. It is compared with every response, and
    /// marked as weak in the receipt.
    Weak,
    /// A strong `ETag`, an S3 version id, or the identity of a local file. Reads may be parallel,
    /// resumed and cached.
    Strong,
}

/// The identity of a local file. It changes whenever the content may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Inode change time, in nanoseconds since 1970.
    pub changed_ns: i128,
}

impl FileIdentity {
    /// Returns the identity of an inode. The times are in seconds and nanoseconds since 1970, as
    /// `stat` returns them.
    #[must_use]
    pub fn new<N: Into<i128>>((device, inode): (u64, u64), modified: (i64, N), changed: (i64, N)) -> Self {
        let nanoseconds = |(seconds, nanos): (i64, N)| i128::from(seconds) * 1_000_000_000 + nanos.into();
        Self { device, inode, modified_ns: nanoseconds(modified), changed_ns: nanoseconds(changed) }
    }

    /// Returns true if both values can identify the same content. Devices are not compared, because
    /// each machine numbers the device of a network file system differently. Two different files do
    /// not have the same inode number and the same two times by chance.
    #[must_use]
    pub fn agrees_with(self, other: Self) -> bool {
        Self { device: other.device, ..self } == other
    }

    /// Returns the inode change time. `None` if it is before 1970.
    #[must_use]
    pub fn changed(self) -> Option<SystemTime> {
        let nanoseconds = u64::try_from(self.changed_ns).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))
    }

    /// Returns device, inode, modified and changed as text, because JSON numbers are limited to 64
    /// bits.
    #[must_use]
    pub fn to_words(self) -> [String; 4] {
        [
            self.device.to_string(),
            self.inode.to_string(),
            self.modified_ns.to_string(),
            self.changed_ns.to_string(),
        ]
    }

    /// Parses the result of [`to_words`](Self::to_words).
    #[must_use]
    pub fn from_words([device, inode, modified, changed]: &[String; 4]) -> Option<Self> {
        Some(Self {
            device: device.parse().ok()?,
            inode: inode.parse().ok()?,
            modified_ns: modified.parse().ok()?,
            changed_ns: changed.parse().ok()?,
        })
    }
}

/// S3's id of the version that was written without versioning.
pub const NULL_VERSION: &str = "null";

/// How a source identifies its content at one time. Equal versions of sufficient [`Strength`] mean
/// the same bytes.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Length in bytes, if known.
    pub size: Option<u64>,
    /// The `ETag` as the server sent it, with its quotes and `W/`. It is compared by [`etag`].
    pub etag: Option<String>,
    /// S3 version id. It may be [`NULL_VERSION`] in a request, which names a version but does not
    /// identify its content.
    pub version_id: Option<String>,
    /// The `Last-Modified` header as the server sent it.
    pub last_modified: Option<String>,
    /// The identity of a local file.
    pub file: Option<FileIdentity>,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.has_etag_of(other)
            && (self.size, &self.version_id, &self.last_modified, self.file)
                == (other.size, &other.version_id, &other.last_modified, other.file)
    }
}

impl Eq for Version {}

impl Version {
    /// Returns a version of which only the store's id is known.
    #[must_use]
    pub fn of_id(id: &str) -> Self {
        Self { version_id: Some(id.to_owned()), ..Self::default() }
    }

    /// Returns how reliably this version identifies the content.
    #[must_use]
    pub fn strength(&self) -> Strength {
        match (self.tag(), self.size) {
            _ if self.fixed_id().is_some() || self.file.is_some() => Strength::Strong,
            (Some(etag), _) if !etag::is_weak(etag) => Strength::Strong,
            (Some(_), Some(_)) => Strength::Weak,
            (None, Some(_)) if self.last_modified.is_some() => Strength::Weak,
            _ => Strength::None,
        }
    }

    /// Returns the version id if it identifies the content. The id `null` does not: each write to
    /// a bucket without versioning replaces the version of this id (docs.aws.amazon.com, "Working
    /// with objects in a versioning-suspended bucket", 2026-11-28).
    #[must_use]
    pub fn fixed_id(&self) -> Option<&str> {
        self.version_id.as_deref().filter(|id| *id != NULL_VERSION)
    }

    /// Returns false if the length is unknown, or if it is 0 and nothing shows that the object is
    /// empty: servers that do not compute a length send 0. An `ETag` can show it: either the MD5 of
    /// no bytes, or a tag of `serve` whose third number, the length of the file, is 0.
    #[must_use]
    pub fn has_credible_length(&self) -> bool {
        const MD5_OF_NOTHING: &str = "d41d8cd98f00b204e9800998ecf8427e";
        let is_of_nothing = |tag: &String| {
            let tag = tag.trim_matches('"');
            let numbers: Vec<&str> = tag.split('-').collect();
            tag.eq_ignore_ascii_case(MD5_OF_NOTHING) || matches!(numbers[..], [_, _, "0", _, _])
        };
        self.size.is_some_and(|size| size > 0 || self.etag.as_ref().is_some_and(is_of_nothing))
    }

    /// Returns the value to send as `If-Match`. `None` unless the `ETag` is strong (RFC 9110,
    /// 13.1.1).
    #[must_use]
    pub fn if_match(&self) -> Option<&str> {
        self.tag().filter(|etag| !etag::is_weak(etag))
    }

    /// The `ETag`, unless it has no value.
    fn tag(&self) -> Option<&str> {
        self.etag.as_deref().and_then(etag::stated)
    }

    /// Returns true if both versions have the same `ETag`, or if neither has one.
    #[must_use]
    pub fn has_etag_of(&self, other: &Self) -> bool {
        match (self.tag(), other.tag()) {
            (Some(one), Some(other)) => etag::is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Returns true if two versions of the same length and date have different `ETag`s. Several
    /// servers of the same file may compute different tags.
    #[must_use]
    pub fn differs_by_tag(&self, other: &Self) -> bool {
        let has_both = self.tag().is_some() && other.tag().is_some() && self.last_modified.is_some();
        let is_alike = self.size == other.size && self.last_modified == other.last_modified;
        has_both && is_alike && !self.has_etag_of(other)
    }

    /// Returns true if a response with the version `other` may have the same content: every field
    /// that both versions have is equal. Dates are not compared if this version has a strong
    /// `ETag`, and neither are the device numbers of files.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        agree(self.size.as_ref(), other.size.as_ref())
            && (self.tag().is_none() || other.tag().is_none() || self.has_etag_of(other))
            && agree(self.version_id.as_ref(), other.version_id.as_ref())
            && self.file.zip(other.file).is_none_or(|(one, other)| one.agrees_with(other))
            && (self.if_match().is_some() || agree(self.last_modified.as_ref(), other.last_modified.as_ref()))
    }
}

/// Formats the shortest text that distinguishes two versions of an object in an error or a receipt.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Vec::new();
        facts.extend(self.version_id.as_ref().map(|id| format!("version {id}")));
        facts.extend(self.tag().map(|etag| format!("etag {etag}")));
        if let Some(file) = self.file {
            facts.push(format!("inode {} modified {}", file.inode, file.modified_ns));
        }
        if self.tag().is_none() {
            facts.extend(self.last_modified.as_ref().map(|time| format!("modified {time}")));
        }
        facts.extend(self.size.map(|size| format!("{size} bytes")));
        if facts.is_empty() { f.write_str("unknown") } else { f.write_str(&facts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(value: &str) -> Version {
        Version { size: Some(3), etag: Some(value.into()), ..Version::default() }
    }

    #[test]
    fn strength_depends_on_the_fields_that_are_set() {
        assert_eq!(etag("\"a\"").strength(), Strength::Strong);
        assert_eq!(etag("W/\"a\"").strength(), Strength::Weak);
        let dated = Version { last_modified: Some("Mon".into()), size: Some(1), ..Version::default() };
        assert_eq!(dated.clone().strength(), Strength::Weak);
        assert_eq!(Version { size: Some(1), ..Version::default() }.strength(), Strength::None);
        assert_eq!(Version::of_id("x").strength(), Strength::Strong);
        assert_eq!(Version::of_id(NULL_VERSION).strength(), Strength::None);
        assert_eq!(Version { version_id: Some(NULL_VERSION.into()), ..dated }.strength(), Strength::Weak);
    }

    #[test]
    fn versions_with_a_tag_without_a_value_are_compared_by_their_dates() {
        for tag in ["", "\"\"", "W/\"\""] {
            let dated = |date: &str| Version { last_modified: Some(date.into()), ..etag(tag) };
            assert_eq!((etag(tag).strength(), etag(tag).if_match()), (Strength::None, None), "{tag}");
            assert_eq!(dated("Mon").strength(), Strength::Weak);
            assert!(!dated("Mon").agrees_with(&dated("Tue")) && dated("Mon").agrees_with(&dated("Mon")));
        }
    }

    #[test]
    fn a_file_identity_survives_conversion_to_text_and_back() {
        let file = FileIdentity { device: 1, inode: u64::MAX, modified_ns: -5, changed_ns: i128::MAX };
        let mut words = file.to_words();
        assert_eq!(FileIdentity::from_words(&words), Some(file));
        words[0] = "-1".into();
        assert_eq!(FileIdentity::from_words(&words), None);
    }

    #[test]
    fn a_file_seen_from_another_machine_agrees_and_one_written_since_does_not() {
        let file = FileIdentity { device: 1, inode: 2, modified_ns: 3, changed_ns: 4 };
        assert!(file.agrees_with(FileIdentity { device: 9, ..file }));
        assert!(!file.agrees_with(FileIdentity { changed_ns: 5, ..file }));
    }

    #[test]
    fn a_weak_etag_is_never_sent_as_if_match() {
        assert_eq!(etag("W/\"a\"").if_match(), None);
        assert_eq!(etag("\"a\"").if_match(), Some("\"a\""));
    }

    #[test]
    fn a_tag_that_a_listing_writes_without_quotes_or_in_capitals_agrees() {
        let digest = "900150983cd24fb0d6963f7d28e17f72";
        let sent = etag(&format!("\"{digest}\""));
        for listed in [etag(digest), etag(&digest.to_uppercase())] {
            assert!(listed.agrees_with(&sent) && sent.agrees_with(&listed) && listed == sent);
        }
        assert!(etag("\"a\"") != etag("\"b\"") && etag("\"a\"") != Version::default());
    }

    #[test]
    fn a_length_of_0_is_believed_with_a_tag_of_an_empty_object_only() {
        let stated = |size, etag: &str| Version { size, etag: Some(etag.into()), ..Version::default() };
        for (size, etag, credible) in [
            (Some(0), "\"d41d8cd98f00b204e9800998ecf8427e\"", true),
            (Some(0), "\"1b-2d6e28-0-18ebbc3962ae2a2f-1c24e0431\"", true),
            (Some(0), "\"1b-2d6e28-6000000-18ebbc3962ae2a2f-1c24e0431\"", false),
            (Some(0), "\"5d41402abc4b2a76b9719d911017c592\"", false),
            (Some(1), "\"5d41402abc4b2a76b9719d911017c592\"", true),
            (None, "\"d41d8cd98f00b204e9800998ecf8427e\"", false),
        ] {
            assert_eq!(stated(size, etag).has_credible_length(), credible, "{size:?} {etag}");
        }
    }

    #[test]
    fn a_changed_length_or_etag_disagrees_and_a_missing_field_does_not() {
        assert!(!etag("\"a\"").agrees_with(&etag("\"b\"")));
        assert!(!etag("\"a\"").agrees_with(&Version { size: Some(4), ..Version::default() }));
        assert!(etag("\"a\"").agrees_with(&Version::default()));
    }
}
