//! Reads a range in steps, in bounded memory, until the range is complete, the caller stops, or the
//! deadline is near.

use std::ops::ControlFlow;
use std::time::Duration;

use firstbyte::{Client, LazyFile};
use firstbyte_location::{Algorithm, ByteRange, Checksum, EntryKind, Hasher, Location, to_usize};
use firstbyte_store::{Error as StoreError, FailureKind};

use crate::deadline::Deadline;
use crate::error::{InvocationFailure, Result};
use crate::meter::{ByteMeter, ReceiveRate, Window};
use crate::run::EngineRun;

/// Number of bytes in the first step: a single block, so that the first byte does not wait for
/// other blocks.
const FIRST_STEP_BYTES: u64 = 128 << 10;
/// Number of bytes in each later step.
const STEP_BYTES: u64 = 1 << 20;
/// Interval at which a waiting read checks the deadline.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// An object or a file that can be read at an offset.
pub trait ReadAt {
    /// Reads into `buffer` and returns the number of bytes, which is smaller than the buffer only
    /// at the end. Calls `go_on` while waiting. Returns `None` if `go_on` returned false.
    ///
    /// # Errors
    /// The read fails.
    fn read_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<usize>>;
}

impl ReadAt for LazyFile {
    fn read_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<usize>> {
        use firstbyte::Error;
        use firstbyte_hydrate::Error as Read;
        match self.read_at_while(buffer, offset, CHECK_INTERVAL, go_on) {
            Ok(read) => Ok(Some(read)),
            Err(Error::Store(StoreError::Cancelled)) => Ok(None),
            Err(Error::Read(Read::Store(error))) if matches!(*error, StoreError::Cancelled) => Ok(None),
            Err(error) => Err(InvocationFailure::of_library(&error)),
        }
    }
}

/// Opens an object lazily, with one request that ends before the deadline.
///
/// # Errors
/// The store fails, `source` is a directory, or the server does not state the length.
pub fn open(client: &Client, source: &Location, deadline: Deadline) -> Result<LazyFile> {
    let run = EngineRun::start(client, deadline, None)?;
    let stat = run.store().stat(source).map_err(|error| InvocationFailure::of_store(&error))?;
    if stat.kind == EntryKind::Directory {
        return Err(InvocationFailure::event(format!("{source}: is a directory; open an object in it")));
    }
    if stat.size().is_none() {
        return Err(InvocationFailure::event(format!(
            "{source}: its server does not send its length; download it"
        )));
    }
    Ok(client.open_version(source, stat.version))
}

/// The progress of a read.
#[derive(Clone, Debug)]
pub struct ReadProgress {
    /// Bytes read, from the start of the range.
    pub bytes: u64,
    /// The time of the first byte, since the start of the invocation.
    pub first_byte: Option<Duration>,
    /// CRC-32C of the bytes.
    pub crc32c: Checksum,
    /// The latest rate. `None` before the first measurement.
    pub rate: Option<ReceiveRate>,
}

/// Reads `range` step by step. Passes each step to `look`, which may end the read.
///
/// # Errors
/// The source fails, or ends before the range does.
pub fn read(
    source: &dyn ReadAt,
    range: ByteRange,
    deadline: &Deadline,
    look: &mut dyn FnMut(&[u8], &ReadProgress) -> ControlFlow<()>,
) -> Result<ReadProgress> {
    let meter = ByteMeter::default();
    let mut window = Window::of(&meter);
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    let mut buffer = vec![0; to_usize(STEP_BYTES.min(range.len()))];
    let empty = Hasher::new(Algorithm::Crc32c).finish();
    let mut reading = ReadProgress { bytes: 0, first_byte: None, crc32c: empty, rate: None };
    while reading.bytes < range.len() {
        let step =
            if reading.bytes == 0 { FIRST_STEP_BYTES } else { STEP_BYTES }.min(range.len() - reading.bytes);
        let step = &mut buffer[..to_usize(step)];
        let mut go_on = || !deadline.is_near(reading.rate);
        if !go_on() {
            break;
        }
        let Some(read) = source.read_at(step, range.start + reading.bytes, &mut go_on)? else { break };
        if read == 0 {
            let why = format!("the object ends {} bytes before the range does", range.len() - reading.bytes);
            return Err(InvocationFailure::new(FailureKind::Changed, why));
        }
        let arrived = &step[..read];
        meter.add(read as u64);
        hasher.update(arrived);
        reading.bytes += read as u64;
        reading.first_byte.get_or_insert_with(|| deadline.elapsed());
        reading.rate = window.rate();
        if look(arrived, &reading).is_break() {
            break;
        }
    }
    reading.crc32c = hasher.finish();
    Ok(reading)
}
