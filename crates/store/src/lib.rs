//! Accesses local files, S3, Google, Azure, HTTP and SFTP by one interface: describe, list, read
//! ranges, write, upload in parts.
//!
//! [`Store`] is the handle for all backends, which are private. Requests use blocking sockets, and
//! callers provide the threads. [`Body`] moves the bytes of a response into the caller's buffer or
//! file, by splice if no checksum is computed. No type of an S3 or TLS library is public.
//! [`Store::call_service`] sends control requests to other AWS services, with the same credentials
//! and connections.
//!
//! The features `azure`, `google`, `http` and `sftp` include the backends of these names. The
//! feature `aws-config` reads AWS's configuration files and searches AWS's whole chain of
//! credentials. All features are on by default. Without `aws-config`, S3 gets its keys, region and
//! endpoint from the options and from environment variables.

#![cfg_attr(
    not(all(
        feature = "aws-config",
        feature = "azure",
        feature = "google",
        feature = "http",
        feature = "sftp"
    )),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        unused_mut,
        reason = "left by backends that are not built"
    )
)]

mod answer;
#[cfg(feature = "azure")]
mod azure;
mod backend;
mod billed;
mod body;
mod cancel;
mod codes;
mod conditions;
mod content_range;
mod dates;
mod deferred;
mod endless;
mod error;
mod gateways;
#[cfg(feature = "google")]
mod google;
mod header_text;
#[cfg(feature = "http")]
mod http;
mod limits;
mod local;
mod moment;
#[cfg(feature = "http")]
mod netrc;
mod object;
mod options;
mod order;
mod origin;
mod partitions;
mod post;
mod query;
mod requests;
#[cfg(any(feature = "azure", feature = "google"))]
mod rest;
mod retry;
mod s3;
#[cfg(feature = "sftp")]
mod sftp;
mod signing;
mod sink;
mod sorted;
mod spending;
mod store;
mod syscall_refusal;
mod upload;
mod via;
mod walk;
mod wire;

pub use body::Body;
pub use cancel::Cancel;
pub use dates::{
    LAST_HTTP_SECOND, date_of, expires_header, format_http_date, parse_http_date, unix_nanoseconds,
};
pub use deferred::DeferredSetting;
pub use error::{
    AddressSource, CertificateFault, Error, FailureKind, RequestAuthentication, Result, Trace, Traced,
    difference, differing_texts, io_advice,
};
pub use firstbyte_listing::{EntryOrder, NameTest, WalkBounds};
pub use firstbyte_location::is_full;
pub use firstbyte_location::{Algorithm, Checksum, Hasher};
pub use firstbyte_pacing::Throttle;
pub use gateways::SEGMENT;
pub use header_text::check_header_value;
pub use limits::{
    BUFFER, KEEP_IDLE, MEMORY, PAGE, POLL_INTERVAL, SHORT_WAIT, STACK, THREAD_MEMORY, most_requests,
};
pub use local::{
    Beneath, CopyState, Durability, FileAccess, FoundEntry, LocalFile, PartialPermissions, PrivateDirectory,
    ReplaceKind, Sharing, StoredTimes, USUAL_SECONDS, local_path, location_below, open_regular,
    refused_calls, set_modified, truncate, unfinished_name,
};
pub use moment::Moment;
pub use object::{Metadata, ObjectVersion, Stat};
pub use options::{
    AzureConnection, CustomerKey, HttpHeaders, Outages, Proxies, Proxy, Redirects, ServerSideEncryption,
    StoreOptions,
};
pub use query::{
    CopiedTo, Directories, DirectoryBlobs, Get, Integrity, Links, ListOptions, ListedPage, Marker, Partials,
    StatedLength, Unfinished,
};
pub use requests::{RequestCounts, StoreCounts};
pub use retry::attempt_span;
pub use s3::{
    Endpoint, EndpointSource, Presign, PresignMethod, Presigned, ServiceAnswer, ServiceMethod, ServiceRequest,
};
pub use signing::{Signing, SigningKeys};
pub use sink::Sink;
pub use spending::{Prices, Spending, is_priced_class};
pub use store::Store;
pub use store::listing::Listing;
pub use store::required::{require_bucket, require_key};
pub use syscall_refusal::is_refused;
pub use upload::{
    Part, Payload, PinnedFile, Precondition, PutOptions, Sending, StaleUpload, Upload, Written,
};
pub use via::{Gateways, Via};
