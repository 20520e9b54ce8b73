//! Formats lines of the access log: one per request, in the common log format plus the duration and
//! the identifier of the request.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use firstbyte_store::format_http_date;
use http::{Method, StatusCode};

use crate::http::request::query_pairs;

/// Query parameters with secrets or signatures, in lower case.
const SECRETS: [&str; 3] = ["x-amz-signature", "x-amz-security-token", "signature"];

/// Replaces the values of [`SECRETS`] in a target by `...`.
fn without_secrets(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let shown = |pair: &str| {
        let name = query_pairs(pair).next().map(|(name, _)| name.to_ascii_lowercase()).unwrap_or_default();
        if !SECRETS.contains(&name.as_str()) {
            return pair.to_owned();
        }
        format!("{}=...", pair.split('=').next().unwrap_or_default())
    };
    let pairs: Vec<String> = query.split('&').map(shown).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// One answered request.
#[derive(Debug)]
pub(crate) struct LogLine<'a> {
    pub(crate) peer: SocketAddr,
    pub(crate) who: &'a str,
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// The identifier of the request, which the response has too.
    pub(crate) id: &'a str,
}

impl LogLine<'_> {
    /// Formats the line, with a line feed.
    pub(crate) fn text(&self) -> String {
        let date = format_http_date(SystemTime::now());
        // The target comes from the client. Its control characters must not reach a terminal. Its
        // signature is hidden, because a reader of the log could repeat the request with it.
        let target = without_secrets(self.target);
        let target = target.escape_debug();
        format!(
            "{} {} [{date}] \"{} {target}\" {} {} {:.3}s {}\n",
            self.peer.ip(),
            self.who.escape_debug(),
            self.method,
            self.status.as_u16(),
            self.bytes,
            self.took.as_secs_f64(),
            self.id,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn secrets_and_signatures_are_not_logged() {
        let target =
            "/b/k?X-Amz-Date=d&X-Amz-Signature=5ec2e7&x&X-Amz%2DSecurity-Token=70ce&Signature=5ec%3D";
        let shown = "/b/k?X-Amz-Date=d&X-Amz-Signature=...&x&X-Amz%2DSecurity-Token=...&Signature=...";
        assert_eq!(without_secrets(target), shown);
        assert_eq!(without_secrets("/b/k"), "/b/k");
        assert_eq!(without_secrets("/b/k?"), "/b/k?");
    }
}
