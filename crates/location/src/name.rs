//! Checks the names that a store, a server or a URL proposes for a file, before they are joined to
//! a path.
//!
//! A [`DestinationName`] is one component of a path, and cannot lead to another directory. Copies
//! to a destination with files join only such names, and the mount shows only such names.

use std::fmt;

/// Maximum length of the name of a directory entry on Linux, in bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// Suffix of the hidden files in which copies, layouts and servers write until a file is complete:
/// `.NAME.firstbyte-part`.
pub const PARTIAL_SUFFIX: &str = ".firstbyte-part";

/// True for the name of a file that is still being written. Listings omit such files.
#[must_use]
pub fn is_partial_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PARTIAL_SUFFIX.as_bytes())
}

/// True if a name of several components may lead out of the place that it is joined to, on some
/// store: a component is `.` or `..`. Some servers take `\` for a separator, and some take the text
/// after a `;` for parameters of the component (RFC 3986, 3.3), so that `..;x` means `..` there.
#[must_use]
pub fn may_lead_out(name: &[u8]) -> bool {
    let mut components = name.split(|byte| matches!(byte, b'/' | b'\\'));
    components.any(|component| {
        let end = component.iter().position(|byte| *byte == b';').unwrap_or(component.len());
        matches!(&component[..end], b"." | b"..")
    })
}

/// One component of a path. It is not empty, is neither `.` nor `..`, has no `/` and no zero byte,
/// and is 255 bytes or shorter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DestinationName(Vec<u8>);

/// The reason why bytes are not a [`DestinationName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// Empty, as between the slashes of `a//b`.
    Empty,
    /// `.` or `..`.
    Dots,
    /// More than 255 bytes.
    TooLong,
    /// A `/` in a name.
    Slash,
    /// A zero byte.
    Zero,
}

impl NameFault {
    /// Returns the reason, as a noun.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Empty => "an empty name",
            Self::Dots => "`.` or `..`, which lead to another directory",
            Self::TooLong => "a name of more than 255 bytes",
            Self::Slash => "a `/` in a name",
            Self::Zero => "a zero byte in a name",
        }
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl DestinationName {
    /// Returns the name after checking that it is one component.
    ///
    /// # Errors
    /// The [`NameFault`] of the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameFault> {
        let bytes = bytes.into();
        Self::check(&bytes).map(|()| Self(bytes))
    }

    /// Checks a name like [`new`](Self::new), but does not store it.
    ///
    /// # Errors
    /// The [`NameFault`] of the bytes.
    pub fn check(bytes: &[u8]) -> Result<(), NameFault> {
        match bytes {
            b"" => Err(NameFault::Empty),
            b"." | b".." => Err(NameFault::Dots),
            _ if bytes.contains(&b'/') => Err(NameFault::Slash),
            _ if bytes.contains(&0) => Err(NameFault::Zero),
            _ if bytes.len() > NAME_MAX => Err(NameFault::TooLong),
            _ => Ok(()),
        }
    }

    /// Checks all components of a name below a directory, such as `a/b`.
    ///
    /// # Errors
    /// The fault of the first component that has one. A leading or trailing `/` makes an empty
    /// component.
    pub fn check_path(name: &[u8]) -> Result<(), NameFault> {
        name.split(|byte| *byte == b'/').try_for_each(Self::check)
    }

    /// Returns the name as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_with_a_dot_component_may_lead_out() {
        for name in ["..", "a/../b", "./a", "a/.", "a\\..\\b", "a/..;/b", "..;x=1/b", ".;", "a/..\\b"] {
            assert!(may_lead_out(name.as_bytes()), "{name}");
        }
        for name in ["", "a", "a/b", "...", "a..", "..a/b", ".hidden", "a;..", "a/;b", "a//b"] {
            assert!(!may_lead_out(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn only_a_name_that_a_directory_can_hold_passes() {
        for (name, expected) in [
            (&b"a"[..], Ok(())),
            (b"...", Ok(())),
            (b"..a", Ok(())),
            (b"\xff\xfe \n\\", Ok(())),
            (&[b'x'; 255], Ok(())),
            (&[b'x'; 256], Err(NameFault::TooLong)),
            (b"", Err(NameFault::Empty)),
            (b"/", Err(NameFault::Slash)),
            (b".", Err(NameFault::Dots)),
            (b"..", Err(NameFault::Dots)),
            (b"a/../../b", Err(NameFault::Slash)),
            (b"a\0b", Err(NameFault::Zero)),
        ] {
            assert_eq!(DestinationName::check(name), expected, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn a_checked_path_never_leaves_its_directory(name in "[./a\u{0}]{0,12}") {
            if DestinationName::check_path(name.as_bytes()).is_ok() {
                let path = std::path::Path::new(&name);
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert!(path.components().count() == name.split('/').count());
            }
        }
    }
}
