use super::*;
use crate::result::{Basis, CacheState, Header, Machine};
use crate::statistics::normal;

/// Results of `cases` cases with one contender and `runs` runs each. Times are log-normal around
/// `seconds` with a standard deviation of `spread`. On a noisy machine (`spread` from 0.05) one run
/// in twenty takes half as long again.
fn results(seed: u64, cases: usize, runs: u32, seconds: f64, spread: f64) -> Results {
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut results = Results {
        header: Header {
            firstbyte: "0.1.0".into(),
            machine: Machine { cpu: "made".into(), processors: 2, ..Machine::default() },
            ..Header::default()
        },
        runs: Vec::new(),
    };
    for case in 0..cases {
        let line = ContenderLine { name: "ours".into(), ..ContenderLine::default() };
        let name = format!("case-{case}");
        results.header.cases.push(Case { name: name.clone(), contenders: vec![line], ..Case::default() });
        for round in 1..=runs {
            let slow = if random.u8(..20) == 0 && spread >= 0.05 { 1.5 } else { 1.0 };
            let seconds = seconds * (spread * normal(random)).exp() * slow;
            let (case, contender) = (name.clone(), "ours".into());
            results.runs.push(Run { case, contender, round, seconds, ..Run::default() });
        }
    }
    results
}

/// Counts, among a hundred pairs of files, those whose only case has an outcome of `wanted`.
fn count(wanted: &[ComparisonOutcome], runs: u32, spread: f64, slower: f64) -> usize {
    (0..100u64)
        .filter(|&seed| {
            let (a, b) =
                (results(seed, 1, runs, 2.0, spread), results(seed + 1000, 1, runs, 2.0 * slower, spread));
            wanted.contains(&compare(&a, &b, THRESHOLD)[0].outcome)
        })
        .count()
}

#[test]
fn two_runs_of_one_build_differ_in_at_most_one_of_twenty() {
    for runs in [10, 20] {
        let unchanged = count(&[ComparisonOutcome::NoChange], runs, 0.02, 1.0);
        assert!(unchanged >= 95, "{unchanged} of 100 with {runs} runs");
    }
    // With few runs or much noise, some pairs stay undecided, which is no false difference.
    for (runs, spread) in [(3, 0.02), (5, 0.02), (5, 0.1), (10, 0.3), (20, 0.3)] {
        let alike = count(&[ComparisonOutcome::NoChange, ComparisonOutcome::TooNoisy], runs, spread, 1.0);
        assert!(alike >= 95, "{alike} of 100 with {runs} runs at {spread}");
    }
}

#[test]
fn a_slowdown_of_ten_percent_is_found_in_nineteen_of_twenty_quiet_pairs() {
    for runs in [10, 20] {
        let slower = count(&[ComparisonOutcome::Slower], runs, 0.02, 1.1);
        assert!(slower >= 95, "{slower} of 100 with {runs} runs");
        let faster = count(&[ComparisonOutcome::Faster], runs, 0.02, 1.0 / 1.1);
        assert!(faster >= 95, "{faster} of 100 with {runs} runs");
    }
}

#[test]
fn many_equal_cases_do_not_differ_and_one_slower_case_is_found() {
    let differ =
        |change: &&Change| matches!(change.outcome, ComparisonOutcome::Slower | ComparisonOutcome::Faster);
    let noisy = (0..20u64)
        .filter(|&seed| {
            let (a, b) = (results(seed, 60, 6, 2.0, 0.2), results(seed + 1000, 60, 6, 2.0, 0.2));
            compare(&a, &b, THRESHOLD).iter().filter(differ).count() > 0
        })
        .count();
    assert!(noisy <= 1, "{noisy} of 20 pairs of files with 60 equal cases differ");

    let found = (0..20u64)
        .filter(|&seed| {
            let (a, mut b) = (results(seed, 60, 20, 2.0, 0.02), results(seed + 1000, 60, 20, 2.0, 0.02));
            b.runs.iter_mut().filter(|run| run.case == "case-7").for_each(|run| run.seconds *= 1.1);
            let changes = compare(&a, &b, THRESHOLD);
            let slower: Vec<&Change> = changes.iter().filter(differ).collect();
            slower.len() == 1 && slower[0].case == "case-7"
        })
        .count();
    assert!(found >= 19, "the one slower case of 60 is found in {found} of 20");
}

#[test]
fn noise_that_could_hide_a_change_is_too_noisy() {
    let (a, b) = (results(1, 1, 5, 2.0, 0.3), results(2, 1, 5, 2.0, 0.3));
    assert_eq!(compare(&a, &b, THRESHOLD)[0].outcome, ComparisonOutcome::TooNoisy);
}

#[test]
fn figures_of_another_machine_stand_in_or_state_are_not_comparable() {
    let refused = |change: fn(&mut Results), word: &str| {
        let (a, mut b) = (results(1, 1, 10, 2.0, 0.02), results(2, 1, 10, 4.0, 0.02));
        change(&mut b);
        let found = compare(&a, &b, THRESHOLD).remove(0);
        assert_eq!(found.outcome, ComparisonOutcome::NotComparable, "{word}");
        assert!(found.notes.iter().any(|note| note.contains(word)), "{word} in {:?}", found.notes);
        found
    };
    let found = refused(|b| b.header.machine.cpu = "other".into(), "processor: made before, other after");
    assert!(found.ratio.is_some(), "the ratio is still shown");
    refused(|b| b.header.machine.memory_bytes = 1 << 30, "amount of memory");
    refused(|b| b.header.cases[0].stand_ins.push("link: 20 ms".into()), "stand-in: nothing before");
    refused(|b| _ = b.header.cases[0].contenders[0].parameters.insert("jobs".into(), 4.0), "parameters");
    refused(|b| b.runs.iter_mut().for_each(|run| run.basis = Basis::Modelled), "basis");
    refused(|b| b.runs.iter_mut().for_each(|run| run.cache.wanted = CacheState::Warm), "cache state");
    refused(|b| b.runs.clear(), "No run counts after");
}

#[test]
fn a_contender_whose_runs_now_fail_is_reported_as_failing() {
    let (a, mut b) = (results(1, 1, 10, 2.0, 0.02), results(2, 1, 10, 2.0, 0.02));
    b.runs.iter_mut().for_each(|run| run.outcome = Outcome::Failed);
    assert_eq!(compare(&a, &b, THRESHOLD)[0].outcome, ComparisonOutcome::Failing);
    assert_eq!(compare(&b, &a, THRESHOLD)[0].outcome, ComparisonOutcome::NotComparable);
}

#[test]
fn another_build_or_plan_is_noted_and_compared() {
    let (a, mut b) = (results(1, 1, 10, 2.0, 0.02), results(2, 1, 10, 4.0, 0.02));
    b.header.firstbyte = "0.2.0".into();
    b.header.plan_digest = "other".into();
    b.header.machine.versions.insert("nginx".into(), "1.22".into());
    let found = &compare(&a, &b, THRESHOLD)[0];
    assert_eq!(found.outcome, ComparisonOutcome::Slower);
    for word in ["build: 0.1.0 before, 0.2.0 after", "plan", "nginx: absent before, 1.22 after"] {
        assert!(found.notes.iter().any(|note| note.contains(word)), "{word} in {:?}", found.notes);
    }
}

#[test]
fn contenders_of_only_one_file_are_listed() {
    let (mut a, b) = (results(1, 2, 10, 2.0, 0.02), results(2, 1, 10, 2.0, 0.02));
    a.header.cases[0].contenders.push(ContenderLine { name: "gone".into(), ..ContenderLine::default() });
    let listed = |changes: &[Change]| -> Vec<(String, String, String, bool, bool)> {
        let missing = changes.iter().filter(|change| change.outcome == ComparisonOutcome::NotComparable);
        missing
            .map(|change| {
                let (before, after) = (change.before.is_some(), change.after.is_some());
                (change.case.clone(), change.contender.clone(), change.notes.concat(), before, after)
            })
            .collect()
    };
    let row = |case: &str, contender: &str, note: &str, before, after| {
        (case.to_owned(), contender.to_owned(), note.to_owned(), before, after)
    };
    let (before, after) = ("Only in the results before.", "Only in the results after.");
    assert_eq!(
        listed(&compare(&a, &b, THRESHOLD)),
        [row("case-0", "gone", before, false, false), row("case-1", "ours", before, true, false)]
    );
    assert_eq!(
        listed(&compare(&b, &a, THRESHOLD)),
        [row("case-0", "gone", after, false, false), row("case-1", "ours", after, false, true)]
    );
}

#[test]
fn few_and_disturbed_runs_are_noted() {
    let (mut a, b) = (results(1, 1, 10, 2.0, 0.02), results(2, 1, 4, 2.0, 0.02));
    a.runs.iter_mut().for_each(|run| run.noise.steal_seconds = Some(1.0));
    let notes = compare(&a, &b, THRESHOLD).remove(0).notes;
    assert!(notes.iter().any(|note| note.starts_with("before: the machine did other work during 10 of 10")));
    assert!(notes.contains(&"after: fewer than 5 runs.".to_owned()), "{notes:?}");
}
