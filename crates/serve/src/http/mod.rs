//! Implements HTTP/1.1 on a socket: heads, bodies, connections and responses. This module does not
//! use files or APIs: the router ([`connection::RequestHandler`]) makes the responses.

pub(crate) mod answer;
pub(crate) mod chunks;
pub(crate) mod condition;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod etag;
pub(crate) mod head;
pub(crate) mod hosts;
pub(crate) mod listener;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod range;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod request_id;
pub(crate) mod response;
pub(crate) mod sendfile;
pub(crate) mod tls;
pub(crate) mod wire;
