//! Values of an endpoint's settings: the position of the bucket in addresses, the version of the
//! listing, the region. They are read from profiles (`settings`) and from the configuration file
//! (`endpoints`).

use serde::Deserialize;

/// The position of the bucket in an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Addressing {
    /// In the host name at AWS, in the path at other services.
    #[default]
    Auto,
    /// In the path.
    Path,
    /// In the host name, if the bucket's name can be part of one.
    #[serde(rename = "host")]
    Virtual,
}

/// The version of the listing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub(super) enum ListVersion {
    /// `ListObjects`, whose pages start after a key.
    V1,
    /// `ListObjectsV2`, whose pages start at a token.
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

/// Returns true if a name can be a region. It becomes part of a host name, so it must not be able
/// to change the host.
pub(super) fn is_region(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('-')
}
