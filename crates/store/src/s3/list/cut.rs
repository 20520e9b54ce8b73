//! Where to cut a range of keys in two, knowing only keys seen so far.
//!
//! S3 lists forwards from any string, and tells nothing about how many keys lie behind it. So the place for a cut is a
//! guess: names made by programs have, at the same place, the same few characters (digits of a counter, of a date, of
//! a hash), and what stood there in the keys seen stands there in the others. A wrong guess costs one request and
//! is not repeated: the half found empty is known to be.
//!
//! A cut is made at the first place where something may still differ between the key reached and the range's end,
//! so the early cuts part the widest ranges: the first characters first, then one after the other.

use std::collections::BTreeSet;

/// Directories and characters told apart. What lies deeper counts as the last: names have mostly the same form there.
const DEPTHS: usize = 8;
const OFFSETS: usize = 48;
/// Other characters than ASCII remembered at one place. A name in Chinese may have thousands; a few dozen part a range
/// well enough.
const MOST_OTHERS: usize = 64;
/// How much likelier a character that was seen is to be there than a digit that merely could be.
const SEEN: u32 = 4;

/// A part of all keys so small that nothing is told apart within it.
const NARROW: f64 = 1e-12;

/// Characters seen at one place.
#[derive(Clone, Debug, Default)]
struct Seen {
    ascii: u128,
    others: BTreeSet<char>,
}

/// What keys look like: which characters were seen where.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    places: Vec<Seen>,
    grouping: Grouping,
}

/// What the keys of a listing are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Whole keys.
    Keys,
    /// Keys and common prefixes up to the first `/`. No cut is made behind one, since it would part a common prefix.
    Prefixes,
}

/// A place to cut at: keys up to `at` are below, the others above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) at: String,
    /// Bytes that all keys on both sides near the cut share: the fewer, the wider the range.
    pub(super) shared: usize,
    /// How many characters the range may be parted by there.
    pub(super) breadth: u32,
}

impl Seen {
    fn add(&mut self, symbol: char) {
        if symbol.is_ascii() {
            self.ascii |= 1 << u32::from(symbol);
        } else if self.others.len() < MOST_OTHERS {
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

    /// The weight of all characters that may stand here, of those before `symbol`, and of itself.
    fn weights(&self, symbol: char) -> (u32, u32, u32) {
        let mut weights = (0, 0, 0);
        for (candidate, weight) in self.candidates() {
            weights.0 += weight;
            weights.1 += if candidate < symbol { weight } else { 0 };
            weights.2 += if candidate == symbol { weight } else { 0 };
        }
        weights
    }

    /// Characters that may stand here, each with its weight: those seen, and all digits where one was.
    fn candidates(&self) -> impl Iterator<Item = (char, u32)> + '_ {
        let counts = ('0'..='9').any(|digit| self.has(digit));
        let ascii = ('\0'..='\x7f').filter_map(move |symbol| match self.has(symbol) {
            true => Some((symbol, SEEN)),
            false if counts && symbol.is_ascii_digit() => Some((symbol, 1)),
            false => None,
        });
        ascii.chain(self.others.iter().map(|symbol| (*symbol, SEEN)))
    }
}

impl Shape {
    pub(super) fn new(grouping: Grouping) -> Self {
        Self { places: vec![Seen::default(); DEPTHS * OFFSETS], grouping }
    }

    /// Takes note of a key.
    pub(super) fn see(&mut self, key: &str) {
        let (mut depth, mut offset) = (0, 0);
        for symbol in key.chars() {
            self.places[place(depth, offset)].add(symbol);
            (depth, offset) = if symbol == '/' { (depth + 1, 0) } else { (depth, offset + 1) };
        }
    }

    /// How far into all keys of this shape one lies, from 0 to 1, if they are evenly spread: enough to compare how far a
    /// page has come with how far a range goes on.
    pub(super) fn rank(&self, key: &str) -> f64 {
        let (mut rank, mut scale) = (0.0, 1.0);
        let (mut depth, mut offset) = (0, 0);
        for symbol in key.chars() {
            let (all, below, own) = self.places[place(depth, offset)].weights(symbol);
            rank += scale * f64::from(below) / f64::from(all.max(1));
            scale *= f64::from(own) / f64::from(all.max(1));
            if scale < NARROW {
                break;
            }
            (depth, offset) = if symbol == '/' { (depth + 1, 0) } else { (depth, offset + 1) };
        }
        rank
    }

    /// Where to cut what lies behind `last` and not behind `until`; nothing where no place is known.
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
                // Nothing else was seen here. So that this need not be tried for every such place in turn, all of them
                // are closed by one cut: keys that begin like the last one are below it.
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

/// The middle one of the characters that may stand at a place, by weight, and the weight of all.
fn middle(seen: &Seen, fits: impl Fn(char) -> bool) -> Option<(char, u32)> {
    let candidates = || seen.candidates().filter(|(symbol, _)| fits(*symbol));
    let total = candidates().map(|(_, weight)| weight).sum();
    let mut below = 0;
    let middle = candidates().find(|(_, weight)| {
        below += weight;
        2 * below >= total
    });
    middle.map(|(symbol, _)| (symbol, total))
}

/// Whether a cut at `symbol` leaves something of a range that ends at `until` above it.
fn precedes(symbol: char, until: &str) -> bool {
    let mut symbols = until.chars();
    match symbols.next() {
        Some(first) => symbol < first || (symbol == first && symbols.next().is_some()),
        None => false,
    }
}

/// The character behind one in the order of keys, which has a gap where UTF-16 keeps its surrogates.
fn following(symbol: char) -> Option<char> {
    match symbol {
        '\u{d7ff}' => Some('\u{e000}'),
        _ => char::from_u32(u32::from(symbol) + 1),
    }
}

fn place(depth: usize, offset: usize) -> usize {
    depth.min(DEPTHS - 1) * OFFSETS + offset.min(OFFSETS - 1)
}

/// Bytes that two texts share at their start, whole characters.
fn shared_prefix(left: &str, right: &str) -> usize {
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right);
    same.map(|(symbol, _)| symbol.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(keys: &[&str], grouping: Grouping) -> Shape {
        let mut shape = Shape::new(grouping);
        keys.iter().for_each(|key| shape.see(key));
        shape
    }

    #[test]
    fn a_counter_is_cut_in_the_middle_of_its_digits() {
        let shape = shape(&["file000", "file999"], Grouping::Keys);
        assert_eq!(shape.cut("file199", Some("file9")).unwrap().at, "file5");
        assert_eq!(shape.cut("file199", Some("file3")).unwrap().at, "file2");
    }

    #[test]
    fn places_where_nothing_else_was_seen_are_closed_by_one_cut() {
        let shape = shape(&["dir/a", "dir/b"], Grouping::Keys);
        let first = shape.cut("dir/a", None).unwrap();
        assert_eq!((first.at.as_str(), first.shared), ("dir0", 0));
        assert_eq!(shape.cut("dir/a", Some(&first.at)).unwrap().at, "dir/b");
    }

    #[test]
    fn a_common_prefix_is_never_parted() {
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
        fn a_cut_lies_behind_the_key_reached_and_before_the_end(
            keys in proptest::collection::vec("[a-c0-2/ü😀]{0,6}", 0..20),
            last in "[a-d0-3/ü😀]{0,6}",
            until in proptest::option::of("[a-d0-3/ü😀]{1,6}"),
        ) {
            prop_assume!(until.as_ref().is_none_or(|until| &last < until));
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            for grouping in [Grouping::Keys, Grouping::Prefixes] {
                // Cut after cut, the range narrows until no place is left.
                let (shape, mut until) = (shape(&keys, grouping), until.clone());
                while let Some(cut) = shape.cut(&last, until.as_deref()) {
                    prop_assert!(cut.at > last && until.as_ref().is_none_or(|until| &cut.at < until), "{cut:?}");
                    until = Some(cut.at);
                }
            }
        }
    }
}
