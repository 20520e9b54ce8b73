//! Counts the events of a gateway, for `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use firstbyte_hydrate::Hydrator;

/// Counters of a gateway since it was started.
#[derive(Debug, Default)]
pub(super) struct GatewayCounters {
    /// Requests answered from a fresh look-up.
    pub(super) looked_up_fresh: AtomicU64,
    /// Look-ups at the origin.
    pub(super) looked_up_at_origin: AtomicU64,
    /// Requests answered from an outdated look-up because the origin is down.
    pub(super) looked_up_stale: AtomicU64,
    /// Requests without an answer.
    pub(super) look_ups_failed: AtomicU64,
    /// Body bytes that were in the cache when a client asked for them.
    pub(super) cached_bytes: AtomicU64,
    /// Body bytes that clients had to wait for.
    pub(super) awaited_bytes: AtomicU64,
    /// Clients that wait for bytes now.
    waiting: AtomicU64,
}

/// Guard: counts one waiting client while it lives.
pub(super) struct WaitingClient(Arc<GatewayCounters>);

impl Drop for WaitingClient {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl GatewayCounters {
    /// Counts a client as waiting until the returned value is dropped.
    pub(super) fn begin_wait(self: &Arc<Self>) -> WaitingClient {
        self.waiting.fetch_add(1, Relaxed);
        WaitingClient(Arc::clone(self))
    }

    /// Formats the counters for Prometheus. `usd_per_request` is the price of a request to the
    /// origin.
    pub(super) fn render(&self, hydrator: &Hydrator, usd_per_request: Option<f64>) -> String {
        let origin = hydrator.store().counters();
        let of = |value: &AtomicU64| value.load(Relaxed).to_string();
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, values: &[(&str, String)]| {
            let _ = writeln!(
                text,
                "# HELP firstbyte_gateway_{name} {help}\n# TYPE firstbyte_gateway_{name} {kind}"
            );
            for (label, value) in values {
                let _ = writeln!(text, "firstbyte_gateway_{name}{label} {value}");
            }
        };
        let look_ups = [
            ("{result=\"fresh\"}", of(&self.looked_up_fresh)),
            ("{result=\"asked\"}", of(&self.looked_up_at_origin)),
            ("{result=\"stale\"}", of(&self.looked_up_stale)),
            ("{result=\"failed\"}", of(&self.look_ups_failed)),
        ];
        add("lookups_total", "counter", "Look-ups of objects.", &look_ups);
        let bytes =
            [("{from=\"cache\"}", of(&self.cached_bytes)), ("{from=\"origin\"}", of(&self.awaited_bytes))];
        add("bytes_total", "counter", "Body bytes, by whether they were cached when asked for.", &bytes);
        add("waiting", "gauge", "Clients that wait for bytes of the origin.", &[("", of(&self.waiting))]);
        add(
            "origin_bytes_total",
            "counter",
            "Bytes received from the origin.",
            &[("", origin.received.to_string())],
        );
        add(
            "origin_requests_total",
            "counter",
            "Requests sent to the origin.",
            &[("", origin.requests.to_string())],
        );
        let engine = hydrator.counters();
        let fetches = [
            ("{for=\"waiting\"}", engine.demand_fetches.to_string()),
            ("{for=\"expected\"}", engine.ahead_fetches.to_string()),
            ("{for=\"hydration\"}", engine.background_fetches.to_string()),
        ];
        add("fetches_total", "counter", "Requests for ranges, by the clients that they are for.", &fetches);
        let cuts = [("", engine.cuts.to_string())];
        add("cuts_total", "counter", "Requests for ranges that were silent, cut and repeated.", &cuts);
        let retries = [("", origin.retries.to_string())];
        add("origin_retries_total", "counter", "Requests to the origin that were retries.", &retries);
        #[expect(clippy::cast_precision_loss, reason = "an amount of money, to a few digits")]
        if let Some(price) = usd_per_request {
            let usd = [("", format!("{:.6}", origin.requests as f64 * price))];
            add("origin_usd_total", "counter", "Price of the requests to the origin, in US dollars.", &usd);
        }
        text
    }
}
