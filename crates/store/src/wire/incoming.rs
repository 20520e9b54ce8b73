//! Reads the body of a response from its connection.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;

use super::chunked::Chunked;
use super::connection::{self, HttpConnection};
use super::event::AnsweredRequest;
use super::outage::EndpointState;
use super::pool::{ConnectionKey, ConnectionPool};
use super::request::{HttpMethod, WireRequest};
use super::response::{ResponseHead, TransferCoding};
use super::splice;
use crate::cancel::Cancel;
use crate::error::{Error, Result, Trace};
use crate::limits::RECORD;
use crate::sink::Sink;
use crate::spending::{Charge, SpendingAccount};

/// The rule that determines where a body ends.
enum Framing {
    /// The remaining bytes, by `Content-Length`.
    Length(u64),
    Chunked(Chunked),
    /// All bytes until the server closes the connection.
    UntilClose,
    /// `Content-Length` or `Transfer-Encoding` is invalid, so reading fails.
    Unusable(String),
}

/// Parts that a connection needs after a body: the pool to which it returns, and the budget to
/// which the bytes are charged.
pub(super) struct AfterBody {
    pub(super) pool: Option<(Arc<ConnectionPool>, ConnectionKey)>,
    pub(super) endpoint: Arc<EndpointState>,
    pub(super) deadline: Duration,
    /// The budget to which the bytes are charged.
    pub(super) account: Arc<SpendingAccount>,
    pub(super) charge: Charge,
}

/// A body that is being read. If the body is dropped after its last byte was read, its connection
/// returns to the pool; otherwise the connection is closed.
pub(crate) struct Incoming {
    connection: Option<HttpConnection>,
    framing: Framing,
    /// True if a cut body would look complete: it ends with the connection, and TLS does not
    /// protect its end (RFC 9112, 8).
    is_open_ended: bool,
    is_ended: bool,
    back: AfterBody,
    place: String,
    cancel: Cancel,
    /// The socket registered with `cancel`.
    socket: Weak<TcpStream>,
    /// The trace of the request, for errors of the body.
    trace: Trace,
    event: Option<AnsweredRequest>,
}

impl Incoming {
    /// Returns the body after `head`. `request` and `began` are the request and the time at which
    /// it began.
    pub(super) fn new(
        connection: HttpConnection,
        head: &ResponseHead,
        (request, began): (&WireRequest<'_>, Instant),
        back: AfterBody,
    ) -> Self {
        let bodiless = request.method == HttpMethod::Head || matches!(head.status, 204 | 304);
        let framing = match (head.transfer_coding(), head.content_length(request.place)) {
            _ if bodiless => Framing::Length(0),
            (TransferCoding::Chunked, _) => Framing::Chunked(Chunked::default()),
            (TransferCoding::Unknown(coding), _) => {
                Framing::Unusable(format!("Transfer-Encoding {coding}, which was not requested"))
            }
            (TransferCoding::None, Ok(Some(length))) => Framing::Length(length),
            (TransferCoding::None, Ok(None)) => Framing::UntilClose,
            (TransferCoding::None, Err(error)) => Framing::Unusable(error.to_string()),
        };
        let mut incoming = Self {
            socket: Arc::downgrade(&connection.socket),
            is_open_ended: matches!(framing, Framing::UntilClose) && connection.is_plain(),
            connection: Some(connection),
            framing,
            is_ended: false,
            back,
            place: request.place.to_owned(),
            cancel: request.cancel.clone(),
            trace: head.trace(),
            event: AnsweredRequest::begin(request, head, began),
        };
        if matches!(incoming.framing, Framing::Length(0)) {
            incoming.finish();
        }
        incoming
    }

    /// Returns the number of remaining bytes, if the head of the response states the length.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Returns true if an incomplete body looks like a complete one.
    pub(crate) fn is_open_ended(&self) -> bool {
        self.is_open_ended
    }

    /// Ends the body of stated length after `length` bytes. The connection is closed, because the
    /// rest remains on it.
    pub(crate) fn cut_to(&mut self, length: u64) {
        if let Framing::Length(left) = &mut self.framing
            && length < *left
        {
            *left = length;
            self.back.pool = None;
        }
    }

    /// Reads into `buffer`. Returns 0 only at the correct end (or if `buffer` is empty).
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_bytes(buffer).map_err(|error| error.traced(|| self.trace.clone()))
    }

    fn read_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_ended || buffer.is_empty() {
            return Ok(0);
        }
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let read = match &mut self.framing {
            Framing::Length(left) => {
                let want = buffer.len().min(to_usize(*left));
                connection.read(&mut buffer[..want])
            }
            Framing::Chunked(state) => state.read(connection, buffer),
            Framing::UntilClose => connection.read(buffer),
            Framing::Unusable(detail) => {
                return Err(Error::Protocol {
                    location: self.place.clone(),
                    detail: detail.clone(),
                    trace: None,
                });
            }
        };
        match read {
            Ok(count) => self.account(count),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Returns true if [`splice`](Self::splice) is possible for all bytes that were not read with
    /// the head.
    pub(crate) fn can_splice(&self) -> bool {
        self.connection.as_ref().is_some_and(HttpConnection::is_plain)
            && matches!(self.framing, Framing::Length(_))
    }

    /// Moves up to `limit` bytes into `sink` within the kernel. Returns `None` if that is not
    /// possible; the caller must then read the bytes.
    pub(crate) fn splice(&mut self, sink: &Sink, offset: u64, limit: u64) -> Option<Result<usize>> {
        let connection = self
            .connection
            .as_ref()
            .filter(|connection| connection.is_plain() && connection.ahead().is_empty())?;
        let Framing::Length(left) = self.framing else { return None };
        if self.is_ended || limit == 0 {
            return Some(Ok(0));
        }
        Some(match splice::to_file(&connection.socket, sink, offset, left.min(limit)) {
            Ok(count) => self.account(count).map_err(|error| error.traced(|| self.trace.clone())),
            Err(splice::SpliceError::Impossible) => return None,
            Err(splice::SpliceError::Socket(error)) => Err(self.broken(&error).traced(|| self.trace.clone())),
            Err(splice::SpliceError::File(source)) => {
                self.connection = None;
                Err(Error::Io { location: self.place.clone(), source })
            }
        })
    }

    /// Reads the remaining bytes into memory, for error messages and XML. Fails if there are more
    /// than `most`.
    pub(crate) fn collect(mut self, most: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut buffer = [0; RECORD];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(bytes),
                read => bytes.extend_from_slice(&buffer[..read]),
            }
            if bytes.len() > most {
                let detail = format!("more than {most} bytes where a short text was expected");
                return Err(Error::Protocol { location: self.place.clone(), detail, trace: None });
            }
        }
    }

    /// Sets how the body is charged, once its length is known.
    pub(super) fn set_charge(&mut self, charge: Charge) {
        self.back.charge = charge;
    }

    /// Subtracts `count` bytes from the rest of the body, and checks its end. A `count` of 0 is the
    /// end of the stream.
    fn account(&mut self, count: usize) -> Result<usize> {
        self.back.endpoint.count_received(count as u64);
        match self.back.account.charge_bytes(self.back.charge, count, &self.place) {
            Ok(rest) => self.back.charge = rest,
            Err(error) => {
                self.connection = None;
                return Err(error);
            }
        }
        if let Some(event) = &mut self.event {
            event.read(count);
        }
        match &mut self.framing {
            Framing::Length(left) if count == 0 => {
                let error = Error::Truncated { location: self.place.clone(), missing: *left, trace: None };
                self.connection = None;
                return Err(if self.cancel.is_cancelled() { Error::Cancelled } else { error });
            }
            Framing::Length(left) => {
                *left -= count as u64;
                if *left == 0 {
                    self.finish();
                }
            }
            Framing::Chunked(state) if *state == Chunked::Done => self.finish(),
            Framing::UntilClose if count == 0 => {
                self.back.pool = None;
                // A socket that `Cancel` has shut down looks like the end of the stream.
                if self.cancel.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                self.finish();
            }
            _ => {}
        }
        Ok(count)
    }

    fn broken(&mut self, error: &io::Error) -> Error {
        self.connection = None;
        match error.kind() {
            io::ErrorKind::InvalidData => {
                Error::Protocol { location: self.place.clone(), detail: error.to_string(), trace: None }
            }
            _ => {
                let error = connection::classify(error, &self.place, &self.cancel, self.back.deadline);
                if let Error::TimedOut { .. } = error {
                    self.back.endpoint.stalled(self.back.deadline, Instant::now());
                }
                error
            }
        }
    }

    fn finish(&mut self) {
        self.is_ended = true;
        self.event = None;
        self.cancel.release(&self.socket);
        let Some(connection) = self.connection.take() else { return };
        // Bytes after the end of the body mean that the server states wrong lengths, so the
        // connection is not reused.
        if connection.ahead().is_empty()
            && let Some((pool, key)) = self.back.pool.take()
        {
            pool.put(key, connection);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.cancel.release(&self.socket);
    }
}
