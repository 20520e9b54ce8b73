//! Returns the bytes of a response or of a file.
//!
//! A body returns exactly the bytes of its [`range`](Body::range) or an error: never fewer bytes
//! and never more, whatever its source sends.

mod local;

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_pacing::Throttle;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::gateways::frames::Frames;
use crate::gateways::member::Member;
use crate::object::Stat;
#[cfg(feature = "sftp")]
use crate::sftp::reading::SftpReading;
use crate::sink::Sink;
use crate::wire::Incoming;

use local::LocalSource;

/// The content that [`Store::get`](crate::Store::get) returns. A dropped body returns its
/// connection to the pool if every byte was read.
pub struct Body {
    stat: Stat,
    range: ByteRange,
    place: String,
    /// Bytes that have not been returned yet; `None` if the length is unknown.
    remaining: Option<u64>,
    source: BodySource,
    /// The part of the range that the response lacks. `None` if the response has the whole range.
    rest: Option<RemainingRange>,
    throttle: Throttle,
    cancel: Cancel,
}

/// Requests a given range of the same object.
type Request = Box<dyn FnMut(ByteRange) -> Result<Body> + Send>;

/// The end of a range that was not requested yet.
struct RemainingRange {
    range: ByteRange,
    request: Request,
}

/// Callback that receives all bytes, to compute a checksum.
type Observer<'a> = &'a mut dyn FnMut(&[u8]);

enum BodySource {
    /// The response on a socket.
    Wire(Box<Incoming>),
    /// A gateway's response on a socket, with a checksum for each block.
    Framed(Box<Frames>),
    /// An open file.
    Local(LocalSource),
    /// An open file on an SFTP server.
    #[cfg(feature = "sftp")]
    Sftp(Box<SftpReading>),
    /// No bytes.
    Empty,
}

impl Body {
    /// Returns the body of an HTTP response that holds the bytes `range`.
    pub(crate) fn from_wire(place: String, stat: Stat, range: ByteRange, incoming: Incoming) -> Self {
        let remaining = (range.end != u64::MAX).then(|| range.len());
        Self::new(place, stat, range, remaining, BodySource::Wire(Box::new(incoming)))
    }

    /// Returns the body of a gateway's response that holds the bytes `range`, with a checksum for
    /// each block.
    pub(crate) fn from_frames(place: String, stat: Stat, range: ByteRange, incoming: Incoming) -> Self {
        let frames = Frames::new(place.clone(), range, incoming);
        Self::new(place, stat, range, Some(range.len()), BodySource::Framed(Box::new(frames)))
    }

    /// Returns true if the body has a checksum for each block.
    pub(crate) fn is_framed(&self) -> bool {
        matches!(self.source, BodySource::Framed(_))
    }

    /// Reports failures of this body to `member`, the gateway that sends it.
    pub(crate) fn watched_by(mut self, member: &Arc<Member>) -> Self {
        if let BodySource::Framed(frames) = &mut self.source {
            frames.member = Some(Arc::clone(member));
        }
        self
    }

    /// Returns the bytes `range` of an open file, which must contain the whole range.
    pub(crate) fn from_file(place: String, stat: Stat, range: ByteRange, file: File, cancel: Cancel) -> Self {
        let source = BodySource::Local(LocalSource::new(file, range, cancel));
        Self::new(place, stat, range, Some(range.len()), source)
    }

    /// Returns those bytes of the range `asked` that an open file of unknown length has.
    pub(crate) fn from_unmeasured_file(
        place: String,
        stat: Stat,
        asked: ByteRange,
        file: File,
        cancel: Cancel,
    ) -> Self {
        let source = BodySource::Local(LocalSource::new(file, asked, cancel));
        Self::new(place, stat, ByteRange::new(asked.start, u64::MAX), None, source)
    }

    /// Returns the bytes `range` of an open file on an SFTP server. If the length of the file is
    /// unknown, `range` ends at `u64::MAX`.
    #[cfg(feature = "sftp")]
    pub(crate) fn from_sftp(place: String, stat: Stat, range: ByteRange, reading: SftpReading) -> Self {
        let remaining = (range.end != u64::MAX).then(|| range.len());
        Self::new(place, stat, range, remaining, BodySource::Sftp(Box::new(reading)))
    }

    /// Returns an empty body at the offset `at`.
    pub(crate) fn empty(place: String, stat: Stat, at: u64) -> Self {
        Self::new(place, stat, ByteRange::at(at, 0), Some(0), BodySource::Empty)
    }

    fn new(place: String, stat: Stat, range: ByteRange, remaining: Option<u64>, source: BodySource) -> Self {
        let (throttle, cancel) = (Throttle::default(), Cancel::default());
        Self { stat, range, place, remaining, source, rest: None, throttle, cancel }
    }

    /// Extends the range of the body to `end`. After the last byte of the response, `request`
    /// requests the remaining bytes.
    pub(crate) fn continued_to(mut self, end: u64, request: Request) -> Self {
        self.rest = Some(RemainingRange { range: ByteRange::new(self.range.end, end), request });
        self.range.end = end;
        self
    }

    /// Returns true if there are more bytes. Requests the remaining range if the response has
    /// ended.
    fn has_more(&mut self) -> Result<bool> {
        if self.remaining != Some(0) {
            return Ok(true);
        }
        let Some(rest) = self.rest.as_mut().filter(|rest| !rest.range.is_empty()) else { return Ok(false) };
        let next = (rest.request)(rest.range)?;
        if next.range.is_empty() {
            return Err(Error::Truncated {
                location: self.place.clone(),
                missing: rest.range.len(),
                trace: None,
            });
        }
        rest.range.start = next.range.end;
        (self.remaining, self.source) = (next.remaining, next.source);
        Ok(true)
    }

    /// Applies a rate limit. `cancel` ends waits for the limit.
    pub(crate) fn throttled(mut self, throttle: &Throttle, cancel: &Cancel) -> Self {
        if !throttle.is_unlimited() {
            (self.throttle, self.cancel) = (throttle.clone(), cancel.clone());
        }
        self
    }

    /// Returns the description of the object in the response head.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Returns the range of this body. The range ends at `u64::MAX` if the length is unknown.
    #[must_use]
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// Returns true if an incomplete body looks like a complete one: the server states no
    /// length, and the body ends with its connection.
    #[must_use]
    pub fn is_open_ended(&self) -> bool {
        self.remaining.is_none()
            && matches!(&self.source, BodySource::Wire(incoming) if incoming.is_open_ended())
    }

    /// Reads into `buffer`. Returns 0 only at the correct end.
    ///
    /// # Errors
    /// [`Truncated`](Error::Truncated), [`Disconnected`](Error::Disconnected),
    /// [`TimedOut`](Error::TimedOut), [`Cancelled`](Error::Cancelled),
    /// [`Protocol`](Error::Protocol) if there are more bytes than announced.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() || !self.has_more()? {
            return Ok(0);
        }
        let most = self.remaining.map_or(buffer.len(), |bytes| buffer.len().min(to_usize(bytes)));
        let allowed = self.wait_for(most as u64)?;
        let most = most.min(to_usize(allowed));
        let read = match &mut self.source {
            BodySource::Wire(incoming) => incoming.read(&mut buffer[..most])?,
            BodySource::Framed(frames) => frames.read(&mut buffer[..most])?,
            BodySource::Local(source) => source.read(&self.place, &mut buffer[..most])?,
            #[cfg(feature = "sftp")]
            BodySource::Sftp(reading) => reading.read(&mut buffer[..most])?,
            BodySource::Empty => 0,
        };
        self.throttle.refund(allowed.saturating_sub(read as u64));
        self.account(read)
    }

    /// Waits until the rate limit allows at least one byte. Returns the number of bytes allowed, up
    /// to `most`.
    fn wait_for(&self, most: u64) -> Result<u64> {
        if self.throttle.is_unlimited() {
            return Ok(most);
        }
        let grant = self.throttle.grant(most, Instant::now());
        self.cancel.sleep(grant.wait)?;
        Ok(grant.bytes)
    }

    /// Returns true if [`write_to`](Self::write_to) can move the bytes within the kernel, as it can
    /// from a connection without TLS.
    #[must_use]
    pub fn can_bypass(&self) -> bool {
        matches!(&self.source, BodySource::Wire(incoming) if incoming.can_splice())
    }

    /// Moves the next bytes, up to `limit`, into `sink` at `offset`. Returns the number of bytes
    /// moved.
    ///
    /// - `observe`: receives each piece, in order, after the piece was written. Without an
    ///   observer, the kernel may move the bytes (splice, copy_file_range).
    /// - `scratch`: buffer for bytes that pass through memory.
    /// - `progress`: receives the length of each piece written. These bytes are in the file even if
    ///   `write_to` then fails.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and [`Io`](Error::Io) for the file.
    pub fn write_to(
        &mut self,
        sink: &Sink,
        offset: u64,
        limit: u64,
        scratch: &mut [u8],
        mut observe: Option<Observer<'_>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut done = 0;
        while done < limit && self.has_more()? {
            let most = self.remaining.map_or(limit - done, |bytes| bytes.min(limit - done));
            let moved = if observe.is_none() { self.hand_over(sink, offset + done, most) } else { None };
            let moved = match moved {
                Some(moved) => moved?,
                None => {
                    let step = scratch.len().min(to_usize(most));
                    let read = self.read(&mut scratch[..step])?;
                    sink.write_all_at(&scratch[..read], offset + done)
                        .map_err(|source| Error::Io { location: self.place.clone(), source })?;
                    if let Some(observe) = &mut observe {
                        observe(&scratch[..read]);
                    }
                    read
                }
            };
            if moved == 0 {
                break;
            }
            done += moved as u64;
            progress(moved as u64);
        }
        Ok(done)
    }

    /// Moves up to `most` bytes into the file, within the kernel or by one write from the buffer in
    /// which they were received. Returns `None` if the source supports neither.
    fn hand_over(&mut self, sink: &Sink, offset: u64, most: u64) -> Option<Result<usize>> {
        let allowed = match self.wait_for(most) {
            Ok(allowed) => allowed,
            Err(error) => return Some(Err(error)),
        };
        let moved = match &mut self.source {
            BodySource::Wire(incoming) => incoming.splice(sink, offset, allowed),
            BodySource::Local(source) => source.copy_to(&self.place, sink, offset, allowed),
            #[cfg(feature = "sftp")]
            BodySource::Sftp(reading) => Some(reading.write_to(sink, offset, allowed)),
            BodySource::Framed(_) | BodySource::Empty => None,
        };
        let count = moved.as_ref().map_or(0, |moved| moved.as_ref().map_or(0, |count| *count as u64));
        self.throttle.refund(allowed.saturating_sub(count));
        Some(moved?.and_then(|count| self.account(count)))
    }

    /// Subtracts `count` returned bytes from the remaining length, and checks the end of the body.
    /// A `count` of 0 is the end of the source.
    fn account(&mut self, count: usize) -> Result<usize> {
        let version = &self.stat.version;
        let Some(remaining) = &mut self.remaining else {
            if count == 0 {
                match &mut self.source {
                    BodySource::Local(source) => source.check_end(&self.place, version)?,
                    #[cfg(feature = "sftp")]
                    BodySource::Sftp(reading) => reading.check_end(version)?,
                    BodySource::Wire(_) | BodySource::Framed(_) | BodySource::Empty => {}
                }
            }
            return Ok(count);
        };
        if count == 0 {
            return Err(match &mut self.source {
                BodySource::Local(source) => source.ended_early(&self.place, version),
                #[cfg(feature = "sftp")]
                BodySource::Sftp(reading) => reading.ended_early(version),
                _ => Error::Truncated { location: self.place.clone(), missing: *remaining, trace: None },
            });
        }
        *remaining -= count as u64;
        if *remaining > 0 {
            return Ok(count);
        }
        match &mut self.source {
            // A chunked body has an end mark after its last byte. The mark must be read before the
            // connection is used again.
            BodySource::Wire(incoming) => match incoming.read(&mut [0])? {
                0 => Ok(count),
                _ => Err(Error::Protocol {
                    location: self.place.clone(),
                    detail: format!("more bytes than the {} announced", self.range.len()),
                    trace: None,
                }),
            },
            BodySource::Framed(_) | BodySource::Empty => Ok(count),
            BodySource::Local(source) => source.check_end(&self.place, version).map(|()| count),
            #[cfg(feature = "sftp")]
            BodySource::Sftp(reading) => reading.check_end(version).map(|()| count),
        }
    }
}
