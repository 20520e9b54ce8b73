//! Defines the messages on the control socket, which the daemon and its clients share. Each message
//! is a JSON object on a line of its own.

use firstbyte_store::RequestCounts;
use serde::{Deserialize, Serialize};

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum ControlRequest {
    /// Asks which location is mounted, and by which process. The answer is
    /// [`ControlResponse::About`].
    About,
    /// Asks for the number of requests and bytes of the mount. The answer is
    /// [`ControlResponse::Counts`].
    Counts,
    /// Starts to hydrate files. The answer, which comes at once, is [`ControlResponse::Begun`].
    Hydrate(HydrateRequest),
    /// Asks for the progress of a job. The answer is [`ControlResponse::Progress`].
    Progress {
        /// The number of the job.
        job: u64,
        /// Number of failures that the client knows. The answer has the next ones.
        #[serde(default)]
        known_failures: usize,
    },
    /// Ends a job. The blocks that it has fetched stay in the cache. The answer is
    /// [`ControlResponse::Done`].
    Cancel {
        /// The number of the job.
        job: u64,
    },
}

/// The files to hydrate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HydrateRequest {
    /// The location of an object, or of a directory or prefix.
    pub location: String,
    /// True to hydrate everything below the location and not one object.
    #[serde(default)]
    pub recursive: bool,
    /// True to exempt the files from eviction.
    #[serde(default)]
    pub pin: bool,
    /// Maximum rate in bytes per second. `None` means no limit.
    #[serde(default)]
    pub limit_rate: Option<u64>,
}

/// An answer of the daemon. Each variant is recognized by its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ControlResponse {
    /// The request failed.
    Error {
        /// The reason for the failure.
        error: String,
    },
    /// Describes the mount.
    About {
        /// The location that is mounted.
        source: String,
        /// The process id of the daemon.
        pid: u32,
    },
    /// A job was started.
    Begun {
        /// The number of the job.
        job: u64,
    },
    /// The number of requests and bytes of the mount.
    Counts(MountCounts),
    /// The progress of a job.
    Progress(JobProgress),
    /// The request was carried out, and there is nothing to report. This variant is the last,
    /// because an object with any fields would match it.
    Done {},
}

/// The number of requests and bytes of a mount since it was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountCounts {
    /// Number of requests, by kind.
    pub requests_by_kind: RequestCounts,
    /// Number of requests that were sent again after a failure.
    pub retries: u64,
    /// Number of bytes received over the network.
    pub received_bytes: u64,
    /// Cost of these requests and bytes in US dollars, by list prices. `None` if the prices are not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Number of files found so far.
    pub files: u64,
    /// Number of files that are hydrated.
    pub files_done: u64,
    /// Total length of the files found so far, bytes.
    pub bytes: u64,
    /// Number of bytes of the files found so far that are cached.
    pub bytes_here: u64,
    /// Number of bytes that this job has fetched.
    pub fetched: u64,
    /// True if all files have been found.
    pub is_counted: bool,
    /// True if the job has ended.
    pub is_over: bool,
    /// Time since the start of the job, seconds.
    pub seconds: f64,
    /// Total number of files that could not be hydrated.
    pub failures: usize,
    /// Some of the failures. The first of them has the number `known_failures` of the request.
    pub failed: Vec<JobFailure>,
    /// Number of failures before those in `failed`. Daemons of earlier versions have only the first
    /// failures.
    #[serde(default)]
    pub known_failures: usize,
}

/// A file that could not be hydrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// The location of the file.
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
            ControlRequest::Progress { job: 1, known_failures: 100 },
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
