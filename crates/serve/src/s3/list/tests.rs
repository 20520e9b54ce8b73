use proptest::prelude::*;

use super::*;

/// Returns the keys and prefixes of the expected page, selected from all keys.
fn model(keys: &[String], query: &KeyQuery) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut sorted: Vec<&String> = keys.iter().filter(|key| key.starts_with(&query.prefix)).collect();
    sorted.sort_unstable();
    for key in sorted {
        let at =
            query.delimiter.as_ref().and_then(|delimiter| key[query.prefix.len()..].find(delimiter.as_str()));
        let row = at.map_or(key.clone(), |at| key[..query.prefix.len() + at + 1].to_owned());
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }
    rows
}

fn all_pages(root: &ServedRoot, query: &KeyQuery, index: &Index) -> Vec<String> {
    let mut query = query.clone();
    let mut rows = Vec::new();
    loop {
        let page = page(root, index, &EntryPath::default(), &query, &RequestRights::Everyone).unwrap();
        let mut here: Vec<String> =
            page.objects.into_iter().map(|(key, _)| key).chain(page.prefixes).collect();
        assert!(here.len() <= query.limit);
        here.sort_unstable();
        rows.append(&mut here);
        match page.next {
            Some(next) => query.after = next,
            None => return rows,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pages_of_any_size_give_every_key_once_in_byte_order(
        keys in proptest::collection::btree_set("[ab.]{1,2}(/[ab-]{1,2}){0,2}", 1..25),
        prefix in "([ab.]{0,2})|([ab]/[ab]?)",
        delimiter in proptest::option::of(prop_oneof!["/", "b"]),
        limit in 1usize..6,
        room in prop_oneof![Just(1usize), Just(30), Just(1 << 20)],
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for key in keys {
            let path = directory.path().join(&key);
            let bad = key.split('/').any(|name| matches!(name, "." | ".."));
            if bad || std::fs::create_dir_all(path.parent().unwrap()).is_err() || path.is_dir() {
                continue;
            }
            std::fs::write(path, "").unwrap();
            made.push(key);
        }
        let root = ServedRoot::open(directory.path()).unwrap();
        let query = KeyQuery { prefix, delimiter, limit, ..KeyQuery::default() };
        // A failed key may leave empty directories behind, which are keys too. Such inputs are
        // discarded.
        prop_assume!(made.iter().all(|key| directory.path().join(key).is_file()));
        let empty = walk_empty(directory.path(), "");
        made.extend(empty);
        prop_assert_eq!(all_pages(&root, &query, &Index::with_room(room)), model(&made, &query));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_page_after_a_marker_has_what_sorts_after_it(
        keys in proptest::collection::btree_set("[ab.]{1,2}(/[ab-]{1,2}){0,2}", 1..25),
        prefix in "([ab.]{0,2})|([ab]/[ab]?)",
        delimiter in proptest::option::of(prop_oneof!["/", "b"]),
        marker in "[ab.]{0,2}(/[ab-]{0,2}){0,2}",
        limit in 1usize..6,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for key in keys {
            let path = directory.path().join(&key);
            let bad = key.split('/').any(|name| matches!(name, "." | ".."));
            if bad || std::fs::create_dir_all(path.parent().unwrap()).is_err() || path.is_dir() {
                continue;
            }
            std::fs::write(path, "").unwrap();
            made.push(key);
        }
        prop_assume!(made.iter().all(|key| directory.path().join(key).is_file()));
        prop_assume!(walk_empty(directory.path(), "").is_empty());
        let root = ServedRoot::open(directory.path()).unwrap();
        let after = PagePosition::marker(&marker, &prefix, delimiter.as_deref());
        let query = KeyQuery { prefix, delimiter, limit, after, ..KeyQuery::default() };
        // S3 omits keys and common prefixes that do not sort after the marker.
        let expected: Vec<String> = model(&made, &query).into_iter().filter(|row| *row > marker).collect();
        prop_assert_eq!(all_pages(&root, &query, &Index::default()), expected);
    }
}

fn walk_empty(path: &std::path::Path, key: &str) -> Vec<String> {
    let entries: Vec<_> = std::fs::read_dir(path).unwrap().map(Result::unwrap).collect();
    if entries.is_empty() && !key.is_empty() {
        return vec![key.to_owned()];
    }
    let directories = entries.iter().filter(|entry| entry.path().is_dir());
    directories
        .flat_map(|entry| walk_empty(&entry.path(), &format!("{key}{}/", entry.file_name().display())))
        .collect()
}

#[test]
fn a_page_begins_behind_a_key_whether_it_exists_or_not() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("a")).unwrap();
    for name in ["a.txt", "a/x", "a/y", "b"] {
        std::fs::write(directory.path().join(name), "").unwrap();
    }
    let root = ServedRoot::open(directory.path()).unwrap();
    let keys = |after: &str| {
        let query = KeyQuery { after: PagePosition::Key(after.into()), limit: 10, ..KeyQuery::default() };
        let page =
            page(&root, &Index::default(), &EntryPath::default(), &query, &RequestRights::Everyone).unwrap();
        page.objects.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(""), ["a.txt", "a/x", "a/y", "b"]);
    assert_eq!(keys("a.txt"), ["a/x", "a/y", "b"]);
    assert_eq!(keys("a/x0"), ["a/y", "b"]);
    assert_eq!(keys("a/y"), ["b"]);
}

#[test]
fn a_continued_listing_passes_over_a_directory_that_became_a_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("m")).unwrap();
    for name in ["a", "m/f", "z"] {
        std::fs::write(directory.path().join(name), "").unwrap();
    }
    let (root, index) = (ServedRoot::open(directory.path()).unwrap(), Index::default());
    let shown = |query: &KeyQuery| {
        let page = page(&root, &index, &EntryPath::default(), query, &RequestRights::Everyone).unwrap();
        page.objects.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(shown(&KeyQuery { limit: 1, ..KeyQuery::default() }), ["a"]);
    std::fs::remove_dir_all(directory.path().join("m")).unwrap();
    std::fs::write(directory.path().join("m"), "").unwrap();
    let next = KeyQuery {
        after: PagePosition::Key("a".into()),
        limit: 10,
        freshness: crate::s3::index::Freshness::Recent,
        ..KeyQuery::default()
    };
    assert_eq!(shown(&next), ["z"]);
}
