//! Describes an HTTP request, and writes it to a connection.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_pacing::Throttle;

use super::WireClient;
use super::connection::{HttpConnection, SendError};
use super::outage::EndpointState;
use super::proxy::UsableProxy;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::{RECORD, SEND_STEP};
use crate::origin::Origin;
use crate::requests::RequestKind;
use crate::upload::Payload;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

impl HttpMethod {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the kind of request that the method implies.
    pub(crate) fn kind(self) -> RequestKind {
        match self {
            Self::Get => RequestKind::Get,
            Self::Head => RequestKind::Head,
            Self::Put | Self::Post => RequestKind::Put,
            Self::Delete => RequestKind::Delete,
        }
    }
}

/// A request. It can be sent repeatedly.
pub(crate) struct WireRequest<'a> {
    /// The location, for errors.
    pub(crate) place: &'a str,
    /// The name of the operation in the service's API, for the log.
    pub(crate) operation: Option<&'a dyn std::fmt::Debug>,
    pub(crate) origin: &'a Origin,
    pub(crate) method: HttpMethod,
    pub(crate) kind: RequestKind,
    pub(crate) target: String,
    /// All headers except `Host` and `Content-Length`, which are added when the request is written.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Payload<'a>,
    /// Number of bytes that the server processes before it responds, in addition to the payload. A
    /// copy has such bytes.
    pub(crate) work: u64,
    pub(crate) cancel: &'a Cancel,
    /// The rate limit of the response body and of the payload.
    pub(crate) throttle: &'a Throttle,
}

impl WireRequest<'_> {
    /// Returns the requested range, if both of its ends are stated.
    pub(crate) fn range(&self) -> Option<ByteRange> {
        let (_, value) = self.headers.iter().find(|(name, _)| name == "range")?;
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse::<u64>().ok()?);
        (first <= last).then(|| ByteRange::new(first, last.saturating_add(1)))
    }

    /// Returns an error if a header has illegal characters. So no input can add a line to a
    /// request.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |name: &str, why: &'static str| {
            Err(Error::Header { location: self.place.to_owned(), name: name.to_owned(), why })
        };
        if self.target.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return refuse("request line", "its target has a space or a control character");
        }
        for (name, value) in &self.headers {
            if value.bytes().any(|b| (b < b' ' && b != b'\t') || b == 0x7f) {
                return refuse(name, "its value has a line break or another control character");
            }
            if name.is_empty()
                || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
            {
                return refuse(&name.escape_debug().to_string(), "not a header name");
            }
        }
        Ok(())
    }

    pub(super) fn write(
        &self,
        connection: &mut HttpConnection,
        proxy: Option<&UsableProxy>,
        client: &WireClient,
        endpoint: &EndpointState,
    ) -> std::result::Result<(), SendError> {
        let mut bytes = self.head(proxy, client.options.via.value().as_deref()).into_bytes();
        match self.payload {
            Payload::Bytes(payload) => self.write_bytes(connection, bytes, payload)?,
            Payload::File(file, range) => {
                connection.write_all(&bytes)?;
                self.write_file(connection, file, range, endpoint)?;
            }
            Payload::Source(file, range, _) => {
                let mut tail = vec![0; RECORD.min(to_usize(range.len()))];
                let cut = range.end - tail.len() as u64;
                if cut > range.start {
                    connection.write_all(&std::mem::take(&mut bytes))?;
                    self.write_file(connection, file, ByteRange::new(range.start, cut), endpoint)?;
                }
                file.read_exact_at(&mut tail, cut)
                    .and_then(|()| self.payload.check_unchanged())
                    .map_err(SendError::Payload)?;
                self.write_bytes(connection, bytes, &tail)?;
            }
        }
        client.counters.sent.fetch_add(self.payload.length(), Ordering::Relaxed);
        Ok(())
    }

    /// Writes a payload in memory after `head`.
    fn write_bytes(
        &self,
        connection: &mut HttpConnection,
        mut head: Vec<u8>,
        payload: &[u8],
    ) -> std::result::Result<(), SendError> {
        if self.throttle.is_unlimited() && payload.len() <= RECORD {
            head.extend_from_slice(payload);
            return Ok(connection.write_all(&head)?);
        }
        connection.write_all(&head)?;
        let mut rest = payload;
        while !rest.is_empty() {
            let allowed = to_usize(self.wait_for(rest.len() as u64)?);
            connection.write_all(&rest[..allowed])?;
            rest = &rest[allowed..];
        }
        Ok(())
    }

    fn write_file(
        &self,
        connection: &mut HttpConnection,
        file: &File,
        range: ByteRange,
        endpoint: &EndpointState,
    ) -> std::result::Result<(), SendError> {
        // A completed step shows that the server is alive.
        connection.write_file(file, range, &|most| {
            let allowed = self.wait_for(most.min(SEND_STEP as u64))?;
            endpoint.count_sent(allowed);
            self.payload.count_sent(allowed);
            Ok(allowed)
        })
    }

    /// Waits until the rate limit allows at least one byte. Returns the number of bytes allowed, up
    /// to `most`.
    fn wait_for(&self, most: u64) -> io::Result<u64> {
        if self.throttle.is_unlimited() {
            return Ok(most);
        }
        let grant = self.throttle.grant(most, Instant::now());
        self.cancel.sleep(grant.wait).map_err(io::Error::other)?;
        Ok(grant.bytes)
    }

    fn head(&self, proxy: Option<&UsableProxy>, via: Option<&str>) -> String {
        let mut head = String::new();
        let authority = self.origin.authority();
        // Writing to a String cannot fail.
        let _ = match proxy {
            // A proxy for plain HTTP expects the absolute form (RFC 9112, 3.2.2). Within a tunnel,
            // the usual form is sent.
            Some(_) if !self.origin.tls => {
                write!(head, "{} http://{authority}{} HTTP/1.1\r\n", self.method.as_str(), self.target)
            }
            _ => write!(head, "{} {} HTTP/1.1\r\n", self.method.as_str(), self.target),
        };
        let _ = write!(head, "host: {authority}\r\n");
        if let Some(proxy) = proxy.filter(|_| !self.origin.tls)
            && let Some(authorization) = &proxy.authorization
        {
            let _ = write!(head, "proxy-authorization: {authorization}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        // Without this header any coding is acceptable (RFC 9110, 12.5.3), and some servers and
        // proxies compress (https://github.com/archiecobbs/s3backer/issues/48,
        // https://github.com/larrabee/s3sync/issues/82, as of 28 November 2026). The header is not
        // signed, because proxies change it.
        if self.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("accept-encoding")) {
            head.push_str("accept-encoding: identity\r\n");
        }
        if let Some(via) = via {
            let _ = write!(head, "via: {via}\r\n");
        }
        if matches!(self.method, HttpMethod::Put | HttpMethod::Post) {
            let _ = write!(head, "content-length: {}\r\n", self.payload.length());
        }
        let _ = write!(head, "user-agent: firstbyte/{}\r\n\r\n", env!("CARGO_PKG_VERSION"));
        head
    }
}
