//! A request, and how it goes out.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::Ordering;

use super::proxy::Proxy;
use super::{Connection, Counters, Origin};
use crate::{Cancel, Error, Payload, Result};

/// The methods we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// One request. It can be sent any number of times.
pub(crate) struct Request<'a> {
    /// What errors call the thing asked for.
    pub(crate) place: &'a str,
    pub(crate) origin: &'a Origin,
    pub(crate) method: Method,
    /// Path and query, encoded as they go out.
    pub(crate) target: String,
    /// Beside `Host` and `Content-Length`, which are added here.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Payload<'a>,
    pub(crate) cancel: &'a Cancel,
}

/// Payloads up to this size are put behind the head and leave in one write.
const JOINED: usize = 16 << 10;

impl Request<'_> {
    /// Refuses what would end a header before its end: nothing that comes from outside adds a line to a request.
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
                return refuse(&name.escape_debug().to_string(), "that is no header's name");
            }
        }
        Ok(())
    }

    /// Writes head and payload.
    pub(super) fn write(
        &self,
        connection: &mut Connection,
        proxy: Option<&Proxy>,
        counters: &Counters,
    ) -> io::Result<()> {
        let mut bytes = self.head(proxy).into_bytes();
        match self.payload {
            Payload::Bytes(payload) if payload.len() <= JOINED => {
                bytes.extend_from_slice(payload);
                connection.write_all(&bytes)?;
            }
            Payload::Bytes(payload) => {
                connection.write_all(&bytes)?;
                connection.write_all(payload)?;
            }
            Payload::File(file, range) => {
                connection.write_all(&bytes)?;
                connection.write_file(file, range)?;
            }
        }
        counters.sent.fetch_add(self.length(), Ordering::Relaxed);
        Ok(())
    }

    fn length(&self) -> u64 {
        match self.payload {
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::File(_, range) => range.len(),
        }
    }

    fn head(&self, proxy: Option<&Proxy>) -> String {
        let mut head = String::with_capacity(1024);
        let authority = self.origin.authority();
        // Writing to a String cannot fail.
        let _ = match proxy {
            // RFC 9112, 3.2.2: a proxy for plain HTTP wants the absolute form. Through a tunnel it sees nothing.
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
        if matches!(self.method, Method::Put | Method::Post) {
            let _ = write!(head, "content-length: {}\r\n", self.length());
        }
        let _ = write!(head, "user-agent: firstbyte/{}\r\n\r\n", env!("CARGO_PKG_VERSION"));
        head
    }
}
