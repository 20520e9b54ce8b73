//! Reads and writes Azure Blob Storage. A container is a bucket, a blob is an object, and the ETag
//! of a blob is its version.

mod account;
mod list;
mod multipart;
mod sign;
mod tokens;
mod write;
mod xml;

use std::sync::{Arc, OnceLock};

use firstbyte_location::{EntryKind, ObjectLocation, Version};

use crate::answer;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, RequestAuthentication, Result};
use crate::object::Stat;
use crate::query::Get;
use crate::rest::{CallAddress, RestCall, RestPage, RestQuery, RestRefusal, RestStore, Tokens, encoded};
use crate::signing::Signing;
use crate::wire::{HttpMethod, ResponseHead, WireClient};

use account::{AzureAccount, Credential};

/// Version of Azure's API that requests ask for. Like some earlier versions, it accepts 5,000 MiB
/// in one write. It reports errors more precisely than they do.
const API_VERSION: &str = "2021-08-06";

/// Metadata that is `true` for an empty blob that is a directory. Accounts with a hierarchical
/// namespace have such blobs, and AzCopy, blobfuse and Hadoop write them. As a file, such a blob
/// would be in the place of the directory (<https://github.com/rclone/rclone/issues/2806>,
/// <https://github.com/Azure/azure-storage-azcopy/issues/148>, as of 28 November 2026).
const DIRECTORY_MARK: &str = "hdi_isfolder";

/// An Azure storage account.
pub(crate) struct Azure {
    client: Arc<WireClient>,
    account: Arc<OnceLock<std::result::Result<AzureAccount, String>>>,
    tokens: Arc<Tokens>,
}

impl Azure {
    pub(crate) fn new(client: Arc<WireClient>) -> Self {
        Self { client, account: Arc::default(), tokens: Arc::default() }
    }

    /// Returns the same account with another client.
    pub(crate) fn with_client(&self, client: Arc<WireClient>) -> Self {
        Self { client, account: Arc::clone(&self.account), tokens: Arc::clone(&self.tokens) }
    }

    /// Sends one `Get Blob` request.
    pub(crate) fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body> {
        let mut call = RestCall::new(HttpMethod::Get, object, path(object), &get.cancel);
        call.throttle = get.throttle.clone();
        if let Some(range) = get.range {
            call.header("range", answer::range_header(range));
        }
        if let Some(etag) = get.version.as_ref().and_then(Version::if_match) {
            call.header("if-match", etag);
        }
        let body = self.open(&call, get, with_s3_headers, |get| self.get(object, get))?;
        if is_directory(body.stat()) {
            let why = "is a directory, which an empty blob marks".to_owned();
            return Err(Error::InvalidName { location: call.place(), why });
        }
        Ok(body)
    }

    /// Returns the account and its address. Returns an empty string if the configuration is
    /// unusable, because every request then fails with the reason.
    pub(crate) fn account_url(&self) -> String {
        self.account("").map_or_else(|_| String::new(), |account| format!("{account:?}"))
    }

    /// Returns the address of the account. `None` for an unusable configuration.
    pub(crate) fn address(&self) -> Option<String> {
        self.account("").ok().map(|account| account.origin.to_string())
    }

    fn account(&self, place: &str) -> Result<&AzureAccount> {
        let found = self.account.get_or_init(|| AzureAccount::find(&self.client.options));
        found.as_ref().map_err(|detail| Error::Credentials {
            location: place.to_owned(),
            detail: detail.clone(),
            trace: None,
        })
    }
}

impl RestStore for Azure {
    fn client(&self) -> &Arc<WireClient> {
        &self.client
    }

    fn address(&self, call: &RestCall<'_>, cancel: &Cancel) -> Result<CallAddress> {
        let place = call.place();
        let account = self.account(&place)?;
        if let Signing::Keys(_) = self.client.options.signing {
            let why = "is for S3; write AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY".to_owned();
            return Err(Error::Options { what: "an access key".to_owned(), why });
        }
        let mut headers = call.headers.clone();
        headers.push(("x-ms-version".to_owned(), API_VERSION.to_owned()));
        let mut target = format!("{}{}", account.path, call.target());
        match &account.credential {
            Credential::Anonymous => {}
            Credential::Key(key) => sign::sign(call, account, key, &mut headers),
            Credential::Signature(signature) => target = account::with_signature(&target, signature),
            Credential::Token(source) => {
                let fetch = || source.fetch(call.object, &self.client, cancel);
                headers.push(("authorization".to_owned(), self.tokens.header(fetch)?));
            }
        }
        Ok(CallAddress { origin: account.origin.clone(), target, headers })
    }

    fn renew(&self) -> bool {
        self.tokens.forget()
    }

    fn untraced_error(&self, call: &RestCall<'_>, refusal: RestRefusal) -> Error {
        let asked = match self.client.options.signing {
            Signing::Anonymous => RequestAuthentication::Unsigned,
            _ => RequestAuthentication::Azure,
        };
        let location = call.place();
        let container = || call.object.with_key("").to_string().trim_end_matches('/').to_owned();
        match (refusal.code.as_str(), refusal.head.status) {
            ("ContainerNotFound", _) => Error::NotFound { location: container(), trace: None },
            // The condition `If-None-Match: *` of the request failed.
            ("BlobAlreadyExists", _) => Error::Precondition { location, trace: None },
            ("BlobArchived" | "BlobBeingRehydrated", _) => {
                Error::Archived { location, class: "Archive".to_owned(), trace: None }
            }
            // Azure answers an unsigned request in the same way for a private container and for a
            // missing one.
            ("ResourceNotFound", 404) if asked == RequestAuthentication::Unsigned => {
                Error::Denied { location, detail: refusal.code, request: asked, trace: None }
            }
            ("PublicAccessNotPermitted" | "NoAuthenticationInformation", _) => {
                Error::Denied { location, detail: refusal.code, request: asked, trace: None }
            }
            _ => refusal.into_error(location, asked),
        }
    }

    /// Sends `Get Blob Properties`.
    fn head(&self, object: &ObjectLocation) -> Result<Stat> {
        let cancel = Cancel::new();
        let call = RestCall::new(HttpMethod::Head, object, path(object), &cancel);
        let (head, _) = self.call(&call)?;
        let mut stat = answer::stat(&with_s3_headers(head.clone()), head.content_length(&call.place())?);
        stat.ranges = Some(true);
        if is_directory(&stat) {
            stat.kind = EntryKind::Directory;
        }
        Ok(stat)
    }

    fn page(&self, query: &RestQuery, token: Option<&str>, most: Option<u32>) -> Result<RestPage> {
        self.list_page_of(query, token, most)
    }

    /// Sends `Delete Blob`.
    fn delete(&self, object: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        match self.call(&RestCall::new(HttpMethod::Delete, object, path(object), &cancel)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Returns true for a blob that is a directory.
fn is_directory(stat: &Stat) -> bool {
    stat.size() == Some(0) && stat.metadata.user.get(DIRECTORY_MARK).is_some_and(|value| value == "true")
}

/// Returns the URL path of a blob or container.
fn path(object: &ObjectLocation) -> String {
    let container = encoded(&object.bucket);
    if object.key.is_empty() {
        format!("/{container}")
    } else {
        format!("/{container}/{}", encoded(&object.key))
    }
}

/// Refuses a name that the service would change.
fn check_name(object: &ObjectLocation) -> Result<()> {
    if object.key.contains('\\') {
        let why = "Azure takes a backslash in a name for a slash".to_owned();
        return Err(Error::InvalidName { location: object.to_string(), why });
    }
    Ok(())
}

/// Converts the headers of a response to those of S3. Drops headers that S3 would not send.
fn with_s3_headers(mut head: ResponseHead) -> ResponseHead {
    // Azurite answers a range of an empty blob with 206, where the service refuses the range.
    if head.get("content-range").is_some_and(|range| range.ends_with("-1/0")) {
        head.status = 200;
    }
    let whole = head.status != 206;
    head.renamed(|name, value| {
        let renamed = match name {
            // In a 206, the checksum covers only the range.
            "content-md5" if !whole => return None,
            "content-md5" => answer::AZURE_MD5,
            "x-ms-access-tier" if value == "Hot" => return None,
            "x-ms-access-tier" => "x-amz-storage-class",
            _ => match name.strip_prefix("x-ms-meta-") {
                Some(key) => {
                    return Some((format!("{}{}", answer::USER_PREFIX, decoded_name(key)), value.to_owned()));
                }
                None => name,
            },
        };
        Some((renamed.to_owned(), value.to_owned()))
    })
}

/// Encodes a metadata name for Azure, which allows the identifiers of C#. Other characters become
/// `_xHHHH_`, as in .NET's `XmlConvert`.
fn encoded_name(name: &str) -> String {
    let mut encoded = String::new();
    for (at, symbol) in name.char_indices() {
        let escaped = symbol == '_' && name[at..].starts_with("_x");
        let legal = symbol.is_ascii_alphabetic() || symbol == '_' || (at > 0 && symbol.is_ascii_digit());
        if legal && !escaped {
            encoded.push(symbol);
        } else {
            encoded.push_str(&format!("_x{:04x}_", u32::from(symbol)));
        }
    }
    encoded
}

/// Decodes a name from [`encoded_name`].
fn decoded_name(name: &str) -> String {
    let (mut decoded, mut rest) = (String::new(), name);
    while let Some(at) = rest.find("_x") {
        let code = rest[at + 2..].split_once('_').filter(|(digits, _)| digits.len() >= 4);
        let symbol = code.and_then(|(digits, _)| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
        decoded.push_str(&rest[..at]);
        match (symbol, code) {
            (Some(symbol), Some((_, after))) => {
                decoded.push(symbol);
                rest = after;
            }
            _ => {
                decoded.push_str("_x");
                rest = &rest[at + 2..];
            }
        }
    }
    decoded + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_metadata_become_identifiers() {
        assert_eq!(encoded_name("empty-not"), "empty_x002d_not");
        assert_eq!(encoded_name("7_x"), "_x0037__x005f_x");
        assert_eq!(decoded_name("a_xyz_b"), "a_xyz_b");
    }

    proptest! {
        #[test]
        fn every_metadata_name_survives_encoding(name in "[a-z0-9_x-]{1,20}|\\PC{1,8}") {
            let sent = encoded_name(&name);
            prop_assert!(sent.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            prop_assert!(!sent.starts_with(|first: char| first.is_ascii_digit()));
            prop_assert_eq!(decoded_name(&sent), name);
        }
    }
}
