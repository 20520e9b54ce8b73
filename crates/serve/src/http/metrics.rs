//! Counts the events of a server, and renders the counters at `/metrics` in Prometheus' text
//! format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::StatusCode;

/// The part of the server that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRoute {
    /// The S3 API.
    S3,
    /// A file or directory over plain HTTP.
    Plain,
    /// Requests of pages below `/.firstbyte/`: the worker script, uploads, changes, links, sign-in.
    Reserved,
    /// The counters.
    Metrics,
}

impl RequestRoute {
    /// All routes, in the order of their discriminants.
    pub(crate) const ALL: [Self; 4] = [Self::S3, Self::Plain, Self::Reserved, Self::Metrics];

    /// Returns the label of the route in `/metrics`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Plain => "http",
            Self::Reserved => "page",
            Self::Metrics => "metrics",
        }
    }
}

const ROUTES: usize = 4;
const CLASSES: usize = 5;

/// Counts of events since the server started.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    requests: [[AtomicU64; CLASSES]; ROUTES],
    /// Body bytes sent by sendfile.
    pub(crate) sendfile_bytes: AtomicU64,
    /// Body bytes sent from this process's memory.
    pub(crate) copied_bytes: AtomicU64,
    /// Body bytes received.
    pub(crate) received_bytes: AtomicU64,
    /// Connections accepted.
    pub(crate) accepted: AtomicU64,
    /// Connections open now.
    pub(crate) open: AtomicU64,
    /// Parts of a file (see `sendfile`) that were absent from the page cache and were read ahead by
    /// a blocking thread.
    pub(crate) cold_reads: AtomicU64,
}

impl ServerMetrics {
    /// Counts one answered request.
    pub(crate) fn count(&self, route: RequestRoute, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        self.requests[route as usize][class].fetch_add(1, Relaxed);
    }

    /// Formats the counters for Prometheus.
    pub(crate) fn render(&self) -> String {
        let mut text = String::with_capacity(2048);
        text.push_str(
            "# HELP firstbyte_requests_total Requests answered.\n# TYPE firstbyte_requests_total counter\n",
        );
        for route in RequestRoute::ALL {
            for class in 0..CLASSES {
                let count = self.requests[route as usize][class].load(Relaxed);
                let (kind, status) = (route.name(), class + 1);
                let _ = writeln!(
                    text,
                    "firstbyte_requests_total{{kind=\"{kind}\",status=\"{status}xx\"}} {count}"
                );
            }
        }
        let counters = [
            ("sendfile_bytes_total", "counter", "Body bytes sent by sendfile.", &self.sendfile_bytes),
            ("copied_bytes_total", "counter", "Body bytes sent through memory.", &self.copied_bytes),
            ("received_bytes_total", "counter", "Body bytes received.", &self.received_bytes),
            ("connections_total", "counter", "Connections accepted.", &self.accepted),
            ("connections", "gauge", "Connections open.", &self.open),
            ("cold_reads_total", "counter", "File quanta read ahead from a cold disk.", &self.cold_reads),
        ];
        for (name, kind, help, value) in counters {
            let value = value.load(Relaxed);
            let _ = writeln!(
                text,
                "# HELP firstbyte_{name} {help}\n# TYPE firstbyte_{name} {kind}\nfirstbyte_{name} {value}"
            );
        }
        text
    }
}
