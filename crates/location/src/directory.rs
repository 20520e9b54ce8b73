//! Finds the directory of a local path, as system calls need it: `.` rather than an empty path.

use std::path::Path;

/// The directory that holds the last component of `path`: `.` for a bare name.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_lies_in_the_current_directory() {
        let directories = ["a", "a/b", "/a", "./a"].map(|path| directory_of(Path::new(path)));
        assert_eq!(directories, [".", "a", "/", "."].map(Path::new));
    }
}
