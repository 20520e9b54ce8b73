//! The access log: one line a request, in the common log format with the time it took.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};

use crate::etag::http_date;

/// One answered request.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) peer: SocketAddr,
    pub(crate) who: &'a str,
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
}

impl Line<'_> {
    /// The line, with its end.
    pub(crate) fn text(&self) -> String {
        let date = http_date(SystemTime::now());
        // The target comes from outside: control characters must not reach a terminal.
        let target = self.target.escape_debug();
        format!(
            "{} {} [{date}] \"{} {target}\" {} {} {:.3}s\n",
            self.peer.ip(),
            self.who,
            self.method,
            self.status.as_u16(),
            self.bytes,
            self.took.as_secs_f64(),
        )
    }
}
