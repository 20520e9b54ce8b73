//! Sends a second request when the first one is late, and uses the response that comes first.
//!
//! The first request runs in the caller's thread, so a response in time needs no other thread. One
//! thread per ring watches the requests, and starts the second request of each late one. The number
//! of second requests is limited, however slow all gateways are, because each second request may
//! cost the origin a read. [`Ring`](super::Ring) calls this module.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use firstbyte_pacing::{HedgePolicy, Wait};
use rustix_futex_sync::{Condvar, Mutex};

use super::member::Member;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::{POLL_INTERVAL, STACK};

/// Number of requests that allow one second request. With this number, four nodes that share one
/// link do not notice the additional bytes from the origin.
const REQUESTS_PER_HEDGE: u64 = 32;

/// Number of second requests that are allowed in any case. A reader that waits for each block sends
/// so few requests that it would otherwise be allowed none.
const FREE_HEDGES: u64 = 2;

/// Sends the second request of a read, until the handle is cancelled.
pub(super) type SecondRequest = Box<dyn FnOnce(&Cancel) -> Result<Body> + Send>;

/// The requests of one ring, and the thread that watches them.
#[derive(Default)]
pub(super) struct HedgeWatch {
    shared: Arc<Shared>,
    started: OnceLock<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Default)]
struct WatchState {
    waiting: BTreeMap<u64, Waiting>,
    /// Time at which the thread will wake; `None` while no request is waiting.
    wakes: Option<Instant>,
    policy: HedgePolicy,
    requests: u64,
    sent_twice: u64,
    has_ended: bool,
}

/// A read whose second request has not started yet.
struct Waiting {
    due: Instant,
    race: Arc<Race>,
    member: Arc<Member>,
    second: SecondRequest,
}

/// The two requests of a read.
struct Race {
    first: Cancel,
    second: Cancel,
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

/// The state of the two requests of a read.
#[derive(Default)]
struct Outcome {
    /// True if the first request has succeeded. The second is then not needed.
    is_decided: bool,
    is_running: bool,
    /// Response of the second request, whose arrival cancels the first request.
    body: Option<Body>,
}

impl HedgeWatch {
    /// Runs `first`. Also runs `second`, at the same time, if `member` is late. Returns the result
    /// of `first`, and the response of `second` if it came sooner or if `first` failed.
    pub(super) fn race(
        &self,
        cancel: &Cancel,
        member: &Arc<Member>,
        first: impl FnOnce(&Cancel) -> Result<Body>,
        second: SecondRequest,
    ) -> (Result<Body>, Option<Body>) {
        let within = |handle: Cancel| handle.within(cancel);
        let (one, other) = (within(Cancel::new()), within(Cancel::new()));
        let race =
            Arc::new(Race { first: one, second: other, outcome: Mutex::default(), ended: Condvar::new() });
        let begun = Instant::now();
        let number = self.register(begun, Arc::clone(&race), Arc::clone(member), second);
        let answer = first(&race.first);
        let took = answer.is_ok().then(|| begun.elapsed());
        match self.shared.end(number, took) {
            Some(_not_started) => (answer, None),
            None => race.wait_for_results(answer),
        }
    }

    fn register(&self, begun: Instant, race: Arc<Race>, member: Arc<Member>, second: SecondRequest) -> u64 {
        self.started.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("gateways".into()).stack_size(STACK);
            if let Err(error) = thread.spawn(move || shared.watch()) {
                tracing::warn!("requests to gateways are not sent twice: {error}");
            }
        });
        let mut state = self.shared.state.lock();
        let number = state.requests;
        state.requests += 1;
        let due = begun + state.delay();
        state.waiting.insert(number, Waiting { due, race, member, second });
        if state.wakes.is_none_or(|wakes| due < wakes) {
            self.shared.changed.notify_one();
        }
        number
    }
}

impl Drop for HedgeWatch {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.changed.notify_one();
    }
}

impl WatchState {
    /// Returns the time after which a second request is sent: half of the time after which a silent
    /// request is cut. Cutting the request instead would only send it to the same gateway again.
    fn delay(&self) -> Duration {
        self.policy.limit(Wait::Head, 0) / 2
    }

    /// Counts a second request. Returns false if the budget of second requests is spent. If the
    /// gateway is excluded because of a failure, the request is allowed and not counted.
    fn take_hedge(&mut self, member: &Member) -> bool {
        let allowed = self.sent_twice < FREE_HEDGES + self.requests / REQUESTS_PER_HEDGE;
        if !member.gets_requests() {
            return true;
        }
        self.sent_twice += u64::from(allowed);
        allowed
    }
}

impl Shared {
    /// Ends the wait for the first request. Returns `None` if the second request was already
    /// started.
    fn end(&self, number: u64, took: Option<Duration>) -> Option<Waiting> {
        let mut state = self.state.lock();
        took.into_iter().for_each(|took| state.policy.learn(Wait::Head, took));
        state.waiting.remove(&number)
    }

    /// Starts each second request when it is due. Runs on the watching thread.
    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.has_ended {
            let now = Instant::now();
            let due: Vec<u64> =
                state.waiting.iter().filter(|(_, it)| it.due <= now).map(|(number, _)| *number).collect();
            for number in due {
                let Some(mut late) = state.waiting.remove(&number) else { continue };
                if state.take_hedge(&late.member) {
                    late.start();
                } else {
                    late.due = now + POLL_INTERVAL;
                    state.waiting.insert(number, late);
                }
            }
            state.wakes = state.waiting.values().map(|waiting| waiting.due).min();
            state = match state.wakes {
                None => self.changed.wait(state),
                Some(wakes) => {
                    let left = wakes.saturating_duration_since(now);
                    self.changed.wait_timeout(state, left).0
                }
            };
        }
    }
}

impl Waiting {
    /// Starts the second request on a new thread.
    fn start(self) {
        let (race, second) = (self.race, self.second);
        race.outcome.lock().is_running = true;
        let running = Arc::clone(&race);
        let run = move || {
            let body = second(&running.second).ok();
            running.second_ended(body);
        };
        let thread = std::thread::Builder::new().name("gateways".into()).stack_size(STACK);
        if thread.spawn(run).is_err() {
            race.second_ended(None);
        }
    }
}

impl Race {
    fn second_ended(&self, body: Option<Body>) {
        let mut outcome = self.outcome.lock();
        outcome.is_running = false;
        if body.is_some() && !outcome.is_decided {
            self.first.cancel();
            outcome.body = body;
        }
        self.ended.notify_all();
    }

    /// Waits until one request has succeeded or both have failed, and returns their results.
    fn wait_for_results(&self, first: Result<Body>) -> (Result<Body>, Option<Body>) {
        let mut outcome = self.outcome.lock();
        if first.is_ok() && outcome.body.is_none() {
            outcome.is_decided = true;
            self.second.cancel();
            return (first, None);
        }
        while outcome.is_running {
            outcome = self.ended.wait(outcome);
        }
        // The second request has won. A first request that succeeds only now counts as cancelled.
        let first = first.and_then(|_| Err(Error::Cancelled));
        (first, outcome.body.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Stat;

    fn body(place: &str) -> Result<Body> {
        Ok(Body::empty(place.to_owned(), Stat::directory(), 0))
    }

    /// Waits until the handle is cancelled, like a request that gets no response.
    fn silence(cancel: &Cancel) -> Result<Body> {
        while !cancel.is_cancelled() {
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(Error::Cancelled)
    }

    fn member() -> Arc<Member> {
        Arc::new(Member::new("http://a:1".into()))
    }

    #[test]
    fn a_silent_request_ends_when_the_one_beside_it_has_answered() {
        let (watch, member) = (HedgeWatch::default(), member());
        let (first, second) = watch.race(&Cancel::new(), &member, silence, Box::new(|_| body("second")));
        assert!(matches!(first, Err(Error::Cancelled)));
        assert!(second.is_some());
    }

    #[test]
    fn an_answer_in_time_sends_nothing_twice_and_a_late_one_ends_the_second() {
        let (watch, member) = (HedgeWatch::default(), member());
        let never = |_: &Cancel| -> Result<Body> { panic!("sent twice") };
        let (first, second) = watch.race(&Cancel::new(), &member, |_| body("first"), Box::new(never));
        assert!(first.is_ok() && second.is_none());
        let (sender, started) = std::sync::mpsc::channel();
        let (ended, end) = std::sync::mpsc::channel();
        let late = |_: &Cancel| {
            started.recv().unwrap();
            body("first")
        };
        let second = Box::new(move |cancel: &Cancel| {
            sender.send(()).unwrap();
            let result = silence(cancel);
            ended.send(()).unwrap();
            result
        });
        let (first, second) = watch.race(&Cancel::new(), &member, late, second);
        assert!(first.is_ok() && second.is_none());
        end.recv().unwrap();
    }

    #[test]
    fn few_requests_are_sent_twice_however_slow_all_are() {
        let (mut state, member) = (WatchState::default(), member());
        let mut twice = 0;
        for _ in 0..3200 {
            state.requests += 1;
            twice += u64::from(state.take_hedge(&member));
        }
        assert_eq!(twice, FREE_HEDGES + 3200 / REQUESTS_PER_HEDGE);
        member.record_failure("gone");
        assert!(state.take_hedge(&member), "past a gateway that is not asked any more");
    }

    #[test]
    fn a_request_that_is_cancelled_ends_both() {
        let (watch, member, cancel) = (HedgeWatch::default(), member(), Cancel::new());
        let (sender, started) = std::sync::mpsc::channel();
        let outer = cancel.clone();
        let second = Box::new(move |cancel: &Cancel| {
            sender.send(()).unwrap();
            silence(cancel)
        });
        std::thread::spawn(move || {
            started.recv().unwrap();
            outer.cancel();
        });
        let (first, second) = watch.race(&cancel, &member, silence, second);
        assert!(matches!(first, Err(Error::Cancelled)) && second.is_none());
    }
}
