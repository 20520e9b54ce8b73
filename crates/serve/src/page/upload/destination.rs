//! Checks names in the destination directory, and publishes a finished upload.

use std::io;

use serde::Deserialize;

use super::error::{Error, Result};
use crate::http::condition::{Condition, UnmetCondition};
use crate::object::publish::{self, FinishedFile, publish};
use crate::object::root::ServedRoot;
use crate::path::EntryPath;

/// Maximum number of names tried for "keep both".
const MAX_COPIES: u32 = 10_000;

/// The action if a file of the name exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExistingFilePolicy {
    /// Refuse the upload.
    #[default]
    Refuse,
    /// Replace the existing file.
    Replace,
    /// Keep both; the new file is `NAME (1)`.
    KeepBoth,
}

/// Refuses a name that has several components, or that would be hidden or reserved.
pub(super) fn check_name(name: &str) -> Result<()> {
    let fits = EntryPath::parse(name.as_bytes())
        .is_ok_and(|path| path.as_bytes() == name.as_bytes() && !path.is_root());
    if fits && !name.contains('/') { Ok(()) } else { Err(Error::Name(name.into())) }
}

/// Publishes the finished file as `name` in `directory`, as `existing` requires. Returns the file's
/// final name. An existing directory of that name counts as an existing file.
pub(super) fn put_in_place(
    root: &ServedRoot,
    finished: FinishedFile<'_>,
    directory: &EntryPath,
    name: &str,
    existing: ExistingFilePolicy,
) -> publish::Result<String> {
    let put = |name: &str, condition: &Condition| {
        publish(root, finished, &EntryPath::default(), &directory.join(name.as_ref()), condition)
    };
    let taken = || Err(UnmetCondition::Different.into());
    match existing {
        ExistingFilePolicy::Replace => put(name, &Condition::default()).map(|_| name.into()),
        ExistingFilePolicy::Refuse => match put(name, &Condition::absent()) {
            Err(publish::Error::Io(error)) if error.kind() == io::ErrorKind::IsADirectory => taken(),
            done => done.map(|_| name.into()),
        },
        ExistingFilePolicy::KeepBoth => {
            for copy in 0..MAX_COPIES {
                let candidate = copy_name(name, copy);
                match put(&candidate, &Condition::absent()) {
                    Err(publish::Error::Unmet(_)) => {}
                    Err(publish::Error::Io(error)) if error.kind() == io::ErrorKind::IsADirectory => {}
                    done => return done.map(|_| candidate),
                }
            }
            taken()
        }
    }
}

/// Makes `a (1).tar` from `a.tar`, shortened if it would exceed 255 bytes.
fn copy_name(name: &str, copy: u32) -> String {
    if copy == 0 {
        return name.into();
    }
    let dot = name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    let (extension, stem) = if extension.len() > 32 { ("", name) } else { (extension, stem) };
    let suffix = format!(" ({copy}){extension}");
    let mut end = stem.len().min(255 - suffix.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_extension_and_fits_a_file_name() {
        assert_eq!(copy_name("a.tar.gz", 2), "a.tar (2).gz");
        assert_eq!(copy_name(".profile", 1), ".profile (1)");
        let long = "é".repeat(127);
        assert!(copy_name(&long, 9_999).len() <= 255);
    }

    #[test]
    fn names_that_leave_the_directory_or_hide_are_refused() {
        for name in ["", ".", "..", "a/b", "a\0", ".firstbyte", ".x.firstbyte-part", &"n".repeat(256)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["...", ".hidden", "a\nb", "javascript:alert(1)", "x.firstbyte-part"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
