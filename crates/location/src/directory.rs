//! Finds the directory of a local path in the form that system calls need: `.` instead of an empty
//! path.

use std::path::Path;

/// Returns the directory that holds the last component of `path`. For a bare name, returns `.`.
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
