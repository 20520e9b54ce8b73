//! Requests tokens from Microsoft Entra: for a client with a secret, for a workload's identity, or
//! for the identity that Azure manages for a machine, an app or a serverless function.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::{ObjectLocation, redacted};

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::rest::{BearerToken, RestCall, ask_for_token, form};
use crate::s3::variable;
use crate::wire::{HttpMethod, WireClient};

/// The default authority, which issues tokens to clients with a secret or an assertion.
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// Resource for which tokens are requested.
const RESOURCE: &str = "https://storage.azure.com/";
/// The metadata server, which issues the token of a virtual machine's identity.
const METADATA_SERVER: &str = "http://169.254.169.254/metadata/identity/oauth2/token";
/// Longest wait for the metadata server. Where there is one, it answers within a second.
const METADATA_WAIT: Duration = Duration::from_secs(3);

pub(super) enum TokenSource {
    /// A client with a secret.
    Secret { tenant: String, client: String, secret: String },
    /// A workload whose cluster writes an assertion to a file, and renews that file.
    Workload { tenant: String, client: String, file: String },
    /// The identity of an app or a serverless function, which has a token endpoint of its own.
    App { endpoint: String, header: String, client: Option<String> },
    /// The identity of the virtual machine.
    Machine { client: Option<String> },
}

impl TokenSource {
    /// Returns the first source whose variables are all set, otherwise the virtual machine's
    /// identity.
    pub(super) fn find() -> Self {
        let (tenant, client) = (variable("AZURE_TENANT_ID"), variable("AZURE_CLIENT_ID"));
        if let (Some(tenant), Some(client)) = (tenant, client.clone()) {
            if let Some(secret) = variable("AZURE_CLIENT_SECRET") {
                return Self::Secret { tenant, client, secret };
            }
            if let Some(file) = variable("AZURE_FEDERATED_TOKEN_FILE") {
                return Self::Workload { tenant, client, file };
            }
        }
        match (variable("IDENTITY_ENDPOINT"), variable("IDENTITY_HEADER")) {
            (Some(endpoint), Some(header)) => Self::App { endpoint, header, client },
            _ => Self::Machine { client },
        }
    }

    pub(super) fn fetch(
        &self,
        object: &ObjectLocation,
        client: &Arc<WireClient>,
        cancel: &Cancel,
    ) -> Result<BearerToken> {
        let scope = format!("{RESOURCE}.default");
        match self {
            Self::Secret { tenant, client: id, secret } => {
                let fields = [
                    ("grant_type", "client_credentials"),
                    ("client_id", id),
                    ("client_secret", secret),
                    ("scope", &scope),
                ];
                post(object, client, tenant, &form(&fields), cancel)
            }
            Self::Workload { tenant, client: id, file } => {
                let proof = std::fs::read_to_string(file).map_err(|error| {
                    credentials_error(object, format!("AZURE_FEDERATED_TOKEN_FILE {file}: {error}"))
                })?;
                let fields = [
                    ("grant_type", "client_credentials"),
                    ("client_id", id),
                    ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
                    ("client_assertion", proof.trim()),
                    ("scope", &scope),
                ];
                post(object, client, tenant, &form(&fields), cancel)
            }
            Self::App { endpoint, header, client: id } => {
                let header = ("x-identity-header", header.as_str());
                managed_token(object, client, (endpoint, "2019-08-01"), header, id.as_deref(), cancel)
            }
            Self::Machine { client: id } => {
                let endpoint = (METADATA_SERVER, "2018-02-01");
                let token =
                    managed_token(object, client, endpoint, ("metadata", "true"), id.as_deref(), cancel);
                token.map_err(|error| match error {
                    Error::Cancelled | Error::Server { .. } => error,
                    _ => {
                        let detail = "no key, signature or identity is set, and no metadata server answers";
                        credentials_error(object, detail.to_owned())
                    }
                })
            }
        }
    }
}

fn credentials_error(object: &ObjectLocation, detail: String) -> Error {
    Error::Credentials { location: object.to_string(), detail, trace: None }
}

fn post(
    object: &ObjectLocation,
    client: &Arc<WireClient>,
    tenant: &str,
    body: &str,
    cancel: &Cancel,
) -> Result<BearerToken> {
    let authority = variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
    let (origin, _) = parse_url(object, &authority)?;
    let path = format!("/{}/oauth2/v2.0/token", crate::rest::encoded(tenant));
    let call = RestCall::new(HttpMethod::Post, object, path, cancel);
    ask_for_token(client, &call, &origin, Some(body), cancel)
}

/// Requests a token from a service on this machine or on its local network link.
fn managed_token(
    object: &ObjectLocation,
    client: &Arc<WireClient>,
    (endpoint, version): (&str, &str),
    header: (&str, &str),
    id: Option<&str>,
    cancel: &Cancel,
) -> Result<BearerToken> {
    let (origin, path) = parse_url(object, endpoint)?;
    let mut call = RestCall::new(HttpMethod::Get, object, path, cancel);
    call.query.push(("api-version", version.to_owned()));
    call.query.push(("resource", RESOURCE.to_owned()));
    call.query.extend(id.map(|id| ("client_id", id.to_owned())));
    call.header(header.0, header.1);
    ask_for_token(&Arc::new(client.nearby(METADATA_WAIT)), &call, &origin, None, cancel)
}

fn parse_url(object: &ObjectLocation, url: &str) -> Result<(Origin, String)> {
    let origin = Origin::parse_url(url);
    let rest = url.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let origin = origin.ok_or_else(|| credentials_error(object, format!("{} is no URL", redacted(url))))?;
    Ok((origin, path.to_owned()))
}
