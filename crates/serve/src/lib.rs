//! Serves a directory over HTTP/1.1 and the S3 API, on one port, zero-copy.
//!
//! The connection loop (`connection`) owns the socket, so a response that is a file range is sent
//! by sendfile, on every request of a kept-alive connection. s3s provides S3's grammar, signatures
//! and XML, and is called as a service (`s3`). If it answers with a file, the loop gets a
//! descriptor and a range, and sends those. `route` decides whether a request is S3 or plain HTTP.
//! Only `root` opens anything below the served directory. `page` makes the pages for browsers.
//!
//! [`Server`] runs inside the caller's tokio runtime; [`Server::start`] makes its own.

mod answer;
mod archive;
mod attempts;
mod auth;
mod chunks;
mod condition;
mod config;
mod connection;
mod content_type;
mod copying;
mod cors;
mod directory;
mod dispatch;
mod error;
mod etag;
mod files;
mod head;
mod hosts;
mod html;
mod limits;
mod listener;
mod listing;
mod log;
mod metrics;
mod names;
mod page;
mod publish;
mod range;
mod refusal;
mod request;
mod reserved;
mod response;
mod root;
mod route;
mod s3;
mod sandbox;
mod sendfile;
mod server;
mod site;
mod staging;
mod sweeper;
mod tls;
mod trash;
mod uploads;
mod wire;
mod writer;

pub use auth::{Key, Keys, Rights};
pub use chunks::{ChunkDialect, decode_chunked};
pub use config::{
    AccessLog, Authentication, Buckets, Config, Cors, Exposure, Limits, Origins, SignatureVersions, Tls,
    Writing,
};
pub use error::{Error, Result};
pub use head::{Head, HeadError, parse_head};
pub use range::{RangeAnswer, parse_range};
pub use server::{Running, Server};
