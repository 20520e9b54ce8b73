//! The body of a response, or the bytes of a local file.
//!
//! A body returns exactly the bytes of its [`range`](Body::range) or an error, never fewer and
//! never more, whatever its source sends.

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

/// The content that [`Store::get`](crate::Store::get) returns. When it is dropped, its connection
/// returns to the pool if every byte was read.
pub struct Body {
    stat: Stat,
    range: ByteRange,
    place: String,
    /// Bytes that have not been returned; `None` if the length is unknown.
    left: Option<u64>,
    source: Source,
    /// The end of the range, if the response holds only its beginning.
    rest: Option<Rest>,
    throttle: Throttle,
    cancel: Cancel,
}

/// Requests a range of the object.
type Request = Box<dyn FnMut(ByteRange) -> Result<Body> + Send>;

/// The end of a range that is still to be requested.
struct Rest {
    range: ByteRange,
    request: Request,
}

/// A function called with all bytes, for checksums.
type Observer<'a> = &'a mut dyn FnMut(&[u8]);

enum Source {
    /// The response on a socket.
    Wire(Box<Incoming>),
    /// A gateway's response on a socket. Each block has a checksum.
    Framed(Box<Frames>),
    /// An open file.
    Local(LocalSource),
    /// An open file on another host.
    #[cfg(feature = "sftp")]
    Sftp(Box<SftpReading>),
    /// No bytes.
    Empty,
}

impl Body {
    /// Returns the body of an HTTP response with the bytes `range`.
    pub(crate) fn from_wire(place: String, stat: Stat, range: ByteRange, incoming: Incoming) -> Self {
        let left = (range.end != u64::MAX).then(|| range.len());
        Self::new(place, stat, range, left, Source::Wire(Box::new(incoming)))
    }

    /// Returns the body of a gateway's response with the bytes `range`, each block with a checksum.
    pub(crate) fn from_frames(place: String, stat: Stat, range: ByteRange, incoming: Incoming) -> Self {
        let frames = Frames::new(place.clone(), range, incoming);
        Self::new(place, stat, range, Some(range.len()), Source::Framed(Box::new(frames)))
    }

    /// Returns whether each block has a checksum.
    pub(crate) fn is_framed(&self) -> bool {
        matches!(self.source, Source::Framed(_))
    }

    /// Reports the failures of this body to the gateway that sends it.
    pub(crate) fn watched_by(mut self, member: &Arc<Member>) -> Self {
        if let Source::Framed(frames) = &mut self.source {
            frames.member = Some(Arc::clone(member));
        }
        self
    }

    /// Returns the bytes `range` of an open file. The range must be within the file.
    pub(crate) fn from_file(place: String, stat: Stat, range: ByteRange, file: File, cancel: Cancel) -> Self {
        let source = Source::Local(LocalSource::new(file, range, cancel));
        Self::new(place, stat, range, Some(range.len()), source)
    }

    /// Returns the available bytes of `asked` from an open file whose length is unknown.
    pub(crate) fn from_unmeasured_file(
        place: String,
        stat: Stat,
        asked: ByteRange,
        file: File,
        cancel: Cancel,
    ) -> Self {
        let source = Source::Local(LocalSource::new(file, asked, cancel));
        Self::new(place, stat, ByteRange::new(asked.start, u64::MAX), None, source)
    }

    /// Returns the bytes `range` of an open file on another host. If its length is unknown, the
    /// range ends at `u64::MAX`.
    #[cfg(feature = "sftp")]
    pub(crate) fn from_sftp(place: String, stat: Stat, range: ByteRange, reading: SftpReading) -> Self {
        let left = (range.end != u64::MAX).then(|| range.len());
        Self::new(place, stat, range, left, Source::Sftp(Box::new(reading)))
    }

    /// Returns an empty body at the offset `at`.
    pub(crate) fn empty(place: String, stat: Stat, at: u64) -> Self {
        Self::new(place, stat, ByteRange::at(at, 0), Some(0), Source::Empty)
    }

    fn new(place: String, stat: Stat, range: ByteRange, left: Option<u64>, source: Source) -> Self {
        let (throttle, cancel) = (Throttle::default(), Cancel::default());
        Self { stat, range, place, left, source, rest: None, throttle, cancel }
    }

    /// Extends the body to `end`. `request` requests the bytes after those of the response.
    pub(crate) fn continued_to(mut self, end: u64, request: Request) -> Self {
        self.rest = Some(Rest { range: ByteRange::new(self.range.end, end), request });
        self.range.end = end;
        self
    }

    /// Returns whether there are more bytes. Requests the next ones if the response has ended.
    fn has_more(&mut self) -> Result<bool> {
        if self.left != Some(0) {
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
        (self.left, self.source) = (next.left, next.source);
        Ok(true)
    }

    /// Applies a rate limit. `cancel` ends its waits.
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

    /// Returns the range of this body. If the length is unknown, it ends at `u64::MAX`.
    #[must_use]
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// Returns true if an incomplete body looks like a complete one: the server states no
    /// length, and the body ends with its connection.
    #[must_use]
    pub fn is_open_ended(&self) -> bool {
        self.left.is_none() && matches!(&self.source, Source::Wire(incoming) if incoming.is_open_ended())
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
        let most = self.left.map_or(buffer.len(), |left| buffer.len().min(to_usize(left)));
        let allowed = self.wait_for(most as u64)?;
        let most = most.min(to_usize(allowed));
        let read = match &mut self.source {
            Source::Wire(incoming) => incoming.read(&mut buffer[..most])?,
            Source::Framed(frames) => frames.read(&mut buffer[..most])?,
            Source::Local(source) => source.read(&self.place, &mut buffer[..most])?,
            #[cfg(feature = "sftp")]
            Source::Sftp(reading) => reading.read(&mut buffer[..most])?,
            Source::Empty => 0,
        };
        self.throttle.refund(allowed.saturating_sub(read as u64));
        self.account(read)
    }

    /// Waits until the rate limit allows some bytes, at most `most`. Returns their number.
    fn wait_for(&self, most: u64) -> Result<u64> {
        if self.throttle.is_unlimited() {
            return Ok(most);
        }
        let grant = self.throttle.grant(most, Instant::now());
        self.cancel.sleep(grant.wait)?;
        Ok(grant.bytes)
    }

    /// Returns true if [`write_to`](Self::write_to) can move the bytes within the kernel, as from a
    /// plain connection.
    #[must_use]
    pub fn can_bypass(&self) -> bool {
        matches!(&self.source, Source::Wire(incoming) if incoming.can_splice())
    }

    /// Moves the next bytes, at most `limit`, into `sink` at `offset`. Returns their number.
    /// Without `observe` the kernel may move them (splice, copy_file_range). With `observe`, each
    /// piece is passed to it in order, after it was written. `scratch` is the buffer for bytes that
    /// pass through memory. `progress` is called with each number of bytes written, which are in
    /// the file even if an error follows.
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
            let most = self.left.map_or(limit - done, |left| left.min(limit - done));
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

    /// Moves up to `most` bytes within the kernel, or without another copy. Returns `None` if the
    /// source does not support that.
    fn hand_over(&mut self, sink: &Sink, offset: u64, most: u64) -> Option<Result<usize>> {
        let allowed = match self.wait_for(most) {
            Ok(allowed) => allowed,
            Err(error) => return Some(Err(error)),
        };
        let moved = match &mut self.source {
            Source::Wire(incoming) => incoming.splice(sink, offset, allowed),
            Source::Local(source) => source.copy_to(&self.place, sink, offset, allowed),
            #[cfg(feature = "sftp")]
            Source::Sftp(reading) => Some(reading.write_to(sink, offset, allowed)),
            Source::Framed(_) | Source::Empty => None,
        };
        let count = moved.as_ref().map_or(0, |moved| moved.as_ref().map_or(0, |count| *count as u64));
        self.throttle.refund(allowed.saturating_sub(count));
        Some(moved?.and_then(|count| self.account(count)))
    }

    /// Accounts for `count` returned bytes, of which 0 means the end of the source.
    fn account(&mut self, count: usize) -> Result<usize> {
        let version = &self.stat.version;
        let Some(left) = &mut self.left else {
            if count == 0 {
                match &mut self.source {
                    Source::Local(source) => source.check_end(&self.place, version)?,
                    #[cfg(feature = "sftp")]
                    Source::Sftp(reading) => reading.check_end(version)?,
                    Source::Wire(_) | Source::Framed(_) | Source::Empty => {}
                }
            }
            return Ok(count);
        };
        if count == 0 {
            return Err(match &mut self.source {
                Source::Local(source) => source.ended_early(&self.place, version),
                #[cfg(feature = "sftp")]
                Source::Sftp(reading) => reading.ended_early(version),
                _ => Error::Truncated { location: self.place.clone(), missing: *left, trace: None },
            });
        }
        *left -= count as u64;
        if *left > 0 {
            return Ok(count);
        }
        match &mut self.source {
            // A chunked body has an end mark after its last byte. It must be read before the
            // connection is used again.
            Source::Wire(incoming) => match incoming.read(&mut [0])? {
                0 => Ok(count),
                _ => Err(Error::Protocol {
                    location: self.place.clone(),
                    detail: format!("more bytes than the {} announced", self.range.len()),
                    trace: None,
                }),
            },
            Source::Framed(_) | Source::Empty => Ok(count),
            Source::Local(source) => source.check_end(&self.place, version).map(|()| count),
            #[cfg(feature = "sftp")]
            Source::Sftp(reading) => reading.check_end(version).map(|()| count),
        }
    }
}
