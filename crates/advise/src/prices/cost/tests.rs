use proptest::prelude::*;

use super::*;
use crate::usage::WaitingPeople;

const REGION: &str = "us-east-1";

fn today() -> Day {
    "2026-11-23".parse().unwrap()
}

fn cost(items: Vec<UsageItem>) -> Cost {
    PriceCatalogue::current().cost(&OptionUsage { items, waiting: None }, REGION, today())
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn gigabytes_are_billed_as_gibibytes() {
    let read = |unit| cost(vec![UsageItem::per_job("efs/elastic-read", 254.3, unit)]).per_job;
    assert!(is_close(read(Unit::GiB), 254.3 * 0.03));
    assert!(is_close(read(Unit::GB), 254.3 / 1.073_741_824 * 0.03));
}

#[test]
fn minimums_and_steps_are_billed() {
    let month = |gib| cost(vec![UsageItem::per_month("fsx-lustre/scratch-2", gib, Unit::GiBMonth)]).per_month;
    assert!(is_close(month(254.3), 168.0), "1,200 GiB at least");
    assert!(is_close(month(1_200.0), 168.0));
    assert!(is_close(month(1_201.0), 2_400.0 * 0.14));
    assert!(is_close(month(2_401.0), 4_800.0 * 0.14));
    assert!(is_close(month(0.0), 0.0));
    // The quantity is 1,200 GiB of a file system that exists for one hour of a job.
    let job = cost(vec![UsageItem::per_job("fsx-lustre/scratch-2", 1_200.0, Unit::GiBHours)]);
    assert!(is_close(job.per_job, 168.0 / 730.0));

    let second = cost(vec![UsageItem::per_job("ec2/r6i.24xlarge", 1.0 / 3_600.0, Unit::Hours)]);
    assert!((second.per_job - 6.048 / 60.0).abs() < 1e-6, "60 seconds at least");
}

#[test]
fn an_item_without_a_price_is_missing_and_never_free() {
    let reason = |price: &str, unit| {
        let cost = cost(vec![UsageItem::per_job(price, 1.0, unit)]);
        assert!(!cost.is_complete() && cost.per_job == 0.0 && cost.lines.is_empty(), "{cost:?}");
        cost.missing[0].reason.to_string()
    };
    assert!(reason("fsx-lustre/persistent-2-1000", Unit::GiBMonth).starts_with("no price in this region"));
    assert!(reason("ec2/r6i.24xlareg", Unit::Hours).contains("nearest: ec2/r6i.24xlarge"));
    assert!(reason("efs/elastic-raed", Unit::GiB).contains("nearest: efs/elastic-read"));
    assert_eq!(reason("efs/storage", Unit::GiB), "used by the GiB, but billed by the GiB-month");

    let usage =
        OptionUsage { items: vec![UsageItem::per_job("ec2/r6i.24xlarge", 1.0, Unit::Hours)], waiting: None };
    let catalogue = PriceCatalogue::current();
    let seoul = catalogue.cost(&usage, "ap-northeast-2", today());
    assert!(seoul.missing[0].reason.to_string().contains("there is one in us-east-1"), "{seoul:?}");
    let before = catalogue.cost(&usage, REGION, "2026-07-19".parse().unwrap());
    assert_eq!(before.missing[0].reason.to_string(), "the first price is of 2026-07-20");
}

#[test]
fn the_oldest_price_is_named_and_people_have_a_column_of_their_own() {
    let items = vec![
        UsageItem::per_job("ec2/r6i.24xlarge", 1.0, Unit::Hours),
        UsageItem::per_month("ebs-gp3/storage", 100.0, Unit::GiBMonth),
    ];
    let usage = OptionUsage { items, waiting: Some(WaitingPeople { hours: 0.5, per_hour: 50.0 }) };
    let cost = PriceCatalogue::current().cost(&usage, REGION, today());
    assert_eq!(cost.oldest_days, Some(875));
    assert_eq!(cost.waiting, Some(25.0));
    assert!(is_close(cost.per_job, 6.048) && is_close(cost.month(2.0), 8.0 + 2.0 * 6.048));
    assert!(is_close(cost.job(4.0), 6.048 + 2.0));
}

#[test]
fn always_on_and_per_use_cost_the_same_at_the_break_even() {
    let always = Cost { per_month: 168.0, per_job: 0.1, ..Cost::default() };
    let per_use = Cost { per_month: 91.56, per_job: 11.0, ..Cost::default() };
    let jobs = always.break_even(&per_use).unwrap();
    assert!(is_close(always.month(jobs), per_use.month(jobs)));
    assert_eq!(always.break_even(&per_use), per_use.break_even(&always));
    assert_eq!(always.break_even(&always), None);
    assert_eq!(Cost::default().break_even(&per_use), None);
}

fn items() -> impl Strategy<Value = Vec<UsageItem>> {
    let keys: Vec<String> = PriceCatalogue::current()
        .prices()
        .map(|price| price.key.clone())
        .chain(["no/such".to_owned(), "fsx-lustre/persistent-2-1000".to_owned()])
        .collect();
    let unit = proptest::sample::select(Unit::ALL.to_vec());
    let per = prop_oneof![Just(Per::Job), Just(Per::Month)];
    let item = (proptest::sample::select(keys), 0.0..1e6f64, unit, per)
        .prop_map(|(price, quantity, unit, per)| UsageItem { price, quantity, unit, per });
    proptest::collection::vec(item, 0..12)
}

proptest! {
    #[test]
    fn costs_of_items_and_of_parts_add_up(items in items(), at in 0usize..12, jobs in 0.0..1e4f64) {
        let whole = cost(items.clone());
        // Each item has either a price or an entry in `missing`.
        prop_assert_eq!(whole.lines.len() + whole.missing.len(), items.len());
        // The lines of each period add up to its sum.
        for (per, sum) in [(Per::Job, whole.per_job), (Per::Month, whole.per_month)] {
            let lines: f64 = whole.lines.iter().filter(|line| line.per == per).map(|line| line.usd).sum();
            prop_assert!(is_close(lines, sum));
        }
        // The costs of two parts add up to the cost of the whole.
        let (first, second) = items.split_at(at.min(items.len()));
        let (first, second) = (cost(first.to_vec()), cost(second.to_vec()));
        prop_assert!(is_close(first.month(jobs) + second.month(jobs), whole.month(jobs)));
        prop_assert!(whole.per_job >= 0.0 && whole.per_month >= 0.0);
    }

    #[test]
    fn using_more_never_costs_less(items in items(), factor in 1.0..10.0f64) {
        let more = items.iter().map(|item| UsageItem { quantity: item.quantity * factor, ..item.clone() });
        let (less, more) = (cost(items.clone()), cost(more.collect()));
        prop_assert!(more.per_job >= less.per_job * (1.0 - 1e-12));
        prop_assert!(more.per_month >= less.per_month * (1.0 - 1e-12));
    }
}
