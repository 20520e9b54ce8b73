//! Recognizes content that a server has compressed for the transfer, although the request asked for
//! the stored bytes (`Accept-Encoding: identity`), which RFC 9110, 12.5.3 allows. The compressed
//! bytes are not those of the file, so such a response is unusable
//! (docs/decisions/0258-content-that-a-server-compresses.md).

use firstbyte_location::HttpUrl;

use super::protocol;
use crate::error::Result;
use crate::wire::{Incoming, ResponseHead};

/// Extensions of the names of compressed files, by coding. Some servers state the coding of such a
/// file too, such as Apache with `AddEncoding x-gzip .gz .tgz`.
const EXTENSIONS: [(&str, &[&str]); 6] = [
    ("gzip", &["gz", "tgz", "taz", "svgz", "bgz"]),
    ("compress", &["z"]),
    ("bzip2", &["bz2", "tbz", "tbz2"]),
    ("zstd", &["zst", "tzst"]),
    ("xz", &["xz", "txz"]),
    ("br", &["br"]),
];

/// Fails if a server has compressed the content of an answer.
pub(super) fn refuse_applied(
    place: &str,
    url: &HttpUrl,
    head: &ResponseHead,
    incoming: &Incoming,
) -> Result<()> {
    if !(200..300).contains(&head.status) {
        return Ok(());
    }
    match applied(url, head, incoming.length()) {
        None => Ok(()),
        Some(coding) => {
            let detail = format!(
                "compressed by {coding}, and the file itself was requested; --header 'Accept-Encoding: {coding}' \
                 copies it compressed"
            );
            Err(protocol(place, detail).traced(|| head.trace()))
        }
    }
}

/// Returns the coding that was applied for the transfer. A stored object may have a coding of its
/// own, as in S3. The response then has a length and does not depend on the request's coding.
fn applied<'h>(url: &HttpUrl, head: &'h ResponseHead, length: Option<u64>) -> Option<&'h str> {
    let coding = head.get("content-encoding")?.trim();
    if coding.is_empty() || coding.eq_ignore_ascii_case("identity") {
        return None;
    }
    let vary = head.get("vary").unwrap_or_default();
    let depends = vary
        .split(',')
        .any(|name| matches!(name.trim().to_ascii_lowercase().as_str(), "accept-encoding" | "*"));
    ((length.is_none() || depends) && !is_named(url, coding)).then_some(coding)
}

/// Returns true if the name of a file says that its content has this coding.
fn is_named(url: &HttpUrl, coding: &str) -> bool {
    let path = url.target.split(['?', '#']).next().unwrap_or_default();
    let Some((_, extension)) = path.rsplit('/').next().unwrap_or_default().rsplit_once('.') else {
        return false;
    };
    let coding = coding.to_ascii_lowercase();
    let coding = coding.strip_prefix("x-").unwrap_or(&coding);
    let known = EXTENSIONS.iter().find(|(name, _)| *name == coding);
    known.is_some_and(|(_, extensions)| extensions.iter().any(|it| it.eq_ignore_ascii_case(extension)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(target: &str, lines: &str, length: Option<u64>) -> Option<String> {
        let url = HttpUrl { tls: false, authority: "h".to_owned(), target: target.to_owned() };
        let head = ResponseHead::from_text(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
        applied(&url, &head, length).map(str::to_owned)
    }

    #[test]
    fn content_that_is_compressed_for_the_transfer_differs_from_a_compressed_file() {
        let gzip = "Content-Encoding: gzip\r\n";
        assert_eq!(found("/a.txt", gzip, None).as_deref(), Some("gzip"));
        assert_eq!(found("/a.gz.txt?x=.gz", gzip, None).as_deref(), Some("gzip"));
        let vary = format!("{gzip}Vary: Origin, Accept-Encoding\r\n");
        assert_eq!(found("/a.txt", &vary, Some(7)).as_deref(), Some("gzip"));
        // The coding is that of a stored object, or of a file with the name of a compressed file.
        assert_eq!(found("/a.txt", gzip, Some(7)), None);
        for (target, coding) in
            [("/a.tar.gz", "gzip"), ("/a.TGZ?x=1", "x-gzip"), ("/a.Z", "compress"), ("/a.zst", "zstd")]
        {
            assert_eq!(found(target, &format!("Content-Encoding: {coding}\r\n"), None), None, "{target}");
        }
        assert_eq!(found("/a.txt", "Content-Encoding: identity\r\n", None), None);
        assert_eq!(found("/a.txt", "", None), None);
    }
}
