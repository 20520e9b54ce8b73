//! Finds two objects of a manifest that a copy would write to the same name, so that one would
//! overwrite the other. Called once the sources are listed.
//!
//! Each source was listed in the order of its names, so the sources are merged, with one group of
//! rows of each in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;

use firstbyte_location::Location;
use serde::{Deserialize, Serialize};

use super::PlannedSource;
use super::table::{ManifestReader, Rows};
use crate::copy_rules::tree_name;

/// Two objects with the same name below the destination.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct CommonTarget {
    /// The location of one object.
    pub first: String,
    /// The location of the other object.
    pub second: String,
}

/// The objects of one source, in the order of their names below the destination.
struct TargetRows {
    rows: Rows,
    root: Location,
    /// The name that the source has below the destination, with a `/` at its end; empty if its
    /// objects are placed directly there.
    prefix: Vec<u8>,
}

impl TargetRows {
    fn open(listed: &File, place: usize, source: &PlannedSource) -> io::Result<Self> {
        let root = source.location().map_err(io::Error::other)?;
        let name = if source.named { tree_name(&root).map_err(io::Error::other)? } else { None };
        let prefix = name.map_or_else(Vec::new, |name| [name.as_bytes(), b"/"].concat());
        let rows = ManifestReader::new(listed.try_clone()?)?.rows(move |shard| shard as usize == place);
        Ok(Self { rows, root, prefix })
    }

    /// Returns the name of the next object below the destination, and the object's location.
    fn next(&mut self) -> io::Result<Option<(Vec<u8>, String)>> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        let location = Location::parse(OsStr::new(&row.location)).map_err(io::Error::other)?;
        let name = location.name_below(&self.root).unwrap_or_default();
        Ok(Some(([self.prefix.as_slice(), &name].concat(), row.location)))
    }
}

/// Returns two objects with a common target, if there are any. In the rows of `listed`, `shard` is
/// the index of the source.
pub(super) fn find(listed: &File, sources: &[PlannedSource]) -> io::Result<Option<CommonTarget>> {
    if sources.len() < 2 {
        return Ok(None);
    }
    let opened = sources.iter().enumerate().map(|(place, source)| TargetRows::open(listed, place, source));
    let mut sources = opened.collect::<io::Result<Vec<TargetRows>>>()?;
    let mut heads = BinaryHeap::new();
    for (place, source) in sources.iter_mut().enumerate() {
        heads.extend(source.next()?.map(|(target, location)| Reverse((target, place, location))));
    }
    let mut before: Option<(Vec<u8>, String)> = None;
    while let Some(Reverse((target, place, second))) = heads.pop() {
        if let Some((_, first)) = before.filter(|(last, _)| *last == target) {
            return Ok(Some(CommonTarget { first, second }));
        }
        heads.extend(sources[place].next()?.map(|(target, location)| Reverse((target, place, location))));
        before = Some((target, second));
    }
    Ok(None)
}
