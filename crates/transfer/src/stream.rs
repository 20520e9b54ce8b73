//! Moves streams of this process: writes an object to a writer, and reads a reader into an object.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

use firstbyte_location::{ByteRange, Location, Strength, Version, shown, to_usize};
use firstbyte_pacing::{START, Wait};
use firstbyte_store::{
    BUFFER, Body, Checksum, Error as StoreError, Get, Hasher, LocalFile, PartialPermissions, Payload,
    PutOptions, STACK, Stat, StatedLength, Written,
};
use rustix_futex_sync::Mutex;

use crate::context::Context;
use crate::error::{Error, Result, StreamEnd};
use crate::plan::{MAX_PART_IN_MEMORY, MAX_PARTS, MIN_PART_SIZE, stream_part_size};
use crate::report::{CompletedObject, Verified};
use crate::request::{Requester, TransferAttempt};
use crate::settings::TransferSettings;
use crate::spool::unnamed_file;
use crate::upload::parts::{self, MultipartUpload};

/// Length of the first parts of a stream of unknown length, bytes.
const FIRST_PART_SIZE: usize = MIN_PART_SIZE as usize;

/// Returns the number of workers for a stream: as many as can have a part in memory below the
/// ceiling.
pub(crate) fn workers(settings: &TransferSettings) -> usize {
    settings.workers_of(MIN_PART_SIZE, 0).min(START)
}

/// Writes an object, or a range of it, to `out`.
pub(crate) fn cat(
    context: &Context<'_>,
    source: &Location,
    version: Option<&Version>,
    range: Option<ByteRange>,
    out: &mut dyn Write,
) -> Result<CompletedObject> {
    let length = StatedLength::Checked;
    let mut output = Output {
        source,
        version,
        range,
        length,
        out,
        written: 0,
        stat: None,
        is_open_ended: false,
        hasher: None,
    };
    let mut requester = Requester::new(context, 0);
    loop {
        let copied = requester.request(Wait::Head, None, |attempt, buffer| {
            let body = output.open(attempt)?;
            output.copy(attempt, body, buffer)
        });
        match copied {
            // The bytes that were written are the start of the object. Only the stated length was
            // false, so the rest is read and written now.
            Err(error) if error.is_false_length() && output.length == StatedLength::Checked => {
                output.length = StatedLength::Ignored;
            }
            copied => return copied.and_then(|()| output.finish(&mut requester)),
        }
    }
}

/// An object that is being copied to a writer.
struct Output<'a> {
    source: &'a Location,
    /// The version to read. `None` stands for the newest version.
    version: Option<&'a Version>,
    range: Option<ByteRange>,
    length: StatedLength,
    out: &'a mut dyn Write,
    written: u64,
    /// The description of the object in the first response.
    stat: Option<Stat>,
    /// True if the first response had no length, so that its body ends with the connection.
    is_open_ended: bool,
    /// The expected checksum, if the store or the user gave one, and the hash of the bytes so far.
    hasher: Option<(Checksum, Hasher)>,
}

impl Output<'_> {
    /// Requests the bytes that have not been written yet, in the version of the first response.
    fn open(&mut self, attempt: &mut TransferAttempt<'_, '_>) -> Result<Body> {
        let version = self.stat.as_ref().map(|stat| &stat.version).or(self.version).cloned();
        let written = self.written;
        if let Some(version) = &version
            && written > 0
            && version.strength() == Strength::None
        {
            let detail = format!("the stream broke after {written} bytes and has no version ({version})");
            return Err(
                StoreError::Protocol { location: self.source.to_string(), detail, trace: None }.into()
            );
        }
        let range = match written {
            0 => self.range,
            _ => Some(self.range.unwrap_or(ByteRange::new(0, u64::MAX)).skip(written)),
        };
        let length = self.length;
        let get = Get { range, version, checksum: range.is_none(), length, ..attempt.get() };
        let body = attempt.open(self.source, &get)?;
        if self.stat.is_none() {
            self.is_open_ended = body.is_open_ended();
            self.describe(attempt.context, body.stat());
        }
        Ok(body)
    }

    /// Takes the length and the checksum of the object from the first response.
    fn describe(&mut self, context: &Context<'_>, stat: &Stat) {
        let expected = context.settings.checksum.clone().or_else(|| stat.checksum.clone());
        self.hasher = expected.filter(|_| self.range.is_none()).map(|expected| {
            let hasher = Hasher::new(expected.algorithm);
            (expected, hasher)
        });
        let length = |size| self.range.unwrap_or(ByteRange::new(0, size)).len().min(size);
        context.observer.expected(1, stat.size().map_or(0, length));
        context.observer.listed();
        self.stat = Some(stat.clone());
    }

    fn copy(
        &mut self,
        attempt: &mut TransferAttempt<'_, '_>,
        mut body: Body,
        buffer: &mut [u8],
    ) -> Result<()> {
        loop {
            let read = body.read(buffer)?;
            if read == 0 {
                return Ok(());
            }
            self.out.write_all(&buffer[..read]).map_err(Error::stream(StreamEnd::Output))?;
            if let Some((_, hasher)) = &mut self.hasher {
                hasher.update(&buffer[..read]);
            }
            self.written += read as u64;
            attempt.record_moved(read as u64, self.written);
        }
    }

    fn finish(self, requester: &mut Requester<'_>) -> Result<CompletedObject> {
        self.out.flush().map_err(Error::stream(StreamEnd::Output))?;
        let mut verified = Verified::Length;
        if let Some(stat) = self.stat.as_ref().filter(|_| self.is_open_ended && self.range.is_none()) {
            match requester.stated_length(self.source, &stat.version) {
                Some(size) if size > self.written => {
                    let (location, missing) = (self.source.to_string(), size - self.written);
                    return Err(StoreError::Truncated { location, missing, trace: None }.into());
                }
                Some(size) if size == self.written => {}
                _ => verified = Verified::Nothing,
            }
        }
        if let Some((expected, hasher)) = self.hasher {
            expected.verify(&hasher.finish(), self.source)?;
            verified = Verified::Full;
        }
        Ok(CompletedObject {
            bytes: self.written,
            verified,
            version: self.stat.map(|stat| stat.version),
            source: None,
        })
    }
}

/// Writes a stream of unknown length to `destination`.
pub(crate) fn put(
    context: &Context<'_>,
    reader: &mut (dyn Read + Send),
    destination: &Location,
) -> Result<CompletedObject> {
    let mut requester = Requester::new(context, 0);
    let TransferSettings { metadata, precondition, content_types, .. } = context.settings;
    let (mut metadata, precondition) = (metadata.clone(), precondition.clone());
    metadata.content_type = metadata.content_type.or_else(|| content_types.of(None, destination));
    let options = PutOptions { metadata, precondition, ..PutOptions::default() };
    let mut whole = |payload: Payload<'_>, bytes, counted| {
        let written = parts::put(&mut requester, destination, payload, counted, &options)?;
        Ok::<_, Error>(parts::completed_object(bytes, written, None))
    };
    let mut reader = CheckedReader::new(context, reader);
    let done = if let Location::Local(path) = destination {
        put_file(context, &mut reader, path)?
    } else if !context.store.has_multipart(destination) {
        let mut file = unnamed_file()?;
        let bytes = copy(context, &mut reader, &mut file, Error::temporary)?;
        reader.verify()?;
        // These bytes were already counted when they were read.
        whole(Payload::File(&file, ByteRange::new(0, bytes)), bytes, 0)?
    } else {
        let first = read_part(&mut reader, FIRST_PART_SIZE)?;
        if first.len() < FIRST_PART_SIZE {
            reader.verify()?;
            let bytes = first.len() as u64;
            whole(Payload::Bytes(&first), bytes, bytes)?
        } else {
            put_parts(context, &mut reader, first, destination, options)?
        }
    };
    let verified = if context.settings.checksum.is_some() { Verified::Full } else { done.verified };
    Ok(CompletedObject { verified, ..done })
}

fn put_parts(
    context: &Context<'_>,
    reader: &mut CheckedReader<'_>,
    first: Vec<u8>,
    destination: &Location,
    options: PutOptions,
) -> Result<CompletedObject> {
    let parts = MultipartUpload::new(context.store.begin_upload(destination, &options)?, options);
    let (bytes, written): (u64, Written) = send_parts(context, reader, first, &parts)
        .and_then(|bytes| reader.verify().map(|()| bytes))
        .and_then(|bytes| Ok((bytes, parts.complete(context.store)?)))
        .inspect_err(|_| parts.abort(context.store))?;
    Ok(parts::completed_object(bytes, written, None))
}

/// A stream whose bytes are hashed while they are read, if the settings contain an expected
/// checksum. Whichever way a stream is stored, it is read through this type, and
/// [`verify`](Self::verify) is called before the destination changes.
struct CheckedReader<'a> {
    reader: &'a mut (dyn Read + Send),
    expected: Option<(Checksum, Hasher)>,
}

impl<'a> CheckedReader<'a> {
    fn new(context: &Context<'_>, reader: &'a mut (dyn Read + Send)) -> Self {
        let expected = context.settings.checksum.clone().map(|expected| {
            let hasher = Hasher::new(expected.algorithm);
            (expected, hasher)
        });
        Self { reader, expected }
    }

    /// Fails if the bytes of the stream, which has ended, do not have the expected checksum.
    fn verify(&mut self) -> Result<()> {
        match self.expected.take() {
            Some((expected, hasher)) => Ok(expected.verify(&hasher.finish(), &"the input")?),
            None => Ok(()),
        }
    }
}

impl Read for CheckedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if let Some((_, hasher)) = &mut self.expected {
            hasher.update(&buffer[..read]);
        }
        Ok(read)
    }
}

fn put_file(context: &Context<'_>, reader: &mut CheckedReader<'_>, path: &Path) -> Result<CompletedObject> {
    let TransferSettings { metadata, durability, precondition, .. } = context.settings;
    // The missing directories above the file, which are created for it, the deepest first.
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let made: Vec<&Path> = path.ancestors().skip(1).take_while(missing).collect();
    let partial = LocalFile::open(path, PartialPermissions::of(metadata))?;
    partial.truncate()?;
    let at_path = |source| StoreError::Io { location: shown(path).to_string(), source }.into();
    let copied = copy(context, reader, &mut partial.file(), at_path);
    let checked = copied.and_then(|bytes| reader.verify().map(|()| bytes));
    let commit = |bytes| Ok(partial.commit_if(metadata, *durability, precondition).map(|()| bytes)?);
    match checked.and_then(commit) {
        Ok(bytes) => Ok(CompletedObject { bytes, verified: Verified::Length, version: None, source: None }),
        Err(error) => {
            // If this fails too, the error of the write is returned.
            let _ = partial.discard();
            // A directory that another run has written to is not empty and stays.
            let _ = made.into_iter().try_for_each(std::fs::remove_dir);
            Err(error)
        }
    }
}

/// The input stream, which the sender threads share: one thread reads a part while the others send
/// theirs.
struct StreamInput<'a> {
    reader: &'a mut (dyn Read + Send),
    destination: &'a Location,
    /// The first part, which has already been read.
    first: Option<Vec<u8>>,
    number: u32,
    bytes: u64,
    is_ended: bool,
}

impl StreamInput<'_> {
    fn next(&mut self) -> Result<Option<(u32, StreamPart)>> {
        if self.is_ended {
            return Ok(None);
        }
        let Some(length) = stream_part_size(self.number + 1) else {
            // The last part that is allowed may have ended exactly at the end of the stream.
            self.is_ended = true;
            return match read_part(self.reader, 1)?.is_empty() {
                true => Ok(None),
                false => Err(self.too_long()),
            };
        };
        let part = match self.first.take() {
            Some(first) => StreamPart::Memory(first),
            None if length <= MAX_PART_IN_MEMORY => {
                StreamPart::Memory(read_part(self.reader, to_usize(length))?)
            }
            None => StreamPart::spooled(self.reader, length)?,
        };
        self.is_ended = part.len() < length;
        if part.len() == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += part.len();
        Ok(Some((self.number, part)))
    }

    fn too_long(&self) -> Error {
        let why = format!(
            "the stream is longer than the {} bytes that {MAX_PARTS} parts hold; write it to several objects",
            self.bytes
        );
        Error::invalid(self.destination, why)
    }
}

/// A part of a stream that is kept until it has been sent.
enum StreamPart {
    Memory(Vec<u8>),
    /// An unnamed temporary file, and the number of bytes in it.
    File(File, u64),
}

impl StreamPart {
    fn spooled(reader: &mut dyn Read, length: u64) -> Result<Self> {
        let mut file = unnamed_file()?;
        let mut buffer = vec![0; BUFFER];
        let mut bytes = 0;
        while bytes < length {
            let most = to_usize((length - bytes).min(BUFFER as u64));
            let read = match reader.read(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::stream(StreamEnd::Input)(error)),
            };
            file.write_all(&buffer[..read]).map_err(Error::temporary)?;
            bytes += read as u64;
        }
        Ok(Self::File(file, bytes))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, bytes) => *bytes,
        }
    }

    fn payload(&self) -> Payload<'_> {
        match self {
            Self::Memory(bytes) => Payload::Bytes(bytes),
            Self::File(file, bytes) => Payload::File(file, ByteRange::new(0, *bytes)),
        }
    }
}

fn send_parts(
    context: &Context<'_>,
    reader: &mut (dyn Read + Send),
    first: Vec<u8>,
    parts: &MultipartUpload,
) -> Result<u64> {
    let destination = &parts.upload.location;
    let reading = Mutex::new(StreamInput {
        reader,
        destination,
        first: Some(first),
        number: 0,
        bytes: 0,
        is_ended: false,
    });
    let send = |index| {
        let mut requester = Requester::new(context, index);
        loop {
            let next = reading.lock().next();
            let sent = match next {
                Ok(Some((number, part))) => parts.send(&mut requester, number, part.payload(), part.len()),
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            if sent.is_err() {
                // The upload has failed, so the other senders have to stop.
                reading.lock().is_ended = true;
                return sent;
            }
        }
    };
    let send = &send;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let start = |index| {
            let sender = std::thread::Builder::new().stack_size(STACK);
            sender.spawn_scoped(scope, move || send(index)).ok()
        };
        // This thread sends too, so the upload works even if no thread can be started.
        let others: Vec<_> = (1..workers(context.settings)).map_while(start).collect();
        let own = send(0);
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    Ok(reading.lock().bytes)
}

/// Reads `length` bytes, or fewer at the end of the stream.
fn read_part(reader: &mut dyn Read, length: usize) -> Result<Vec<u8>> {
    let mut part = Vec::with_capacity(length);
    reader.take(length as u64).read_to_end(&mut part).map_err(Error::stream(StreamEnd::Input))?;
    Ok(part)
}

/// Copies a stream at the rate limit of the settings. `failed` converts an error of `out`. Returns
/// the number of bytes.
fn copy(
    context: &Context<'_>,
    reader: &mut dyn Read,
    out: &mut dyn Write,
    failed: impl FnOnce(io::Error) -> Error,
) -> Result<u64> {
    let throttle = &context.throttles.reading;
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        let grant = throttle.grant(buffer.len() as u64, Instant::now());
        let allowed = to_usize(grant.bytes);
        context.pause(grant.wait);
        let read = match reader.read(&mut buffer[..allowed]) {
            Ok(0) => return Ok(bytes),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::stream(StreamEnd::Input)(error)),
        };
        if context.is_ended() {
            return Err(failed(io::Error::other("interrupted")));
        }
        if let Err(error) = out.write_all(&buffer[..read]) {
            return Err(failed(error));
        }
        bytes += read as u64;
        context.record_moved(read as u64);
        throttle.refund((allowed - read) as u64);
    }
}
