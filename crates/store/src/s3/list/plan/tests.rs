use std::collections::BTreeSet;
use std::ops::Bound;

use firstbyte_location::EntryKind;
use proptest::prelude::*;

use super::*;

mod disorder;

const PAGE: usize = 1000;

/// A simulated service that counts requests.
struct Service {
    keys: BTreeSet<String>,
    grouping: Grouping,
    requests: usize,
    /// Number of rounds. All requests of a round are answered together.
    rounds: usize,
}

fn entry(name: &str, kind: EntryKind) -> Entry {
    Entry::named(name.into(), kind)
}

impl Service {
    fn new(keys: impl IntoIterator<Item = String>, grouping: Grouping) -> Self {
        Self { keys: keys.into_iter().collect(), grouping, requests: 0, rounds: 0 }
    }

    /// Returns the page after the key `after`. The token of a page is its last key or prefix.
    fn page(&mut self, after: Option<&str>) -> S3Page {
        self.requests += 1;
        let mut page = S3Page::default();
        let mut from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.to_owned()));
        if let Some(prefix) =
            after.filter(|after| self.grouping == Grouping::Prefixes && after.ends_with('/'))
        {
            from = Bound::Excluded(behind(prefix));
        }
        while let Some(key) = self.keys.range((from, Bound::Unbounded)).next() {
            if page.entries.len() == PAGE {
                page.next = page.last.clone();
                break;
            }
            let prefix = key.find('/').filter(|_| self.grouping == Grouping::Prefixes).map(|at| &key[..=at]);
            if let Some(prefix) = prefix {
                page.entries.push(entry(&prefix[..prefix.len() - 1], EntryKind::Directory));
                page.last = Some(prefix.to_owned());
                from = Bound::Included(behind(prefix));
            } else {
                page.entries.push(entry(key, EntryKind::File));
                page.last = Some(key.clone());
                from = Bound::Excluded(key.clone());
            }
        }
        page
    }
}

/// Returns the first string after all strings that begin with `prefix`, which ends in `/`.
fn behind(prefix: &str) -> String {
    format!("{}0", &prefix[..prefix.len() - 1])
}

/// Lists everything with `workers` concurrent requests to a slow service. `change` modifies the
/// service between rounds.
fn list(
    service: &mut Service,
    order: EntryOrder,
    workers: usize,
    change: impl FnMut(&mut Service),
) -> Vec<String> {
    list_cutting(service, order, workers, Cutting::Allowed, change)
}

fn list_cutting(
    service: &mut Service,
    order: EntryOrder,
    workers: usize,
    cutting: Cutting,
    mut change: impl FnMut(&mut Service),
) -> Vec<String> {
    match try_list(service, order, workers, cutting, &mut change) {
        Ok(listed) => listed,
        // A key at the end of a range was added or removed between two requests, so the listing is
        // repeated.
        Err(ListingFault::Disordered(_)) => try_list(service, order, 1, Cutting::Never, &mut change).unwrap(),
        Err(fault) => panic!("{fault:?}"),
    }
}

fn try_list(
    service: &mut Service,
    order: EntryOrder,
    workers: usize,
    cutting: Cutting,
    change: &mut impl FnMut(&mut Service),
) -> Result<Vec<String>, ListingFault> {
    let mut plan = ListingPlan::new(service.grouping, order, workers);
    let mut listed = Vec::new();
    let whole = service.page(None);
    plan.record_page(ListingPlan::WHOLE, whole)?;
    loop {
        loop {
            match plan.take() {
                NextStep::Page(page) => listed.extend(page.into_iter().map(|entry| {
                    let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
                    format!("{}{slash}", String::from_utf8(entry.name).unwrap())
                })),
                NextStep::Wait => break,
                NextStep::End => return Ok(listed),
            }
        }
        service.rounds += 1;
        let tasks: Vec<_> = (0..workers).map_while(|_| plan.task(None, cutting)).collect();
        assert!(!tasks.is_empty(), "no worker has a task");
        let answers: Vec<_> = tasks
            .into_iter()
            .map(|task| {
                let after = match task.from {
                    PageStart::Token(after) | PageStart::After(after) => Some(after),
                    PageStart::Start => None,
                };
                (task.range, service.page(after.as_deref()))
            })
            .collect();
        change(service);
        for (range, page) in answers {
            plan.record_page(range, page)?;
        }
    }
}

#[test]
fn pages_that_are_not_taken_are_bounded() {
    for cutting in [Cutting::Allowed, Cutting::OnlyLong, Cutting::Never] {
        for (order, workers) in [(EntryOrder::Bytes, 1), (EntryOrder::Bytes, 6), (EntryOrder::Any, 6)] {
            let names = (0..200_000).map(|n| format!("sample_{n:08}.fastq.gz"));
            let mut service = Service::new(names, Grouping::Keys);
            let mut plan = ListingPlan::new(service.grouping, order, workers);
            let whole = service.page(None);
            plan.record_page(ListingPlan::WHOLE, whole).unwrap();
            while let Some(task) = plan.task(None, cutting) {
                let (PageStart::Token(after) | PageStart::After(after)) = task.from else {
                    panic!("the start again")
                };
                let page = service.page(Some(&after));
                plan.record_page(task.range, page).unwrap();
            }
            let waiting: usize = plan.ranges.iter().map(|range| range.pages.len()).sum();
            assert!(
                waiting <= 2 * workers,
                "{waiting} pages wait: {order:?}, {cutting:?}, {workers} workers"
            );
        }
    }
}

/// Returns sets of names such as programs generate, each with a description.
fn families() -> Vec<(&'static str, Vec<String>)> {
    let hash =
        |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let days = (1..=12).flat_map(|month| (1..=28).map(move |day| (month, day)));
    vec![
        ("a counter", (0..200_000).map(|n| format!("sample_{n:08}.fastq.gz")).collect()),
        ("hashes", (0..200_000).map(|n| format!("{:016x}-{:016x}", hash(n), hash(n + 7))).collect()),
        (
            "days",
            days.flat_map(|(m, d)| {
                (0..600).map(move |n| format!("year=2024/month={m:02}/day={d:02}/part-{n:05}.parquet"))
            })
            .collect(),
        ),
        (
            "a few deep directories",
            (0..200_000)
                .map(|n| {
                    format!("project-{}/results/aligned/run-7/read.{:06}", ["x", "alpha", "zz"][n % 3], n)
                })
                .collect(),
        ),
        (
            "many directories",
            (0..200_000)
                .map(|n| format!("{:02x}/{:02x}/{:016x}", hash(n) >> 56, hash(n) >> 48 & 255, hash(n)))
                .collect(),
        ),
        ("one long name", (0..50_000).map(|n| format!("{}{n}", "a-very-long-name/".repeat(6))).collect()),
    ]
}

#[test]
fn every_kind_of_names_is_listed_completely_in_few_requests_and_rounds() {
    for (name, keys) in families() {
        for order in [EntryOrder::Any, EntryOrder::Bytes] {
            let mut service = Service::new(keys.clone(), Grouping::Keys);
            let mut found = list(&mut service, order, 16, |_| {});
            if order == EntryOrder::Any {
                found.sort();
            }
            assert!(found.iter().eq(&service.keys), "{name}: {} of {}", found.len(), service.keys.len());
            let (pages, requests, rounds) = (keys.len() / PAGE, service.requests, service.rounds);
            assert!(requests <= 2 * pages, "{name}, {order:?}: {requests} requests for {pages} pages");
            // In an ordered listing, only a few pages may wait.
            let most = if order == EntryOrder::Any { pages / 6 } else { pages / 4 };
            assert!(rounds <= most, "{name}, {order:?}: {rounds} rounds for {pages} pages");
        }
    }
}

#[test]
fn permanent_keys_are_listed_once_while_others_are_added_and_removed() {
    for (name, stay) in families() {
        for order in [EntryOrder::Any, EntryOrder::Bytes] {
            let mut service = Service::new(stay.clone(), Grouping::Keys);
            let mut guests: Vec<String> = stay.iter().step_by(37).map(|key| format!("{key}~")).collect();
            service.keys.extend(guests.iter().step_by(2).cloned());
            let found = list(&mut service, order, 16, |service| {
                for _ in 0..10 {
                    let Some(guest) = guests.pop() else { return };
                    if !service.keys.remove(&guest) {
                        service.keys.insert(guest);
                    }
                }
            });
            let unique: BTreeSet<&String> = found.iter().collect();
            assert_eq!(unique.len(), found.len(), "{name}, {order:?}: listed twice");
            assert!(stay.iter().all(|key| unique.contains(key)), "{name}, {order:?}: not listed");
            assert!(order == EntryOrder::Any || found.is_sorted(), "{name}: out of order");
        }
    }
}

#[test]
fn a_listing_of_a_few_pages_takes_few_extra_requests_and_no_extra_round() {
    let keys = (0..2_500).map(|n| format!("data/{n:06}"));
    let mut service = Service::new(keys, Grouping::Keys);
    assert_eq!(list(&mut service, EntryOrder::Any, 4, |_| {}).len(), 2_500);
    assert!(service.rounds <= 3 && service.requests <= 12, "{} {}", service.rounds, service.requests);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn common_prefixes_are_listed_once_whatever_is_split(
        seeds in proptest::collection::btree_set("[a-d0-2.]{1,4}(/[a-c]{1,2}){0,2}", 1..200),
        workers in 1_usize..20,
    ) {
        let keys = seeds.iter().flat_map(|seed| (0..40).map(move |n| format!("{seed}{}", n * 7919 % 1000)));
        for grouping in [Grouping::Prefixes, Grouping::Keys] {
            let mut service = Service::new(keys.clone(), grouping);
            let alone = list(&mut service, EntryOrder::Bytes, 1, |_| {});
            let together = list(&mut service, EntryOrder::Bytes, workers, |_| {});
            prop_assert_eq!(&alone, &together);
            let mut unsorted = list(&mut service, EntryOrder::Any, workers, |_| {});
            unsorted.sort();
            prop_assert_eq!(&alone, &unsorted);
        }
    }
}

#[test]
fn quick_requests_are_few_more_than_pages() {
    for pages in [10, 50, 250] {
        let keys = (0..pages * PAGE).map(|n| format!("name-{n:07}"));
        let mut service = Service::new(keys, Grouping::Keys);
        let listed = list_cutting(&mut service, EntryOrder::Bytes, 6, Cutting::OnlyLong, |_| {});
        assert_eq!(listed.len(), pages * PAGE);
        let requests = service.requests;
        // Up to eight wrong guesses are needed to find the length of the names.
        assert!(requests <= pages + 8 + pages / 10, "{requests} requests for {pages} pages");
    }
}

#[test]
fn a_slow_consumer_causes_no_splits_if_pages_arrive_quickly() {
    let requests = |cutting| {
        // The keys of each page begin differently, so finding the end of a range takes an extra
        // page.
        let keys = (0..100 * PAGE).map(|n| format!("{:02}-{:04}", n / PAGE, n % PAGE));
        let mut service = Service::new(keys, Grouping::Keys);
        let mut plan = ListingPlan::new(Grouping::Keys, EntryOrder::Bytes, 4);
        let first = service.page(None);
        plan.record_page(ListingPlan::WHOLE, first).unwrap();
        let mut listed = 0;
        loop {
            match plan.take() {
                NextStep::Page(page) => listed += page.len(),
                NextStep::Wait => {}
                NextStep::End => break,
            }
            let tasks: Vec<_> = (0..4).map_while(|_| plan.task(None, cutting)).collect();
            for task in tasks {
                let (PageStart::Token(after) | PageStart::After(after)) = task.from else {
                    panic!("the start again")
                };
                let page = service.page(Some(&after));
                plan.record_page(task.range, page).unwrap();
            }
        }
        assert_eq!(listed, 100 * PAGE);
        service.requests
    };
    let (quick, slow) = (requests(Cutting::OnlyLong), requests(Cutting::Allowed));
    assert!(quick < 120 && quick < slow, "{quick} requests, {slow} where any range may be cut");
}
