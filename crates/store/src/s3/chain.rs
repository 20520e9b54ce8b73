//! Finds credentials by AWS's credential chain in the crate `aws-config`: profiles, SSO,
//! `credential_process`, web identity, container and instance roles.
//!
//! The chain is asynchronous. It has a runtime of its own, because the caller may be running in
//! another one. `credentials` calls this module on a separate thread.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_types::region::Region;
use rustix_futex_sync::Mutex;
use tokio::runtime::Runtime;

use super::config_files::{self, identifier};
use super::environment::variable;
use super::key::AccessKey;
use super::profile;
use super::provider_client::{ProviderClient, Silence};
use super::runtime::{describe, last_cause, runtime};
use super::settings::Variants;
use crate::wire::WireClient;

/// Region of the STS endpoint that issues the credentials of a role if no region is configured, as
/// in a pod whose role comes from a web identity alone. Credentials of any region of AWS's main
/// partition are valid in all of them (<https://github.com/aws/aws-sdk-go-v2/issues/515>,
/// <https://github.com/cert-manager/cert-manager/issues/7102>, as of 28 November 2026).
const DEFAULT_STS_REGION: Region = Region::from_static("us-east-1");

/// The properties of a service on which the sources of its credentials depend.
pub(super) struct CredentialService {
    pub(super) region: Option<String>,
    pub(super) variants: Variants,
}

/// The reason why the chain failed.
#[derive(Clone, Default)]
pub(super) struct ChainFailure {
    pub(super) detail: String,
    /// The service that did not respond, if the chain failed because of it.
    pub(super) silence: Option<Silence>,
}

impl From<String> for ChainFailure {
    fn from(detail: String) -> Self {
        Self { detail, silence: None }
    }
}

/// A source of credentials other than the options.
enum CredentialSource {
    /// AWS's default chain.
    Chain(CredentialsProviderChain),
    /// One profile and the profiles it refers to.
    Profile(ProfileFileCredentialsProvider),
}

/// Finds credentials. Only one thread at a time may call it.
pub(super) struct CredentialChain {
    client: ProviderClient,
    /// The source, and the runtime that it runs in. The source caches the files that it has parsed.
    source: Mutex<Option<(Runtime, CredentialSource)>>,
    /// True if the files are to be read again.
    is_stale: AtomicBool,
}

impl CredentialChain {
    pub(super) fn new(client: &WireClient) -> Self {
        Self {
            client: ProviderClient::new(client),
            source: Mutex::default(),
            is_stale: AtomicBool::new(false),
        }
    }

    /// Requests credentials: from the profile if one was named, otherwise from the whole chain.
    pub(super) fn provide(
        &self,
        service: &CredentialService,
        profile: Option<String>,
    ) -> Result<AccessKey, ChainFailure> {
        let is_named = profile.is_some();
        let name = profile.clone().unwrap_or_else(|| "default".to_owned());
        if let Some(key) = profile::keys_before_process(&name) {
            return Ok(key);
        }
        let mut source = self.source.lock();
        if self.is_stale.swap(false, Ordering::Relaxed) {
            *source = None;
        }
        let (runtime, source) = match &mut *source {
            Some(found) => found,
            none => none.insert((runtime()?, self.source_of(service, profile))),
        };
        drop(self.client.take_silence());
        let provided = match source {
            CredentialSource::Chain(chain) => runtime.block_on(chain.provide_credentials()),
            CredentialSource::Profile(profile) => runtime.block_on(profile.provide_credentials()),
        };
        let found = provided.map_err(|error| {
            tracing::debug!(error = describe(&error), "no credentials");
            let tried = if is_named { format!("profile {name}") } else { tried_sources(&error, &name) };
            let cause = last_cause(&error).map(|cause| format!("; the last said: {cause}"));
            let detail = format!("none in {tried}{}", cause.unwrap_or_default());
            ChainFailure { detail, silence: self.client.take_silence() }
        })?;
        Ok(AccessKey {
            id: found.access_key_id().to_owned(),
            secret: found.secret_access_key().to_owned(),
            // `aws configure set aws_session_token ""` leaves an empty one.
            session_token: found.session_token().filter(|token| !token.is_empty()).map(ToOwned::to_owned),
            expiry: found.expiry(),
        })
    }

    /// Makes the next request for credentials read the files again.
    pub(super) fn forget(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// Returns one profile as the source, or AWS's default chain with the files of `config_files`.
    fn source_of(&self, service: &CredentialService, profile: Option<String>) -> CredentialSource {
        let region = service.region.clone().map_or(DEFAULT_STS_REGION, Region::new);
        let config = ProviderConfig::default()
            .with_region(Some(region))
            .with_use_fips(Some(service.variants.fips))
            .with_use_dual_stack(Some(service.variants.dual_stack))
            .with_http_client(self.client.clone());
        let of_files = ProfileFileCredentialsProvider::builder()
            .configure(&config)
            .profile_files(config_files::contents());
        match profile {
            Some(name) => CredentialSource::Profile(of_files.profile_name(identifier(&name)).build()),
            None => CredentialSource::Chain(
                CredentialsProviderChain::first_try(
                    "Environment",
                    EnvironmentVariableCredentialsProvider::new(),
                )
                .or_else("Profile", of_files.profile_name("default").build())
                .or_else(
                    "WebIdentityToken",
                    WebIdentityTokenCredentialsProvider::builder().configure(&config).build(),
                )
                .or_else("EcsContainer", EcsCredentialsProvider::builder().configure(&config).build())
                .or_else(
                    "Ec2InstanceMetadata",
                    ImdsCredentialsProvider::builder().configure(&config).build(),
                ),
            ),
        }
    }
}

/// Returns the sources that the chain tried before it failed. The chain stops at the first source
/// that is configured and fails.
fn tried_sources(error: &CredentialsError, profile: &str) -> String {
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
