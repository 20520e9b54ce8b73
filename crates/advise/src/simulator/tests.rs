use proptest::prelude::*;

use super::share::{fair, used};
use super::*;

fn reading(resource: usize, bytes: f64) -> Phase {
    Phase { stage: Stage::Load, needs: vec![(resource, bytes)], least: (0.0, Limit::Latency), bytes }
}

fn system(resources: Vec<Resource>, phases: Vec<Vec<Phase>>) -> System {
    System { resources, groups: phases.into_iter().map(|phases| Group { phases }).collect() }
}

fn total(spans: &[Span]) -> f64 {
    spans.iter().map(|span| span.seconds).sum()
}

#[test]
fn a_bucket_that_runs_out_leaves_the_base_rate() {
    let network = Resource { limit: Limit::ClientNetwork, base: 10.0, burst: 100.0, credit: 900.0 };
    let spans = &system(vec![network], vec![vec![reading(0, 1_500.0)]]).run()[0];
    // Ten seconds at 100 empty the bucket; 500 at 10 take 50 more.
    assert!((spans[0].seconds - 60.0).abs() < 1e-6, "{spans:?}");
    assert_eq!(spans[0].limit, Limit::ClientNetwork);
}

#[test]
fn a_bucket_refills_while_less_than_its_base_is_used() {
    let network = Resource { limit: Limit::ClientNetwork, base: 10.0, burst: 110.0, credit: 100.0 };
    let pause = Phase { stage: Stage::Run, needs: vec![], least: (5.0, Limit::Cpu), bytes: 0.0 };
    let phases = vec![reading(0, 110.0), pause, reading(0, 110.0)];
    let spans = &system(vec![network], vec![phases]).run()[0];
    // Half a bucket after five seconds: 55 bytes in half a second, the rest at 10 a second.
    assert!((spans[2].seconds - 6.0).abs() < 1e-6, "{spans:?}");
}

#[test]
fn shares_are_max_min_fair() {
    let resources = [Resource::steady(Limit::Disk, 10.0), Resource::steady(Limit::Connection, 1.0)];
    let wide = reading(0, 100.0);
    let narrow = Phase { needs: vec![(0, 100.0), (1, 100.0)], ..reading(0, 100.0) };
    let shares = fair(&[Some(&wide), Some(&narrow), None], &resources, &[10.0, 1.0]);
    let bytes: Vec<f64> = shares.iter().map(|share| share.rate * 100.0).collect();
    assert!((bytes[0] - 9.0).abs() < 1e-9 && (bytes[1] - 1.0).abs() < 1e-9, "{bytes:?}");
    assert_eq!((shares[0].limit, shares[1].limit), (Limit::Disk, Limit::Connection));
}

#[test]
fn the_least_time_names_its_own_limit() {
    let slow = Phase { least: (9.0, Limit::Latency), ..reading(0, 10.0) };
    let spans = &system(vec![Resource::steady(Limit::Disk, 10.0)], vec![vec![slow]]).run()[0];
    assert_eq!((spans[0].limit, spans[0].seconds.round()), (Limit::Latency, 9.0));
}

prop_compose! {
    fn a_resource()(base in 1.0..1e3f64, more in 0.0..1e3f64, credit in 0.0..1e4f64) -> Resource {
        Resource { limit: Limit::Disk, base, burst: base + more, credit }
    }
}

prop_compose! {
    fn a_phase()(amounts in prop::array::uniform3(0.0..1e4f64), least in 0.0..20.0f64) -> Phase {
        let needs = amounts.iter().copied().enumerate().collect();
        Phase { stage: Stage::Run, needs, least: (least, Limit::Latency), bytes: amounts[0] }
    }
}

proptest! {
    #[test]
    fn shares_never_exceed_capacity_and_something_is_full(
        resources in prop::collection::vec(a_resource(), 3),
        phases in prop::collection::vec(a_phase(), 1..6),
    ) {
        let capacity: Vec<f64> = resources.iter().map(|resource| resource.base).collect();
        let phases: Vec<Option<&Phase>> = phases.iter().map(Some).collect();
        let shares = fair(&phases, &resources, &capacity);
        let used = used(&phases, &shares, resources.len());
        for (used, capacity) in used.iter().zip(&capacity) {
            prop_assert!(*used <= capacity * (1.0 + 1e-9), "{used} of {capacity}");
        }
        for (phase, share) in phases.iter().flatten().zip(&shares) {
            let own = share.rate * phase.least.0.max(1e-9) > 1.0 - 1e-6;
            let full = phase.needs.iter().any(|(index, amount)| {
                *amount > 0.0 && used[*index] > capacity[*index] * (1.0 - 1e-6)
            });
            prop_assert!(own || full, "could go faster: {share:?}");
        }
    }

    #[test]
    fn time_never_falls_when_work_grows_or_capacity_shrinks(
        resources in prop::collection::vec(a_resource(), 3),
        phases in prop::collection::vec(a_phase(), 1..5),
        which in 0..3usize,
        factor in 0.1..1.0f64,
    ) {
        let before = total(&system(resources.clone(), vec![phases.clone()]).run()[0]);
        prop_assert!(before.is_finite() && before >= 0.0);
        let mut smaller = resources.clone();
        let shrunk = &mut smaller[which];
        (shrunk.base, shrunk.burst) = (shrunk.base * factor, shrunk.burst * factor);
        shrunk.credit *= factor;
        let slower = total(&system(smaller, vec![phases.clone()]).run()[0]);
        prop_assert!(slower >= before * (1.0 - 1e-6), "{slower} < {before}");
        let mut larger = phases;
        for (_, amount) in &mut larger[0].needs {
            *amount /= factor;
        }
        let longer = total(&system(resources, vec![larger]).run()[0]);
        prop_assert!(longer >= before * (1.0 - 1e-6), "{longer} < {before}");
    }

    #[test]
    fn several_groups_end_and_nothing_is_negative(
        resources in prop::collection::vec(a_resource(), 3),
        groups in prop::collection::vec(prop::collection::vec(a_phase(), 1..4), 1..5),
    ) {
        let system = system(resources, groups);
        let spans = system.run();
        for span in spans.iter().flatten() {
            prop_assert!(span.seconds.is_finite() && span.seconds >= 0.0);
        }
        prop_assert_eq!(spans, system.run());
    }
}
