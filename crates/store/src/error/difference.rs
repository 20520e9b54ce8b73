//! Describes how two versions of an object differ. Called for the text of
//! [`Error::Changed`](super::Error::Changed), and by crates that compare versions themselves.

use firstbyte_location::Version;

/// Describes the change between two versions.
pub(super) fn change(expected: &Version, found: &Version) -> String {
    match (&expected.etag, &found.etag) {
        (Some(one), Some(other)) if expected.differs_by_tag(found) => {
            format!("the ETag varies ({one}, {other}) while length and date do not")
        }
        _ => format!("changed while it was read{}", difference(expected, found)),
    }
}

/// Returns the descriptions of two versions that differ. If the two descriptions are equal, the
/// inode change time of a file is added, which a description otherwise omits.
#[must_use]
pub fn differing_texts(expected: &Version, found: &Version) -> (String, String) {
    let (one, other) = (expected.to_string(), found.to_string());
    match (expected.file, found.file) {
        (Some(old), Some(new)) if one == other => {
            let written = |text, at| format!("{text}, inode written at {at} ns");
            (written(one, old.changed_ns), written(other, new.changed_ns))
        }
        _ => (one, other),
    }
}

/// Returns the difference between two versions, as the end of a message: their descriptions or, if
/// these are equal, their inode change times.
#[must_use]
pub fn difference(expected: &Version, found: &Version) -> String {
    let (one, other) = (expected.to_string(), found.to_string());
    match (expected.file, found.file) {
        _ if one != other => format!(": expected {one}, found {other}"),
        (Some(one), Some(other)) => {
            format!(": its inode was written at {} ns, not at {}", other.changed_ns, one.changed_ns)
        }
        _ => format!(", although its version is still {one}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn no_two_equal_texts_are_said_to_differ() {
        let file = |changed| {
            let file = firstbyte_location::FileIdentity::new((1, 2), (3_i64, 4_i64), (changed, 0));
            Box::new(Version { file: Some(file), size: Some(5), ..Version::default() })
        };
        let error = Error::Changed { location: "/f".into(), expected: file(6), found: file(7), trace: None }
            .to_string();
        assert!(error.contains("written at 7000000000 ns, not at 6000000000"), "{error}");
        let error =
            Error::Changed { location: "/f".into(), expected: Box::default(), found: file(7), trace: None };
        assert!(error.to_string().contains("expected unknown, found inode 2"), "{error}");
        let (one, other) = differing_texts(&file(6), &file(7));
        assert!(one.ends_with("at 6000000000 ns") && other.ends_with("at 7000000000 ns"), "{one} {other}");
    }
}
