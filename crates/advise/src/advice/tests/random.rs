//! Random workloads. No answer may be impossible, and no time may fall as the data grows.

use super::*;
use crate::workload::{AccessPattern, Loading, ReadInterface};

/// Returns a random number between `low` and `high` whose logarithm is evenly distributed.
fn between(random: &mut fastrand::Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * random.f64()).exp()
}

fn workload(random: &mut fastrand::Rng, machines: &[String]) -> Workload {
    let mut workload = options("--data 1GB --at lambda:1024MB");
    workload.compute.place = if random.bool() {
        ComputePlace::Lambda(random.f64().mul_add(10_112.0, 128.0).round() * 1_048_576.0)
    } else {
        ComputePlace::Machine(machines[random.usize(..machines.len())].clone())
    };
    let data = &mut workload.data;
    data.bytes = between(random, 1e3, 1e15);
    data.read = data.bytes * if random.bool() { 1.0 } else { random.f64() };
    data.files = between(random, 1.0, 1e7).min(data.bytes).max(1.0).floor();
    data.passes = if random.bool() { 1.0 } else { between(random, 1.0, 20.0).floor() };
    data.request = between(random, 4_096.0, 1e8);
    data.access =
        [AccessPattern::Sequential, AccessPattern::Random, AccessPattern::Mapped][random.usize(..3)];
    data.in_flight = random.bool().then(|| between(random, 1.0, 500.0).floor());
    data.warm = if random.bool() { 0.0 } else { data.read * random.f64() };
    data.needs = if random.bool() { ReadInterface::Any } else { ReadInterface::Files };
    let compute = &mut workload.compute;
    compute.threads = between(random, 1.0, 64.0).floor();
    compute.cpu_seconds = if random.bool() { 0.0 } else { between(random, 1.0, 1e5) };
    compute.loading = [Loading::Before, Loading::Beside, Loading::Either][random.usize(..3)];
    workload.jobs.at_once = between(random, 1.0, 2_000.0).floor();
    workload.jobs.per_day = between(random, 0.01, 1e5);
    workload.goal.deadline = random.bool().then(|| between(random, 1.0, 1e4));
    workload
}

/// Checks that a recommendation is within all capacities.
fn check(workload: &Workload, row: &AdviceRow, known: &Known) {
    let service = known.catalogue.services.iter().find(|model| row.name.starts_with(&model.name)).unwrap();
    if let Some(most) = &service.capacity.most {
        assert!(workload.data.bytes <= most.value.0, "{workload:?} {row:?}");
    }
    assert!(
        workload.jobs.per_day * row.seconds <= workload.jobs.at_once * 86_400.0 * 1.001,
        "{workload:?} {row:?}"
    );
    if let ComputePlace::Lambda(memory) = workload.compute.place {
        let function = known.catalogue.function(memory).unwrap();
        assert!(row.seconds <= function.longest.0, "{workload:?} {row:?}");
        assert!(workload.jobs.at_once <= function.at_once || !row.conditions.is_empty(), "{row:?}");
    }
    let most = workload.goal.deadline.unwrap_or(f64::INFINITY);
    assert!(row.high <= most, "{workload:?} {row:?}");
}

#[test]
fn random_workloads_get_no_impossible_answer() {
    let known = Known::new();
    let machines: Vec<String> = known.catalogue.machines.keys().cloned().collect();
    let mut random = fastrand::Rng::with_seed(39);
    let mut recommended = 0;
    for number in 0..2_000 {
        let workload = workload(&mut random, &machines);
        let (rows, found) = ranked_rows(&workload, &choices(&workload, &known.catalogue), &known.inputs());
        for row in &rows {
            let all = [row.seconds, row.low, row.high, row.ready, row.bytes, row.requests];
            assert!(all.iter().all(|value| value.is_finite() && *value >= 0.0), "{workload:?} {row:?}");
            assert!(row.seconds >= row.ready * 0.999_999, "{workload:?} {row:?}");
            assert!(row.low < row.high && row.low <= row.seconds && row.seconds <= row.high, "{row:?}");
            assert!(row.month.is_none_or(|month| month.is_finite() && month >= 0.0), "{row:?}");
        }
        if found {
            recommended += 1;
            check(&workload, &rows[0], &known);
        }
        if number % 20 == 0 {
            match advise(&workload, &known.inputs()) {
                Ok(advice) => assert!(text(&advice).lines().count() <= 12, "{}", text(&advice)),
                Err(error) => assert!(matches!(error, Error::Files { .. }), "{error}: {workload:?}"),
            }
        }
    }
    assert!(recommended > 400, "{recommended}");
}

#[test]
fn no_time_falls_while_data_grows_unless_the_service_grows_too() {
    let known = Known::new();
    let machines: Vec<String> = known.catalogue.machines.keys().cloned().collect();
    let mut random = fastrand::Rng::with_seed(40);
    for _ in 0..2_000 {
        let small = workload(&mut random, &machines);
        let factor = between(&mut random, 1.1, 10.0);
        let mut large = small.clone();
        for bytes in [&mut large.data.bytes, &mut large.data.read, &mut large.data.warm] {
            *bytes *= factor;
        }
        large.data.files = (large.data.files * factor).floor();
        large.data.warm = small.data.warm;
        let choices = choices(&small, &known.catalogue);
        let had = |choice: &&Choice<'_>| feasible::refusal(&large, choice, &known.catalogue).is_none();
        for choice in choices.iter().filter(had) {
            let before = row::outcome(&small, choice, &known.inputs()).seconds;
            let sized = choice.sized(large.data.bytes);
            let after = row::outcome(&large, &sized, &known.inputs()).seconds;
            // If rates are stated per TiB of capacity or stored data, they grow with the data, so
            // the time may fall.
            let rates = &choice.model.rates;
            let flows = [&rates.total, &rates.disk, &rates.hydration];
            let grows = flows
                .iter()
                .any(|flow| flow.as_ref().is_some_and(|flow| flow.each == crate::model::Each::Tib));
            assert!(after >= before * 0.999 || grows, "{} {before} {after} {small:?}", choice.name());
        }
    }
}
