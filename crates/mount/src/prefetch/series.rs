//! Predicts the next file of a numbered series, such as volumes of a database or shards of a data
//! set or model.
//!
//! The prediction is used for files that are so small that an open waits until they are hydrated. A
//! program that opens `db.00.nsq` and then `db.01.nsq` will probably open `db.02.nsq`, so that file
//! is fetched while the program works on the second one. A single numbered file predicts nothing.

use std::collections::VecDeque;
use std::ops::Range;

use rustix_futex_sync::Mutex;

use crate::inodes::name_of;

/// Maximum number of paths that are remembered. A few series may be opened alternately.
const MAX_REMEMBERED_PATHS: usize = 64;

/// The files that were opened most recently, and the predictions made.
#[derive(Default)]
pub(super) struct Series(Mutex<Opened>);

#[derive(Default)]
struct Opened {
    paths: VecDeque<Box<[u8]>>,
    /// The predictions that were already returned.
    predicted: VecDeque<Box<[u8]>>,
}

impl Series {
    /// Records that the file at `path` is opened. Returns the path of the file that is likely to be
    /// opened next, unless that path was returned before.
    pub(super) fn open(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut opened = self.0.lock();
        let follows = |number: &Range<usize>| {
            opened.paths.iter().any(|before| with_next(before, number.start).is_some_and(|next| next == path))
        };
        let next = numbers(path).find(follows).and_then(|number| with_next(path, number.start));
        remember(&mut opened.paths, path);
        next.filter(|next| remember(&mut opened.predicted, next))
    }
}

/// Adds a path. If there are many, drops the oldest. Returns false if the path was there already.
fn remember(paths: &mut VecDeque<Box<[u8]>>, path: &[u8]) -> bool {
    if paths.iter().any(|known| **known == *path) {
        return false;
    }
    if paths.len() == MAX_REMEMBERED_PATHS {
        paths.pop_front();
    }
    paths.push_back(path.into());
    true
}

/// Returns the positions of the numbers in the name of a file.
fn numbers(path: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let name = path.len() - name_of(path).len();
    let starts = (name..path.len())
        .filter(move |at| path[*at].is_ascii_digit() && (*at == name || !path[*at - 1].is_ascii_digit()));
    starts.map(|start| start..end_of(path, start))
}

/// Returns the end of the number that begins at `start`.
fn end_of(path: &[u8], start: usize) -> usize {
    path[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(path.len(), |len| start + len)
}

/// Returns the path with the number at `start` increased by one, in the same number of digits if
/// that is possible. Returns `None` if there is no number.
fn with_next(path: &[u8], start: usize) -> Option<Vec<u8>> {
    let digits = path.get(start..end_of(path, start.min(path.len())))?;
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let next = format!("{:0width$}", number.checked_add(1)?, width = digits.len());
    Some([&path[..start], next.as_bytes(), &path[start + digits.len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(paths: &[&str]) -> Vec<Option<String>> {
        let series = Series::default();
        let next = |path: &&str| series.open(path.as_bytes()).map(|next| String::from_utf8(next).unwrap());
        paths.iter().map(next).collect()
    }

    #[test]
    fn the_second_of_a_series_predicts_the_third() {
        assert_eq!(opened(&["db/v.00.nsq", "db/v.01.nsq"]), [None, Some("db/v.02.nsq".into())]);
        assert_eq!(
            opened(&["model-00009-of-00030.st", "model-00010-of-00030.st"])[1].as_deref(),
            Some("model-00011-of-00030.st")
        );
        assert_eq!(opened(&["9", "10"])[1].as_deref(), Some("11"));
        assert_eq!(opened(&["part-99-a", "part-100-a"])[1].as_deref(), Some("part-101-a"));
    }

    #[test]
    fn several_series_may_be_opened_by_turns_and_a_file_again() {
        let paths = ["a1.h", "a1.s", "a2.h", "a1.h", "a2.s", "a2.s"];
        let expected = [None, None, Some("a3.h".into()), None, Some("a3.s".into()), None];
        assert_eq!(opened(&paths), expected);
    }

    #[test]
    fn a_file_that_is_not_the_next_predicts_nothing() {
        assert_eq!(opened(&["v1", "v3", "w4", "d5/v4"]), [None, None, None, None]);
        assert_eq!(opened(&["d1/x", "d2/x"]), [None, None], "only names count");
        assert_eq!(opened(&["99999999999999999999", "x", ""]), [None, None, None]);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let series = Series::default();
        (0..1000).for_each(|index| drop(series.open(format!("{}x{index}", index * 7919).as_bytes())));
        let opened = series.0.lock();
        assert_eq!((opened.paths.len(), opened.predicted.len()), (MAX_REMEMBERED_PATHS, 0));
    }
}
