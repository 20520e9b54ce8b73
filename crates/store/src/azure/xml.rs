//! Parses Azure's XML: listings of blobs and containers, and lists of blocks.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::s3::xml;

/// The `<EnumerationResults>` element.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EnumerationResults {
    pub(super) blobs: Blobs,
    pub(super) containers: Containers,
    pub(super) next_marker: Option<String>,
}

/// The `<Blobs>` element, in which blobs and prefixes come in any order.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Blobs {
    #[serde(rename = "$value")]
    pub(super) items: Vec<BlobItem>,
}

#[derive(Deserialize)]
pub(super) enum BlobItem {
    Blob(NamedElement),
    BlobPrefix(NamedElement),
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Containers {
    pub(super) container: Vec<NamedElement>,
}

/// A `<Blob>`, `<BlobPrefix>` or `<Container>` element.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NamedElement {
    name: Name,
    pub(super) properties: Properties,
    metadata: BlobMetadata,
}

/// The `<Metadata>` element, of which only the mark of a directory is read
/// ([`DIRECTORY_MARK`](super::DIRECTORY_MARK)).
#[derive(Default, Deserialize)]
#[serde(default)]
struct BlobMetadata {
    #[serde(rename = "hdi_isfolder", alias = "Hdi_isfolder")]
    is_folder: Option<String>,
}

/// The `<Name>` element. It is percent-encoded if the name has characters that are illegal in XML.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    #[serde(rename = "@Encoded")]
    encoded: Option<String>,
    #[serde(rename = "$text")]
    text: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties {
    #[serde(rename = "Last-Modified")]
    pub(super) last_modified: Option<String>,
    #[serde(rename = "Etag")]
    pub(super) etag: Option<String>,
    #[serde(rename = "Content-Length")]
    pub(super) content_length: Option<u64>,
    #[serde(rename = "AccessTier")]
    pub(super) access_tier: Option<String>,
    /// `directory` or `file`, in accounts with a hierarchical namespace.
    #[serde(rename = "ResourceType")]
    resource_type: Option<String>,
}

impl NamedElement {
    /// Returns true for a blob that is a directory.
    pub(super) fn is_directory(&self) -> bool {
        let Properties { content_length, resource_type, .. } = &self.properties;
        content_length.unwrap_or_default() == 0
            && (resource_type.as_deref() == Some("directory")
                || self.metadata.is_folder.as_deref() == Some("true"))
    }

    pub(super) fn name(&self) -> String {
        match self.name.encoded.as_deref() {
            Some("true") => percent_decode_str(&self.name.text).decode_utf8_lossy().into_owned(),
            _ => self.name.text.clone(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BlockList {
    pub(super) uncommitted_blocks: BlocksElement,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BlocksElement {
    pub(super) block: Vec<Block>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) size: u64,
}

pub(super) fn listing(body: &[u8]) -> Option<EnumerationResults> {
    xml::parse_root("EnumerationResults", without_mark(body))
}

pub(super) fn block_list(body: &[u8]) -> Option<BlockList> {
    xml::parse_root("BlockList", without_mark(body))
}

/// Strips the UTF-8 byte order mark with which Azure's XML begins.
fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blobs_and_prefixes_are_read_in_any_order() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"c\"><Prefix/>\
            <Blobs><BlobPrefix><Name>a/</Name></BlobPrefix><Blob><Name>b&amp; c</Name><Properties>\
            <Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0x8D</Etag><Content-Length>7</Content-Length>\
            <Odd/></Properties><OrMetadata/></Blob><BlobPrefix><Name Encoded=\"true\">z%EF%BF%BE/</Name></BlobPrefix></Blobs>\
            <NextMarker>m</NextMarker></EnumerationResults>";
        let listing = listing(text.as_bytes()).unwrap();
        let names = listing.blobs.items.iter().map(|item| match item {
            BlobItem::Blob(named) | BlobItem::BlobPrefix(named) => named.name(),
            BlobItem::Other => String::new(),
        });
        assert_eq!(names.collect::<Vec<_>>(), ["a/", "b& c", "z\u{fffe}/"]);
        assert_eq!(listing.next_marker.as_deref(), Some("m"));
        let BlobItem::Blob(blob) = &listing.blobs.items[1] else { panic!() };
        assert_eq!(blob.properties.content_length, Some(7));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let wrapped = [b"<EnumerationResults><Blobs>", bytes.as_slice()].concat();
            let _ = (listing(&bytes), listing(&wrapped), block_list(&bytes));
        }
    }
}
