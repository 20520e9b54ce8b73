//! Streams of this process's own: an object to a writer, a reader to an object.

use std::io::{Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use firstbyte_location::{ByteRange, Location, Strength, shown};
use firstbyte_store::{Error as StoreError, Get, Hasher, LocalFile, Payload, Privacy, PutOptions, Stat};

use crate::patience::Wait;
use crate::pieces::Done;
use crate::run::Run;
use crate::upload::{self, Parts};
use crate::worker::{Worker, nap};
use crate::{Error, Result, Verified};

/// Workers of a stream: with the least part S3 takes, three buffers fit below the default memory ceiling.
pub(crate) const WORKERS: usize = 3;
/// A part of a stream of unknown length, at first.
const PART: usize = 5 << 20;
/// After so many parts they are twice as long: 10,000 parts then hold 75 GiB.
const SMALL_PARTS: u32 = 5_000;

/// Writes an object, or a range of it, to `out`.
pub(crate) fn cat(
    run: &Run<'_>,
    source: &Location,
    range: Option<ByteRange>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut worker = Worker::new(run, 0);
    let (mut written, mut seen): (u64, Option<Stat>) = (0, None);
    let mut hasher: Option<Hasher> = None;
    worker.request(Wait::Head, None, |attempt, scratch| {
        let version = seen.as_ref().map(|stat| stat.version.clone());
        let rest = match (range, written) {
            (range, 0) => range,
            (range, written) => Some(range.unwrap_or(ByteRange::new(0, u64::MAX)).skip(written)),
        };
        if let Some(stat) =
            seen.as_ref().filter(|stat| written > 0 && stat.version.strength() == Strength::None)
        {
            return Err(Error::invalid(
                source,
                format!("the stream broke after {written} bytes and has no version ({})", stat.version),
            ));
        }
        let checksum = range.is_none() && written == 0;
        let get = Get { range: rest, version, checksum, ..attempt.get() };
        let mut body = run.store.get(source, &get)?;
        attempt.head_arrived(body.range().len());
        if seen.is_none() {
            let expected =
                run.settings.checksum.as_ref().or(body.stat().checksum.as_ref()).filter(|_| range.is_none());
            hasher = expected.map(|expected| Hasher::new(expected.algorithm));
            run.observer.expected(
                1,
                body.stat().size().map_or(0, |size| range.unwrap_or(ByteRange::new(0, size)).len().min(size)),
            );
            seen = Some(body.stat().clone());
        }
        loop {
            let read = body.read(scratch)?;
            if read == 0 {
                return Ok(());
            }
            out.write_all(&scratch[..read]).map_err(Error::io("writing the output"))?;
            if let Some(hasher) = &mut hasher {
                hasher.update(&scratch[..read]);
            }
            written += read as u64;
            attempt.moved(read as u64);
        }
    })?;
    out.flush().map_err(Error::io("writing the output"))?;
    let mut verified = Verified::Length;
    let expected =
        run.settings.checksum.clone().or_else(|| seen.as_ref().and_then(|stat| stat.checksum.clone()));
    if let (Some(expected), Some(hasher)) = (expected, hasher) {
        expected.verify(&hasher.finish(), source)?;
        verified = Verified::Full;
    }
    run.streamed(Done { bytes: written, verified, version: seen.map(|stat| stat.version) });
    Ok(())
}

/// Writes a stream of unknown length to `destination`.
pub(crate) fn put(run: &Run<'_>, reader: &mut (dyn Read + Send), destination: &Location) -> Result<()> {
    let metadata = &run.settings.metadata;
    if let Location::Local(path) = destination {
        let partial = LocalFile::open(path, Privacy::of(metadata))?;
        let file = partial.file();
        partial.empty()?;
        let bytes = copy(run, reader, &mut &*file)
            .map_err(|source| StoreError::Io { location: shown(path).to_string(), source });
        return match bytes {
            Ok(bytes) => {
                partial.commit(metadata, run.settings.durability)?;
                run.streamed(Done { bytes, verified: Verified::Length, version: None });
                Ok(())
            }
            Err(error) => {
                partial.discard()?;
                Err(error.into())
            }
        };
    }
    let mut worker = Worker::new(run, 0);
    let options = PutOptions { metadata: metadata.clone(), ..PutOptions::default() };
    if !run.store.has_multipart(destination) {
        let mut file = tempfile::tempfile().map_err(Error::io("a temporary file"))?;
        let bytes = copy(run, reader, &mut file).map_err(Error::io("a temporary file"))?;
        let written = upload::put(
            &mut worker,
            destination,
            Payload::File(&file, ByteRange::new(0, bytes)),
            0,
            &options,
        )?;
        run.streamed(Done { bytes, verified: upload::verified(&written), version: Some(written.version) });
        return Ok(());
    }
    let first = read_part(reader, PART)?;
    if first.len() < PART {
        let bytes = first.len() as u64;
        let written = upload::put(&mut worker, destination, Payload::Bytes(&first), bytes, &options)?;
        run.streamed(Done { bytes, verified: upload::verified(&written), version: Some(written.version) });
        return Ok(());
    }
    let parts = Parts::new(run.store.begin_upload(destination, &options)?, options);
    let sent = send_parts(run, reader, first, &parts);
    let complete = sent.and_then(|bytes| Ok((bytes, parts.complete(&mut worker)?)));
    match complete {
        Ok((bytes, written)) => {
            run.streamed(Done {
                bytes,
                verified: upload::verified(&written),
                version: Some(written.version),
            });
            Ok(())
        }
        Err(error) => {
            parts.abort(run.store);
            Err(error)
        }
    }
}

/// What the senders share: one reads while the others send.
struct Reading<'a> {
    reader: &'a mut (dyn Read + Send),
    /// A part read already.
    first: Option<Vec<u8>>,
    number: u32,
    bytes: u64,
    ended: bool,
}

impl Reading<'_> {
    fn next(&mut self) -> Result<Option<(u32, Vec<u8>)>> {
        if self.ended {
            return Ok(None);
        }
        let length = if self.number < SMALL_PARTS { PART } else { 2 * PART };
        let part = match self.first.take() {
            Some(first) => first,
            None => read_part(self.reader, length)?,
        };
        self.ended = part.len() < length;
        if part.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += part.len() as u64;
        Ok(Some((self.number, part)))
    }
}

fn send_parts(run: &Run<'_>, reader: &mut (dyn Read + Send), first: Vec<u8>, parts: &Parts) -> Result<u64> {
    let reading = Mutex::new(Reading { reader, first: Some(first), number: 0, bytes: 0, ended: false });
    let lock = || reading.lock().unwrap_or_else(PoisonError::into_inner);
    let send = |index| {
        let mut worker = Worker::new(run, index);
        loop {
            let next = lock().next();
            let sent = match next {
                Ok(Some((number, part))) => {
                    parts.send(&mut worker, number, Payload::Bytes(&part), part.len() as u64)
                }
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            if sent.is_err() {
                // The others need not go on.
                lock().ended = true;
                return sent;
            }
        }
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS).map(|index| scope.spawn(move || send(index))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    Ok(lock().bytes)
}

/// Reads until `length` bytes are there or the stream ends.
fn read_part(reader: &mut dyn Read, length: usize) -> Result<Vec<u8>> {
    let mut part = Vec::with_capacity(length);
    reader.take(length as u64).read_to_end(&mut part).map_err(Error::io("reading the input"))?;
    Ok(part)
}

/// Copies a stream, counting.
fn copy(run: &Run<'_>, reader: &mut dyn Read, out: &mut dyn Write) -> std::io::Result<u64> {
    let mut buffer = vec![0; crate::worker::SCRATCH];
    let mut bytes = 0;
    loop {
        let grant = run.throttles.reading.grant(buffer.len() as u64, Instant::now());
        let allowed = usize::try_from(grant.bytes).unwrap_or(buffer.len());
        nap(run, grant.wait);
        let read = match reader.read(&mut buffer[..allowed]) {
            Ok(0) => return Ok(bytes),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if run.is_ended() {
            return Err(std::io::Error::other("interrupted"));
        }
        out.write_all(&buffer[..read])?;
        bytes += read as u64;
        run.moved(read as u64);
        run.throttles.reading.refund((allowed - read) as u64);
    }
}
