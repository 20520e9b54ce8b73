//! Reads HTML forms that post an object (`POST /bucket`, `multipart/form-data`).
//!
//! The fields before the file are read here, once and up to a limit, so that a form costs little
//! before its key is known. s3s alone would scan its buffer from the start with every piece, and
//! would keep the file of an unsigned form in memory. s3s gets the fields in one piece, checks
//! policy and signature, and keeps the file in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::http::request::RequestBody;
use crate::s3::signature_dates::{has_parsable_date, is_parsable_date};

/// Maximum number of bytes before the file. S3 allows 20 KB of fields.
pub(super) const MAX_FIELDS_BYTES: usize = 64 << 10;

/// Minimum bytes of a file in one piece. s3s keeps each piece separately, so small pieces would
/// waste memory.
const MIN_FILE_PIECE_BYTES: usize = 16 << 10;

/// The body of a form, read up to its file.
#[derive(Debug)]
pub(super) struct PostedForm {
    /// The names of the fields, in lower case.
    names: Vec<String>,
    fields: Option<Bytes>,
    /// The beginning of the file, at most one piece.
    gathered: Vec<u8>,
    rest: RequestBody,
    length: Option<u64>,
}

impl PostedForm {
    /// Reads `body` up to the head of its file.
    ///
    /// # Errors
    /// The body is not a form, its fields are too long, or the client leaves.
    pub(super) async fn read(headers: &HeaderMap, mut body: RequestBody) -> S3Result<Self> {
        let length = body.length();
        let mut fields = Fields::new(&boundary(headers)?);
        loop {
            let piece = body.next().await.ok_or_else(malformed)?;
            let piece = piece.map_err(|error| super::error::from_io(&error))?;
            let room = piece.len().min(MAX_FIELDS_BYTES - fields.text.len());
            fields.text.extend_from_slice(&piece[..room]);
            if let Some(end) = fields.find_file()? {
                let mut gathered = fields.text.split_off(end);
                gathered.extend_from_slice(&piece[room..]);
                fields.insert_file_name();
                let length = length.map(|length| length - end as u64 + fields.text.len() as u64);
                let (names, text) = (fields.names, Some(Bytes::from(fields.text)));
                return Ok(Self { names, fields: text, gathered, rest: body, length });
            }
            if fields.text.len() == MAX_FIELDS_BYTES {
                let message = format!("the fields before the file have more than {MAX_FIELDS_BYTES} bytes");
                let code = S3ErrorCode::Custom("MaxPostPreDataLengthExceededError".into());
                let mut error = S3Error::with_message(code, message);
                error.set_status_code(http::StatusCode::BAD_REQUEST);
                return Err(error);
            }
        }
    }

    /// True if the form has a signature of version 2 or 4.
    pub(super) fn is_signed(&self) -> bool {
        self.names.iter().any(|name| matches!(name.as_str(), "x-amz-signature" | "signature"))
    }

    /// Returns the announced length in bytes of the file and of the rest of the form after the
    /// file. `None` if unknown.
    pub(super) fn file_length(&self) -> Option<u64> {
        let fields = self.fields.as_ref().map_or(0, |fields| fields.len() as u64);
        self.length.map(|length| length.saturating_sub(fields))
    }

    fn poll_file(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while self.gathered.len() < MIN_FILE_PIECE_BYTES {
            match ready!(Pin::new(&mut self.rest).poll_next(context)) {
                Some(piece) => self.gathered.extend_from_slice(&piece?),
                None if self.gathered.is_empty() => return Poll::Ready(None),
                None => break,
            }
        }
        Poll::Ready(Some(Ok(std::mem::take(&mut self.gathered).into())))
    }
}

impl Stream for PostedForm {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(fields) = self.fields.take() {
            return Poll::Ready(Some(Ok(fields)));
        }
        self.poll_file(context).map_err(Into::into)
    }
}

impl ByteStream for PostedForm {
    fn remaining_length(&self) -> RemainingLength {
        let exact = self.length.and_then(|length| usize::try_from(length).ok());
        exact.map_or_else(RemainingLength::unknown, RemainingLength::new_exact)
    }
}

fn malformed() -> S3Error {
    s3_error!(MalformedPOSTRequest, "the body is no multipart/form-data with a file behind its fields")
}

/// Returns the boundary in the content type.
fn boundary(headers: &HeaderMap) -> S3Result<String> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let parameters = kind.split(';').skip(1).filter_map(|pair| pair.trim().split_once('='));
    let mut named = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let boundary = named.next().map(|(_, value)| value.trim().trim_matches('"'));
    match boundary {
        Some(boundary) if !boundary.is_empty() && boundary.len() <= 200 => Ok(boundary.to_owned()),
        _ => Err(s3_error!(MalformedPOSTRequest, "the content type names no boundary")),
    }
}

/// The context of the next line.
#[derive(Debug)]
enum FormContext {
    /// Before the first boundary.
    Start,
    /// The head of a part, with its name if it is known.
    Head(String),
    /// The value of a field.
    Value,
}

/// Scans the fields of a form for the head of its file. Reads every byte once.
#[derive(Debug)]
struct Fields {
    text: Vec<u8>,
    names: Vec<String>,
    delimiter: Vec<u8>,
    place: FormContext,
    /// The start of the incomplete line. `seen` is the position up to which the end of that line
    /// was searched.
    line: usize,
    seen: usize,
    /// The file's name on the client.
    file_name: String,
}

impl Fields {
    fn new(boundary: &str) -> Self {
        let delimiter = format!("--{boundary}").into_bytes();
        let (text, names, place) = (Vec::new(), Vec::new(), FormContext::Start);
        Self { text, names, delimiter, place, line: 0, seen: 0, file_name: String::new() }
    }

    /// Replaces `${filename}` in the fields by the file's name, as S3 does before it compares the
    /// key with the policy. (scaleway.com/en/docs/object-storage-post-object and Amazon's Ruby SDK,
    /// rubydoc.info, `Aws::S3::PresignedPost`; both read 2026-11-27.)
    fn insert_file_name(&mut self) {
        const VARIABLE: &[u8] = b"${filename}";
        let mut written = Vec::with_capacity(self.text.len());
        let mut rest = &self.text[..];
        while let Some(at) = rest.windows(VARIABLE.len()).position(|window| window == VARIABLE) {
            written.extend_from_slice(&rest[..at]);
            written.extend_from_slice(self.file_name.as_bytes());
            rest = &rest[at + VARIABLE.len()..];
        }
        written.extend_from_slice(rest);
        self.text = written;
    }

    /// Returns the position after the head of the file. `None` until the head is complete.
    fn find_file(&mut self) -> S3Result<Option<usize>> {
        while let Some(at) = self.text[self.seen..].iter().position(|byte| *byte == b'\n') {
            let end = self.seen + at + 1;
            let line = self.text[self.line..end].strip_suffix(b"\r\n").map(<[u8]>::to_vec);
            (self.line, self.seen) = (end, end);
            let is_delimiter = line.as_deref() == Some(&self.delimiter);
            match &mut self.place {
                FormContext::Start if is_delimiter => self.place = FormContext::Head(String::new()),
                FormContext::Start if line.as_deref() == Some(b"") => {}
                FormContext::Start => return Err(malformed()),
                FormContext::Head(name) => match line.as_deref() {
                    Some(b"") if name == "file" => return Ok(Some(end)),
                    Some(b"") => {
                        self.names.push(std::mem::take(name));
                        self.place = FormContext::Value;
                    }
                    Some(line) => {
                        name.push_str(&part_name(line));
                        if let Some(file_name) = part_file_name(line) {
                            self.file_name = file_name;
                        }
                    }
                    None => return Err(malformed()),
                },
                FormContext::Value if is_delimiter => self.place = FormContext::Head(String::new()),
                FormContext::Value if line.as_deref() == Some(&[&self.delimiter[..], b"--"].concat()) => {
                    return Err(malformed());
                }
                FormContext::Value => {
                    let name = self.names.last().map(String::as_str).unwrap_or_default();
                    let text = String::from_utf8_lossy(line.as_deref().unwrap_or_default());
                    let is_readable = match name {
                        "x-amz-credential" => has_parsable_date(&text),
                        "x-amz-date" => is_parsable_date(&text),
                        _ => true,
                    };
                    if !is_readable {
                        return Err(s3_error!(InvalidArgument, "invalid field: {name}"));
                    }
                }
            }
        }
        self.seen = self.text.len();
        Ok(None)
    }
}

/// Returns the name in a part's `Content-Disposition`, in lower case; empty for any other line.
fn part_name(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let Some((name, value)) = line.split_once(':') else { return String::new() };
    if !name.trim().eq_ignore_ascii_case("content-disposition") {
        return String::new();
    }
    let mut pairs = value.split(';').filter_map(|pair| pair.trim().split_once('='));
    let name = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("name"));
    name.map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase()).unwrap_or_default()
}

/// Returns the name of the file in a part's `Content-Disposition`, without the directories that
/// some browsers send.
fn part_file_name(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let (name, value) = line.split_once(':')?;
    let (_, quoted) = value
        .split_once("filename=\"")
        .filter(|_| name.trim().eq_ignore_ascii_case("content-disposition"))?;
    let path = quoted.split('"').next()?;
    Some(path.rsplit(['/', '\\']).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(fields: &[(&str, &str)]) -> Vec<u8> {
        let part = |(name, value): &(&str, &str)| {
            format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        fields.iter().map(part).collect::<String>().into_bytes()
    }

    fn file(content: &str) -> Vec<u8> {
        let head =
            "Content-Type: text/plain\r\nContent-Disposition: form-data; filename=\"name=x\"; name=\"file\"";
        format!("--edge\r\n{head}\r\n\r\n{content}\r\n--edge--\r\n").into_bytes()
    }

    proptest! {
        #[test]
        fn the_file_is_found_however_the_body_is_cut(cuts in proptest::collection::vec(1usize..90, 0..20)) {
            let fields = form(&[("key", "a"), ("X-Amz-Signature", "b\r\n--edg\n--edge\r\rc"), ("policy", "")]);
            let head = file("").len() - "\r\n--edge--\r\n".len();
            let body = [fields.clone(), file("content")].concat();
            let (mut found, mut rest) = (Fields::new("edge"), &body[..]);
            let mut cuts = cuts.into_iter();
            let end = loop {
                let (piece, behind) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                prop_assert!(!piece.is_empty());
                found.text.extend_from_slice(piece);
                rest = behind;
                if let Some(end) = found.find_file().unwrap() {
                    break end;
                }
            };
            prop_assert_eq!(end, fields.len() + head);
            prop_assert_eq!(&found.names[..], &["key", "x-amz-signature", "policy"]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut fields = Fields::new("e");
            fields.text = [b"--e\r\n", &bytes[..]].concat();
            let _ = fields.find_file();
            fields.insert_file_name();
        }
    }

    #[test]
    fn the_filename_variable_is_replaced_in_the_key() {
        for (key, name, wanted) in [
            ("up/${filename}", "a b.txt", "up/a b.txt"),
            ("${filename}", "C:\\dir\\a.txt", "a.txt"),
            ("x${filename}y${filename}", "dir/a", "xaya"),
            ("plain", "a", "plain"),
            ("", "a", ""),
            ("${filename", "a", "${filename"),
        ] {
            let fields = form(&[("key", key), ("x-amz-meta-name", "${filename}")]);
            let head = format!(
                "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
            );
            let mut found = Fields::new("edge");
            found.text = [fields, head.clone().into_bytes()].concat();
            let end = found.find_file().unwrap().unwrap();
            found.text.truncate(end);
            found.insert_file_name();
            let short = name.rsplit(['/', '\\']).next().unwrap();
            let wanted = form(&[("key", wanted), ("x-amz-meta-name", short)]);
            assert_eq!(found.text, [wanted, head.into_bytes()].concat(), "{key} {name}");
        }
    }
}
