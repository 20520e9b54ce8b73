//! Parses the origin of a server (scheme, host and port) from a URL.

use std::fmt;

/// The scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// Host name or address. An IPv6 address has no brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// Parses `host`, `host:port` or `[v6]:port`. Ignores a leading `user:password@`.
    pub(crate) fn parse(tls: bool, authority: &str) -> Option<Self> {
        let bare = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match bare.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']')?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None | Some("") => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(digits) => digits.parse().ok()?,
        };
        let legal = |b: u8| b > b' ' && b != 0x7f && !b"\"<>\\^`{|}".contains(&b);
        (!host.is_empty() && host.bytes().all(legal)).then(|| Self {
            tls,
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Parses `scheme://host[:port]`. Ignores a path, query or fragment after the port.
    pub(crate) fn parse_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Self::parse(tls, rest.split(['/', '?', '#']).next()?)
    }

    /// Returns the value of the `Host` header, without the scheme's default port.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{host}:{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_parse_with_and_without_ports_brackets_and_users() {
        let parse = |text| Origin::parse(false, text).map(|origin| (origin.host.clone(), origin.port));
        assert_eq!(parse("Host"), Some(("host".into(), 80)));
        assert_eq!(parse("u:p@host:81"), Some(("host".into(), 81)));
        assert_eq!(parse("[::1]:9000"), Some(("::1".into(), 9000)));
        assert_eq!(parse("[::1]"), Some(("::1".into(), 80)));
        assert_eq!(parse("host:99999"), None);
        assert_eq!(parse(":80"), None);
    }

    #[test]
    fn the_host_header_omits_only_the_default_port() {
        assert_eq!(Origin::parse_url("https://h:443/x").unwrap().authority(), "h");
        assert_eq!(Origin::parse_url("http://h:443").unwrap().authority(), "h:443");
        assert_eq!(Origin::parse_url("http://[::1]:9000").unwrap().authority(), "[::1]:9000");
        assert_eq!(Origin::parse_url("ftp://h"), None);
    }
}
