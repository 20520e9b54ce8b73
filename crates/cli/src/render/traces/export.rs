//! The queue of spans, and the thread that sends them to the collector. Called by the parent
//! module.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use firstbyte::{Client, ClientOptions, environment};
use firstbyte_store::{Cancel, Store};
use rustix_futex_sync::{Condvar, Mutex};
use serde_json::{Map, Value, json};
use tracing::subscriber::NoSubscriber;

use super::settings::TraceSettings;
use super::span::{Ids, Span, SpanKind, body};
use crate::render::error::Error;
use crate::render::{console, json as lines};

/// Maximum number of spans that wait; further spans are dropped and counted. This and the next two
/// constants are the defaults of OpenTelemetry's batch processor
/// (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>).
const MAX_WAITING_SPANS: usize = 2048;
/// Maximum number of spans in one request.
const BATCH_SPANS: usize = 512;
/// Maximum time that a span waits until a batch is full.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Maximum time that the end of a run waits for its last spans to be sent.
const MAX_FINAL_WAIT: Duration = Duration::from_secs(1);

/// Collects spans, and sends them from a separate thread, which the first span starts.
pub(super) struct Exporter {
    settings: TraceSettings,
    quiet: bool,
    began: SystemTime,
    /// Trace id and span id of this run. Made when first needed, because the daemon of a mount must
    /// have ids of its own.
    ids: OnceLock<(String, String)>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<Span>,
    dropped: u64,
    /// Attributes of the run that are known so far.
    facts: Map<String, Value>,
    is_running: bool,
    /// The run is over: no more spans are added.
    is_ending: bool,
    /// All spans have been sent, or sending has failed.
    is_over: bool,
    /// The collector did not accept the last batch.
    is_down: bool,
    was_reported: bool,
}

/// Reports why no traces are sent, unless the run is quiet.
pub(super) fn warn(quiet: bool, why: &str) {
    if !quiet {
        console::note(format_args!("traces are not sent: {why}"));
    }
}

impl Exporter {
    pub(super) fn new(settings: TraceSettings, quiet: bool) -> Self {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Self { settings, quiet, began: SystemTime::now(), ids: OnceLock::new(), queue, changed }
    }

    /// Adds attributes to the span of the run.
    pub(super) fn describe(&self, facts: Map<String, Value>) {
        self.queue.lock().facts.extend(facts);
    }

    /// Queues a span for sending.
    pub(super) fn push(self: &Arc<Self>, span: Span) {
        let mut queue = self.queue.lock();
        if queue.spans.len() == MAX_WAITING_SPANS {
            queue.dropped += 1;
            return;
        }
        queue.spans.push_back(span);
        if queue.spans.len() >= BATCH_SPANS {
            self.changed.notify_all();
        }
        if !queue.is_running {
            queue.is_running = true;
            let exporter = Arc::clone(self);
            let thread = std::thread::Builder::new().name("traces".into());
            // The requests of the exporter itself make no spans.
            let run = move || tracing::subscriber::with_default(NoSubscriber::default(), || exporter.run());
            if let Err(error) = thread.spawn(run) {
                self.report(&mut queue, &error.to_string());
                (queue.is_over, queue.is_down) = (true, true);
            }
        }
    }

    /// Adds the span of the run. Waits up to [`MAX_FINAL_WAIT`] until all spans are sent.
    pub(super) fn end(self: &Arc<Self>, name: String, attributes: Map<String, Value>, fault: Option<String>) {
        let mut run = Span {
            name,
            kind: SpanKind::Internal,
            began: self.began,
            ended: SystemTime::now(),
            attributes,
            fault,
        };
        {
            let mut queue = self.queue.lock();
            run.attributes.extend(std::mem::take(&mut queue.facts));
            if queue.dropped > 0 {
                run.attributes.insert("firstbyte.dropped_spans".to_owned(), json!(queue.dropped));
            }
            // If the queue is full, the oldest span is dropped, so that the span of the run is
            // always sent.
            if queue.spans.len() == MAX_WAITING_SPANS {
                queue.spans.pop_front();
            }
        }
        self.push(run);
        let mut queue = self.queue.lock();
        queue.is_ending = true;
        self.changed.notify_all();
        // If the collector was already down, the end of the run does not wait.
        let waits = |queue: &mut Queue| !queue.is_over && !queue.is_down;
        drop(self.changed.wait_timeout_while(queue, MAX_FINAL_WAIT, waits));
    }

    fn run(&self) {
        let mut store = None;
        loop {
            let (batch, is_last) = self.next_batch();
            if !batch.is_empty() {
                let sent = self.send(&mut store, &batch);
                let mut queue = self.queue.lock();
                queue.is_down = sent.is_err();
                if let Err(why) = sent {
                    self.report(&mut queue, &why);
                }
            }
            if is_last {
                self.queue.lock().is_over = true;
                self.changed.notify_all();
                return;
            }
        }
    }

    fn report(&self, queue: &mut Queue, why: &str) {
        if !std::mem::replace(&mut queue.was_reported, true) {
            warn(self.quiet, why);
        }
    }

    /// Waits until a batch is full, until [`MAX_DELAY`] has passed, or until the run ends. Returns
    /// true together with the last batch.
    fn next_batch(&self) -> (Vec<Span>, bool) {
        let is_idle = |queue: &mut Queue| queue.spans.is_empty() && !queue.is_ending;
        let queue = self.changed.wait_while(self.queue.lock(), is_idle);
        let is_small = |queue: &mut Queue| queue.spans.len() < BATCH_SPANS && !queue.is_ending;
        let (mut queue, _) = self.changed.wait_timeout_while(queue, MAX_DELAY, is_small);
        let count = queue.spans.len().min(BATCH_SPANS);
        let batch = queue.spans.drain(..count).collect();
        (batch, queue.is_ending && queue.spans.is_empty())
    }

    /// Sends a batch. The first batch also makes the client.
    fn send(&self, store: &mut Option<Store>, batch: &[Span]) -> Result<(), String> {
        let store = match store {
            Some(store) => store,
            None => store.insert(self.store().map_err(|error| error.to_string())?),
        };
        let ids = self.ids.get_or_init(|| {
            let trace = self.settings.parent.as_ref().map_or_else(random::<16>, |(trace, _)| trace.clone());
            (trace, random::<8>())
        });
        let spans = batch.iter().map(|span| self.place(span, ids)).collect();
        let body = lines::line(&body(&self.settings.resource, spans));
        let mut headers = self.settings.headers.clone();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let sent = store.post(&self.settings.url, headers, body.as_bytes(), &Cancel::new());
        sent.map_err(|error| Error::from(error).to_string())
    }

    /// Formats a span with its ids. The span of a request is a child of the run's span, and the
    /// run's span is a child of the caller's span, if there is one.
    fn place(&self, span: &Span, (trace, run): &(String, String)) -> Value {
        match span.kind {
            SpanKind::Client => span.json(Ids { trace, span: &random::<8>(), parent: Some(run) }),
            SpanKind::Internal => {
                let parent = self.settings.parent.as_ref().map(|(_, span)| span.as_str());
                span.json(Ids { trace, span: run, parent })
            }
        }
    }

    /// Makes a store that sends each request once, within the configured timeout. The verb's
    /// options do not apply to it.
    fn store(&self) -> firstbyte::Result<Store> {
        let mut options = ClientOptions::of_system(&environment::variable);
        options.set_read_timeout(self.settings.timeout);
        Ok(Client::waiting(options)?.store().without_retries())
    }
}

/// Makes a random id.
fn random<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    // The call cannot fail on any supported kernel. After a failure, the id would be zero, which
    // collectors refuse.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    hex::encode(bytes)
}
