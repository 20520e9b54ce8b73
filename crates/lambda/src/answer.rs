//! Defines the answer of an invocation: the receipt, and further fields about the function.

use firstbyte::receipt::Receipt;
use serde::Serialize;

/// Times of stages, in seconds from the start of the invocation. A stage is absent if the action
/// does not have it or did not reach it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stages {
    /// Time at which the event was parsed and the client was made. For `mounted`: time at which the
    /// directory was found to exist, before its file system is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<f64>,
    /// Time at which the object's length and version were known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_seconds: Option<f64>,
    /// Time at which the first byte, or the first name, arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_seconds: Option<f64>,
    /// Time at which the requested part had been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_seconds: Option<f64>,
    /// Time at which all bytes had been read or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_seconds: Option<f64>,
}

/// The answer of an invocation, as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The receipt, with the fields of every verb.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// A random name of the execution environment.
    pub environment: String,
    /// The start of the environment, in seconds since 1970.
    pub environment_started: f64,
    /// Number of this invocation in its environment. Invocation 1 is the cold start.
    pub invocation: u64,
    /// The memory of the function in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Times of the stages.
    pub stages: Stages,
    /// The token for the next call. Absent if no work is left.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Bytes done by this call and the calls that it continues. For a stopped download, the number
    /// of bytes from which to resume. For a read, the number of bytes of the range that were read
    /// so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_bytes: Option<u64>,
    /// True if the call should have continued a copy, but started it again because the files of
    /// the earlier calls are not in this environment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub began_anew: bool,
    /// CRC-32C in hex of all bytes read, including those of the calls that this one continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// File system of the directory that `mounted` checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<String>,
    /// The version of firstbyte.
    pub firstbyte_version: &'static str,
}
