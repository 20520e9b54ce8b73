//! Converts versions to and from the text in a manifest's column: `etag:"..."`, `version-id:ID`,
//! `file:INODE:MODIFIED:CHANGED` or `modified:DATE`. The text is empty if the source has no
//! version. The length has a column of its own. The device of a file is left out, because each
//! machine numbers its devices differently.

use firstbyte_location::{FileIdentity, Version};

/// Formats the strongest identifier of a version.
pub(super) fn to_text(version: &Version) -> String {
    if let Some(id) = &version.version_id {
        return format!("version-id:{id}");
    }
    if let Some(etag) = &version.etag {
        return format!("etag:{etag}");
    }
    if let Some(file) = version.file {
        return format!("file:{}:{}:{}", file.inode, file.modified_ns, file.changed_ns);
    }
    version.last_modified.as_ref().map_or_else(String::new, |time| format!("modified:{time}"))
}

/// Parses the version of an object of `size` bytes. Returns `None` if the text is not a version.
pub(super) fn parse(text: &str, size: u64) -> Option<Version> {
    let version = Version { size: Some(size), ..Version::default() };
    let Some((kind, value)) = text.split_once(':') else { return text.is_empty().then_some(version) };
    let owned = Some(value.to_owned());
    Some(match kind {
        "version-id" => Version { version_id: owned, ..version },
        "etag" => Version { etag: owned, ..version },
        "modified" => Version { last_modified: owned, ..version },
        "file" => {
            let mut parts = value.split(':');
            let (inode, modified, changed) = (parts.next()?, parts.next()?, parts.next()?);
            let file = FileIdentity {
                device: 0,
                inode: inode.parse().ok()?,
                modified_ns: modified.parse().ok()?,
                changed_ns: changed.parse().ok()?,
            };
            Version { file: Some(file), ..version }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_read_back_agrees_with_the_one_that_was_written() {
        let size = Some(7);
        let file = FileIdentity { device: 3, inode: 9, modified_ns: -1, changed_ns: 1 << 70 };
        for version in [
            Version { size, etag: Some("\"a:b-2\"".into()), ..Version::default() },
            Version { size, etag: Some("\"a\"".into()), version_id: Some("x".into()), ..Version::default() },
            Version { size, file: Some(file), ..Version::default() },
            Version {
                size,
                last_modified: Some("Mon, 01 Jan 2024 00:00:00 GMT".into()),
                ..Version::default()
            },
            Version { size, ..Version::default() },
        ] {
            let text = to_text(&version);
            let read = parse(&text, 7).unwrap();
            assert!(read.agrees_with(&version), "{text}");
            assert_eq!(read.strength(), version.strength(), "{text}");
        }
        assert!(parse("file:1:2", 0).is_none() && parse("sha:1", 0).is_none());
    }
}
