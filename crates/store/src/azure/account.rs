//! Finds the storage account and its credential: in the options, otherwise in the environment
//! variables that Azure's own clients read.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::tokens::TokenSource;
use crate::options::StoreOptions;
use crate::origin::Origin;
use crate::s3::variable;
use crate::signing::Signing;

/// Account name of Azure's emulators. Every emulator has the same account name and key.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

/// A storage account and its endpoint.
pub(super) struct AzureAccount {
    pub(super) name: String,
    pub(super) origin: Origin,
    /// Prefix of the path of every request: empty for the service, the account's name for an
    /// emulator.
    pub(super) path: String,
    pub(super) credential: Credential,
}

/// The credential with which requests are authenticated.
pub(super) enum Credential {
    /// The account's key.
    Key(Vec<u8>),
    /// A shared access signature, which is a query string.
    Signature(String),
    /// The source of tokens from Microsoft Entra.
    Token(TokenSource),
    /// No credential, for public containers.
    Anonymous,
}

impl fmt::Debug for AzureAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({} at {}{})", self.name, self.origin, self.path)
    }
}

/// The fields of a connection string, or the environment variables that replace them.
#[derive(Default)]
struct AccountFields {
    name: Option<String>,
    key: Option<String>,
    signature: Option<String>,
    endpoint: Option<String>,
    suffix: Option<String>,
    protocol: Option<String>,
}

impl AzureAccount {
    /// Returns the account, or the reason why none can be used. The reason has no secrets.
    pub(super) fn find(options: &StoreOptions) -> Result<Self, String> {
        let given = options.azure_connection.as_ref().map(|given| given.0.clone());
        let parts = match given.or_else(|| variable("AZURE_STORAGE_CONNECTION_STRING")) {
            Some(text) => AccountFields::of_connection(&text)?,
            None => AccountFields {
                name: variable("AZURE_STORAGE_ACCOUNT").or_else(|| variable("AZURE_STORAGE_ACCOUNT_NAME")),
                key: variable("AZURE_STORAGE_KEY").or_else(|| variable("AZURE_STORAGE_ACCOUNT_KEY")),
                signature: variable("AZURE_STORAGE_SAS_TOKEN"),
                ..AccountFields::default()
            },
        };
        parts.account(options.signing == Signing::Anonymous)
    }
}

impl AccountFields {
    /// Parses `NAME=VALUE;...`.
    fn of_connection(text: &str) -> Result<Self, String> {
        let mut parts = Self::default();
        for field in text.split(';').filter(|field| !field.trim().is_empty()) {
            // The error must not quote the field, because its value may be the key.
            let (name, value) =
                field.split_once('=').ok_or("the connection string has a part without a `=`")?;
            let value = Some(value.trim().to_owned());
            match name.trim().to_ascii_lowercase().as_str() {
                "usedevelopmentstorage" => {
                    parts.name = Some(EMULATOR_ACCOUNT.to_owned());
                    parts.key = Some(EMULATOR_KEY.to_owned());
                    parts.endpoint.get_or_insert_with(|| EMULATOR_ENDPOINT.to_owned());
                }
                "accountname" => parts.name = value,
                "accountkey" => parts.key = value,
                "sharedaccesssignature" => parts.signature = value,
                "blobendpoint" => parts.endpoint = value,
                "endpointsuffix" => parts.suffix = value,
                "defaultendpointsprotocol" => parts.protocol = value,
                _ => {}
            }
        }
        Ok(parts)
    }

    fn account(self, is_anonymous: bool) -> Result<AzureAccount, String> {
        let name = match (self.name, &self.endpoint) {
            (Some(name), _) => name,
            // With a shared access signature and an endpoint, no account name is needed.
            (None, Some(_)) => String::new(),
            (None, None) => return Err("no storage account is named".to_owned()),
        };
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if !name.bytes().all(legal) {
            return Err("the name of the storage account has more than small letters and digits".to_owned());
        }
        let endpoint = self.endpoint.unwrap_or_else(|| {
            let protocol = self.protocol.as_deref().unwrap_or("https");
            format!("{protocol}://{name}.blob.{}", self.suffix.as_deref().unwrap_or("core.windows.net"))
        });
        let shown = firstbyte_location::redacted_operand(&endpoint);
        let unusable = || format!("{shown} is no endpoint; write http(s)://HOST[:PORT]");
        let origin = Origin::parse_url(&endpoint).ok_or_else(unusable)?;
        let rest = endpoint.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
        let path = rest.find('/').map(|at| rest[at..].trim_end_matches('/').to_owned()).unwrap_or_default();
        let credential = match (self.key, self.signature) {
            _ if is_anonymous => Credential::Anonymous,
            (Some(key), _) => Credential::Key(
                BASE64_STANDARD.decode(key.trim()).map_err(|_| "the account's key is not in base64")?,
            ),
            (None, Some(signature)) => Credential::Signature(signature.trim_start_matches('?').to_owned()),
            (None, None) => Credential::Token(TokenSource::find()),
        };
        Ok(AzureAccount { name, origin, path, credential })
    }
}

/// Appends a shared access signature to a request target.
pub(super) fn with_signature(target: &str, signature: &str) -> String {
    let sign = if target.contains('?') { '&' } else { '?' };
    format!("{target}{sign}{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(text: &str) -> Result<AzureAccount, String> {
        AccountFields::of_connection(text)?.account(false)
    }

    #[test]
    fn a_connection_string_names_account_endpoint_and_key() {
        let found =
            account("DefaultEndpointsProtocol=https;AccountName=me;AccountKey=aGlkZGVu;EndpointSuffix=x.y")
                .unwrap();
        assert_eq!((found.origin.to_string().as_str(), found.path.as_str()), ("me.blob.x.y:443", ""));
        assert!(matches!(&found.credential, Credential::Key(key) if key == b"hidden"));
        assert!(!format!("{found:?}").contains("hidden"));
        let found = account("UseDevelopmentStorage=true").unwrap();
        assert_eq!((found.origin.port, found.path.as_str()), (10_000, "/devstoreaccount1"));
        let found = account("BlobEndpoint=http://h:1/me/;SharedAccessSignature=?sv=1&sig=x=").unwrap();
        assert_eq!(found.path, "/me");
        assert!(matches!(&found.credential, Credential::Signature(text) if text == "sv=1&sig=x="));
    }

    #[test]
    fn an_error_about_a_connection_string_does_not_show_its_key() {
        for text in [
            "AccountKey=hidden",
            "AccountName=a;hidden",
            "AccountName=a;AccountKey=hidden!",
            "AccountName=h/idden",
        ] {
            let error = account(text).unwrap_err();
            assert!(!error.contains("hidden") && !error.contains('\n'), "{error}");
        }
    }
}
