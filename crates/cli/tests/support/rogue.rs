//! An HTTP server that misbehaves in one chosen way, which ordinary servers cannot be made to do.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ways in which a server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Accepts requests and never answers.
    BlackHole,
    /// States the whole length, sends half of the body, and closes the connection.
    Truncates,
    /// Answers every ranged request with status 200 and the whole object.
    IgnoresRanges,
    /// States too large a length of the object in `Content-Range`.
    LiesAboutLength,
    /// Changes the object after the first request, so that every later request gets another
    /// version.
    Overwrites,
    /// Refuses every request, with this status and S3 error code.
    Refuses(u16, &'static str),
    /// Refuses every request that is not signed for this region. The reply names the region.
    LivesIn(&'static str),
}

/// A server that returns `content` at every path. Its threads end with the test process.
pub struct Rogue {
    pub url: String,
}

impl Rogue {
    pub fn start(manner: Manner, content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (content, requests) = (Arc::new(content), Arc::new(AtomicU64::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (content, requests) = (Arc::clone(&content), Arc::clone(&requests));
                // A write error is ignored, because many of these tests make the client disconnect.
                std::thread::spawn(move || drop(converse(&stream, manner, &content, &requests)));
            }
        });
        Self { url }
    }
}

fn converse(stream: &TcpStream, manner: Manner, content: &[u8], requests: &AtomicU64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_head(&mut reader)? {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        if manner == Manner::BlackHole {
            // Keeps the connection open until the client gives up.
            let mut line = String::new();
            reader.read_line(&mut line)?;
            return Ok(());
        }
        answer(stream, manner, content, &request, number)?;
        if manner == Manner::Truncates {
            return Ok(());
        }
    }
    Ok(())
}

struct Request {
    is_head: bool,
    /// Authorization header of the request, in lower case. It contains the scope of the signature.
    authorization: String,
    range: Option<(usize, usize)>,
}

fn read_head(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut request: Option<Request> = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        match &mut request {
            None => {
                let is_head = line.starts_with("head ");
                request = Some(Request { is_head, authorization: String::new(), range: None });
            }
            Some(_) if line.is_empty() => return Ok(request),
            Some(request) => {
                if line.starts_with("authorization: ") {
                    request.authorization.clone_from(&line);
                }
                if let Some((start, end)) =
                    line.strip_prefix("range: bytes=").and_then(|range| range.split_once('-'))
                {
                    let start = start.parse().unwrap_or(0);
                    request.range = Some((start, end.parse().unwrap_or(usize::MAX - 1)));
                }
            }
        }
    }
}

fn answer(
    mut out: &TcpStream,
    manner: Manner,
    content: &[u8],
    request: &Request,
    number: u64,
) -> std::io::Result<()> {
    let refusal = match manner {
        Manner::Refuses(status, code) => Some((status, code, "")),
        Manner::LivesIn(region) if !request.authorization.contains(&format!("/{region}/")) => {
            Some((400, "AuthorizationHeaderMalformed", region))
        }
        _ => None,
    };
    if let Some((status, code, region)) = refusal {
        let region = if region.is_empty() { String::new() } else { format!("<Region>{region}</Region>") };
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no\nway</Message>{region}</Error>"
        );
        let body = if request.is_head { "" } else { &body };
        let head = format!(
            "HTTP/1.1 {status} No\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        return write!(out, "{head}{body}");
    }
    let version = if manner == Manner::Overwrites { number } else { 0 };
    let ranges = if manner == Manner::IgnoresRanges { "" } else { "Accept-Ranges: bytes\r\n" };
    let range = request.range.filter(|_| manner != Manner::IgnoresRanges);
    let (status, part) = match range {
        Some((start, end)) => {
            ("206 Partial Content", &content[start.min(content.len())..content.len().min(end + 1)])
        }
        None => ("200 OK", content),
    };
    let mut head =
        format!("HTTP/1.1 {status}\r\nETag: \"v{version}\"\r\n{ranges}Content-Length: {}\r\n", part.len());
    if let Some((start, _)) = range {
        let claimed = if manner == Manner::LiesAboutLength { content.len() * 2 } else { content.len() };
        let last = start + part.len().max(1) - 1;
        head.push_str(&format!("Content-Range: bytes {start}-{last}/{claimed}\r\n"));
    }
    write!(out, "{head}\r\n")?;
    let sent = if manner == Manner::Truncates { part.len() / 2 } else { part.len() };
    if request.is_head { Ok(()) } else { out.write_all(&part[..sent]) }
}
