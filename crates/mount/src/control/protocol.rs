//! The messages on the control socket: one JSON object on a line each, shared by the daemon and its
//! clients.

use firstbyte_store::RequestCounts;
use serde::{Deserialize, Serialize};

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum ControlRequest {
    /// Asks which location is mounted, and by which process. Answered by
    /// [`ControlResponse::About`].
    About,
    /// Asks for the requests and bytes of the mount. Answered by [`ControlResponse::Counts`].
    Counts,
    /// Begins to bring files into the cache. Answered by [`ControlResponse::Begun`] at once.
    Hydrate(HydrateRequest),
    /// Asks for the progress of a job. Answered by [`ControlResponse::Progress`].
    Progress {
        /// The number of the job.
        job: u64,
    },
    /// Ends a job; the blocks that it fetched stay. Answered by [`ControlResponse::Done`].
    Cancel {
        /// The number of the job.
        job: u64,
    },
}

/// Files to bring into the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HydrateRequest {
    /// The location.
    pub location: String,
    /// Whether to fetch everything below the location, not one object.
    #[serde(default)]
    pub recursive: bool,
    /// Whether to exempt the files from eviction.
    #[serde(default)]
    pub pin: bool,
    /// Limit in bytes per second; unlimited if `None`.
    #[serde(default)]
    pub limit_rate: Option<u64>,
}

/// An answer of the daemon. Variants are distinguished by their fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ControlResponse {
    /// The request failed.
    Error {
        /// The reason.
        error: String,
    },
    /// Describes the mount.
    About {
        /// The location mounted.
        source: String,
        /// The daemon's process.
        pid: u32,
    },
    /// A job was begun.
    Begun {
        /// The number of the job.
        job: u64,
    },
    /// Requests and bytes of the mount.
    Counts(MountCounts),
    /// The progress of a job.
    Progress(JobProgress),
    /// Done; nothing to report. Last, because an object with any fields would match it.
    Done {},
}

/// Requests and bytes of a mount since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountCounts {
    /// Requests by kind.
    pub requests_by_kind: RequestCounts,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Bytes received over the network.
    pub received_bytes: u64,
    /// US dollars for both by list prices, if these are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Files found so far.
    pub files: u64,
    /// Files that are hydrated.
    pub files_done: u64,
    /// Bytes of the files found so far.
    pub bytes: u64,
    /// Bytes of these files that are cached.
    pub bytes_here: u64,
    /// Bytes that this job fetched.
    pub fetched: u64,
    /// Whether all files have been found.
    pub is_counted: bool,
    /// Whether the job has ended.
    pub is_over: bool,
    /// Time since the start of the job, seconds.
    pub seconds: f64,
    /// Number of files that failed.
    pub failures: usize,
    /// The first failures.
    pub failed: Vec<JobFailure>,
}

/// A file that could not be hydrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// The file's location.
    pub location: String,
    /// The reason.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_read_back_as_it_was_written() {
        let hydrate =
            HydrateRequest { location: "s3://b/k".into(), recursive: true, pin: false, limit_rate: Some(7) };
        let requests = [
            ControlRequest::About,
            ControlRequest::Counts,
            ControlRequest::Hydrate(hydrate),
            ControlRequest::Progress { job: 1 },
            ControlRequest::Cancel { job: 1 },
        ];
        for request in requests {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<ControlRequest>(&text).unwrap(), request, "{text}");
        }
        let failed = vec![JobFailure { location: "s3://b/k".into(), error: "no".into() }];
        let responses = [
            ControlResponse::Error { error: "no".into() },
            ControlResponse::About { source: "s3://b".into(), pid: 1 },
            ControlResponse::Begun { job: 1 },
            ControlResponse::Counts(MountCounts { retries: 1, usd: Some(0.5), ..MountCounts::default() }),
            ControlResponse::Progress(JobProgress {
                files: 2,
                failures: 1,
                failed,
                ..JobProgress::default()
            }),
            ControlResponse::Done {},
        ];
        for response in responses {
            let text = serde_json::to_string(&response).unwrap();
            assert_eq!(serde_json::from_str::<ControlResponse>(&text).unwrap(), response, "{text}");
        }
    }

    #[test]
    fn a_request_for_hydration_needs_a_location_alone() {
        let request: ControlRequest = serde_json::from_str(r#"{"verb":"hydrate","location":"/x"}"#).unwrap();
        let expected =
            HydrateRequest { location: "/x".into(), recursive: false, pin: false, limit_rate: None };
        assert_eq!(request, ControlRequest::Hydrate(expected));
    }
}
