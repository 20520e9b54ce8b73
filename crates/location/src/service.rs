//! Identifies the service that holds a bucket: the protocol of a location, and the endpoint that
//! the location names.

use std::fmt;

/// Maximum length of an endpoint's name, in bytes. Names are stored inline, so a location needs no
/// further allocation.
const MAX_NAME_LENGTH: usize = 32;

/// The scheme of S3.
const S3_SCHEME: &str = "s3";
/// Separator between the scheme of S3 and the name of an endpoint.
const NAME_SEPARATOR: char = '+';

/// The name of an endpoint in the user's configuration file: letters, digits and `-`. The letters
/// are in lower case, as in every scheme.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointName {
    bytes: [u8; MAX_NAME_LENGTH],
    length: u8,
}

impl EndpointName {
    /// The rule for names, for messages.
    pub const RULE: &'static str = "a name has at most 32 lower-case letters, digits and `-`";

    /// Returns the name, or `None` if it breaks the rule.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(legal) {
            return None;
        }
        let mut bytes = [0; MAX_NAME_LENGTH];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: u8::try_from(name.len()).ok()? })
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // The bytes were copied from a `str`.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A service that holds objects. Equal values denote the same service. `Display` writes the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// S3, or another store that speaks S3's protocol, at the endpoint of the options.
    S3,
    /// S3 at an endpoint from the configuration file.
    NamedS3(EndpointName),
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage. Its containers are the buckets.
    Azure,
}

impl Service {
    /// Returns true if the service speaks S3's protocol.
    #[must_use]
    pub fn is_s3(self) -> bool {
        matches!(self, Self::S3 | Self::NamedS3(_))
    }

    /// Returns the service of a scheme. `None` if the scheme is of another kind, or has an illegal
    /// name of an endpoint.
    #[must_use]
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            S3_SCHEME => Some(Self::S3),
            "gs" => Some(Self::Google),
            "az" => Some(Self::Azure),
            _ => {
                let (protocol, name) = scheme.split_once(NAME_SEPARATOR)?;
                EndpointName::new(name).filter(|_| protocol == S3_SCHEME).map(Self::NamedS3)
            }
        }
    }

    /// Splits the text of a location into its service and the part after `://`.
    #[must_use]
    pub fn of_text(text: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = text.split_once("://")?;
        Some((Self::of_scheme(scheme)?, rest))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 => f.write_str(S3_SCHEME),
            Self::NamedS3(name) => write!(f, "{S3_SCHEME}{NAME_SEPARATOR}{name}"),
            Self::Google => f.write_str("gs"),
            Self::Azure => f.write_str("az"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_names_a_service_and_is_printed_as_it() {
        for scheme in ["s3", "gs", "az", "s3+lab", "s3+site-2"] {
            assert_eq!(Service::of_scheme(scheme).unwrap().to_string(), scheme);
        }
        assert_eq!(Service::of_scheme("S3+LAB"), Service::of_scheme("s3+lab"));
        let longest = format!("s3+{}", "a".repeat(MAX_NAME_LENGTH));
        assert!(Service::of_scheme(&longest).is_some());
        for scheme in ["s3+", "gs+lab", "s3+a.b", "s3+a+b", "lab", "http", &format!("{longest}a")] {
            assert_eq!(Service::of_scheme(scheme), None, "{scheme}");
        }
        assert_ne!(Service::of_scheme("s3+a"), Service::of_scheme("s3+b"));
    }
}
