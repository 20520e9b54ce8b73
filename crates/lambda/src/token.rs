//! Makes the token of an incomplete answer, with which the next call continues.
//!
//! A token is opaque to callers: JSON in base64. It pins the version of the object, so that bytes
//! of two versions are never combined. It is valid in any environment, but a download's files below
//! `/tmp` exist in only one environment.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firstbyte_location::{ByteRange, FileIdentity, Location, Strength, Version};
use firstbyte_store::{FailureKind, difference};
use serde::{Deserialize, Serialize};

use crate::error::{InvocationFailure, Result};

/// Version of the token's format, incremented when the meaning of a field changes.
const FORMAT: u32 = 1;

/// The progress of a call when it stopped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ResumeToken {
    pub(crate) format: u32,
    pub(crate) action: String,
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<PinnedVersion>,
    /// Number of bytes done, counted from the start of the object or range.
    #[serde(default)]
    pub(crate) bytes: u64,
    /// Offset and length of the range to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<(u64, u64)>,
    /// CRC-32C of the bytes read so far, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc32c: Option<String>,
    /// The name, relative to the source, up to which all objects are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) through: Option<String>,
    /// The destination of a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) destination: Option<String>,
    /// The environment whose directory has the copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<String>,
}

/// A version of an object, in a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PinnedVersion {
    size: Option<u64>,
    etag: Option<String>,
    version_id: Option<String>,
    last_modified: Option<String>,
    file: Option<[String; 4]>,
}

impl ResumeToken {
    /// Makes the token of an action that has not started yet.
    pub(crate) fn new(action: &str, source: &Location) -> Self {
        Self { format: FORMAT, action: action.to_owned(), source: source.to_string(), ..Self::default() }
    }

    /// Adds the version of the object that is read.
    ///
    /// # Errors
    /// The server states neither `ETag` nor date, so the next call could not know whether the
    /// object has changed.
    pub(crate) fn with_version(mut self, version: &Version) -> Result<Self> {
        if version.strength() == Strength::None {
            return Err(InvocationFailure::too_little_time(&format!(
                "{}: cannot be continued by another call, because its server states no version",
                self.source
            )));
        }
        self.version = Some(PinnedVersion {
            size: version.size,
            etag: version.etag.clone(),
            version_id: version.version_id.clone(),
            last_modified: version.last_modified.clone(),
            file: version.file.map(FileIdentity::to_words),
        });
        Ok(self)
    }

    /// Encodes the token as a string.
    pub(crate) fn encode(&self) -> String {
        // Serialising strings and numbers cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Decodes the token of an event. `None` if there is none. Checks that the token is for this
    /// action and source.
    pub(crate) fn decode(text: Option<&str>, action: &str, source: &Location) -> Result<Option<Self>> {
        let Some(text) = text else { return Ok(None) };
        let refuse =
            |why: String| InvocationFailure::event(format!("`continue`: {why}; leave it out to begin anew"));
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let value: Option<serde_json::Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let format = value.as_ref().and_then(|value| value.get("format")?.as_u64());
        match (value, format) {
            (Some(value), Some(format)) if format == u64::from(FORMAT) => {
                let token: Self = serde_json::from_value(value).map_err(|error| refuse(error.to_string()))?;
                if token.action != action || token.source != source.to_string() {
                    let (had, source) = (&token.action, &token.source);
                    return Err(refuse(format!("it is of action `{had}` on {source}")));
                }
                Ok(Some(token))
            }
            (_, Some(format)) => {
                Err(refuse(format!("it has format {format}, and this version of firstbyte knows {FORMAT}")))
            }
            _ => Err(refuse("it is no token of this function".into())),
        }
    }

    /// Checks that the object still has the version that the earlier call read.
    pub(crate) fn check(&self, location: &Location, found: &Version) -> Result<()> {
        let expected = self.version.as_ref().map(PinnedVersion::version);
        match expected {
            Some(expected) if !expected.agrees_with(found) => Err(InvocationFailure::new(
                FailureKind::Changed,
                format!(
                    "{location}: changed since the call before{}; call it again without `continue` to read the \
                     new version",
                    difference(&expected, found)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the range to read.
    pub(crate) fn range(&self) -> Option<ByteRange> {
        self.range.map(|(offset, length)| ByteRange::at(offset, length))
    }
}

impl PinnedVersion {
    fn version(&self) -> Version {
        Version {
            size: self.size,
            etag: self.etag.clone(),
            version_id: self.version_id.clone(),
            last_modified: self.last_modified.clone(),
            file: self.file.as_ref().and_then(FileIdentity::from_words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_for_its_own_action_and_source_only() {
        let source = Location::parse("s3://b/k".as_ref()).unwrap();
        let version = Version { size: Some(9), etag: Some("\"a\"".into()), ..Version::default() };
        let token = ResumeToken::new("open", &source).with_version(&version).unwrap();
        let token = ResumeToken { bytes: 5, ..token };
        let text = token.encode();
        let again = ResumeToken::decode(Some(&text), "open", &source).unwrap().unwrap();
        assert_eq!(again.bytes, 5);
        assert!(again.check(&source, &version).is_ok());
        let other = Version { etag: Some("\"b\"".into()), ..version };
        assert_eq!(again.check(&source, &other).unwrap_err().kind, FailureKind::Changed);

        let unknown = Version { size: Some(9), ..Version::default() };
        let failure = ResumeToken::new("open", &source).with_version(&unknown).unwrap_err();
        assert!(failure.kind == FailureKind::Deadline && failure.message.contains("no version"), "{failure}");

        let elsewhere = Location::parse("s3://b/other".as_ref()).unwrap();
        assert!(ResumeToken::decode(None, "open", &source).unwrap().is_none());
        for (text, action, source, part) in [
            (text.as_str(), "list", &source, "action `open`"),
            (&text, "open", &elsewhere, "s3://b/k"),
            ("nonsense", "open", &source, "no token"),
            ("e30", "open", &source, "no token"),
            ("eyJmb3JtYXQiOjJ9", "open", &source, "format 2"),
        ] {
            let failure = ResumeToken::decode(Some(text), action, source).unwrap_err();
            assert!(failure.kind == FailureKind::BadInput && failure.message.contains(part), "{failure}");
        }
    }
}
