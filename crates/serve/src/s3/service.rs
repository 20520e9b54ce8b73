//! Builds the S3 service of a server: s3s with this crate's operations, keys and limits.

use std::sync::Arc;

use s3s::config::{S3Config, StaticConfigProvider};
use s3s::host::{S3Host, VirtualHost};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Result};

use super::access;
use super::api::S3Api;
use super::attempt::KeyFile;
use super::posted::MAX_WRITTEN_FIELDS_BYTES;
use super::sessions::S3Sessions;
use super::verify::{NoOperations, Signer};
use crate::access::keys::ServerKeys;
use crate::config::Authentication;
use crate::http::hosts::{HostTarget, Hosts};
use crate::state::{ServedSource, ServerState};

/// Maximum length of an XML document in bytes. A `CompleteMultipartUpload` of 10,000 parts with
/// checksums takes half of it.
pub(super) const MAX_XML_BYTES: usize = 4 << 20;

/// The S3 API of one server.
pub(crate) struct S3Frontend {
    pub(super) service: S3Service,
    /// The service that verifies signatures. `None` without keys.
    pub(super) verifying: Option<S3Service>,
    /// The service that answers HTML forms.
    pub(super) forms: S3Service,
    pub(super) sessions: S3Sessions,
    /// The keys and the counts of wrong guesses. `None` without keys.
    pub(super) key_file: Option<KeyFile>,
}

impl std::fmt::Debug for S3Frontend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("key_file", &self.key_file).finish_non_exhaustive()
    }
}

impl S3Frontend {
    pub(crate) fn new(state: &ServerState, served: &ServedSource) -> Self {
        let ServerState { config, hosts, attempts, .. } = state;
        let keys = match &config.authentication {
            Authentication::Keys(keys) => Some(keys.clone()),
            Authentication::None => None,
        };
        let key_file = || keys.clone().map(|keys| KeyFile { keys, attempts: attempts.clone() });
        let answering = |limits| {
            let api = S3Api::new(served, state);
            let mut builder = builder(api, key_file(), limits);
            if let Some(keys) = keys.clone() {
                builder.set_access(access::RightsByPrefix { keys, buckets: config.buckets.clone() });
            }
            builder.build()
        };
        let service = answering(S3Config::default());
        let mut of_forms = S3Config::default();
        // A form is valid for as long as its policy says, whatever the date of its signature.
        of_forms.presigned_url_max_skew_time_secs = u32::MAX;
        // The length of the file is compared with the policy where the file is read.
        of_forms.post_object_max_file_size = u64::MAX;
        of_forms.form_max_field_size = MAX_WRITTEN_FIELDS_BYTES;
        of_forms.form_max_fields_size = MAX_WRITTEN_FIELDS_BYTES;
        let forms = answering(of_forms);
        let verifying = keys.is_some().then(|| {
            let mut builder = builder(NoOperations, key_file(), S3Config::default());
            builder.set_route(Signer);
            builder.set_host(hosts.clone());
            builder.build()
        });
        let sessions = S3Sessions::new();
        Self { service, verifying, forms, sessions, key_file: key_file() }
    }

    /// Returns the keys of the server. `None` without keys.
    pub(super) fn keys(&self) -> Option<&ServerKeys> {
        self.key_file.as_ref().map(|file| &file.keys)
    }
}

/// Settings that all S3 services of a server share.
fn builder(operations: impl S3, keys: Option<KeyFile>, mut limits: S3Config) -> S3ServiceBuilder {
    let mut builder = S3ServiceBuilder::new(operations);
    limits.xml_max_body_size = MAX_XML_BYTES;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(limits))));
    builder.set_validation(access::BucketNameRules);
    if let Some(keys) = keys {
        builder.set_auth(keys);
    }
    builder
}

/// Finds the bucket in the host name for signatures of version 2, which cover it.
impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let server = VirtualHost::new(host);
        Ok(match self.judge(host) {
            HostTarget::Bucket(bucket) => server.with_bucket(bucket),
            HostTarget::Server | HostTarget::Elsewhere => server,
        })
    }
}
