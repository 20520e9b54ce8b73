//! Defines the values of an endpoint's settings: where the bucket is in an address, the version of
//! the listing request, the region. `settings` reads them from profiles, `endpoints` from the
//! configuration file.

use serde::Deserialize;

/// Where the bucket is in an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Addressing {
    /// In the host name for AWS, in the path for other services.
    #[default]
    Auto,
    /// In the path.
    Path,
    /// In the host name, if the name of the bucket can be part of a host name.
    #[serde(rename = "host")]
    Virtual,
}

/// The version of the listing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub(super) enum ListVersion {
    /// `ListObjects`: a page starts after a key.
    V1,
    /// `ListObjectsV2`: a page starts at a token.
    V2,
}

impl TryFrom<u8> for ListVersion {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, &'static str> {
        match number {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            _ => Err("list_version is 1 or 2"),
        }
    }
}

/// Returns true if a name can be a region. Regions become part of a host name, so a name that could
/// change the host must be refused.
pub(super) fn is_region(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('-')
}
