//! The access log: one line a request on stderr, in the common log format with the time it took.

use std::io::Write as _;
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
    /// Writes the line; a stderr that nobody reads any more loses it and stops nothing.
    pub(crate) fn write(&self) {
        let date = http_date(SystemTime::now());
        // The target comes from outside: control characters must not reach a terminal.
        let target = self.target.escape_debug();
        let line = format!(
            "{} {} [{date}] \"{} {target}\" {} {} {:.3}s\n",
            self.peer.ip(),
            self.who,
            self.method,
            self.status.as_u16(),
            self.bytes,
            self.took.as_secs_f64(),
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
