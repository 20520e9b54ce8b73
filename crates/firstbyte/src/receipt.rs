//! Defines the receipt: the summary of a verb's work, as one JSON object. The command line, the
//! serverless functions, Python and Ray return the same fields.
//!
//! The names and units of the fields are part of the contract of the command line. A field that
//! applies to the verb is present even if it is zero.

use std::borrow::Cow;
use std::time::Instant;

use firstbyte_location::{Strength, Version};
use firstbyte_store::{FailureKind, RequestCounts, StoreCounts, Trace};
use firstbyte_transfer::Summary;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::shard_receipt::ShardReceipt;

/// Extent to which content was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum VerifiedExtent {
    /// Nothing was verified: the source stated no length, and the content ended with the
    /// connection.
    #[serde(rename = "none")]
    Nothing,
    /// Only the length and the version were compared, because the source offers no more.
    Length,
    /// The whole object was compared by a checksum.
    Full,
}

impl From<firstbyte_transfer::Verified> for VerifiedExtent {
    fn from(verified: firstbyte_transfer::Verified) -> Self {
        match verified {
            firstbyte_transfer::Verified::Nothing => Self::Nothing,
            firstbyte_transfer::Verified::Length => Self::Length,
            firstbyte_transfer::Verified::Full => Self::Full,
        }
    }
}

/// An item that has failed, and the reason.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct FailedItem {
    /// The location of the item.
    pub location: String,
    /// The reason, on one line.
    pub error: String,
    /// The kind of the failure.
    #[serde(default)]
    pub kind: FailureKind,
    /// The HTTP status, if a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The identifier that the service has given to the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// S3's second identifier, `x-amz-id-2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// The number of requests that were sent for the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Time since the first request, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl FailedItem {
    /// Creates the item for a failure. `error` is the line that people see.
    #[must_use]
    pub fn new(location: String, error: String, kind: FailureKind, trace: Option<&Trace>) -> Self {
        let trace = trace.cloned();
        Self {
            location,
            error,
            kind,
            status: trace.as_ref().and_then(|trace| trace.status),
            attempts: trace.as_ref().map(|trace| trace.attempts),
            seconds: trace.as_ref().map(|trace| trace.took.as_secs_f64()),
            host_id: trace.as_ref().and_then(|trace| trace.host_id.clone()),
            request_id: trace.and_then(|trace| trace.request_id),
        }
    }
}

/// Version of the fields. It is increased when a field is removed or changes its meaning, but not
/// when a field is added. Receipts without a version have version 1.
pub const SCHEMA: u32 = 1;

fn first_schema() -> u32 {
    1
}

/// The result of a verb.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Receipt {
    /// The value of [`SCHEMA`] in the program that has written the receipt.
    #[serde(default = "first_schema")]
    pub schema: u32,
    /// The name of the verb.
    pub verb: Cow<'static, str>,
    /// The source. Several sources are separated by spaces.
    pub source: String,
    /// The destination, for verbs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Number of objects that are complete at their destination.
    pub objects: u64,
    /// Total length of the complete objects, bytes.
    pub bytes: u64,
    /// Number of objects that were skipped because they were already the same.
    pub skipped: u64,
    /// Number of objects that were deleted (`sync --delete`, `cp --abort-stale`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// Number of entries that were left out: pipes, sockets, devices, empty directories that a
    /// store cannot hold, and unfinished copies (`cp`, `sync`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// Number of differences (`check`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<u64>,
    /// Wall-clock time, seconds.
    pub seconds: f64,
    /// Time from the start of the transfer to its first byte, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_seconds: Option<f64>,
    /// The quotient `bytes / seconds`.
    pub bytes_per_second: f64,
    /// Number of requests sent.
    pub requests: u64,
    /// Number of requests sent, by the kinds that price lists distinguish (`cp`, `sync`, `hydrate`,
    /// `mount`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_by_kind: Option<RequestCounts>,
    /// Number of bytes received over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Number of bytes sent over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Cost of these requests and bytes in dollars, by list prices. Present if a service with known
    /// prices bills them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// The time that a model predicts for these objects and bytes, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_seconds: Option<f64>,
    /// The lower and upper bound of the prediction, seconds. 8 of 10 times are between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_range: Option<[f64; 2]>,
    /// Number of requests that were sent again after a failure.
    pub retries: u64,
    /// Number of requests that were sent in parallel to a slow one.
    pub hedged: u64,
    /// Number of bytes that an earlier run had already transferred.
    pub resumed_bytes: u64,
    /// Number of bytes that were read again.
    pub reread_bytes: u64,
    /// Extent to which the content was verified. Of several objects, the weakest verification
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedExtent>,
    /// The version that was read, if the verb has a single object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Peak resident memory of this process, bytes.
    pub peak_memory_bytes: u64,
    /// Processor time of all threads, user and system, seconds.
    pub cpu_seconds: f64,
    /// The items that have failed.
    pub failed: Vec<FailedItem>,
    /// The resource that limited the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
    /// For a serverless function: time from the start of its process to the first event, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_seconds: Option<f64>,
    /// For a serverless function: time that was left before the deadline at the end, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<f64>,
    /// For a serverless function: bytes of files below `/tmp` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp_bytes: Option<u64>,
    /// The shard of a manifest that was run, and which of its objects are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardReceipt>,
}

impl Default for Receipt {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            verb: Cow::default(),
            source: String::new(),
            destination: None,
            objects: 0,
            bytes: 0,
            skipped: 0,
            deleted: None,
            left_out: None,
            differences: None,
            seconds: 0.0,
            first_byte_seconds: None,
            bytes_per_second: 0.0,
            requests: 0,
            requests_by_kind: None,
            received_bytes: None,
            sent_bytes: None,
            usd: None,
            predicted_seconds: None,
            predicted_range: None,
            retries: 0,
            hedged: 0,
            resumed_bytes: 0,
            reread_bytes: 0,
            verified: None,
            version: None,
            peak_memory_bytes: 0,
            cpu_seconds: 0.0,
            failed: Vec::new(),
            bound_by: None,
            init_seconds: None,
            remaining_seconds: None,
            tmp_bytes: None,
            shard: None,
        }
    }
}

impl Receipt {
    /// Creates the receipt of a verb that has done nothing yet.
    #[must_use]
    pub fn new(verb: &'static str, source: String, destination: Option<String>) -> Self {
        Self { verb: verb.into(), source, destination, ..Self::default() }
    }

    /// Adds the counts of a run of the transfer engine. The caller has to add its failures.
    pub fn add(&mut self, summary: &Summary) {
        self.objects += summary.objects;
        self.bytes += summary.bytes;
        self.skipped += summary.skipped;
        if let Some(deleted) = &mut self.deleted {
            *deleted += summary.deleted;
        }
        if let Some(differences) = &mut self.differences {
            *differences += summary.differences;
        }
        if let Some(left_out) = &mut self.left_out {
            *left_out += summary.special + summary.empty_directories + summary.unfinished;
        }
        self.first_byte_seconds = self.first_byte_seconds.or(summary.first_byte_seconds);
        self.requests += summary.requests;
        self.retries += summary.retries;
        self.hedged += summary.hedged;
        self.resumed_bytes += summary.resumed_bytes;
        self.reread_bytes += summary.reread_bytes;
        self.verified = [self.verified, summary.verified.map(Into::into)].into_iter().flatten().min();
        self.version = summary.version.as_ref().map(version_text);
        self.bound_by = summary.bound_by.map(|bound| bound.to_string()).or(self.bound_by.take());
    }

    /// Fills in what a store has counted since it was created.
    pub fn count(&mut self, counters: &StoreCounts) {
        (self.requests, self.retries) = (counters.requests, counters.retries);
        self.requests_by_kind = Some(counters.requests_by_kind);
        (self.received_bytes, self.sent_bytes) = (Some(counters.received), Some(counters.sent));
    }

    /// Parses a receipt of this schema or an older one.
    ///
    /// # Errors
    /// `None` if the text is not a receipt. A sentence if the receipt has a newer schema.
    pub fn parse(text: &str) -> Result<Self, Option<String>> {
        #[derive(Deserialize)]
        struct Numbered {
            #[serde(default = "first_schema")]
            schema: u32,
        }
        // Some programs begin a text file with a byte order mark.
        let text = text.trim_start_matches('\u{feff}').trim();
        // The version is read first, because other fields of a newer receipt may have other types.
        let Numbered { schema } = serde_json::from_str(text).map_err(|_| None)?;
        if schema > SCHEMA {
            let newest = format!("a receipt of schema {schema}, and this firstbyte reads up to {SCHEMA}");
            return Err(Some(format!("{newest}; use the firstbyte of its writer")));
        }
        serde_json::from_str(text).map_err(|_| None)
    }

    /// Returns true if nothing was copied, skipped or deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects + self.skipped + self.deleted.unwrap_or(0) == 0
    }

    /// Fills in the time, memory and processor time of the process, at its end.
    pub fn finish(&mut self, started: Instant) {
        self.seconds = started.elapsed().as_secs_f64();
        self.bytes_per_second = rate(self.bytes, self.seconds);
        self.peak_memory_bytes = peak_memory();
        self.cpu_seconds = cpu_seconds();
    }
}

/// Formats a version. Marks it if it is too weak to show every change.
fn version_text(version: &Version) -> String {
    match version.strength() {
        Strength::Strong => version.to_string(),
        Strength::Weak => format!("weak: {version}"),
        Strength::None => "none".into(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// Returns the peak resident memory of this process, bytes, or 0 if `/proc` does not report it.
///
/// Reads `VmHWM` and not `ru_maxrss`. The latter includes the memory that the process had before
/// `exec`, so a small program that a large one has started would report the peak of the large one.
#[must_use]
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).map_or(0, |kb| kb << 10)
}

#[expect(clippy::cast_precision_loss, reason = "seconds of processor time fit a double")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_applies_is_zero_and_one_that_does_not_is_absent() {
        let receipt = Receipt::new("cat", "s3://b/k".into(), None);
        let json = serde_json::to_value(&receipt).unwrap();
        assert_eq!(json["skipped"], 0);
        assert_eq!(json["failed"], serde_json::json!([]));
        assert!(json.get("destination").is_none());
        assert!(json.get("bound_by").is_none());
    }

    #[test]
    fn the_process_is_measured_at_the_end() {
        let mut receipt = Receipt { bytes: 1000, ..Receipt::default() };
        receipt.finish(Instant::now());
        assert!(receipt.peak_memory_bytes > 100_000, "{}", receipt.peak_memory_bytes);
        assert!(receipt.cpu_seconds > 0.0 && receipt.bytes_per_second > 0.0);
    }
}
