//! Runs the thread that sends replies when they are due: metadata after its delay, and data at the
//! rate of the meter. One thread serves all mounts of a slow file system, because they share the
//! total rate.
//!
//! A reply is prepared before it is due, so its delay includes the work. `fuse` calls this module.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, num::NonZeroU64};

use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use super::meter::{MeterRates, ReplyMeter};

/// Name of the thread. With it, tools show the CPU time of the link separately.
const THREAD: &str = "link";

/// Sends a reply to the kernel.
type Send = Box<dyn FnOnce() + std::marker::Send>;

/// Delays replies and limits their rate.
pub(super) struct ReplyWire {
    rtt: Duration,
    limited: bool,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<WireState>,
    wake: Condvar,
}

struct WireState {
    meter: ReplyMeter<Send>,
    /// Replies, by due time and sequence number.
    due: BTreeMap<(Instant, u64), Send>,
    numbered: u64,
    /// Time at which the thread wakes without a notification. `None` if it waits for a reply.
    wakes_at: Option<Instant>,
    stopping: bool,
}

impl fmt::Debug for ReplyWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("rtt", &self.rtt).finish_non_exhaustive()
    }
}

impl ReplyWire {
    /// Starts the thread. Without a delay and a limit, no thread is needed and none is started.
    pub(super) fn start(rtt: Duration, rates: MeterRates, clients: usize) -> io::Result<Self> {
        let state = WireState {
            meter: ReplyMeter::new(rates, clients, Instant::now()),
            due: BTreeMap::new(),
            numbered: 0,
            wakes_at: None,
            stopping: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let limited = rates.is_limited();
        let thread = if limited || !rtt.is_zero() {
            let shared = Arc::clone(&shared);
            Some(thread::Builder::new().name(THREAD.to_owned()).spawn(move || shared.run())?)
        } else {
            None
        };
        Ok(Self { rtt, limited, shared, thread: Mutex::new(thread) })
    }

    /// Sends a reply one round trip after `began`.
    pub(super) fn delay(&self, send: impl FnOnce() + std::marker::Send + 'static, began: Instant) {
        if self.rtt.is_zero() {
            return send();
        }
        let mut state = self.shared.state.lock();
        let at = began + self.rtt;
        state.push(at, Box::new(send));
        self.shared.wake_before(state, at);
    }

    /// Sends a reply of `bytes` bytes to a client: one round trip after `began`, or later if the
    /// rates require it.
    pub(super) fn meter(
        &self,
        client: usize,
        bytes: u64,
        send: impl FnOnce() + std::marker::Send + 'static,
        began: Instant,
    ) {
        if !self.limited || bytes == 0 {
            return self.delay(send, began);
        }
        let mut state = self.shared.state.lock();
        let at = began + self.rtt;
        state.meter.add(client, at, bytes, Box::new(send));
        self.shared.wake_before(state, at);
    }

    /// Ends the thread. Replies that are due later are not sent, because nothing is mounted any
    /// more.
    pub(super) fn stop(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.wake.notify_all();
        let thread = self.thread.lock().take();
        // The thread has already reported its panic on standard error.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for ReplyWire {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WireState {
    fn push(&mut self, at: Instant, send: Send) {
        self.numbered += 1;
        self.due.insert((at, self.numbered), send);
    }

    /// Takes the replies that are due. Also returns the time of the next call: when the next reply
    /// is due or the meter sends its next piece. `None` if nothing waits.
    fn take(&mut self, now: Instant) -> (Vec<Send>, Option<Instant>) {
        let mut sent = Vec::new();
        self.meter.send(now, |at, send| sent.push((at, send)));
        for (at, send) in sent {
            self.push(at, send);
        }
        let mut due = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        let next = self.due.first_key_value().map(|((at, _), _)| *at);
        (due, next.into_iter().chain(self.meter.next()).min())
    }
}

impl Shared {
    /// Wakes the thread if it would sleep beyond `at`.
    fn wake_before(&self, state: MutexGuard<'_, WireState>, at: Instant) {
        let sleeps = state.wakes_at.is_none_or(|wakes_at| at < wakes_at);
        drop(state);
        if sleeps {
            self.wake.notify_one();
        }
    }

    fn run(&self) {
        // Without this setting, timers would be late by up to 50 µs. A failure is harmless.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut state = self.state.lock();
        while !state.stopping {
            let now = Instant::now();
            let (due, next) = state.take(now);
            if !due.is_empty() {
                // Before it sleeps, the thread checks the queue again, so it needs no notification
                // meanwhile.
                state.wakes_at = Some(now);
                drop(state);
                due.into_iter().for_each(|send| send());
                state = self.state.lock();
                continue;
            }
            state.wakes_at = next;
            state = match next {
                None => self.wake.wait(state),
                Some(at) => {
                    let time = at.saturating_duration_since(Instant::now());
                    self.wake.wait_timeout(state, time).0
                }
            };
        }
    }
}
