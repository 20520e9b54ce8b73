//! Writes a whole file under a temporary name next to the destination, and then renames it. A
//! writer that is killed leaves the temporary file, and does not change the destination.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use firstbyte_location::{EntryKind, SftpPath, to_usize};

use super::packet::{SftpAttributes, SftpReply, SftpRequest, code, kind, open};
use super::session::Exchange;
use super::version;
use crate::error::{Error, Result};
use crate::limits::SHORT_WAIT;
use crate::local::{StoredTimes, add_refusing_host, partial_name};
use crate::upload::{Payload, Precondition, PutOptions, Written};

/// Permission bits that a copy preserves.
const PRESERVED_BITS: u32 = 0o777;

/// One attempt to write a file.
pub(super) struct SftpWriting<'a> {
    pub(super) exchange: Exchange,
    pub(super) place: &'a SftpPath,
    pub(super) options: &'a PutOptions,
}

impl SftpWriting<'_> {
    /// Writes the payload. First removes `leftover`, the partial file of an earlier attempt.
    pub(super) fn run(mut self, payload: Payload<'_>, leftover: &mut Option<Vec<u8>>) -> Result<Written> {
        if let Some(path) = leftover.take() {
            self.exchange.send_last(SftpRequest::of(kind::REMOVE, &path));
        }
        let before = self.before()?;
        let partial = self.partial()?;
        let handle = self.create(&partial, before.and_then(|before| before.mode))?;
        *leftover = Some(partial.clone());
        let written = self
            .send(&handle, payload)
            .and_then(|()| payload.check_unchanged().map_err(|error| self.unreadable(error)))
            .and_then(|()| self.complete(&handle, payload.length(), before))
            .and_then(|written| self.publish(&partial, before.is_some()).map(|()| written));
        match &written {
            Ok(_) => *leftover = None,
            // The file is not removed here, because the session has ended. The next attempt removes
            // it.
            Err(error) if error.is_transient() => {}
            Err(_) => self.remove(&partial),
        }
        written
    }

    /// Returns the attributes of the destination, or `None` if it does not exist. Fails if the
    /// precondition does not hold, or if the destination is not a file.
    fn before(&mut self) -> Result<Option<SftpAttributes>> {
        let location = || self.place.to_string();
        let before = match self.exchange.call(SftpRequest::of(kind::STAT, &self.place.path))? {
            SftpReply::Attributes(found) => Some(found),
            SftpReply::Status { code: code::NO_SUCH_FILE, .. } => None,
            other => return Err(self.exchange.reply_error("describe it", &other)),
        };
        match (&self.options.precondition, &before) {
            (Precondition::None, _) | (Precondition::Absent, None) => {}
            (Precondition::Matches(wanted), Some(found)) if wanted.agrees_with(&version(found)) => {}
            _ => return Err(Error::Precondition { location: location(), trace: None }),
        }
        match before.map(|found| found.kind()) {
            Some(EntryKind::Directory) => {
                Err(Error::InvalidName { location: location(), why: "a directory has this name".into() })
            }
            Some(EntryKind::Other) => Err(Error::InvalidName {
                location: location(),
                why: "a device, socket or pipe has this name".into(),
            }),
            _ => Ok(before),
        }
    }

    /// Returns a name for the partial file. No other writer has the same name.
    fn partial(&self) -> Result<Vec<u8>> {
        let path = &self.place.path;
        let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (directory, name) = path.split_at(cut);
        if matches!(name, b"" | b"." | b"..") {
            let why = "no name for a file".to_owned();
            return Err(Error::InvalidName { location: self.place.to_string(), why });
        }
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Io { location: self.place.to_string(), source: error.into() })?;
        let own = [name, b"~", hex::encode(random).as_bytes()].concat();
        Ok([directory, partial_name(OsStr::from_bytes(&own)).as_bytes()].concat())
    }

    /// Creates the partial file and its missing directories. The file gives other users only rights
    /// that the source and the file to be replaced give them too.
    fn create(&mut self, partial: &[u8], before: Option<u32>) -> Result<Vec<u8>> {
        let source = self.options.metadata.mode.unwrap_or(0o666);
        let mode = Some(0o600 | (source & before.unwrap_or(PRESERVED_BITS) & PRESERVED_BITS));
        let attributes = SftpAttributes { mode, ..SftpAttributes::default() };
        let mut missing = true;
        loop {
            let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
            let request = SftpRequest::of(kind::OPEN, partial).u32(flags).attributes(attributes);
            match self.exchange.call(request)? {
                SftpReply::Handle(handle) => return Ok(handle),
                SftpReply::Status { code: code::NO_SUCH_FILE, .. } if missing => {
                    missing = false;
                    create_directories(&mut self.exchange, &self.place.path)?;
                }
                other => return Err(self.exchange.reply_error("create a file beside it", &other)),
            }
        }
    }

    /// Sends the bytes, with many requests in flight.
    fn send(&mut self, handle: &[u8], payload: Payload<'_>) -> Result<()> {
        let longest = self.exchange.session().greeting.longest_write as u64;
        let (mut at, length) = (0, payload.length());
        let mut sent: VecDeque<(u32, usize)> = VecDeque::new();
        while at < length || !sent.is_empty() {
            let step = longest.min(length - at);
            if step > 0 && (sent.is_empty() || self.exchange.has_room(to_usize(step))) {
                let step = self.wait_for(step)?;
                let bytes = self.read(payload, at, to_usize(step))?;
                let number =
                    self.exchange.send(SftpRequest::of(kind::WRITE, handle).u64(at).string(&bytes))?;
                self.exchange.add_in_flight(bytes.len());
                sent.push_back((number, bytes.len()));
                at += step;
                continue;
            }
            let Some((number, bytes)) = sent.pop_front() else { continue };
            let (code, message) = self.exchange.reply_status(number)?;
            self.exchange.remove_in_flight(bytes);
            if code != code::OK {
                return Err(self.exchange.status_error("write it (is the disk full?)", code, &message));
            }
        }
        Ok(())
    }

    /// Waits until the rate limit allows at least one byte. Returns the number of bytes allowed, up
    /// to `most`.
    fn wait_for(&self, most: u64) -> Result<u64> {
        let throttle = &self.options.sending.throttle;
        if throttle.is_unlimited() {
            return Ok(most);
        }
        let grant = throttle.grant(most, Instant::now());
        self.exchange.cancel_handle().sleep(grant.wait)?;
        Ok(grant.bytes)
    }

    fn read(&self, payload: Payload<'_>, at: u64, length: usize) -> Result<Vec<u8>> {
        match payload {
            Payload::Bytes(bytes) => Ok(bytes[to_usize(at)..][..length].to_vec()),
            Payload::File(file, range) | Payload::Source(file, range, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start + at).map_err(|error| self.unreadable(error))?;
                Ok(bytes)
            }
        }
    }

    fn unreadable(&self, source: io::Error) -> Error {
        Error::Payload { location: self.place.to_string(), source }
    }

    /// Sets the mode and the time, and closes the file, in one round trip. A host may refuse the
    /// attributes, as AWS Transfer Family, `sftp-server -P fsetstat` and some file systems do
    /// (<https://github.com/mscdex/ssh2/issues/1453>, as of 28 November 2026). The content is
    /// complete without them, and the file has the rights with which it was created.
    fn complete(&mut self, handle: &[u8], length: u64, before: Option<SftpAttributes>) -> Result<Written> {
        let metadata = &self.options.metadata;
        let mode = match (metadata.mode, before.and_then(|before| before.mode)) {
            (Some(source), Some(before)) => Some(source & before & PRESERVED_BITS),
            (Some(mode), None) | (None, Some(mode)) => Some(mode & PRESERVED_BITS),
            // The server has chosen the mode of the file, which is kept.
            (None, None) => None,
        };
        let modified = metadata.modified.map(|time| StoredTimes::HOST.seconds(time));
        // The protocol sends times in 32 bits, which is also the range of the times that hosts
        // store.
        let modified = modified.and_then(|seconds| u32::try_from(seconds).ok());
        let attributes = SftpAttributes { size: None, mode, modified };
        let exchange = &mut self.exchange;
        let sync = exchange.session().greeting.extensions.has_fsync;
        let set = exchange.send(SftpRequest::of(kind::FSETSTAT, handle).attributes(attributes))?;
        let synced = match sync {
            true => Some(exchange.send(SftpRequest::extended("fsync@openssh.com").string(handle))?),
            false => None,
        };
        let look = exchange.send(SftpRequest::of(kind::FSTAT, handle))?;
        let close = exchange.send(SftpRequest::of(kind::CLOSE, handle))?;
        if exchange.reply_status(set)?.0 != code::OK {
            add_refusing_host(&self.place.authority);
        }
        match synced.map(|number| exchange.reply_status(number)).transpose()? {
            // Some servers, and some of their file systems, cannot sync files.
            None | Some((code::OK | code::UNSUPPORTED | code::BAD_MESSAGE | code::PERMISSION_DENIED, _)) => {}
            Some((code, message)) => {
                return Err(exchange.status_error("write it to the disk", code, &message));
            }
        }
        let found = match exchange.reply(look)? {
            SftpReply::Attributes(found) => found,
            other => return Err(exchange.reply_error("describe it", &other)),
        };
        let (code, message) = exchange.reply_status(close)?;
        if code != code::OK {
            return Err(exchange.status_error("write it (is the disk full?)", code, &message));
        }
        if found.size.is_some_and(|size| size != length) {
            let detail = format!("{length} bytes were written, and the file has {:?}", found.size);
            return Err(Error::Protocol { location: self.place.to_string(), detail, trace: None });
        }
        Ok(Written { version: version(&found), verified: None })
    }

    /// Renames the partial file to the destination. `RENAME` fails if the destination exists, so it
    /// is used for a file that must be new. The extension `posix-rename` replaces an existing file.
    fn publish(&mut self, partial: &[u8], replaces: bool) -> Result<()> {
        let place = self.place;
        let is_new = self.options.precondition == Precondition::Absent;
        if let Precondition::Matches(_) = self.options.precondition {
            self.before()?;
        }
        let replacing = self.exchange.session().greeting.extensions.has_posix_rename && !is_new;
        let request = match replacing {
            true => SftpRequest::extended("posix-rename@openssh.com").string(partial),
            false => SftpRequest::of(kind::RENAME, partial),
        };
        match self.exchange.status(request.string(&place.path))? {
            (code::OK, _) => Ok(()),
            _ if is_new && self.before().is_err() => {
                Err(Error::Precondition { location: place.to_string(), trace: None })
            }
            (_, _) if replaces && !replacing => Err(Error::Unsupported {
                location: place.to_string(),
                what: "replacing a file (the server has no posix-rename)",
                trace: None,
            }),
            (code, message) => Err(self.exchange.status_error("rename the complete file", code, &message)),
        }
    }

    /// Removes the partial file after a failure. Waits only briefly for the reply.
    fn remove(&mut self, partial: &[u8]) {
        let mut exchange = self.exchange.after_cancel();
        // If the file remains, this program's listings omit it.
        let _ = exchange
            .send(SftpRequest::of(kind::REMOVE, partial))
            .and_then(|number| exchange.reply_within(number, SHORT_WAIT));
    }
}

/// Creates the missing directories above a path, starting below the deepest existing directory.
pub(super) fn create_directories(exchange: &mut Exchange, path: &[u8]) -> Result<()> {
    let ends: Vec<usize> = (1..path.len()).filter(|at| path[*at] == b'/').collect();
    let create = |exchange: &mut Exchange, end: usize| {
        exchange.status(SftpRequest::of(kind::MKDIR, &path[..end]).attributes(SftpAttributes::default()))
    };
    let is_missing = |exchange: &mut Exchange, end: usize| {
        let reply = exchange.call(SftpRequest::of(kind::STAT, &path[..end]))?;
        Ok::<_, Error>(matches!(reply, SftpReply::Status { code: code::NO_SUCH_FILE, .. }))
    };
    let mut missing = ends.len();
    while missing > 0 {
        let end = ends[missing - 1];
        let (code, _) = create(exchange, end)?;
        // A server also refuses to create a directory that exists. Some servers do not say that the
        // directory above is missing.
        if code == code::OK || (code != code::NO_SUCH_FILE && !is_missing(exchange, end)?) {
            break;
        }
        missing -= 1;
    }
    // The parent exists now. If it is not a directory, the next requests fail.
    for end in ends.into_iter().skip(missing) {
        let (code, message) = create(exchange, end)?;
        if code != code::OK && is_missing(exchange, end)? {
            return Err(exchange.status_error("create a directory", code, &message));
        }
    }
    Ok(())
}
