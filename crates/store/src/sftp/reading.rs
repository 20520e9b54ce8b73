//! Reads the bytes of a file. Reads are sent ahead of the caller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{ByteRange, Version, to_usize};

use super::packet::{SftpReply, SftpRequest, code, kind};
use super::session::Exchange;
use super::version;
use crate::error::{Error, Result};
use crate::sink::Sink;

/// The source of a [`Body`](crate::Body): a range of an open file. The file is closed on drop.
pub(crate) struct SftpReading {
    exchange: Exchange,
    handle: Vec<u8>,
    /// The part of the range for which no read was sent yet.
    unsent: ByteRange,
    /// Reads in flight, in order.
    sent: VecDeque<Sent>,
    /// The data of the last read that has arrived.
    data: Vec<u8>,
    /// The part of `data` that the caller has not read yet.
    unread: std::ops::Range<usize>,
    /// The number of the last request, which is sent after all reads and asks for the file's
    /// description. It shows whether the file has changed.
    last_look: Option<u32>,
    end: LastRead,
    received: Arc<AtomicU64>,
}

/// The check of the end of a file that has a stated length.
#[derive(Default)]
struct LastRead {
    /// The stated length, if the range ends there.
    stated: Option<u64>,
    /// The request number of the read of the byte after the stated length. `None` if the last read
    /// of the range includes that byte.
    read_beyond_end: Option<u32>,
    /// True if there is content after the stated length.
    has_more_content: bool,
}

/// A read in flight, and the range that it reads.
struct Sent {
    number: u32,
    range: ByteRange,
    /// Number of bytes requested. The last read of a file may request more bytes than the range
    /// has.
    asked: usize,
}

impl SftpReading {
    /// Starts to read from an open file. Sends the first read immediately, before the length of the
    /// file is known.
    pub(super) fn begin(
        exchange: Exchange,
        handle: Vec<u8>,
        range: ByteRange,
        received: Arc<AtomicU64>,
    ) -> Result<Self> {
        let mut reading = Self {
            exchange,
            handle,
            unsent: range,
            sent: VecDeque::new(),
            data: Vec::new(),
            unread: 0..0,
            last_look: None,
            end: LastRead::default(),
            received,
        };
        if !range.is_empty() {
            reading.send_next()?;
        }
        Ok(reading)
    }

    /// Requests the description of the file. Returns the number of the request.
    pub(super) fn request_description(&self) -> Result<u32> {
        self.exchange.send(SftpRequest::of(kind::FSTAT, &self.handle))
    }

    pub(super) fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Sets the end of the range, once the length of the file is known to be `size`.
    pub(super) fn end_at(&mut self, end: u64, size: u64) {
        self.end.stated = Some(end).filter(|end| *end == size);
        self.unsent = ByteRange::new(self.unsent.start.min(end), end);
        if let Some(first) = self.sent.front_mut() {
            first.range = ByteRange::new(first.range.start, first.range.end.min(end));
        }
    }

    /// Waits for the first read. Returns true if the file has content.
    pub(super) fn has_content(&mut self) -> Result<bool> {
        Ok(self.sent.is_empty() || self.receive_next()?)
    }

    fn send_next(&mut self) -> Result<()> {
        let longest = self.exchange.session().greeting.longest_read as u64;
        let range = self.unsent.intersect(ByteRange::at(self.unsent.start, longest));
        let sent = self.send(range)?;
        self.sent.push_back(sent);
        self.unsent = self.unsent.skip(range.len());
        Ok(())
    }

    fn send(&mut self, range: ByteRange) -> Result<Sent> {
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        let number =
            self.exchange.send(SftpRequest::of(kind::READ, &self.handle).u64(range.start).u32(length))?;
        let asked = to_usize(range.len());
        self.exchange.add_in_flight(asked);
        Ok(Sent { number, range, asked })
    }

    /// Sends as many reads as may be in flight. After the last read, requests the description of
    /// the file: the server handles all requests for a file in order.
    fn send_ahead(&mut self) -> Result<()> {
        let longest = self.exchange.session().greeting.longest_read;
        while !self.unsent.is_empty() && (self.sent.is_empty() || self.exchange.has_room(longest)) {
            self.send_next()?;
        }
        if self.unsent.is_empty() && self.last_look.is_none() {
            if let Some(stated) = self.end.stated
                && self.end.read_beyond_end.is_none()
                && self.sent.back().is_none_or(|last| last.asked <= to_usize(last.range.len()))
            {
                let behind = SftpRequest::of(kind::READ, &self.handle).u64(stated).u32(1);
                self.end.read_beyond_end = Some(self.exchange.send(behind)?);
            }
            self.last_look = Some(self.request_description()?);
        }
        Ok(())
    }

    /// Waits for the next data, after sending reads ahead. Returns false at the end of the file.
    fn receive(&mut self) -> Result<bool> {
        self.send_ahead()?;
        self.receive_next()
    }

    fn receive_next(&mut self) -> Result<bool> {
        let Some(Sent { number, range, asked }) = self.sent.pop_front() else { return Ok(false) };
        let reply = self.exchange.reply(number);
        self.exchange.remove_in_flight(asked);
        match reply? {
            SftpReply::Data(bytes, count) => {
                self.end.has_more_content |=
                    Some(range.end) == self.end.stated && count > to_usize(range.len());
                let count = count.min(to_usize(range.len()));
                let old = std::mem::replace(&mut self.data, bytes);
                self.exchange.return_buffer(old);
                self.unread = 0..count;
                self.received.fetch_add(count as u64, Ordering::Relaxed);
                let missing = range.skip(count as u64);
                if count > 0 && !missing.is_empty() {
                    let again = self.send(missing)?;
                    self.sent.push_front(again);
                    self.last_look = None;
                }
                Ok(count > 0)
            }
            SftpReply::Status { code: code::EOF, .. } => Ok(false),
            other => Err(self.exchange.reply_error("read it", &other)),
        }
    }

    /// Reads into `buffer`. Returns 0 at the end of the file.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.unread.is_empty() && !self.receive()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.unread.len());
        buffer[..count].copy_from_slice(&self.data[self.unread.start..][..count]);
        self.unread.start += count;
        Ok(count)
    }

    /// Writes up to `most` bytes to a file, without another copy in memory.
    pub(crate) fn write_to(&mut self, sink: &Sink, offset: u64, most: u64) -> Result<usize> {
        if self.unread.is_empty() && !self.receive()? {
            return Ok(0);
        }
        let count = self.unread.len().min(to_usize(most));
        let bytes = &self.data[self.unread.start..][..count];
        sink.write_all_at(bytes, offset)
            .map_err(|source| Error::Io { location: self.exchange.place.clone(), source })?;
        self.unread.start += count;
        Ok(count)
    }

    /// Checks, after everything was read, that the file has not changed since it was opened and
    /// that its content ends at the stated length.
    pub(crate) fn check_end(&mut self, expected: &Version) -> Result<()> {
        self.check_unchanged(expected)?;
        let stated = self.end.stated;
        match stated {
            Some(stated) if self.goes_on()? => {
                Err(Error::FalseLength { location: self.exchange.place.clone(), stated })
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for content that ends early: either the file has changed, or its stated
    /// length was never true.
    pub(crate) fn ended_early(&mut self, expected: &Version) -> Error {
        let stated = expected.size.unwrap_or_default();
        let false_length = Error::FalseLength { location: self.exchange.place.clone(), stated };
        self.check_unchanged(expected).err().unwrap_or(false_length)
    }

    /// Returns true if there is content after the stated length.
    fn goes_on(&mut self) -> Result<bool> {
        let Some(number) = self.end.read_beyond_end.take() else { return Ok(self.end.has_more_content) };
        match self.exchange.reply(number)? {
            SftpReply::Data(_, count) => Ok(count > 0),
            SftpReply::Status { code: code::EOF, .. } => Ok(false),
            other => Err(self.exchange.reply_error("read it", &other)),
        }
    }

    fn check_unchanged(&mut self, expected: &Version) -> Result<()> {
        let number = match self.last_look {
            Some(number) => number,
            None => self.request_description()?,
        };
        let found = match self.exchange.reply(number)? {
            SftpReply::Attributes(attributes) => version(&attributes),
            other => return Err(self.exchange.reply_error("describe it", &other)),
        };
        if (Version { size: expected.size.and(found.size), ..found.clone() }) == *expected {
            return Ok(());
        }
        let location = self.exchange.place.clone();
        Err(Error::Changed {
            location,
            expected: Box::new(expected.clone()),
            found: Box::new(found),
            trace: None,
        })
    }
}

impl Drop for SftpReading {
    fn drop(&mut self) {
        self.exchange.send_last(SftpRequest::of(kind::CLOSE, &self.handle));
    }
}
