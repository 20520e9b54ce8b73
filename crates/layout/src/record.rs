//! Reads and writes the layout file, a small text file in the root with the layout's shape and the
//! direction in which files move.
//!
//! The file always has the same length and is written in place by one call. So no reader sees a
//! half-written file, and the inode stays the same, which the locks require. A newer version of the
//! format is refused.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::scheme::LayoutScheme;

/// The beginning of the file's first line.
const TITLE: &str = "firstbyte-layout";
/// Explanation for a user who opens the file.
const REMARK: &str = "# The files here are kept by `firstbyte layout`; `firstbyte layout unshard` makes the directory flat again.";
/// The newest format version that this program can read, and the version that it writes.
const VERSION: u32 = 1;
/// Length of the file in bytes, with room for longer values. The file is within one block of the
/// disk, so after a power cut it has either the old or the new content.
const FILE_LENGTH: usize = 512;
/// The place of a layout's files, or the direction in which they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutState {
    /// Files move from the root into the directories.
    Sharding,
    /// Files are in the directories.
    Sharded,
    /// Files move from the directories back to the root.
    Unsharding,
}

impl LayoutState {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Sharding, "sharding"), (Self::Sharded, "sharded"), (Self::Unsharding, "unsharding")];
}

impl fmt::Display for LayoutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(one, _)| one == self).map_or("", |(_, word)| word))
    }
}

/// The content of a layout file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutRecord {
    pub(crate) scheme: LayoutScheme,
    pub(crate) state: LayoutState,
}

impl LayoutRecord {
    /// Reads the record from `file`. Errors name `path`.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Self> {
        let mut bytes = [0; FILE_LENGTH];
        let mut filled = 0;
        while filled < FILE_LENGTH {
            match file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::NotSeekable => {
                    return Err(Error::Malformed { path: path.to_owned(), why: "it is a pipe or a device" });
                }
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        let text = std::str::from_utf8(&bytes[..filled]);
        let text = text.map_err(|_| Error::Malformed { path: path.to_owned(), why: "it is not text" })?;
        Self::parse(text, path)
    }

    /// Writes the record and syncs it to disk.
    pub(crate) fn write(&self, file: &File, path: &Path) -> Result<()> {
        file.write_all_at(&self.render(), 0).and_then(|()| file.sync_all()).map_err(|e| Error::io(path, e))
    }

    fn render(&self) -> Vec<u8> {
        let Self { scheme, state } = self;
        let text = format!(
            "{TITLE} {VERSION}\n{REMARK}\nhash {}\nlevels {}\nwidth {}\nleaf {}\nstate {state}\n",
            scheme.hash(),
            scheme.levels(),
            scheme.width(),
            scheme.leaf(),
        );
        let mut bytes = text.into_bytes();
        bytes.resize(FILE_LENGTH, b'\n');
        bytes
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let malformed = |why| Error::Malformed { path: path.to_owned(), why };
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(TITLE)).map(str::trim);
        let version: u32 = version
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| malformed("it does not begin with `firstbyte-layout` and a version"))?;
        if version > VERSION {
            return Err(Error::Newer { path: path.to_owned(), version, known: VERSION });
        }
        let value = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|(found, _)| *found == key).map(|(_, value)| value.trim())
        };
        let number = |key| value(key).and_then(|text| text.parse::<u8>().ok());
        let state =
            LayoutState::ALL.iter().find(|(_, word)| value("state") == Some(word)).map(|(state, _)| *state);
        let hash = value("hash").and_then(|text| text.parse().ok());
        let leaf = value("leaf").and_then(|text| text.parse().ok());
        let (Some(hash), Some(levels), Some(width), Some(leaf)) =
            (hash, number("levels"), number("width"), leaf)
        else {
            return Err(malformed("hash, levels, width or leaf is missing or unknown"));
        };
        let scheme = LayoutScheme::new(hash, levels, width, leaf)
            .map_err(|_| malformed("its levels, width and leaf do not go together"))?;
        Ok(Self { scheme, state: state.ok_or_else(|| malformed("its state is missing or unknown"))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{DigitSource, Leaf};

    fn parse(text: &str) -> Result<LayoutRecord> {
        LayoutRecord::parse(text, Path::new("/data/.firstbyte-layout"))
    }

    fn example_record() -> LayoutRecord {
        let scheme = LayoutScheme::new(DigitSource::NamePrefix, 2, 3, Leaf::Rest).unwrap();
        LayoutRecord { scheme, state: LayoutState::Unsharding }
    }

    #[test]
    fn a_written_record_is_read_back() {
        let text = String::from_utf8(example_record().render()).unwrap();
        assert_eq!(parse(&text).unwrap(), example_record());
        assert_eq!(text.len(), FILE_LENGTH);
    }

    #[test]
    fn a_newer_version_is_refused_whatever_else_it_says() {
        let error = parse("firstbyte-layout 2\nhash blake9\n").unwrap_err();
        assert!(matches!(error, Error::Newer { version: 2, known: 1, .. }), "{error}");
    }

    #[test]
    fn an_invalid_layout_file_is_refused_with_the_reason() {
        let text = String::from_utf8(example_record().render()).unwrap();
        let broken = [
            (String::new(), "begin"),
            ("hash xxh3\n".into(), "begin"),
            (text.replace("levels 2", "levels 9"), "go together"),
            (text.replace("levels 2", "levels two"), "missing or unknown"),
            (text.replace("hash name-prefix", "hash crc"), "missing or unknown"),
            (text.replace("state unsharding", "state melting"), "state"),
        ];
        for (text, why) in broken {
            let error = parse(&text).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }
}
