//! Tests the controller in every setting of a grid: its throughput is within 15 % of the best fixed
//! concurrency, or within 25 % if the server refuses requests, and its limit is steady.
//!
//! The grid covers round trips from 0.1 to 200 ms, rates of a connection and of the link, sizes of
//! objects, requests that stall, and servers that refuse more than 40 concurrent requests.

use std::time::Duration;

use crate::simulator::{ClientMachine, Hedging, Outcome, Setting, run};
use firstbyte_pacing::{Controller, LONGEST_REQUEST};

const MIB: u64 = 1 << 20;
/// The fixed concurrencies with which the controller is compared.
const FIXED_LIMITS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 256];

/// Returns the number of concurrent requests that memory allows. For a single object the number is
/// lower, to keep the grid short.
fn cap(setting: &Setting) -> usize {
    if setting.object.is_some() { 256 } else { 64 }
}

/// Returns the time at which the controller must have converged: after 30 round trips, plus one
/// second for the windows of a short path. If the server refuses requests, converging takes three
/// times as long, plus the time of sixteen requests: the controller searches for the accepted
/// number, and a lower limit takes effect only when requests in flight have ended.
fn converged(setting: &Setting) -> Duration {
    let time = setting.round_trip * 30 + Duration::from_secs(1);
    let request = setting.object.unwrap_or(u64::MAX).min(LONGEST_REQUEST) as f64 / setting.each;
    if setting.most.is_some() { time * 3 + Duration::from_secs_f64(request) * 16 } else { time }
}

fn measured(setting: &Setting, controller: Controller, hedging: Hedging) -> Outcome {
    let length = converged(setting) + setting.round_trip * 60 + Duration::from_secs(4);
    run(*setting, controller, cap(setting), hedging, converged(setting), length)
}

fn automatic(setting: &Setting, hedging: Hedging) -> Outcome {
    measured(setting, Controller::new(setting.work(), cap(setting)), hedging)
}

/// Returns the rate and the number of requests of the best fixed concurrency.
fn best(setting: &Setting) -> (f64, usize) {
    let rate = |limit: usize| measured(setting, Controller::fixed(limit), Hedging::On).rate;
    let fixed = FIXED_LIMITS.into_iter().filter(|limit| *limit <= cap(setting));
    fixed.map(|limit| (rate(limit), limit)).max_by(|one, two| one.0.total_cmp(&two.0)).unwrap()
}

/// Returns all settings that have this round trip.
fn settings(round_trip: Duration) -> impl Iterator<Item = Setting> {
    let rates = [(40e6, 400e6), (90e6, 75e6), (1e9, 1.2e9), (5e6, 1.2e9), (2e6, 2e6)];
    let objects = [None, Some(50_000), Some(2 * MIB), Some(64 * MIB)];
    let troubles = [(0.0, None), (0.02, None), (0.0, Some(40))];
    let overhead = Duration::from_micros(300);
    rates.into_iter().flat_map(move |(each, total)| {
        objects.into_iter().flat_map(move |object| {
            troubles.into_iter().map(move |(stalls, most)| Setting {
                round_trip,
                each,
                total,
                overhead,
                stalls,
                most,
                object,
                ..REGION
            })
        })
    })
}

/// Counts the changes of direction. A steady limit is probed now and then, which makes two changes.
fn turns(limits: &[usize]) -> usize {
    let mut steps: Vec<bool> =
        limits.windows(2).filter(|two| two[0] != two[1]).map(|two| two[1] > two[0]).collect();
    steps.dedup();
    steps.len()
}

#[track_caller]
fn check(round_trip: Duration) {
    let mut failures = Vec::new();
    let mut worst = f64::MAX;
    for setting in settings(round_trip) {
        let (found, (best, limit)) = (automatic(&setting, Hedging::On), best(&setting));
        let share = found.rate / best;
        worst = worst.min(share);
        // A worker pauses after a refusal, and the accepted number is found only by refusals.
        if share < if setting.most.is_some() { 0.75 } else { 0.85 } {
            failures
                .push(format!("{share:.2} of {limit}, at {:?} in the end: {setting:?}", found.limits.last()));
        }
        // The limit may turn in every other window, and four times more. A window is taken as 60 ms
        // or three round trips, whichever is longer. The windows of a steady controller are at
        // least as long.
        let window = Duration::from_millis(60).max(round_trip * 3);
        let steady = &found.limits[found.limits.len() / 2..];
        let windows = steady.len() as f64 * Controller::TICK.as_secs_f64() / window.as_secs_f64();
        if turns(steady) as f64 > 4.0 + windows / 2.0 {
            failures.push(format!("{} turns in {windows:.0} windows: {setting:?}", turns(steady)));
        }
    }
    println!("{round_trip:?}: {worst:.3} of the best fixed concurrency in the worst setting");
    assert!(failures.is_empty(), "{} settings:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_best_concurrency_is_found_beside_the_server() {
    check(Duration::from_micros(100));
}

#[test]
fn the_best_concurrency_is_found_in_the_same_rack() {
    check(Duration::from_millis(1));
}

#[test]
fn the_best_concurrency_is_found_in_the_same_zone() {
    check(Duration::from_millis(5));
}

#[test]
fn the_best_concurrency_is_found_in_the_same_region() {
    check(Duration::from_millis(20));
}

#[test]
fn the_best_concurrency_is_found_on_the_same_continent() {
    check(Duration::from_millis(80));
}

#[test]
fn the_best_concurrency_is_found_around_the_world() {
    check(Duration::from_millis(200));
}

const REGION: Setting = Setting {
    round_trip: Duration::from_millis(30),
    each: 40e6,
    spread: 0.0,
    total: 400e6,
    overhead: Duration::from_micros(300),
    stalls: 0.0,
    most: None,
    per_second: None,
    object: None,
    size: None,
    machine: ClientMachine::ENDLESS,
    handshakes: 0,
    slow_start: false,
};

#[test]
fn hedging_hides_requests_that_stall() {
    let setting = Setting { stalls: 0.02, object: Some(50_000), each: 1e9, total: 1.2e9, ..REGION };
    let fixed = |hedging| measured(&setting, Controller::fixed(16), hedging);
    let (hedged, waited) = (fixed(Hedging::On), fixed(Hedging::Off));
    assert!(hedged.rate > 2.0 * waited.rate, "{:.0} and {:.0}", hedged.rate, waited.rate);
}

#[test]
fn a_probe_without_gain_is_reverted_so_a_full_link_carries_few_requests() {
    let setting = Setting { each: 90e6, total: 75e6, ..REGION };
    assert!(*automatic(&setting, Hedging::On).limits.last().unwrap() <= 24);
}

#[test]
fn a_refused_number_is_approached_and_not_passed_for_long() {
    let setting = Setting { most: Some(40), object: Some(50_000), each: 1e9, total: 1.2e9, ..REGION };
    let limits = automatic(&setting, Hedging::On).limits;
    let steady = &limits[limits.len() / 2..];
    let passed = steady.iter().filter(|limit| **limit > 44).count();
    assert!(passed * 5 < steady.len(), "{passed} of {}", steady.len());
}

#[test]
fn small_objects_from_afar_are_requested_at_once() {
    let setting = Setting { object: Some(50_000), each: 1e9, total: 1.2e9, ..REGION };
    let limits = automatic(&setting, Hedging::On).limits;
    // The limit rises before the first response, which takes a round trip of three ticks.
    assert_eq!(limits[2], 256, "{:?}", &limits[..8]);
    assert!(limits[3..50].iter().all(|limit| *limit == 256), "{:?}", &limits[..50]);
}

#[test]
fn a_near_server_gets_few_requests_for_the_bytes_of_large_objects() {
    let setting = Setting { round_trip: Duration::from_micros(200), each: 2e9, total: 2e9, ..REGION };
    assert_eq!(automatic(&setting, Hedging::On).limits[5], 4);
}
