//! Replaces the credential chain in a build without the feature `aws-config`. Such a build finds
//! credentials only as keys in options or environment variables.

use std::time::Duration;

use super::key::AccessKey;
use super::settings::Variants;
use crate::wire::WireClient;

/// The service for which credentials are requested (unused here).
pub(super) struct CredentialService {
    pub(super) region: String,
    pub(super) variants: Variants,
}

/// The reason why no credentials were found.
#[derive(Clone, Default)]
pub(super) struct ChainFailure {
    pub(super) detail: String,
    pub(super) silence: Option<(String, Duration)>,
}

impl From<String> for ChainFailure {
    fn from(detail: String) -> Self {
        Self { detail, silence: None }
    }
}

/// A chain that never finds credentials.
pub(super) struct CredentialChain;

impl CredentialChain {
    pub(super) fn new(_: &WireClient) -> Self {
        Self
    }

    pub(super) fn forget(&self) {}

    pub(super) fn provide(
        &self,
        _: &CredentialService,
        _: Option<String>,
    ) -> Result<AccessKey, ChainFailure> {
        Err("none in options and variables, and the feature `aws-config` was left out".to_owned().into())
    }
}
