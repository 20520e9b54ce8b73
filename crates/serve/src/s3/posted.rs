//! Reads HTML forms that post an object (`POST /bucket`, `multipart/form-data`).
//!
//! The fields before the file are read here, once and up to a limit, so that a form costs little
//! before its key is known. s3s checks policy and signature. It gets the fields as they were read
//! here, written anew, so that both read the same policy, and a placeholder in place of the file
//! ([`super::form_file`]). Called by the S3 service.

use bytes::BytesMut;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::http::request::RequestBody;
use crate::s3::form_file::{FormFile, Placeholder, allowed_lengths};
use crate::s3::signature_dates::{has_parsable_date, is_parsable_date};
use crate::token::random_token;

/// Maximum number of bytes before the file. S3 allows 20 KB of fields.
const MAX_FIELDS_BYTES: usize = 64 << 10;

/// Maximum number of bytes of the fields as they are written for s3s, with another boundary and
/// with the file's name in their values.
pub(super) const MAX_WRITTEN_FIELDS_BYTES: usize = 4 * MAX_FIELDS_BYTES;

/// A form, read up to its file.
#[derive(Debug)]
pub(super) struct PostedForm {
    /// Names in lower case, and values.
    fields: Vec<(String, String)>,
    file: FormFile,
}

impl PostedForm {
    /// Reads `body` up to the head of its file.
    ///
    /// # Errors
    /// The body is not a form, its fields are too long, or the client leaves.
    pub(super) async fn read(headers: &HeaderMap, mut body: RequestBody) -> S3Result<Self> {
        let boundary = boundary(headers)?;
        let mut scan = FieldScan::new(&boundary);
        loop {
            let piece = body.next().await.ok_or_else(malformed)?;
            let piece = piece.map_err(|error| super::error::from_io(&error))?;
            let room = piece.len().min(MAX_FIELDS_BYTES - scan.text.len());
            scan.text.extend_from_slice(&piece[..room]);
            if let Some(end) = scan.find_file()? {
                let mut begun = BytesMut::from(&scan.text[end..]);
                begun.extend_from_slice(&piece[room..]);
                let fields = scan.into_fields();
                let policy = fields.iter().rfind(|(name, _)| name == "policy");
                let allowed = allowed_lengths(policy.map(|(_, policy)| policy.as_str()));
                return Ok(Self { fields, file: FormFile::new(begun, body, &boundary, allowed) });
            }
            if scan.text.len() == MAX_FIELDS_BYTES {
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
        self.fields.iter().any(|(name, _)| matches!(name.as_str(), "x-amz-signature" | "signature"))
    }

    /// Returns the form for s3s, with its content type, and the file.
    pub(super) fn split(self) -> S3Result<(Placeholder, HeaderValue, FormFile)> {
        // No value contains the boundary, because no client knows it.
        let boundary = random_token();
        let mut text = String::new();
        for (name, value) in &self.fields {
            text.push_str(&format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        let file = "Content-Disposition: form-data; name=\"file\"; filename=\"file\"";
        text.push_str(&format!("--{boundary}\r\n{file}\r\n\r\n"));
        let end = format!("\r\n--{boundary}--\r\n");
        let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
        let kind = kind.map_err(|error| s3_error!(error, InternalError, "the form cannot be passed on"))?;
        Ok((Placeholder::new(text.into(), self.file.smallest(), end.into()), kind, self.file))
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
    /// The value of the field with this name, which begins at this position.
    Value(String, usize),
}

/// Scans the fields of a form for the head of its file. Reads every byte once.
#[derive(Debug)]
struct FieldScan {
    text: Vec<u8>,
    fields: Vec<(String, String)>,
    delimiter: Vec<u8>,
    place: FormContext,
    /// Start of the incomplete line at the end of `text`.
    line_start: usize,
    /// Position up to which `text` was searched for the end of that line.
    searched_end: usize,
    /// The file's name on the client.
    file_name: String,
}

impl FieldScan {
    fn new(boundary: &str) -> Self {
        let delimiter = format!("--{boundary}").into_bytes();
        let (text, fields, place) = (Vec::new(), Vec::new(), FormContext::Start);
        Self { text, fields, delimiter, place, line_start: 0, searched_end: 0, file_name: String::new() }
    }

    /// Returns the fields. Replaces `${filename}` in their values by the file's name, as S3 does
    /// before it compares the key with the policy.
    /// (scaleway.com/en/docs/object-storage-post-object and Amazon's Ruby SDK, rubydoc.info,
    /// `Aws::S3::PresignedPost`; both read 2026-11-27.)
    fn into_fields(self) -> Vec<(String, String)> {
        let replaced = |value: String| value.replace("${filename}", &self.file_name);
        self.fields.into_iter().map(|(name, value)| (name, replaced(value))).collect()
    }

    /// Returns the position after the head of the file. `None` until the head is complete.
    fn find_file(&mut self) -> S3Result<Option<usize>> {
        while let Some(at) = self.text[self.searched_end..].iter().position(|byte| *byte == b'\n') {
            let (begin, end) = (self.line_start, self.searched_end + at + 1);
            let line = self.text[begin..end].strip_suffix(b"\r\n").map(<[u8]>::to_vec);
            (self.line_start, self.searched_end) = (end, end);
            let is_delimiter = line.as_deref() == Some(&self.delimiter);
            match &mut self.place {
                FormContext::Start if is_delimiter => self.place = FormContext::Head(String::new()),
                FormContext::Start if line.as_deref() == Some(b"") => {}
                FormContext::Start => return Err(malformed()),
                FormContext::Head(name) => match line.as_deref() {
                    Some(b"") if name == "file" => return Ok(Some(end)),
                    Some(b"") => self.place = FormContext::Value(std::mem::take(name), end),
                    Some(line) => {
                        name.push_str(&part_name(line)?);
                        if let Some(file_name) = part_file_name(line) {
                            self.file_name = file_name;
                        }
                    }
                    None => return Err(malformed()),
                },
                FormContext::Value(name, start) => {
                    // The line break before a delimiter belongs to the delimiter (RFC 2046, 5.1.1).
                    let before = self.text[*start..begin].strip_suffix(b"\r\n");
                    let value = before.or((begin == *start).then_some(b"".as_slice()));
                    match value {
                        Some(value) if is_delimiter => {
                            let value = value_of(name, value)?;
                            self.fields.push((std::mem::take(name), value));
                            self.place = FormContext::Head(String::new());
                        }
                        Some(_) if line.as_deref() == Some(&[&self.delimiter[..], b"--"].concat()) => {
                            return Err(malformed());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.searched_end = self.text.len();
        Ok(None)
    }
}

/// Returns the value of the field `name`.
fn value_of(name: &str, value: &[u8]) -> S3Result<String> {
    let value = String::from_utf8(value.to_vec()).map_err(|_| malformed())?;
    let is_readable = match name {
        "x-amz-credential" => has_parsable_date(&value),
        "x-amz-date" => is_parsable_date(&value),
        _ => true,
    };
    if is_readable { Ok(value) } else { Err(s3_error!(InvalidArgument, "invalid field: {name}")) }
}

/// Returns the name in a part's `Content-Disposition`, in lower case; empty for any other line.
fn part_name(line: &[u8]) -> S3Result<String> {
    let line = String::from_utf8_lossy(line);
    let Some((name, value)) = line.split_once(':') else { return Ok(String::new()) };
    if !name.trim().eq_ignore_ascii_case("content-disposition") {
        return Ok(String::new());
    }
    let mut pairs = value.split(';').filter_map(|pair| pair.trim().split_once('='));
    let name = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("name"));
    let name = name.map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase()).unwrap_or_default();
    // The fields are rewritten for s3s with this name in quotes, where these characters are not
    // escaped. They would change the head of the part.
    if name.contains(['"', '\\']) || name.contains(|c: char| c.is_control()) {
        return Err(malformed());
    }
    Ok(name)
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
            let (mut found, mut rest) = (FieldScan::new("edge"), &body[..]);
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
            let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let signature = ("x-amz-signature", "b\r\n--edg\n--edge\r\rc");
            prop_assert_eq!(&found.fields[..], &[("key", "a"), signature, ("policy", "")].map(own));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut fields = FieldScan::new("e");
            fields.text = [b"--e\r\n", &bytes[..]].concat();
            let _ = fields.find_file();
            fields.into_fields();
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
            let mut found = FieldScan::new("edge");
            found.text = [fields, head.into_bytes()].concat();
            found.find_file().unwrap().unwrap();
            let short = name.rsplit(['/', '\\']).next().unwrap();
            let wanted = [("key", wanted), ("x-amz-meta-name", short)];
            let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(found.into_fields(), wanted, "{key} {name}");
        }
    }
}
