//! Finds the endpoint and the credentials: in the options, otherwise in the variables of Google's
//! own clients.
//!
//! The sources are Google's application default credentials, in this order: the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, the file that `gcloud auth application-default login`
//! writes, and the metadata server of a Google machine. Each source provides tokens that are valid
//! for an hour. A credentials file is read again for each token.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use firstbyte_location::{ObjectLocation, redacted, shown};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::options::StoreOptions;
use crate::origin::Origin;
use crate::rest::{BearerToken, RestCall, Tokens, ask_for_token, form};
use crate::s3::variable;
use crate::signing::Signing;
use crate::wire::{HttpMethod, WireClient};

const GOOGLE_URL: &str = "https://storage.googleapis.com";
/// Default URL of the service that issues a token for a credentials file.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// Access for which tokens are requested: reading and writing objects and buckets.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
/// Address of the metadata server. Every Google machine resolves the server's name to this address.
const METADATA_SERVER: &str = "169.254.169.254";
/// Longest wait for the metadata server. Where there is one, it answers within milliseconds.
const METADATA_WAIT: Duration = Duration::from_secs(2);
/// Validity of the assertion that is exchanged for a token. Google allows no longer one.
const ASSERTION_VALIDITY: Duration = Duration::from_secs(60 * 60);

/// The endpoint to which requests are sent.
pub(super) struct GoogleEndpoint {
    pub(super) origin: Origin,
    /// True for an emulator. Emulators get no credentials.
    pub(super) is_emulator: bool,
}

/// Finds the endpoint and remembers tokens.
#[derive(Default)]
pub(super) struct GoogleCredentials {
    place: OnceLock<std::result::Result<GoogleEndpoint, String>>,
    tokens: Tokens,
}

impl GoogleCredentials {
    pub(super) fn place(&self, options: &StoreOptions) -> Result<&GoogleEndpoint> {
        if let Signing::Keys(_) = options.signing {
            let why = "is for S3; Google's credentials are found as its own clients find them".to_owned();
            return Err(Error::Options { what: "an access key".to_owned(), why });
        }
        self.place.get_or_init(|| find_place(options)).as_ref().map_err(|url| Error::Options {
            what: "STORAGE_EMULATOR_HOST".to_owned(),
            why: format!("`{}` is not an endpoint; write http://HOST:PORT", redacted(url)),
        })
    }

    pub(super) fn authorization(
        &self,
        object: &ObjectLocation,
        client: &Arc<WireClient>,
        cancel: &Cancel,
    ) -> Result<String> {
        self.tokens.header(|| fetch(object, client, cancel))
    }

    pub(super) fn forget(&self) -> bool {
        self.tokens.forget()
    }
}

fn find_place(options: &StoreOptions) -> std::result::Result<GoogleEndpoint, String> {
    let emulator = options.google_endpoint.clone().or_else(|| variable("STORAGE_EMULATOR_HOST"));
    let is_emulator = emulator.is_some();
    let url = emulator.unwrap_or_else(|| GOOGLE_URL.to_owned());
    let with_scheme = if url.contains("://") { url.clone() } else { format!("http://{url}") };
    Origin::parse_url(&with_scheme).map(|origin| GoogleEndpoint { origin, is_emulator }).ok_or(url)
}

/// Returns the project that is billed. Buckets are listed and created in this project.
pub(super) fn project() -> Result<String> {
    variable("GOOGLE_CLOUD_QUOTA_PROJECT").or_else(|| variable("GOOGLE_CLOUD_PROJECT")).ok_or_else(|| {
        Error::Options {
            what: "gs://".to_owned(),
            why: "set GOOGLE_CLOUD_PROJECT to name the project".to_owned(),
        }
    })
}

/// The content of a credentials file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CredentialsFile {
    ServiceAccount {
        client_email: String,
        private_key: String,
        private_key_id: Option<String>,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        token_uri: Option<String>,
    },
}

/// Requests a token from the first available source.
fn fetch(object: &ObjectLocation, client: &Arc<WireClient>, cancel: &Cancel) -> Result<BearerToken> {
    let Some(path) = credentials_file() else { return from_metadata_server(object, client, cancel) };
    let credentials_error = |why: String| Error::Credentials {
        location: object.to_string(),
        detail: format!("{}: {why}", shown(&path)),
        trace: None,
    };
    let (url, body) = token_request(&path).map_err(credentials_error)?;
    let origin = Origin::parse_url(&url)
        .ok_or_else(|| credentials_error(format!("token_uri {} is no URL", redacted(&url))))?;
    let path = url.split_once("://").and_then(|(_, rest)| Some(rest[rest.find('/')?..].to_owned()));
    let call = RestCall::new(HttpMethod::Post, object, path.unwrap_or_else(|| "/".to_owned()), cancel);
    ask_for_token(client, &call, &origin, Some(&body), cancel)
}

/// Returns the path of the credentials file: the file that the variable names, even if it is not
/// readable, otherwise the default file if it exists.
fn credentials_file() -> Option<PathBuf> {
    if let Some(named) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return Some(named.into());
    }
    let directory = variable("CLOUDSDK_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config/gcloud")));
    directory.map(|it| it.join("application_default_credentials.json")).filter(|path| path.exists())
}

/// Returns the URL that issues a token for a credentials file, and the body to send there. The
/// error does not quote the file.
fn token_request(path: &Path) -> std::result::Result<(String, String), String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let url = |given: Option<String>| given.unwrap_or_else(|| TOKEN_URL.to_owned());
    let file = serde_json::from_slice(&text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            "neither the key of a service account nor the login of a user".to_owned()
        }
        _ => format!("not JSON at line {}", error.line()),
    })?;
    match file {
        CredentialsFile::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
            let fields = [
                ("grant_type", "refresh_token"),
                ("client_id", &client_id),
                ("client_secret", &client_secret),
                ("refresh_token", &refresh_token),
            ];
            Ok((url(token_uri), form(&fields)))
        }
        CredentialsFile::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let url = url(token_uri);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let header = json!({ "alg": "RS256", "typ": "JWT", "kid": private_key_id });
            let (begins, ends) = (now.as_secs(), (now + ASSERTION_VALIDITY).as_secs());
            let claims =
                json!({ "iss": client_email, "scope": SCOPE, "aud": url, "iat": begins, "exp": ends });
            let assertion = signed_assertion(&header.to_string(), &claims.to_string(), &private_key)?;
            let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
            let body = form(&[("grant_type", grant), ("assertion", &assertion)]);
            Ok((url, body))
        }
    }
}

/// Returns a signed assertion (RFC 7515).
fn signed_assertion(header: &str, claims: &str, private_key: &str) -> std::result::Result<String, String> {
    let unusable = |what: &str| format!("its private key {what}");
    let der = PrivatePkcs8KeyDer::from_pem_slice(private_key.as_bytes())
        .map_err(|_| unusable("is not in PEM, as PKCS #8"))?;
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| unusable("is no RSA key"))?;
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let message = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .map_err(|_| unusable("cannot sign"))?;
    Ok(format!("{message}.{}", encode(&signature)))
}

fn from_metadata_server(
    object: &ObjectLocation,
    client: &Arc<WireClient>,
    cancel: &Cancel,
) -> Result<BearerToken> {
    let host = variable("GCE_METADATA_HOST").unwrap_or_else(|| METADATA_SERVER.to_owned());
    let none = |detail| Error::Credentials { location: object.to_string(), detail, trace: None };
    let origin = Origin::parse(false, &host)
        .ok_or_else(|| none(format!("GCE_METADATA_HOST is {host}, which is no host")))?;
    let path = "/computeMetadata/v1/instance/service-accounts/default/token".to_owned();
    let mut call = RestCall::new(HttpMethod::Get, object, path, cancel);
    call.query.push(("scopes", SCOPE.to_owned()));
    call.header("metadata-flavor", "Google");
    let client = Arc::new(client.nearby(METADATA_WAIT));
    match ask_for_token(&client, &call, &origin, None, cancel) {
        Err(error @ (Error::Cancelled | Error::Server { .. })) => Err(error),
        Err(_) => Err(none("no file of credentials, and no metadata server".to_owned())),
        token => token,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn file(content: &serde_json::Value) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.to_string().as_bytes()).unwrap();
        file
    }

    #[test]
    fn the_assertion_of_a_service_account_is_signed_by_its_key() {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'static> = key.as_der().unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(der.as_ref())
        );
        let file = file(&json!({
            "type": "service_account", "client_email": "me@p", "private_key": pem, "private_key_id": "7",
            "token_uri": "http://127.0.0.1:9/token", "project_id": "p",
        }));
        let (url, body) = token_request(file.path()).unwrap();
        assert_eq!(url, "http://127.0.0.1:9/token");
        let assertion = body.split_once("assertion=").unwrap().1;
        let parts: Vec<&str> = assertion.split('.').collect();
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&decode(parts[1])).unwrap();
        assert_eq!((claims["iss"].as_str(), claims["aud"].as_str()), (Some("me@p"), Some(url.as_str())));
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
        let message = format!("{}.{}", parts[0], parts[1]);
        public.verify(message.as_bytes(), &decode(parts[2])).unwrap();
    }

    #[test]
    fn the_login_of_a_user_is_sent_as_a_form() {
        let file = file(&json!({
            "type": "authorized_user", "client_id": "a b", "client_secret": "c&d", "refresh_token": "e",
        }));
        let (url, body) = token_request(file.path()).unwrap();
        assert_eq!(url, TOKEN_URL);
        assert!(body.contains("client_id=a%20b&client_secret=c%26d&refresh_token=e"), "{body}");
    }

    #[test]
    fn an_unusable_file_is_refused_without_its_content() {
        let unknown = json!({ "type": "external_account", "secret": "hidden" });
        let broken = json!({ "type": "service_account", "client_email": "x", "private_key": "hidden" });
        for content in [unknown, broken] {
            let error = token_request(file(&content).path()).unwrap_err();
            assert!(!error.contains("hidden") && !error.contains('\n'), "{error}");
        }
        assert!(token_request(Path::new("/no/such/file")).is_err());
    }
}
