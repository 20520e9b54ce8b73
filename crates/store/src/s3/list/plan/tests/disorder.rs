//! Lists from simulated services that do not sort names by their bytes, or only within a page.

use super::*;

/// Returns the key by which a service sorts a name.
type Rank = fn(&str) -> String;

/// Sorts `/` before all other characters, like a service that lists the content of a directory at
/// the directory's name.
fn slash_first(key: &str) -> String {
    key.replace('/', "\0")
}

/// Sorts all names below a directory before the other names in the parent directory.
fn directories_first(key: &str) -> String {
    let (directories, name) = key.rsplit_once('/').unwrap_or(("", key));
    let parts = directories.split('/').filter(|part| !part.is_empty());
    parts.map(|part| format!("\0{part}\0")).chain([format!("\x01{name}")]).collect()
}

/// Sorts names by their hash.
fn hashed(key: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}{key}", key.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Sorts names without regard to letter case.
fn folded(key: &str) -> String {
    format!("{}\0{key}", key.to_lowercase())
}

/// Returns a page in a service's order. `start-after` and tokens follow the same order.
fn page(keys: &[String], rank: Rank, most: usize, after: Option<&str>) -> S3Page {
    let begin = after.map_or(0, |after| keys.partition_point(|key| rank(key) <= rank(after)));
    let end = keys.len().min(begin + most);
    let entries: Vec<Entry> = keys[begin..end].iter().map(|key| entry(key, EntryKind::File)).collect();
    S3Page {
        disorder: Disorder::among(&entries),
        last: keys[begin..end].iter().max().cloned(),
        next: (end < keys.len()).then(|| keys[end - 1].clone()),
        entries,
    }
}

fn list_from(
    keys: &[String],
    rank: Rank,
    most: usize,
    order: EntryOrder,
) -> Result<Vec<String>, ListingFault> {
    let mut plan = ListingPlan::new(Grouping::Keys, order, 6);
    plan.record_page(ListingPlan::WHOLE, page(keys, rank, most, None))?;
    let mut listed = Vec::new();
    loop {
        match plan.take() {
            NextStep::Page(page) => {
                listed.extend(page.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()));
                continue;
            }
            NextStep::End => return Ok(listed),
            NextStep::Wait => {}
        }
        // Forgets the wasted pages, so that every range is split, even a short one.
        plan.wasted_pages = 0;
        let tasks: Vec<_> = (0..6).map_while(|_| plan.task(None, Cutting::Allowed)).collect();
        assert!(!tasks.is_empty(), "no worker has a task");
        for task in tasks {
            let after = match task.from {
                PageStart::Token(after) | PageStart::After(after) => Some(after),
                PageStart::Start => None,
            };
            plan.record_page(task.range, page(keys, rank, most, after.as_deref()))?;
        }
    }
}

#[test]
fn a_listing_by_directories_that_is_divided_has_every_key_once() {
    let beside = (0..4_000).map(|number| format!("d/{number:04}"));
    let behind = (0..4_000).map(|number| format!("d-{number:04}"));
    let mut keys: Vec<String> = beside.chain(behind).collect();
    keys.sort_by_key(|key| slash_first(key));
    let mut found = list_from(&keys, slash_first, 1_000, EntryOrder::Any).unwrap();
    found.sort();
    keys.sort();
    assert!(found == keys, "{} of {} keys", found.len(), keys.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn in_any_order_no_key_is_lost_or_listed_twice(
        seeds in proptest::collection::btree_set("[abB]{1,2}([./-][aAb0-9]{1,2}){0,3}", 1..150),
        many in 1_usize..12,
        most in 1_usize..40,
        rank in prop::sample::select(vec![
            slash_first as Rank,
            directories_first as Rank,
            hashed as Rank,
            folded as Rank,
            str::to_owned as Rank,
        ]),
    ) {
        let keys: BTreeSet<String> =
            seeds.iter().flat_map(|seed| (0..many).map(move |n| format!("{seed}{}", n * 7919 % 1000))).collect();
        let mut stored: Vec<String> = keys.iter().cloned().collect();
        stored.sort_by_key(|key| rank(key));
        let mut found = list_from(&stored, rank, most, EntryOrder::Any).unwrap();
        found.sort();
        prop_assert!(found.iter().eq(&keys), "{} of {} keys", found.len(), keys.len());
        // An ordered listing either is complete and in order, or fails.
        if let Ok(found) = list_from(&stored, rank, most, EntryOrder::Bytes) {
            prop_assert!(found.iter().eq(&keys), "{} of {} keys in order", found.len(), keys.len());
        }
    }
}
