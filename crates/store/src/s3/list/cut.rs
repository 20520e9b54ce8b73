//! Chooses where to split a range of keys, from the keys seen so far.
//!
//! S3 lists forwards from any string and does not state how many keys follow, so where to split is
//! a guess. Names that programs generate use few different characters at each position (digits of a
//! counter, a date or a hash). So a character that was seen at a position is expected there in
//! other keys too. A wrong guess costs one request. It is not repeated, because that request shows
//! that the upper half is empty.
//!
//! A range is split at the first position at which two of its keys may differ. The keys that are
//! compared are the one after the last listed key, and the end of the range. So the first splits
//! divide the widest ranges.

use std::collections::BTreeSet;

/// Number of directory levels that are distinguished. Deeper levels count as the last one.
const DEPTHS: usize = 8;
/// Number of character positions that are distinguished within a name. Later positions count as the
/// last one.
const OFFSETS: usize = 48;
/// Maximum number of non-ASCII characters remembered per position. Chinese names may have thousands
/// of characters at a position; a few dozen are enough to split a range.
const MAX_OTHER_CHARACTERS: usize = 64;
/// Weight of a character that was seen at a position. A digit that is merely possible has weight 1.
const SEEN_WEIGHT: u32 = 4;

/// The characters seen at one position of keys.
#[derive(Clone, Debug, Default)]
struct SeenCharacters {
    ascii: u128,
    others: BTreeSet<char>,
}

/// The characters seen at each position of keys, from which splits are guessed.
#[derive(Clone, Debug)]
pub(super) struct KeyShape {
    places: Vec<SeenCharacters>,
    grouping: Grouping,
}

/// Whether a listing returns only keys, or also common prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Whole keys.
    Keys,
    /// Keys, and common prefixes up to the first `/`. No split is made after a `/`, because it
    /// would divide a common prefix.
    Prefixes,
}

/// A split of a range. Keys up to and including `at` are in the lower half, all others in the upper
/// half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) at: String,
    /// Length, in bytes, of the beginning that all keys around the split share. The shorter it is,
    /// the wider the range.
    pub(super) shared: usize,
    /// Total weight of the characters by which the range could be split at this position.
    pub(super) breadth: u32,
}

impl SeenCharacters {
    fn add(&mut self, symbol: char) {
        if symbol.is_ascii() {
            self.ascii |= 1 << u32::from(symbol);
        } else if self.others.len() < MAX_OTHER_CHARACTERS {
            self.others.insert(symbol);
        }
    }

    fn has(&self, symbol: char) -> bool {
        if symbol.is_ascii() {
            self.ascii >> u32::from(symbol) & 1 == 1
        } else {
            self.others.contains(&symbol)
        }
    }

    /// Returns three weights: of all possible characters, of those before `symbol`, and of `symbol`
    /// itself.
    fn weights(&self, symbol: char) -> (u32, u32, u32) {
        let mut weights = (0, 0, 0);
        for (candidate, weight) in self.candidates() {
            weights.0 += weight;
            weights.1 += if candidate < symbol { weight } else { 0 };
            weights.2 += if candidate == symbol { weight } else { 0 };
        }
        weights
    }

    /// Returns the possible characters with their weights: the characters seen and, if a digit was
    /// seen, all digits.
    fn candidates(&self) -> impl Iterator<Item = (char, u32)> + '_ {
        let counts = ('0'..='9').any(|digit| self.has(digit));
        let ascii = ('\0'..='\x7f').filter_map(move |symbol| match self.has(symbol) {
            true => Some((symbol, SEEN_WEIGHT)),
            false if counts && symbol.is_ascii_digit() => Some((symbol, 1)),
            false => None,
        });
        ascii.chain(self.others.iter().map(|symbol| (*symbol, SEEN_WEIGHT)))
    }
}

impl KeyShape {
    pub(super) fn new(grouping: Grouping) -> Self {
        Self { places: vec![SeenCharacters::default(); DEPTHS * OFFSETS], grouping }
    }

    pub(super) fn see(&mut self, key: &str) {
        let (mut depth, mut offset) = (0, 0);
        for symbol in key.chars() {
            self.places[place(depth, offset)].add(symbol);
            (depth, offset) = if symbol == '/' { (depth + 1, 0) } else { (depth, offset + 1) };
        }
    }

    /// Returns the position of a key among all possible keys of this shape, from 0 to 1. Assumes
    /// that keys are distributed evenly. The position serves to estimate how many pages a range
    /// still has.
    pub(super) fn rank(&self, key: &str) -> f64 {
        let (mut rank, mut scale) = (0.0, 1.0);
        let (mut depth, mut offset) = (0, 0);
        for symbol in key.chars() {
            let (all, below, own) = self.places[place(depth, offset)].weights(symbol);
            rank += scale * f64::from(below) / f64::from(all.max(1));
            scale *= f64::from(own) / f64::from(all.max(1));
            if scale < f64::EPSILON {
                break;
            }
            (depth, offset) = if symbol == '/' { (depth + 1, 0) } else { (depth, offset + 1) };
        }
        rank
    }

    /// Returns a split of the keys after `last` up to `until`, or `None` if no position for a split
    /// is known.
    pub(super) fn cut(&self, last: &str, until: Option<&str>) -> Option<Cut> {
        let shared = until.map_or(0, |until| shared_prefix(last, until));
        let (mut depth, mut offset) = (0, 0);
        let mut closing: Option<Cut> = None;
        let ends = last.char_indices().map(|(at, symbol)| (at, Some(symbol))).chain([(last.len(), None)]);
        for (at, low) in ends {
            if at >= shared {
                let high = until.filter(|_| at == shared).map(|until| &until[shared..]);
                let fits = |symbol: char| {
                    low.is_none_or(|low| symbol > low)
                        && high.is_none_or(|high| precedes(symbol, high))
                        && !(self.grouping == Grouping::Prefixes && symbol == '/')
                };
                if let Some((symbol, breadth)) = middle(&self.places[place(depth, offset)], fits) {
                    let cut = Cut { at: format!("{}{symbol}", &last[..at]), shared: at, breadth };
                    return Some(closing.unwrap_or(cut));
                }
                // No other character was seen at this position, so it gives no split between known
                // characters. The split after all keys that begin with `last[..=at]` is remembered.
                // A later position replaces it, so a single split excludes all such positions.
                if let Some(next) = low.and_then(following).filter(|next| fits(*next)) {
                    let shared = closing.map_or(at, |cut| cut.shared);
                    closing = Some(Cut { at: format!("{}{next}", &last[..at]), shared, breadth: 1 });
                }
            }
            if low == Some('/') {
                if self.grouping == Grouping::Prefixes {
                    break;
                }
                (depth, offset) = (depth + 1, 0);
            } else {
                offset += 1;
            }
        }
        closing
    }
}

/// Returns the median by weight of the possible characters, and the weight of all of them.
fn middle(seen: &SeenCharacters, fits: impl Fn(char) -> bool) -> Option<(char, u32)> {
    let candidates = || seen.candidates().filter(|(symbol, _)| fits(*symbol));
    let total = candidates().map(|(_, weight)| weight).sum();
    let mut below = 0;
    let middle = candidates().find(|(_, weight)| {
        below += weight;
        2 * below >= total
    });
    middle.map(|(symbol, _)| (symbol, total))
}

/// Returns true if keys above a split at `symbol` may still be within the range that ends at
/// `until`.
fn precedes(symbol: char, until: &str) -> bool {
    let mut symbols = until.chars();
    match symbols.next() {
        Some(first) => symbol < first || (symbol == first && symbols.next().is_some()),
        None => false,
    }
}

/// Returns the next character in the order of keys, skipping UTF-16 surrogates.
fn following(symbol: char) -> Option<char> {
    match symbol {
        '\u{d7ff}' => Some('\u{e000}'),
        _ => char::from_u32(u32::from(symbol) + 1),
    }
}

fn place(depth: usize, offset: usize) -> usize {
    depth.min(DEPTHS - 1) * OFFSETS + offset.min(OFFSETS - 1)
}

/// Returns the length in bytes of the common prefix of two strings, in whole characters.
fn shared_prefix(left: &str, right: &str) -> usize {
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right);
    same.map(|(symbol, _)| symbol.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(keys: &[&str], grouping: Grouping) -> KeyShape {
        let mut shape = KeyShape::new(grouping);
        keys.iter().for_each(|key| shape.see(key));
        shape
    }

    #[test]
    fn a_counter_is_split_at_the_median_digit() {
        let shape = shape(&["file000", "file999"], Grouping::Keys);
        assert_eq!(shape.cut("file199", Some("file9")).unwrap().at, "file5");
        assert_eq!(shape.cut("file199", Some("file3")).unwrap().at, "file2");
    }

    #[test]
    fn one_split_excludes_all_positions_with_a_single_character() {
        let shape = shape(&["dir/a", "dir/b"], Grouping::Keys);
        let first = shape.cut("dir/a", None).unwrap();
        assert_eq!((first.at.as_str(), first.shared), ("dir0", 0));
        assert_eq!(shape.cut("dir/a", Some(&first.at)).unwrap().at, "dir/b");
    }

    #[test]
    fn a_common_prefix_is_never_divided() {
        let shape = shape(&["a/x", "b/y", "c/z"], Grouping::Prefixes);
        for last in ["a/", "a.", "a"] {
            let mut until: Option<String> = None;
            while let Some(cut) = shape.cut(last, until.as_deref()) {
                assert!(!cut.at.contains('/'), "{cut:?}");
                until = Some(cut.at);
            }
        }
    }

    proptest! {
        #[test]
        fn a_split_is_after_the_last_key_and_before_the_end(
            keys in proptest::collection::vec("[a-c0-2/ü😀]{0,6}", 0..20),
            last in "[a-d0-3/ü😀]{0,6}",
            until in proptest::option::of("[a-d0-3/ü😀]{1,6}"),
        ) {
            prop_assume!(until.as_ref().is_none_or(|until| &last < until));
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            for grouping in [Grouping::Keys, Grouping::Prefixes] {
                // Repeated splits narrow the range until no position for a split is left.
                let (shape, mut until) = (shape(&keys, grouping), until.clone());
                while let Some(cut) = shape.cut(&last, until.as_deref()) {
                    prop_assert!(cut.at > last && until.as_ref().is_none_or(|until| &cut.at < until), "{cut:?}");
                    until = Some(cut.at);
                }
            }
        }
    }
}
