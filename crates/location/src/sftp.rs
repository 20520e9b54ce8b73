//! Parses `sftp://` locations: a host to which `ssh` connects, and a path of raw bytes on that
//! host.
//!
//! A path is absolute unless it begins with `/~/`. As in curl, such a path is relative to the
//! directory in which a session begins, usually the user's home. `%41` stands for a byte. Every
//! other character stands for itself, so names with spaces, `?` and `#` need no encoding. A
//! password is refused, because the list of processes would show it.

use std::fmt::{self, Write as _};

use percent_encoding::percent_decode;

use crate::shown::controls;

/// A path on a host that SSH reaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SftpPath {
    /// `HOST` or `USER@HOST`, with or without `:PORT`, as written.
    pub authority: String,
    /// Absolute if it begins with `/`, otherwise relative to the directory in which a session
    /// begins. Empty for that directory itself.
    pub path: Vec<u8>,
}

impl SftpPath {
    /// Parses the part of the URL after `sftp://`.
    pub(crate) fn parse(rest: &[u8]) -> Result<Self, &'static str> {
        let cut = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        let authority = std::str::from_utf8(authority).map_err(|_| HOST_ERROR)?.to_owned();
        check_authority(&authority)?;
        let path: Vec<u8> = match path.strip_prefix(b"/~") {
            Some([]) => Vec::new(),
            Some([b'/', below @ ..]) => {
                let slashes = below.iter().take_while(|byte| **byte == b'/').count();
                percent_decode(&below[slashes..]).collect()
            }
            _ if path.is_empty() => Vec::new(),
            _ => percent_decode(path).collect(),
        };
        if path.contains(&0) { Err("a NUL byte in the path") } else { Ok(Self { authority, path }) }
    }

    /// Returns the user, the host and the port. The user and the port are `None` if they are not
    /// given.
    #[must_use]
    pub fn parts(&self) -> (Option<&str>, &str, Option<&str>) {
        split(&self.authority)
    }

    /// Returns another path on the same host.
    #[must_use]
    pub fn at(&self, path: Vec<u8>) -> Self {
        Self { authority: self.authority.clone(), path }
    }

    /// Returns the directory that holds this path. `None` for `/`, and for the directory in which a
    /// session begins.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        if path.is_empty() {
            return None;
        }
        let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        Some(self.at(path[..end].to_vec()))
    }

    /// Returns true if the two paths have the same host, and are both absolute or both relative.
    pub(crate) fn shares_root_with(&self, other: &Self) -> bool {
        self.authority == other.authority && self.path.starts_with(b"/") == other.path.starts_with(b"/")
    }

    /// Returns the last component of the path.
    pub(crate) fn file_name(&self) -> Option<Vec<u8>> {
        let end = self.path.iter().rposition(|byte| *byte != b'/')? + 1;
        let name = self.path[..end].rsplit(|byte| *byte == b'/').next()?;
        (!matches!(name, b"" | b"." | b"..")).then(|| name.to_vec())
    }

    pub(crate) fn is_directory_like(&self) -> bool {
        self.path.is_empty() || self.path.ends_with(b"/")
    }
}

const HOST_ERROR: &str = "no host; write sftp://[USER@]HOST[:PORT]/PATH";

/// Returns an error for a password, for a name that `ssh` would take for an option or a command,
/// and for a port that is not a number up to 65535.
fn check_authority(authority: &str) -> Result<(), &'static str> {
    let (user, host, port) = split(authority);
    if user.is_some_and(|user| user.contains(':')) {
        return Err("a password in the URL would show in the list of processes; use a key or an agent");
    }
    let plain = |text: &str, also: &[u8]| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || also.contains(&byte);
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(fits)
    };
    let is_host = plain(host, b"-._") || (authority.contains('[') && plain(host, b"-._:%"));
    if !is_host || user.is_some_and(|user| !plain(user, b"-._+@\\")) {
        return Err(HOST_ERROR);
    }
    match port {
        Some(port) if port.parse::<u16>().is_err() => Err("the port is no number up to 65535"),
        _ => Ok(()),
    }
}

fn split(authority: &str) -> (Option<&str>, &str, Option<&str>) {
    let (user, rest) = match authority.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, authority),
    };
    // An IPv6 address is in brackets.
    if let Some((host, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (user, host, behind.strip_prefix(':'));
    }
    match rest.rsplit_once(':') {
        Some((host, port)) => (user, host, Some(port)),
        None => (user, rest, None),
    }
}

impl fmt::Display for SftpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sftp://{}", self.authority)?;
        let path = match self.path.strip_prefix(b"/~") {
            _ if !self.path.starts_with(b"/") => {
                f.write_str("/~/")?;
                &self.path[..]
            }
            // The path leads to a directory that is called `~`.
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
                f.write_str("/%7E")?;
                rest
            }
            _ => &self.path[..],
        };
        for chunk in path.utf8_chunks() {
            for symbol in chunk.valid().chars() {
                if symbol == '%' || controls(symbol) {
                    encode(symbol.encode_utf8(&mut [0; 4]).as_bytes(), f)?;
                } else {
                    f.write_char(symbol)?;
                }
            }
            encode(chunk.invalid(), f)?;
        }
        Ok(())
    }
}

fn encode(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SftpPath {
        SftpPath::parse(text.strip_prefix("sftp://").unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn paths_are_absolute_or_begin_at_home_and_survive_printing() {
        for (text, path) in [
            ("sftp://h/a b?c#d", &b"/a b?c#d"[..]),
            ("sftp://h/", b"/"),
            ("sftp://h/~/", b""),
            ("sftp://h/~/x/~/y", b"x/~/y"),
            ("sftp://h/%7E/x", b"/~/x"),
            ("sftp://h/~x", b"/~x"),
            ("sftp://h/%FF%0A%25", b"/\xff\n%"),
            ("sftp://me@[::1]:22/x", b"/x"),
        ] {
            let parsed = parse(text);
            assert_eq!((parsed.path.as_slice(), parsed.to_string().as_str()), (path, text));
        }
        assert_eq!(parse("sftp://h"), parse("sftp://h/~/"));
        assert_eq!(parse("sftp://h/~"), parse("sftp://h/~/"));
        assert_eq!(parse("sftp://h/100%").path, b"/100%");
        // The path is `x`, relative to the start, not `/x`.
        assert_eq!(parse("sftp://h/~//x").path, b"x");
    }

    #[test]
    fn an_authority_has_three_parts_and_is_never_an_option() {
        assert_eq!(parse("sftp://me@h.example:2222/").parts(), (Some("me"), "h.example", Some("2222")));
        assert_eq!(parse("sftp://me@corp@[fe80::1%eth0]/").parts(), (Some("me@corp"), "fe80::1%eth0", None));
        for wrong in
            ["", "-oProxyCommand=x", "me@-x", "-l@h", "h:x", "h:70000", "me:secret@h", "a b", "h;x", "::1"]
        {
            let why = SftpPath::parse(format!("{wrong}/x").as_bytes()).unwrap_err();
            assert!(!why.contains("secret") && !why.contains('\n'), "{wrong}: {why}");
        }
    }
}
