//! Signs requests as S3 clients do, with the key `alice` and its secret `secret`. Can omit selected
//! parts of the signature.

use sha1::Sha1;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

/// Access key that signs.
pub(crate) const KEY: &str = "alice";
/// Secret of the access key.
pub(crate) const SECRET: &str = "secret";

/// The signed parts of a request.
#[derive(Clone, Debug)]
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Names and values, in ascending order of the names.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) expires: &'a str,
}

impl<'a> Signed<'a> {
    pub(crate) fn new(method: &'a str, path: &'a str) -> Self {
        Self { method, path, query: &[], headers: &[("host", "localhost")], expires: "600" }
    }

    /// Returns the target of a presigned URL, Signature Version 4.
    pub(crate) fn presigned(&self) -> String {
        let (stamp, scope) = (stamp(), scope());
        let names = self.names();
        let credential = format!("{KEY}/{scope}");
        let mut query = vec![
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &stamp),
            ("X-Amz-Expires", self.expires),
            ("X-Amz-SignedHeaders", &names),
        ];
        query.extend_from_slice(self.query);
        let query = canonical_query(&query);
        let signature = self.signature(&query, "UNSIGNED-PAYLOAD", &stamp);
        format!("{}?{query}&X-Amz-Signature={signature}", self.path)
    }

    /// Returns the target and the header lines of a request signed by `Authorization`, Signature
    /// Version 4.
    pub(crate) fn by_header(&self) -> (String, String) {
        let (target, lines, _) = self.with_payload("UNSIGNED-PAYLOAD");
        (target, lines)
    }

    /// Returns the target and the header lines of a request whose `x-amz-content-sha256` is
    /// `payload`, and the signer of its chunks.
    pub(crate) fn with_payload(&self, payload: &str) -> (String, String, Chain) {
        let stamp = stamp();
        let mut headers = vec![("x-amz-content-sha256", payload), ("x-amz-date", stamp.as_str())];
        headers.extend_from_slice(self.headers);
        headers.sort_unstable();
        let all = Signed {
            method: self.method,
            path: self.path,
            query: self.query,
            headers: &headers,
            expires: self.expires,
        };
        let query = canonical_query(self.query);
        let signature = all.signature(&query, payload, &stamp);
        let mut lines = format!(
            "Authorization: AWS4-HMAC-SHA256 Credential={KEY}/{}, SignedHeaders={}, Signature={signature}\r\n",
            scope(),
            all.names()
        );
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            lines.push_str(&format!("{name}: {value}\r\n"));
        }
        let target = if query.is_empty() { self.path.to_owned() } else { format!("{}?{query}", self.path) };
        (target, lines, Chain { stamp, last: signature })
    }

    fn names(&self) -> String {
        self.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
    }

    fn signature(&self, query: &str, payload: &str, stamp: &str) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical =
            format!("{}\n{}\n{query}\n{headers}\n{}\n{payload}", self.method, self.path, self.names());
        let scope = scope();
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(&canonical)));
        sign_4(&text)
    }
}

/// The signer of a body's chunks. Each chunk's signature covers the previous signature.
pub(crate) struct Chain {
    stamp: String,
    last: String,
}

impl Chain {
    pub(crate) fn chunk(&mut self, data: &[u8]) -> Vec<u8> {
        let (empty, own) = (hex::encode(Sha256::digest(b"")), hex::encode(Sha256::digest(data)));
        let Self { stamp, last } = self;
        let scope = scope();
        *last = sign_4(&format!("AWS4-HMAC-SHA256-PAYLOAD\n{stamp}\n{scope}\n{last}\n{empty}\n{own}"));
        let line = format!("{:x};chunk-signature={last}\r\n", data.len());
        // The last chunk has no data. Trailers may follow its line.
        let end: &[u8] = if data.is_empty() { b"" } else { b"\r\n" };
        [line.as_bytes(), data, end].concat()
    }

    /// Returns the signature of one trailer.
    pub(crate) fn trailer(&self, name: &str, value: &str) -> String {
        let own = hex::encode(Sha256::digest(format!("{name}:{value}\n")));
        let Self { stamp, last } = self;
        sign_4(&format!("AWS4-HMAC-SHA256-TRAILER\n{stamp}\n{}\n{last}\n{own}", scope()))
    }
}

fn sign_4(text: &str) -> String {
    version_4(&scope(), text)
}

/// Returns the signature of `text` within `scope`.
fn version_4(scope: &str, text: &str) -> String {
    let key = scope
        .split('/')
        .fold(format!("AWS4{SECRET}").into_bytes(), |key, part| hmac::<Sha256>(&key, part.as_bytes()));
    hex::encode(hmac::<Sha256>(&key, text.as_bytes()))
}

/// An HTML form that uploads a file, signed by Signature Version 4.
#[derive(Clone, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) key: &'a str,
    /// Age of the signature in days.
    pub(crate) days: i64,
    /// Expiration of the policy.
    pub(crate) expiration: &'a str,
    /// False for a wrong signature.
    pub(crate) is_right: bool,
    /// The least and the greatest length of the file in bytes that the policy allows.
    pub(crate) lengths: Option<(usize, usize)>,
}

impl<'a> Form<'a> {
    pub(crate) fn new(key: &'a str) -> Self {
        Self { key, days: 0, expiration: "2099-01-01T00:00:00.000Z", is_right: true, lengths: None }
    }

    /// Header line of a form.
    pub(crate) const HEAD: &'static str = "Content-Type: multipart/form-data; boundary=edge\r\n";

    /// Returns the body, with the file `content`.
    pub(crate) fn body(&self, content: &str) -> Vec<u8> {
        use base64::Engine as _;
        let stamp = stamp_of(OffsetDateTime::now_utc() - time::Duration::days(self.days));
        let scope = scope_of(&stamp);
        let credential = format!("{KEY}/{scope}");
        let mut policy = serde_json::json!({
            "expiration": self.expiration,
            "conditions": [
                { "bucket": "bucket" },
                { "key": self.key },
                { "x-amz-algorithm": "AWS4-HMAC-SHA256" },
                { "x-amz-credential": credential },
                { "x-amz-date": stamp },
            ],
        });
        if let (Some((least, most)), Some(conditions)) = (self.lengths, policy["conditions"].as_array_mut()) {
            conditions.push(serde_json::json!(["content-length-range", least, most]));
        }
        let policy = base64::engine::general_purpose::STANDARD.encode(policy.to_string());
        let signature = if self.is_right { version_4(&scope, &policy) } else { "00".repeat(32) };
        let fields = [
            ("key", self.key),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &stamp),
            ("Policy", &policy),
            ("X-Amz-Signature", &signature),
        ];
        form(&fields, content)
    }
}

pub(crate) fn form(fields: &[(&str, &str)], content: &str) -> Vec<u8> {
    let mut body = String::new();
    for (name, value) in fields {
        body.push_str(&format!(
            "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    let file = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"";
    body.push_str(&format!("--edge\r\n{file}\r\n\r\n{content}\r\n--edge--\r\n"));
    body.into_bytes()
}

/// Returns the header lines of a request signed by Signature Version 2 at `date`.
pub(crate) fn version_2(method: &str, path: &str, date: &str) -> String {
    let signature = sign_2(&format!("{method}\n\n\n{date}\n{path}"));
    format!("Date: {date}\r\nAuthorization: AWS {KEY}:{signature}\r\n")
}

/// Returns the target of a URL presigned by Signature Version 2 that expires at `expires`, in
/// seconds since 1970.
pub(crate) fn presigned_version_2(method: &str, path: &str, expires: i64) -> String {
    let signature = sign_2(&format!("{method}\n\n\n{expires}\n{path}"));
    let signature = encode(&signature);
    format!("{path}?AWSAccessKeyId={KEY}&Expires={expires}&Signature={signature}")
}

/// Returns the header lines and the body of an HTML form that uploads a file, signed by Signature
/// Version 2.
pub(crate) fn form_version_2(bucket: &str, key: &str, content: &str) -> (String, Vec<u8>) {
    use base64::Engine as _;
    let policy = serde_json::json!({
        "expiration": "2099-01-01T00:00:00.000Z",
        "conditions": [{ "bucket": bucket }, { "key": key }],
    });
    let policy = base64::engine::general_purpose::STANDARD.encode(policy.to_string());
    let signature = sign_2(&policy);
    let fields = [("key", key), ("AWSAccessKeyId", KEY), ("policy", &policy), ("signature", &signature)];
    (Form::HEAD.to_owned(), form(&fields, content))
}

fn sign_2(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(hmac::<Sha1>(SECRET.as_bytes(), text.as_bytes()))
}

fn hmac<D: Digest>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = D::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    D::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

/// The characters to encode in a canonical query.
const ENCODED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encode(text: &str) -> String {
    percent_encoding::percent_encode(text.as_bytes(), ENCODED).to_string()
}

fn canonical_query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn stamp() -> String {
    stamp_of(OffsetDateTime::now_utc())
}

fn stamp_of(time: OffsetDateTime) -> String {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    time.format(format).unwrap()
}

fn scope() -> String {
    scope_of(&stamp())
}

fn scope_of(stamp: &str) -> String {
    format!("{}/us-east-1/s3/aws4_request", &stamp[..8])
}

/// Formats the time `seconds` from now as an HTTP date.
pub(crate) fn http_date(seconds: i64) -> String {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    (OffsetDateTime::now_utc() + time::Duration::seconds(seconds)).format(format).unwrap()
}
