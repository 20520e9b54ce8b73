//! Serves `GET /metrics`: counters in the text format of Prometheus.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::filesystem::FileSystem;
use crate::operations::MountOperation;

/// Maximum time for a client to send its request, and to read the answer. Without a limit, a slow
/// client would keep others waiting.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a request head that is read, bytes.
const MAX_HEAD_LENGTH: u64 = 8 << 10;

/// Listens at `address`. Fails if another program listens there.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Error::io(std::path::Path::new(&address.to_string()), "cannot listen for --metrics", error)
    })
}

/// Serves the counters of `core`, one client at a time, because there is usually only one scraper.
/// Returns the address, which contains the chosen port if port 0 was given.
pub(crate) fn serve(listener: TcpListener, core: &Arc<FileSystem>) -> Result<SocketAddr> {
    let failed = |error: io::Error| {
        Error::io(std::path::Path::new("--metrics"), "its server cannot be started", error)
    };
    let bound = listener.local_addr().map_err(failed)?;
    let core = Arc::downgrade(core);
    let accept = move || {
        for connection in listener.incoming().flatten() {
            let Some(core) = core.upgrade() else { return };
            // The answer fails only if the client has disconnected.
            let _ = answer(&connection, &core);
        }
    };
    // The thread is not joined. It runs until the process ends, and has no strong reference to the
    // file system.
    thread::Builder::new().name("metrics".into()).stack_size(256 << 10).spawn(accept).map_err(failed)?;
    Ok(bound)
}

fn answer(connection: &TcpStream, core: &FileSystem) -> io::Result<()> {
    connection.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    connection.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut reader = BufReader::new(connection).take(MAX_HEAD_LENGTH);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = match request.split(' ').nth(1) {
        Some("/metrics") => ("200 OK", text(core)),
        _ => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    let mut writer = connection;
    write!(
        writer,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The text of all counters, in the format of Prometheus.
struct Metrics(String);

impl Metrics {
    fn add(&mut self, name: &str, kind: &str, help: &str, values: Vec<(String, String)>) {
        self.0.push_str(&format!(
            "# HELP firstbyte_mount_{name} {help}\n# TYPE firstbyte_mount_{name} {kind}\n"
        ));
        for (labels, value) in values {
            self.0.push_str(&format!("firstbyte_mount_{name}{labels} {value}\n"));
        }
    }
}

/// Returns a single value without labels.
fn single_value(value: u64) -> Vec<(String, String)> {
    vec![(String::new(), value.to_string())]
}

fn text(core: &FileSystem) -> String {
    let mut metrics = Metrics(String::new());
    add_operations(&mut metrics, core);
    add_requests(&mut metrics, core);
    metrics.0
}

/// Adds the counters of the kernel's operations.
fn add_operations(metrics: &mut Metrics, core: &FileSystem) {
    let operations = &core.operations;
    let each = |value: &dyn Fn(MountOperation) -> String| {
        MountOperation::ALL.map(|op| (format!("{{operation=\"{}\"}}", op.word()), value(op))).to_vec()
    };
    metrics.add(
        "operations_total",
        "counter",
        "Operations the kernel asked for.",
        each(&|op| operations.of(op).done.load(Relaxed).to_string()),
    );
    metrics.add(
        "operation_errors_total",
        "counter",
        "Operations answered with an error.",
        each(&|op| operations.of(op).failed.load(Relaxed).to_string()),
    );
    metrics.add(
        "operation_seconds_total",
        "counter",
        "Time from question to answer.",
        each(&|op| {
            Duration::from_nanos(operations.of(op).nanoseconds.load(Relaxed)).as_secs_f64().to_string()
        }),
    );
    metrics.add(
        "slow_operations_total",
        "counter",
        "Operations that took more than a second.",
        each(&|op| operations.of(op).slow.load(Relaxed).to_string()),
    );
    metrics.add(
        "read_bytes_total",
        "counter",
        "Bytes of reads answered.",
        single_value(operations.bytes.load(Relaxed)),
    );
    metrics.add("inodes", "gauge", "Inodes the kernel holds.", single_value(core.inodes.len() as u64));
    metrics.add("open_files", "gauge", "Open files.", single_value(operations.open.load(Relaxed)));
    let (direct_opens, given_contents) =
        (operations.direct_opens.load(Relaxed), operations.given_contents.load(Relaxed));
    metrics.add(
        "passed_through_opens_total",
        "counter",
        "Opens whose reads the kernel does itself.",
        single_value(direct_opens),
    );
    metrics.add(
        "handed_over_opens_total",
        "counter",
        "Opens with which a small file was handed over.",
        single_value(given_contents),
    );
}

/// Adds the counters of the store and of the hydration engine.
fn add_requests(metrics: &mut Metrics, core: &FileSystem) {
    let store = core.source.store().counters();
    let engine = core.hydrator.counters();
    metrics.add(
        "store_requests_total",
        "counter",
        "Requests sent to the store.",
        single_value(store.requests),
    );
    // The engine itself repeats the requests of reads, so both counts are added.
    let retries = store.retries + engine.retries + engine.cuts;
    metrics.add(
        "store_retries_total",
        "counter",
        "Requests sent again after a failure, or cut because they were silent.",
        single_value(retries),
    );
    metrics.add(
        "store_received_bytes_total",
        "counter",
        "Bytes received from the store.",
        single_value(store.received),
    );
    let class = |name: &str, value: u64| (format!("{{class=\"{name}\"}}"), value.to_string());
    metrics.add(
        "fetched_bytes_total",
        "counter",
        "Bytes fetched for readers who wait, ahead of readers, and by hydration.",
        vec![
            class("demand", engine.demand_bytes),
            class("ahead", engine.ahead_bytes),
            class("background", engine.background_bytes),
        ],
    );
    metrics.add("engine_reads_total", "counter", "Reads of open files.", single_value(engine.reads));
    metrics.add(
        "engine_waits_total",
        "counter",
        "Reads that had to wait for a fetch.",
        single_value(engine.waited),
    );
    metrics.add(
        "uncached_blocks_total",
        "counter",
        "Blocks the cache had no room for.",
        single_value(engine.uncached),
    );
}
