//! Serves a directory, or a remote location through the block cache, over HTTP/1.1 and the S3 API,
//! on one port, zero-copy.
//!
//! Modules from top to bottom. Each imports only from its own line and the lines below:
//!
//! - `server` starts and stops the service, and sweeps leftovers;
//! - `route` chooses the API of a request, and isolates stored documents from the server's origin;
//! - `s3` (grammar and signatures by s3s, called as a service), `plain` (HTTP on files) and `page`
//!   (for browsers) are the APIs;
//! - `state` is shared by all requests;
//! - `gateway` reads a remote location, in place of a directory;
//! - `object` has what the APIs share: names, metadata, checksums, staging, publishing, uploads.
//!   Only `object::root` resolves paths below the served directory;
//! - `http` owns the socket, so a response that is a file range is sent by sendfile, on every
//!   request of a kept-alive connection;
//! - `access` has keys and rights; `config`, `path` and `token` have plain values.
//!
//! [`Server`] runs inside the caller's tokio runtime; [`Server::start`] makes its own.

mod access;
mod config;
mod error;
mod gateway;
mod http;
mod object;
mod page;
mod path;
mod plain;
mod route;
mod s3;
mod server;
mod state;
mod token;

pub use crate::access::keys::{KeyRights, ServerKey, ServerKeys};
pub use crate::config::{
    AccessLog, Authentication, Buckets, Config, Cors, GatewayConfig, NameSource, Origins, PlannedObjects,
    ServeSource, ServerLimits, SignatureVersions, TlsFiles, UnauthenticatedListening, WritePolicy,
};
pub use crate::error::{Error, Result};
pub use crate::http::chunks::{ChunkDialect, decode_chunked};
pub use crate::http::head::{RequestHead, RequestHeadError, parse_head};
pub use crate::http::range::{RangeAnswer, parse_range};
pub use crate::server::{RunningServer, Server};
