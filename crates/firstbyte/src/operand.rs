//! Parses an operand of a verb: a location, or a location and a pattern for the names below it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use firstbyte_location::{Location, Service, shown};
use firstbyte_transfer::Levels;

use crate::error::{Error, Result};
use crate::pattern::{Pattern, split_glob};

/// Extent of an operand: one object or a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperandKind {
    /// One object. A directory as the source of a copy is an error.
    #[default]
    Object,
    /// A directory and everything below it.
    Tree,
}

/// A location, and the pattern written after it, if any.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The location. If there is a pattern, the location before the pattern.
    pub root: Location,
    /// The pattern for names below `root`.
    pub glob: Option<Glob>,
    /// The text as it was written, without secrets. It is only shown, and never parsed again.
    pub text: OsString,
}

/// A pattern for names below a location.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Pattern,
    /// The offset of the pattern in the written text.
    begins: usize,
    /// Number of levels of directories that may contain a match. `None` if it is unlimited.
    pub levels: Option<u32>,
}

impl Operand {
    /// Parses `text`. The name of an existing local file is never a pattern.
    ///
    /// # Errors
    /// The text is not a location, or the pattern is in the name of a bucket.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let location = Location::parse(text)?;
        let text = match &location {
            Location::Http(_) => OsString::from(shown(text).to_string()),
            _ => text.to_owned(),
        };
        Ok(match Glob::parse(&text, &location)? {
            Some((root, glob)) => Self { root, glob: Some(glob), text },
            None => Self { root: location, glob: None, text },
        })
    }

    /// Parses `text`, taking wildcards as ordinary characters.
    ///
    /// # Errors
    /// The text is not a location.
    pub fn literal(text: &OsStr) -> Result<Self> {
        let root = Location::parse(text)?;
        let text = OsString::from(shown(text).to_string());
        Ok(Self { root, glob: None, text })
    }

    /// Parses all `texts`. If there are none, returns the current directory.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    pub fn parse_all(texts: &[OsString]) -> Result<Vec<Self>> {
        if texts.is_empty() {
            return Ok(vec![Self::parse(OsStr::new("."))?]);
        }
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// Returns the text before the pattern, or all of it if there is no pattern.
    #[must_use]
    pub fn root_text(&self) -> &[u8] {
        let length = self.glob.as_ref().map_or(self.text.len(), |glob| glob.begins);
        &self.text.as_bytes()[..length]
    }

    /// Returns true if `location` is the operand, is below the operand, or matches its pattern.
    #[must_use]
    pub fn takes(&self, location: &Location) -> bool {
        let Some(name) = below(&self.root, location) else { return false };
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        self.glob.as_ref().is_none_or(|glob| glob.takes(name, OperandKind::Tree))
    }
}

impl Glob {
    /// Splits `text`, which was parsed as `location`, into a location and the pattern after it.
    /// Returns `None` if `text` has no wildcard, is a URL (in which `?` begins the query), or names
    /// an existing local file.
    ///
    /// # Errors
    /// The pattern is in the name of a bucket.
    pub fn parse(text: &OsStr, location: &Location) -> Result<Option<(Location, Self)>> {
        let Some((base, pattern)) = text.to_str().and_then(split_glob) else {
            return Ok(None);
        };
        let is_name = match location {
            Location::Local(path) => path.symlink_metadata().is_ok(),
            Location::Http(_) => true,
            Location::Object(_) | Location::Sftp(_) => false,
        };
        if is_name {
            return Ok(None);
        }
        if Service::of_text(base).is_some_and(|(_, rest)| rest.is_empty()) {
            return Err(Error::Operand {
                operand: shown(text).to_string(),
                why: "a bucket's name cannot hold wildcards".into(),
            });
        }
        let levels = pattern.levels();
        let root =
            if base.is_empty() { Location::Local("./".into()) } else { Location::parse(OsStr::new(base))? };
        Ok(Some((root, Self { pattern, begins: base.len(), levels })))
    }

    /// Returns the number of levels that a listing must visit to find every match.
    #[must_use]
    pub fn listed_levels(&self, depth: OperandKind) -> Levels {
        if depth == OperandKind::Object && self.levels == Some(1) { Levels::One } else { Levels::All }
    }

    /// Returns the shortest beginning of `path` that matches: a directory above the path, or the
    /// path itself.
    #[must_use]
    pub fn part<'n>(&self, path: &'n [u8]) -> Option<&'n [u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).map(|end| &path[..end]).find(|part| self.takes(part, OperandKind::Object))
    }

    /// Returns true if a name below the directory `path` can match. `path` must not end in `/`.
    #[must_use]
    pub fn enters(&self, path: &[u8], depth: OperandKind) -> bool {
        let name = String::from_utf8_lossy(path);
        self.pattern.may_match_below(&name)
            || (depth == OperandKind::Tree && self.pattern.matches_within(&name))
    }

    /// Returns the literal beginning that all matching names in directories at `level` certainly
    /// have.
    #[must_use]
    pub fn beginning(&self, level: usize) -> String {
        self.pattern.beginning(level)
    }

    /// Returns true if a name below the root matches. With [`OperandKind::Tree`], also returns true
    /// if a directory above the name matches.
    #[must_use]
    pub fn takes(&self, name: &[u8], depth: OperandKind) -> bool {
        let name = String::from_utf8_lossy(name);
        match depth {
            // The root itself is not below the root.
            _ if name.is_empty() => false,
            OperandKind::Object => self.pattern.matches(&name),
            OperandKind::Tree => self.pattern.matches_within(&name),
        }
    }
}

/// Returns the name of a location relative to `root`. It is empty for the root, and `None` if the
/// location is not below `root`.
#[must_use]
pub fn below(root: &Location, location: &Location) -> Option<Vec<u8>> {
    let (root, text) = (absolute(root).to_string(), absolute(location).to_string());
    if text == root {
        return Some(Vec::new());
    }
    let root = format!("{}/", root.trim_end_matches('/'));
    text.strip_prefix(&root).map(|name| name.as_bytes().to_vec())
}

/// Makes a local path absolute, because the cache names files that way.
fn absolute(location: &Location) -> Cow<'_, Location> {
    match location {
        Location::Local(path) if path.is_relative() => {
            // Without a current directory, no location is below it.
            Cow::Owned(Location::Local(std::path::absolute(path).unwrap_or_else(|_| path.clone())))
        }
        other => Cow::Borrowed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_takes_itself_what_is_below_it_and_what_its_pattern_matches() {
        let operand = |text: &str| Operand::parse(OsStr::new(text)).unwrap();
        let object = Location::parse(OsStr::new("s3://b/run/a.txt")).unwrap();
        for (text, takes) in [
            ("s3://b/run/a.txt", true),
            ("s3://b/run", true),
            ("s3://b/", true),
            ("s3://b/ru", false),
            ("s3://b/run/*.txt", true),
            ("s3://b/*", true),
            ("s3://b/run/*.gz", false),
        ] {
            assert_eq!(operand(text).takes(&object), takes, "{text}");
        }
    }
}
