//! Verifies the signatures of the chunks and trailers of a signed body.
//!
//! Each signature covers the previous signature; the first one covers the signature of the
//! request's head. Called by the decoder of bodies ([`super::payload`]). Source: "Signature
//! calculations: transferring a payload in multiple chunks",
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html> and its page on trailers,
//! read 2026-11-27.

use std::io;

use aws_lc_rs::{constant_time, hmac};
use http::HeaderMap;
use s3s::s3_error;
use sha2::{Digest as _, Sha256};

use crate::access::signing::scope_key;

/// Verifies the chunk signatures of a body.
pub(crate) struct ChunkSignatures {
    key: hmac::Key,
    /// The request's `x-amz-date`. `scope` is the scope of its credential.
    date: String,
    scope: String,
    last: String,
    chunk: Option<Chunk>,
}

/// The chunk that is being read.
struct Chunk {
    signature: String,
    hash: Sha256,
}

impl std::fmt::Debug for ChunkSignatures {
    /// Omits the key and the signatures.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSignatures").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl ChunkSignatures {
    /// Creates a verifier for the signatures that follow `seed`, the signature of the head. `date`
    /// is `x-amz-date`, and `scope` is `DATE/REGION/SERVICE/aws4_request`.
    pub(crate) fn new(secret: &str, date: &str, scope: &str, seed: &str) -> Self {
        let key = scope_key(secret, scope);
        Self { key, date: date.to_owned(), scope: scope.to_owned(), last: seed.to_owned(), chunk: None }
    }

    /// Verifies the previous chunk, and begins the next one. `extension` is the text after the size
    /// of the next chunk.
    pub(crate) fn begin(&mut self, extension: &[u8]) -> io::Result<()> {
        self.end_chunk()?;
        let signature =
            std::str::from_utf8(extension).ok().and_then(|text| text.strip_prefix("chunk-signature="));
        let signature = signature.ok_or_else(wrong_signature)?.to_owned();
        self.chunk = Some(Chunk { signature, hash: Sha256::new() });
        Ok(())
    }

    /// Adds the next bytes of the chunk.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        if let Some(chunk) = &mut self.chunk {
            chunk.hash.update(bytes);
        }
    }

    /// Verifies the chunk that was just read, if there is one.
    pub(crate) fn end_chunk(&mut self) -> io::Result<()> {
        let Some(Chunk { signature, hash }) = self.chunk.take() else { return Ok(()) };
        let Self { date, scope, last, .. } = self;
        let (empty, own) = (hex::encode(Sha256::digest(b"")), hex::encode(hash.finalize()));
        let text = format!("AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{last}\n{empty}\n{own}");
        self.verify(&text, &signature)?;
        self.last = signature;
        Ok(())
    }

    /// Verifies the last chunk, and `signature`, which covers `trailers`.
    pub(crate) fn end(&mut self, trailers: &HeaderMap, signature: Option<&str>) -> io::Result<()> {
        self.end_chunk()?;
        let mut lines: Vec<Vec<u8>> = trailers
            .iter()
            .map(|(name, value)| [name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"].concat())
            .collect();
        lines.sort_unstable();
        let Self { date, scope, last, .. } = self;
        let own = hex::encode(Sha256::digest(lines.concat()));
        let text = format!("AWS4-HMAC-SHA256-TRAILER\n{date}\n{scope}\n{last}\n{own}");
        self.verify(&text, signature.ok_or_else(wrong_signature)?)
    }

    fn verify(&self, text: &str, signature: &str) -> io::Result<()> {
        let own = hex::encode(hmac::sign(&self.key, text.as_bytes()));
        let same = constant_time::verify_slices_are_equal(own.as_bytes(), signature.as_bytes());
        same.map_err(|_| wrong_signature())
    }
}

fn wrong_signature() -> io::Error {
    io::Error::other(s3_error!(
        SignatureDoesNotMatch,
        "the signature of a chunk or of the trailers is missing or wrong"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example from the AWS documentation.
    #[test]
    fn the_chunks_of_the_documented_example_are_verified() {
        let seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        let chunks: [(usize, &str); 3] = [
            (65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ];
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let scope = "20130524/us-east-1/s3/aws4_request";
        for byte in [b'a', b'b'] {
            let mut signatures = ChunkSignatures::new(secret, "20130524T000000Z", scope, seed);
            let read = chunks.iter().try_for_each(|(length, signature)| {
                signatures.begin(format!("chunk-signature={signature}").as_bytes())?;
                signatures.data(&vec![byte; *length]);
                Ok::<(), io::Error>(())
            });
            assert_eq!(read.and_then(|()| signatures.end_chunk()).is_ok(), byte == b'a');
        }
    }
}
