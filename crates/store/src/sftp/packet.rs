//! Encodes and decodes packets of SFTP version 3 (draft-ietf-secsh-filexfer-02), which every server
//! supports, and of the OpenSSH extensions that are used here (OpenSSH's file `PROTOCOL`).
//!
//! Names are bytes. A packet consists of its length, its kind, the number of its request, and
//! fields.

use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{EntryKind, to_usize};

pub(super) mod kind {
    pub(in super::super) const INIT: u8 = 1;
    pub(in super::super) const OPEN: u8 = 3;
    pub(in super::super) const CLOSE: u8 = 4;
    pub(in super::super) const READ: u8 = 5;
    pub(in super::super) const WRITE: u8 = 6;
    pub(in super::super) const LSTAT: u8 = 7;
    pub(in super::super) const FSTAT: u8 = 8;
    pub(in super::super) const FSETSTAT: u8 = 10;
    pub(in super::super) const OPENDIR: u8 = 11;
    pub(in super::super) const READDIR: u8 = 12;
    pub(in super::super) const REMOVE: u8 = 13;
    pub(in super::super) const MKDIR: u8 = 14;
    pub(in super::super) const RMDIR: u8 = 15;
    pub(in super::super) const REALPATH: u8 = 16;
    pub(in super::super) const STAT: u8 = 17;
    pub(in super::super) const RENAME: u8 = 18;
    pub(in super::super) const EXTENDED: u8 = 200;
}

/// Flags of an `OPEN` request.
pub(super) mod open {
    pub(in super::super) const READ: u32 = 1;
    pub(in super::super) const WRITE: u32 = 2;
    pub(in super::super) const CREATE: u32 = 8;
    pub(in super::super) const EXCLUSIVE: u32 = 0x20;
}

/// The codes in a `STATUS` reply.
pub(super) mod code {
    pub(in super::super) const OK: u32 = 0;
    pub(in super::super) const EOF: u32 = 1;
    pub(in super::super) const NO_SUCH_FILE: u32 = 2;
    pub(in super::super) const PERMISSION_DENIED: u32 = 3;
    pub(in super::super) const FAILURE: u32 = 4;
    pub(in super::super) const BAD_MESSAGE: u32 = 5;
    pub(in super::super) const UNSUPPORTED: u32 = 8;
}

const VERSION: u8 = 2;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRIBUTES: u8 = 105;
const EXTENDED_REPLY: u8 = 201;

/// The version of the protocol that this client requests.
const PROTOCOL_VERSION: u32 = 3;
/// Maximum length of a packet, in bytes. No packet from OpenSSH is longer.
const MAX_PACKET_BYTES: usize = 256 << 10;
/// Length of a packet's head, in bytes: the length, the kind and the number.
const HEAD_BYTES: usize = 9;

const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
const HAS_MODE: u32 = 4;
const HAS_TIMES: u32 = 8;
const HAS_EXTENSIONS: u32 = 0x8000_0000;

/// A request under construction.
pub(super) struct SftpRequest {
    bytes: Vec<u8>,
}

impl SftpRequest {
    pub(super) fn new(kind: u8) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; HEAD_BYTES]);
        bytes[4] = kind;
        Self { bytes }
    }

    /// Starts a request about a path or a handle.
    pub(super) fn of(kind: u8, subject: &[u8]) -> Self {
        Self::new(kind).string(subject)
    }

    /// Starts a request that belongs to an extension.
    pub(super) fn extended(name: &str) -> Self {
        Self::of(kind::EXTENDED, name.as_bytes())
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn string(mut self, text: &[u8]) -> Self {
        self = self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(text);
        self
    }

    pub(super) fn attributes(self, attributes: SftpAttributes) -> Self {
        let flag = |given, flag| if given { flag } else { 0 };
        let (mode, modified) = (attributes.mode, attributes.modified);
        let mut request = self.u32(flag(mode.is_some(), HAS_MODE) | flag(modified.is_some(), HAS_TIMES));
        if let Some(mode) = mode {
            request = request.u32(mode);
        }
        if let Some(modified) = modified {
            // The protocol requires the time of the last access too.
            request = request.u32(modified).u32(modified);
        }
        request
    }

    /// Returns the complete packet, with `number` as the number of the request.
    pub(super) fn numbered(mut self, number: u32) -> Vec<u8> {
        self.bytes[5..HEAD_BYTES].copy_from_slice(&number.to_be_bytes());
        self.finish()
    }

    /// Returns the greeting, which is the only packet without a number.
    pub(super) fn greeting() -> Vec<u8> {
        let mut request = Self::new(kind::INIT);
        request.bytes[5..HEAD_BYTES].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        request.finish()
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len() - 4).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&length.to_be_bytes());
        self.bytes
    }
}

/// The attributes of a file. Requests send only the mode and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SftpAttributes {
    pub(super) size: Option<u64>,
    /// The kind of the file, and its permission bits.
    pub(super) mode: Option<u32>,
    /// Modification time, in seconds since 1970.
    pub(super) modified: Option<u32>,
}

impl SftpAttributes {
    /// Returns the kind of the file. A file whose kind the server does not state counts as a
    /// regular file.
    pub(super) fn kind(&self) -> EntryKind {
        match self.mode.unwrap_or(0) & 0o170_000 {
            0 | 0o100_000 => EntryKind::File,
            0o040_000 => EntryKind::Directory,
            0o120_000 => EntryKind::Symlink,
            _ => EntryKind::Other,
        }
    }

    pub(super) fn time(&self) -> Option<SystemTime> {
        self.modified.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds.into()))
    }
}

/// An entry of a directory. A link is described itself, not its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SftpEntry {
    pub(super) name: Vec<u8>,
    pub(super) attributes: SftpAttributes,
}

#[derive(Debug)]
pub(super) enum SftpReply {
    Status {
        code: u32,
        message: String,
    },
    Handle(Vec<u8>),
    /// A buffer, and the number of bytes at its start that are data.
    Data(Vec<u8>, usize),
    Names(Vec<SftpEntry>),
    Attributes(SftpAttributes),
    Extended(Vec<u8>),
}

/// The extensions that the server announces in its greeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    pub(super) has_posix_rename: bool,
    pub(super) has_fsync: bool,
    pub(super) has_limits: bool,
}

fn garbled(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Reads the length and the kind of a packet. Returns the number of bytes that follow, and the
/// kind.
fn read_head(input: &mut impl Read) -> io::Result<(usize, u8)> {
    let length = to_usize(read_u32(input)?.into());
    if !(5..=MAX_PACKET_BYTES).contains(&length) {
        return Err(garbled(
            "its first bytes are no packet; does a start file of the shell print something?",
        ));
    }
    let mut kind = [0];
    input.read_exact(&mut kind)?;
    Ok((length - 1, kind[0]))
}

fn read_rest(input: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn read_greeting(input: &mut impl Read) -> io::Result<Extensions> {
    let (length, kind) = read_head(input)?;
    let bytes = read_rest(input, length)?;
    let mut fields = Fields(&bytes);
    if kind != VERSION {
        return Err(garbled("its first packet is no greeting"));
    }
    if fields.u32()? < PROTOCOL_VERSION {
        return Err(garbled("it speaks a version of SFTP before 3"));
    }
    let mut found = Extensions::default();
    while !fields.0.is_empty() {
        let (name, version) = (fields.string()?, fields.string()?);
        match (name, version) {
            (b"posix-rename@openssh.com", b"1") => found.has_posix_rename = true,
            (b"fsync@openssh.com", b"1") => found.has_fsync = true,
            (b"limits@openssh.com", b"1") => found.has_limits = true,
            _ => {}
        }
    }
    Ok(found)
}

/// Reads a reply, and the number of its request. `buffer` returns a buffer for data that has at
/// least the given length.
pub(super) fn read_reply(
    input: &mut impl Read,
    buffer: impl FnOnce(usize) -> Vec<u8>,
) -> io::Result<(u32, SftpReply)> {
    let (length, kind) = read_head(input)?;
    let number = read_u32(input)?;
    let length = length - 4;
    if kind == DATA {
        let count = to_usize(read_u32(input)?.into());
        if Some(count) != length.checked_sub(4) {
            return Err(garbled("data of another length than announced"));
        }
        let mut bytes = buffer(count);
        input.read_exact(&mut bytes[..count])?;
        return Ok((number, SftpReply::Data(bytes, count)));
    }
    let bytes = read_rest(input, length)?;
    let mut fields = Fields(&bytes);
    let reply = match kind {
        STATUS => {
            let code = fields.u32()?;
            // Old servers send no message.
            let message = fields.string().map(|text| String::from_utf8_lossy(text).into_owned());
            SftpReply::Status { code, message: message.unwrap_or_default() }
        }
        HANDLE => SftpReply::Handle(fields.string()?.to_vec()),
        NAME => {
            let count = fields.u32()?;
            let mut names = Vec::new();
            for _ in 0..count {
                let name = fields.string()?.to_vec();
                // Skips a line of `ls -l`, whose format is not defined.
                fields.string()?;
                names.push(SftpEntry { name, attributes: fields.attributes()? });
            }
            SftpReply::Names(names)
        }
        ATTRIBUTES => SftpReply::Attributes(fields.attributes()?),
        EXTENDED_REPLY => SftpReply::Extended(bytes),
        _ => return Err(garbled("a packet of an unknown kind")),
    };
    Ok((number, reply))
}

/// Parses the reply to `limits@openssh.com`. Returns the maximum lengths of a read and of a write;
/// 0 means that there is no limit.
pub(super) fn limits(reply: &[u8]) -> io::Result<(u64, u64)> {
    let mut fields = Fields(reply);
    fields.u64()?;
    Ok((fields.u64()?, fields.u64()?))
}

/// The fields of a packet that have not been read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| garbled("a packet that ends within a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> io::Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn string(&mut self) -> io::Result<&'a [u8]> {
        let length = self.u32()?;
        self.take(to_usize(length.into()))
    }

    fn attributes(&mut self) -> io::Result<SftpAttributes> {
        let flags = self.u32()?;
        let mut found = SftpAttributes::default();
        if flags & HAS_SIZE != 0 {
            found.size = Some(self.u64()?);
        }
        if flags & HAS_OWNER != 0 {
            self.take(8)?;
        }
        if flags & HAS_MODE != 0 {
            found.mode = Some(self.u32()?);
        }
        if flags & HAS_TIMES != 0 {
            self.take(4)?;
            found.modified = Some(self.u32()?);
        }
        if flags & HAS_EXTENSIONS != 0 {
            for _ in 0..self.u32()? {
                self.string()?;
                self.string()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(kind: u8, fields: &[u8]) -> Vec<u8> {
        let length = u32::try_from(fields.len() + 1).unwrap();
        [&length.to_be_bytes()[..], &[kind], fields].concat()
    }

    fn reply(bytes: &[u8]) -> io::Result<(u32, SftpReply)> {
        read_reply(&mut &*bytes, |count| vec![0; count])
    }

    #[test]
    fn a_request_has_length_kind_number_and_fields() {
        let attributes = SftpAttributes { size: None, mode: Some(0o600), modified: Some(9) };
        let bytes = SftpRequest::of(kind::OPEN, b"/\xff").u32(open::WRITE).attributes(attributes).numbered(7);
        let wanted = [
            &[0, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 2, b'/', 0xff][..],
            &[0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 1, 0x80, 0, 0, 0, 9, 0, 0, 0, 9],
        ]
        .concat();
        assert_eq!(bytes[4..], wanted[4..]);
        assert_eq!(bytes[..4], u32::try_from(wanted.len() - 4).unwrap().to_be_bytes());
        assert_eq!(SftpRequest::greeting(), [0, 0, 0, 5, 1, 0, 0, 0, 3]);
    }

    #[test]
    fn replies_are_read_with_all_optional_fields() {
        let attributes = [
            &0x8000_000f_u32.to_be_bytes()[..],
            &5_u64.to_be_bytes(),
            &[0; 8],
            &0o100_644_u32.to_be_bytes(),
            &1_u32.to_be_bytes(),
            &2_u32.to_be_bytes(),
            &[0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 0],
        ]
        .concat();
        let number = 9_u32.to_be_bytes();
        let (found, read) = reply(&packet(ATTRIBUTES, &[&number[..], &attributes].concat())).unwrap();
        let wanted = SftpAttributes { size: Some(5), mode: Some(0o100_644), modified: Some(2) };
        assert!(found == 9 && matches!(read, SftpReply::Attributes(found) if found == wanted));
        assert_eq!(wanted.kind(), EntryKind::File);

        let name = [&number[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0], &attributes].concat();
        let (_, read) = reply(&packet(NAME, &name)).unwrap();
        assert!(matches!(read, SftpReply::Names(names) if names[0].name == b"\xff"));

        let status = packet(STATUS, &[&number[..], &[0, 0, 0, 2]].concat());
        assert!(
            matches!(reply(&status).unwrap().1, SftpReply::Status { code: 2, message } if message.is_empty())
        );
        let data = packet(DATA, &[&number[..], &[0, 0, 0, 2, 1, 2]].concat());
        assert!(matches!(reply(&data).unwrap().1, SftpReply::Data(bytes, 2) if bytes == [1, 2]));
        assert!(reply(&packet(DATA, &[&number[..], &[0, 0, 0, 3, 1, 2]].concat())).is_err());
    }

    #[test]
    fn a_greeting_names_the_extensions_and_text_is_no_greeting() {
        let text =
            |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        let fields = [vec![0, 0, 0, 3], text("fsync@openssh.com"), text("1"), text("x"), text("y")].concat();
        let found = read_greeting(&mut &*packet(VERSION, &fields)).unwrap();
        assert_eq!(found, Extensions { has_fsync: true, ..Extensions::default() });
        let error = read_greeting(&mut &b"Welcome to this host"[..]).unwrap_err();
        assert!(error.to_string().contains("start file"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_server_make_the_parser_panic(kind in 100_u8..=106, fields in proptest::collection::vec(any::<u8>(), 4..80)) {
            let _ = reply(&packet(kind, &fields));
            let _ = read_greeting(&mut &*packet(VERSION, &fields));
        }
    }
}
