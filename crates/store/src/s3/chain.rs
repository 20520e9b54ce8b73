//! Finds credentials by AWS's credential chain in the crate `aws-config`: profiles, SSO,
//! `credential_process`, web identity, container and instance roles.
//!
//! The chain is asynchronous. It has a runtime of its own, because the caller may be running in
//! another one. `credentials` calls this module on a separate thread.

use std::sync::OnceLock;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_types::region::Region;
use tokio::runtime::Runtime;

use super::environment::variable;
use super::key::AccessKey;
use super::provider_client::{ProviderClient, Silence};
use super::runtime::{describe, last_cause, runtime};
use super::settings::Variants;
use crate::wire::WireClient;

/// The properties of a service on which the sources of its credentials depend.
pub(super) struct CredentialService {
    pub(super) region: Option<String>,
    pub(super) variants: Variants,
}

/// The reason why the chain failed.
#[derive(Clone, Default)]
pub(super) struct ChainFailure {
    pub(super) detail: String,
    /// The service that did not respond, if that is why the chain failed.
    pub(super) silence: Option<Silence>,
}

impl From<String> for ChainFailure {
    fn from(detail: String) -> Self {
        Self { detail, silence: None }
    }
}

/// A source of credentials other than the options.
enum Source {
    /// AWS's default chain.
    Chain(DefaultCredentialsChain),
    /// One profile, and the profiles to which it refers.
    Profile(ProfileFileCredentialsProvider),
}

/// Finds credentials. Only one thread at a time may call it.
pub(super) struct CredentialChain {
    client: ProviderClient,
    source: OnceLock<(Runtime, Source)>,
}

impl CredentialChain {
    pub(super) fn new(client: &WireClient) -> Self {
        Self { client: ProviderClient::new(client), source: OnceLock::new() }
    }

    /// Requests credentials: from the profile if one is named, otherwise from the whole chain.
    pub(super) fn provide(
        &self,
        service: &CredentialService,
        profile: Option<String>,
    ) -> Result<AccessKey, ChainFailure> {
        let is_named = profile.is_some();
        let name = profile.clone().unwrap_or_else(|| "default".to_owned());
        if self.source.get().is_none() {
            let runtime = runtime()?;
            let region = service.region.clone().map(Region::new);
            let config = ProviderConfig::default()
                .with_region(region.clone())
                .with_use_fips(Some(service.variants.fips))
                .with_use_dual_stack(Some(service.variants.dual_stack))
                .with_http_client(self.client.clone());
            let source = match profile {
                Some(name) => {
                    let builder = ProfileFileCredentialsProvider::builder();
                    Source::Profile(builder.configure(&config).profile_name(name).build())
                }
                None => {
                    let builder = DefaultCredentialsChain::builder().configure(config).region(region);
                    Source::Chain(runtime.block_on(builder.build()))
                }
            };
            // The cell is still empty, because only one thread at a time runs the chain.
            let _ = self.source.set((runtime, source));
        }
        let (runtime, source) = self.source.get().ok_or_else(|| "no source of credentials".to_owned())?;
        drop(self.client.take_silence());
        let provided = match source {
            Source::Chain(chain) => runtime.block_on(chain.provide_credentials()),
            Source::Profile(profile) => runtime.block_on(profile.provide_credentials()),
        };
        let found = provided.map_err(|error| {
            tracing::debug!(error = describe(&error), "no credentials");
            let tried = if is_named { format!("profile {name}") } else { tried(&error, &name) };
            let cause = last_cause(&error).map(|cause| format!("; the last said: {cause}"));
            let detail = format!("none in {tried}{}", cause.unwrap_or_default());
            ChainFailure { detail, silence: self.client.take_silence() }
        })?;
        Ok(AccessKey {
            id: found.access_key_id().to_owned(),
            secret: found.secret_access_key().to_owned(),
            session_token: found.session_token().map(ToOwned::to_owned),
            expiry: found.expiry(),
        })
    }
}

/// Returns the sources that the chain tried before it failed. The chain stops at the first source
/// that is configured and fails.
fn tried(error: &CredentialsError, profile: &str) -> String {
    let is_set = |names: &[&str]| names.iter().any(|name| variable(name).is_some());
    let files = is_set(&["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]);
    let files = if files { "the AWS configuration files" } else { "~/.aws/credentials" };
    let mut sources = vec!["environment".to_owned(), format!("profile {profile} of {files}")];
    if is_set(&["AWS_WEB_IDENTITY_TOKEN_FILE"]) {
        sources.push("web identity".to_owned());
    }
    if is_set(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"]) {
        sources.push("role of the task".to_owned());
    }
    let is_exhausted = matches!(error, CredentialsError::CredentialsNotLoaded(_));
    let is_disabled = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    if !is_disabled && (is_exhausted || describe(error).contains("IMDS")) {
        sources.push("role of the machine (IMDS)".to_owned());
    }
    sources.join(", ")
}
