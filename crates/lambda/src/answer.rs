//! The answer of an invocation: the receipt, and what a function adds to it.

use firstbyte::receipt::Receipt;
use serde::Serialize;

/// When stages were reached, in seconds from the start of the invocation. A stage that an action
/// does not have, or did not reach, is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stages {
    /// The event was understood and the client made; of `mounted`: the directory is there, which is
    /// all that its check is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<f64>,
    /// Length and version are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_seconds: Option<f64>,
    /// The first byte, or the first name, arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_seconds: Option<f64>,
    /// The part that was asked for is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_seconds: Option<f64>,
    /// Everything is read, or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_seconds: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was done, in the fields of every receipt.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// A random name of the execution environment.
    pub environment: String,
    /// Its start, in seconds since 1970.
    pub environment_started: f64,
    /// The number of this invocation in its environment; 1 is the cold one.
    pub invocation: u64,
    /// The memory of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// When stages were reached.
    pub stages: Stages,
    /// What the next call continues from. Absent: all is done.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Bytes done by this call and those that it continues: of a download that has stopped, what
    /// the next call resumes from; of a read, of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_bytes: Option<u64>,
    /// The call was to continue a download, but its partial file is not here, so it began anew.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub began_anew: bool,
    /// CRC-32C of what was read since the first call, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// The file system that the directory is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<String>,
    /// The version of firstbyte.
    pub firstbyte_version: &'static str,
}
