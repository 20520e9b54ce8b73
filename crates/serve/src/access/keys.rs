//! Reads keys from a file, and decides the rights that each key has by path prefix.
//!
//! An S3 request proves its key by a signature, which s3s checks with the secret from
//! [`ServerKeys`]. A plain HTTP request carries the same key by HTTP Basic, or a session cookie
//! that the login form returns. Rights are given for prefixes of the path below the served
//! directory, `bucket/key` for S3. A prefix covers itself and everything below it, so `a/b` does
//! not cover `a/bc`. The path alone decides whether a request is allowed, before any file is
//! opened.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::path::EntryPath;

/// The right of a key's holder below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyRights {
    /// List and read.
    Read,
    /// List, read, write and delete.
    Write,
}

/// An access key, its secret, and its rights.
#[derive(Clone)]
pub struct ServerKey {
    /// The access key's id.
    pub access_key: String,
    /// The secret that proves it.
    pub secret: String,
    /// Rights, each with a path. A right applies at its path and below it. A path has no `/` at
    /// either end; the empty path covers everything.
    pub grants: Vec<(KeyRights, String)>,
}

impl std::fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("access_key", &self.access_key)
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}

/// The keys of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerKeys {
    by_id: HashMap<String, Arc<ServerKey>>,
}

impl ServerKeys {
    /// Reads a key file. Each line is `ACCESS_KEY SECRET read|write [PREFIX]`. A line that begins
    /// with `#` is a comment; elsewhere `#` belongs to a secret or a prefix. A key may have several
    /// lines with different prefixes.
    ///
    /// # Errors
    /// [`Error::Keys`], naming the line.
    pub fn read(path: &Path) -> Result<Self> {
        let error = |reason: String| Error::Keys { path: path.to_path_buf(), reason };
        let text = std::fs::read_to_string(path).map_err(|cause| error(cause.to_string()))?;
        Self::parse(&text).map_err(error)
    }

    /// Parses the text of a key file, as [`Self::read`] describes it.
    ///
    /// # Errors
    /// The reason, with the number of the line.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut keys: HashMap<String, ServerKey> = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(access_key), Some(secret), Some(rights)) = (words.next(), words.next(), words.next())
            else {
                return Err(format!("line {number}: expected ACCESS_KEY SECRET read|write [PREFIX]"));
            };
            let rights = match rights {
                "read" => KeyRights::Read,
                "write" => KeyRights::Write,
                other => return Err(format!("line {number}: rights are `read` or `write`, not `{other}`")),
            };
            let prefix = words.next().unwrap_or_default();
            let prefix = match EntryPath::parse(prefix.as_bytes()) {
                Ok(path) => String::from_utf8_lossy(path.as_bytes()).into_owned(),
                Err(why) => return Err(format!("line {number}: the prefix `{prefix}`: {why}")),
            };
            if words.next().is_some() {
                return Err(format!("line {number}: more than four words"));
            }
            let key = keys.entry(access_key.to_owned()).or_insert_with(|| ServerKey {
                access_key: access_key.to_owned(),
                secret: secret.to_owned(),
                grants: Vec::new(),
            });
            if key.secret != secret {
                return Err(format!("line {number}: `{access_key}` has another secret above"));
            }
            key.grants.push((rights, prefix));
        }
        if keys.is_empty() {
            return Err("it holds no key".to_owned());
        }
        Ok(Self { by_id: keys.into_iter().map(|(id, key)| (id, Arc::new(key))).collect() })
    }

    /// Returns the key with this id.
    #[must_use]
    pub fn get(&self, access_key: &str) -> Option<&Arc<ServerKey>> {
        self.by_id.get(access_key)
    }

    /// Returns the key with this id if `secret` is its secret. A wrong secret takes as much time as
    /// the right one.
    #[must_use]
    pub fn check(&self, access_key: &str, secret: &str) -> Option<&Arc<ServerKey>> {
        let key = self.by_id.get(access_key);
        let expected = key.map_or("", |key| key.secret.as_str());
        (equal_in_constant_time(expected.as_bytes(), secret.as_bytes()) && key.is_some()).then_some(key?)
    }
}

/// Compares two secrets in constant time.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (Sha256::digest(left), Sha256::digest(right));
    let difference = left.iter().zip(right.iter()).fold(0, |sum, (left, right)| sum | (left ^ right));
    std::hint::black_box(difference) == 0
}

/// The rights of one request. The server's policy on writing is checked separately.
#[derive(Clone, Debug)]
pub(crate) enum RequestRights {
    /// The server has no keys.
    Everyone,
    /// The holder of this key.
    Key(Arc<ServerKey>),
    /// Keys are needed and the request has none.
    Nobody,
}

impl RequestRights {
    /// True if `rights` are granted for `path` (relative, `bucket/key`).
    pub(crate) fn allows(&self, rights: KeyRights, path: &[u8]) -> bool {
        self.fence(rights, path).is_some()
    }

    /// Returns the length in bytes of the shortest prefix that gives `rights` for `path`; `None` if
    /// no prefix does. Links below that prefix must not lead out of it: see [`EntryPath::fenced`].
    pub(crate) fn fence(&self, rights: KeyRights, path: &[u8]) -> Option<usize> {
        match self {
            Self::Everyone => Some(0),
            Self::Nobody => None,
            Self::Key(key) => {
                let granted = key.grants.iter().filter(|(granted, _)| *granted >= rights);
                granted.filter(|(_, prefix)| covers(prefix, path)).map(|(_, prefix)| prefix.len()).min()
            }
        }
    }

    /// True if some path that starts with the bytes of `path` may be read. If so, the directory
    /// `path` (with `/` at the end) is shown, and keys with this prefix are listed.
    pub(crate) fn reaches(&self, path: &[u8]) -> bool {
        match self {
            Self::Everyone => true,
            Self::Nobody => false,
            Self::Key(key) => {
                key.grants.iter().any(|(_, prefix)| covers(prefix, path) || leads_to(path, prefix))
            }
        }
    }

    /// Returns the deepest directory that contains all paths these rights cover. The browser page
    /// starts there.
    pub(crate) fn home(&self) -> EntryPath {
        let Self::Key(key) = self else { return EntryPath::default() };
        let mut prefixes = key.grants.iter().map(|(_, prefix)| Path::new(prefix));
        let mut home = prefixes.next().map(Path::to_path_buf).unwrap_or_default();
        for prefix in prefixes {
            let common = home.iter().zip(prefix).take_while(|(one, other)| one == other);
            home = common.map(|(name, _)| name).collect();
        }
        EntryPath::parse(home.as_os_str().as_encoded_bytes()).unwrap_or_default()
    }

    /// Returns `directory`, fenced if everything in it may be read.
    pub(crate) fn fenced_directory(&self, directory: EntryPath) -> EntryPath {
        match self.fence(KeyRights::Read, directory.as_bytes()) {
            Some(fence) => directory.fenced(fence),
            None => directory,
        }
    }

    /// Returns the name of the client in the access log.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Key(key) => &key.access_key,
            Self::Everyone | Self::Nobody => "-",
        }
    }
}

/// True if `path` equals `prefix` or lies below it.
fn covers(prefix: &str, path: &[u8]) -> bool {
    let rest = path.strip_prefix(prefix.as_bytes());
    prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// True if `prefix`, or a path below it, starts with the bytes of `path`.
fn leads_to(path: &[u8], prefix: &str) -> bool {
    prefix.as_bytes().starts_with(path) || path.strip_suffix(b"/") == Some(prefix.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_hold_below_their_prefix_only() {
        let keys =
            ServerKeys::parse("alice s3cret write data/alice/\nalice s3cret read data/\nbob hunter2 read\n")
                .unwrap();
        let alice = RequestRights::Key(keys.check("alice", "s3cret").unwrap().clone());
        assert!(alice.allows(KeyRights::Write, b"data/alice/x"));
        assert!(alice.allows(KeyRights::Read, b"data/bob/x"));
        assert!(!alice.allows(KeyRights::Write, b"data/bob/x"));
        assert!(!alice.allows(KeyRights::Read, b"other"));
        assert!(alice.reaches(b"") && alice.reaches(b"data/") && !alice.reaches(b"other/"));
    }

    #[test]
    fn a_prefix_ends_at_a_slash_however_it_is_written() {
        for prefix in ["b/public", "/b/public", "b/public/"] {
            let keys = ServerKeys::parse(&format!("alice s3cret write {prefix}\n")).unwrap();
            let alice = RequestRights::Key(keys.check("alice", "s3cret").unwrap().clone());
            for path in ["b/public", "b/public/", "b/public/x"] {
                assert!(alice.allows(KeyRights::Write, path.as_bytes()), "{prefix}: {path}");
            }
            for path in ["b/public-secret", "b/public.txt", "b/publi", "b/", "b", "", "b/public-secret/x"] {
                assert!(!alice.allows(KeyRights::Read, path.as_bytes()), "{prefix}: {path}");
            }
            for path in ["", "b", "b/", "b/pub", "b/public", "b/public/", "b/public/x"] {
                assert!(alice.reaches(path.as_bytes()), "{prefix}: {path}");
            }
            for path in ["b/public-", "b/x", "c/"] {
                assert!(!alice.reaches(path.as_bytes()), "{prefix}: {path}");
            }
        }
    }

    #[test]
    fn the_home_of_a_key_contains_all_its_prefixes() {
        for (lines, home) in [
            ("a s read", ""),
            ("a s read b/public/", "b/public"),
            ("a s read b/x/one\na s write b/x/two", "b/x"),
            ("a s read b/ab\na s read b/a", "b"),
            ("a s read b\na s write b/c", "b"),
            ("a s read b\na s read c", ""),
        ] {
            let key = RequestRights::Key(ServerKeys::parse(lines).unwrap().get("a").unwrap().clone());
            assert_eq!(key.home().as_bytes(), home.as_bytes(), "{lines}");
        }
    }

    #[test]
    fn the_widest_prefix_fences() {
        let keys = ServerKeys::parse("alice s write data/alice\nalice s read data\nalice s read\n").unwrap();
        let alice = RequestRights::Key(keys.check("alice", "s").unwrap().clone());
        assert_eq!(alice.fence(KeyRights::Read, b"data/alice/x"), Some(0));
        assert_eq!(alice.fence(KeyRights::Write, b"data/alice/x"), Some("data/alice".len()));
        assert_eq!(alice.fence(KeyRights::Write, b"data/x"), None);
    }

    #[test]
    fn wrong_secrets_and_unknown_keys_open_nothing() {
        let keys = ServerKeys::parse("alice s3cret read").unwrap();
        assert!(keys.check("alice", "s3creT").is_none());
        assert!(keys.check("mallory", "").is_none());
    }

    #[test]
    fn a_hash_is_part_of_a_secret_and_of_a_prefix() {
        let keys = ServerKeys::parse("  # a comment\nalice s#cret read b/c#\n#bob word read\n").unwrap();
        let alice = RequestRights::Key(keys.check("alice", "s#cret").unwrap().clone());
        assert!(alice.allows(KeyRights::Read, b"b/c#/d") && !alice.allows(KeyRights::Read, b"b/c"));
        assert!(keys.get("bob").is_none() && keys.check("alice", "s").is_none());
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(
            ServerKeys::parse("a b read\nc d own\n").unwrap_err(),
            "line 2: rights are `read` or `write`, not `own`"
        );
        assert!(ServerKeys::parse("# nothing\n").is_err());
        assert!(ServerKeys::parse("alice s3cret read # all\n").is_err());
    }
}
