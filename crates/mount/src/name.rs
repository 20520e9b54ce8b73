//! Decides which names of a store can be shown as file names. Keys may contain any text.

/// Longest name the kernel takes, bytes (`NAME_MAX`).
const LONGEST: usize = 255;

/// Why a key has no place in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unshowable {
    /// An empty part, as between the slashes of `a//b`.
    Empty,
    /// `.` or `..`.
    Dots,
    /// More than 255 bytes.
    TooLong,
    /// A slash or a zero byte.
    Byte,
}

impl Unshowable {
    /// For people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Empty => "an empty name",
            Self::Dots => "`.` or `..`",
            Self::TooLong => "longer than 255 bytes",
            Self::Byte => "a slash or zero byte in a name",
        }
    }
}

/// Checks that `name`, one part of a key, can be a file name.
pub(crate) fn check(name: &[u8]) -> Result<(), Unshowable> {
    match name {
        // A store lists the empty part of `a//b` as a directory called `/`.
        b"" | b"/" => Err(Unshowable::Empty),
        b"." | b".." => Err(Unshowable::Dots),
        _ if name.len() > LONGEST => Err(Unshowable::TooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Unshowable::Byte),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_directory_can_hold_passes() {
        for (name, expected) in [
            (&b"a"[..], Ok(())),
            (b"...", Ok(())),
            (b"\xff\xfe \n", Ok(())),
            (&[b'x'; 255], Ok(())),
            (&[b'x'; 256], Err(Unshowable::TooLong)),
            (b"", Err(Unshowable::Empty)),
            (b"/", Err(Unshowable::Empty)),
            (b".", Err(Unshowable::Dots)),
            (b"..", Err(Unshowable::Dots)),
            (b"a\0b", Err(Unshowable::Byte)),
        ] {
            assert_eq!(check(name), expected, "{name:?}");
        }
    }
}
