use std::fs;
use std::sync::atomic::AtomicUsize;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;
use crate::open::DirectoryHandle;

/// Makes a directory that last changed long ago, and a split of it.
fn split() -> (tempfile::TempDir, DirectoryHandle, Arc<Split>) {
    let root = tempfile::tempdir().unwrap();
    fs::File::open(root.path()).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    let open = DirectoryHandle::root(root.path(), &Arc::new(AtomicUsize::new(0))).unwrap();
    let stamp = Stamp::of(&open).unwrap();
    (root, open, Arc::new(Split { joins: Mutex::default(), stamp }))
}

fn part(split: &Arc<Split>, start: i64, stop: Option<i64>) -> DirectoryPart {
    DirectoryPart::new(split, start, stop, false)
}

/// Passes records, by name and next position, to a part. Returns the names that it took.
fn take(
    part: &mut DirectoryPart,
    open: &DirectoryHandle,
    records: &[(&'static str, i64)],
) -> Vec<&'static str> {
    let belongs = |(name, next): &&(&str, i64)| {
        let raw = Raw { inode: 1, next: *next, kind: 0, name: 0, len: 0 };
        matches!(part.take(&raw, name.as_bytes(), open), Ok(RecordDecision::Entry))
    };
    records.iter().take_while(belongs).map(|(name, _)| *name).collect()
}

#[test]
fn a_part_ends_before_the_first_entry_whose_own_position_is_the_next_ones() {
    let (_root, open, split) = split();
    let mut left = part(&split, 100, Some(200));
    assert_eq!(take(&mut left, &open, &[("a", 150), ("b", 199), ("c", 230), ("d", 260)]), ["a", "b", "c"]);
    assert!(left.is_over());
    let mut right = part(&split, 200, None);
    assert_eq!(take(&mut right, &open, &[("d", 260), ("e", i64::MAX)]), ["d", "e"]);
    assert!(left.joins(&open) && right.joins(&open));
}

#[test]
fn positions_that_decrease_are_noticed() {
    let (_root, open, split) = split();
    let mut disordered = part(&split, 100, Some(200));
    assert_eq!(take(&mut disordered, &open, &[("a", 150), ("b", 140), ("c", 160)]), ["a"]);
    assert!(disordered.is_over() && !disordered.joins(&open));
    let mut elsewhere = part(&split, 100, Some(200));
    assert_eq!(take(&mut elsewhere, &open, &[("a", 50)]), [""; 0]);
    assert!(!elsewhere.joins(&open));
}

#[test]
fn a_gap_or_an_overlap_is_noticed_unless_the_directory_changed_meanwhile() {
    let (root, open, split) = split();
    let read = |first: &'static str| {
        let (mut left, mut right) = (part(&split, 100, Some(200)), part(&split, 200, None));
        take(&mut left, &open, &[("a", 199), ("b", 230), ("c", 260)]);
        take(&mut right, &open, &[(first, 260)]);
        left.joins(&open) && right.joins(&open)
    };
    assert!(read("c"));
    assert!(!read("d"));
    fs::write(root.path().join("new"), "").unwrap();
    assert!(read("d"));
}

#[test]
fn a_directory_that_has_nothing_behind_its_middle_is_not_split() {
    let open = DirectoryHandle::root("/proc/self".as_ref(), &Arc::new(AtomicUsize::new(0))).unwrap();
    assert!(plan(&open, 10_000, 1 << 50, MAX_UNORDERED_PARTS).is_empty());
}

proptest! {
    #[test]
    fn parts_start_in_order_behind_what_was_read(read in 0..10_000_000_u64, position in any::<i64>()) {
        let found = boundaries(read, position, MAX_UNORDERED_PARTS);
        prop_assert!(found.len() < MAX_UNORDERED_PARTS as usize);
        prop_assert!(found.is_sorted_by(|a, b| a < b));
        prop_assert!(found.first().is_none_or(|first| *first > position));
    }
}

#[test]
fn as_many_parts_are_planned_as_entries_seem_to_be_left() {
    assert_eq!(boundaries(0, 0, MAX_UNORDERED_PARTS), [0; 0]);
    // Half of the range of positions has been read, so the other half has about the same number of
    // entries.
    assert_eq!(boundaries(2 * PART_ENTRIES, i64::MAX / 2, MAX_UNORDERED_PARTS).len(), 1);
    assert_eq!(boundaries(PART_ENTRIES, i64::MAX / 2, MAX_UNORDERED_PARTS).len(), 0);
    assert_eq!(
        boundaries(100_000_000, i64::MAX / 2, MAX_UNORDERED_PARTS).len() as u64,
        MAX_UNORDERED_PARTS - 1
    );
}
