//! Builds the S3 service of a server: s3s with our operations, keys and limits.

use std::sync::Arc;

use s3s::S3;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};

use super::access;
use super::api::Api;
use super::verify::{NoOperations, Signer};
use crate::auth::Keys;
use crate::config::{Authentication, Config};
use crate::root::Root;
use crate::uploads::Uploads;

/// The largest XML document taken: a `CompleteMultipartUpload` of 10,000 parts with checksums is
/// half of it.
pub(super) const LARGEST_XML: usize = 4 << 20;

/// Objects posted by HTML forms are held in memory by s3s, so they stay small; pages upload by
/// their own protocol.
const LARGEST_FORM: u64 = 1 << 20;

/// The S3 API of one server.
pub(crate) struct Service {
    pub(super) service: S3Service,
    /// The service that verifies signatures. `None` without keys.
    pub(super) verifying: Option<S3Service>,
    authentication: Authentication,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("authentication", &self.authentication).finish_non_exhaustive()
    }
}

impl Service {
    pub(crate) fn new(root: Root, uploads: Arc<Uploads>, config: &Config) -> Self {
        let mut builder = builder(Api::new(root, uploads, config), &config.authentication);
        if let Authentication::Keys(keys) = &config.authentication {
            builder
                .set_access(access::RightsByPrefix { keys: keys.clone(), buckets: config.buckets.clone() });
        }
        let service = builder.build();
        let verifying = matches!(config.authentication, Authentication::Keys(_)).then(|| {
            let mut builder = self::builder(NoOperations, &config.authentication);
            builder.set_route(Signer);
            builder.build()
        });
        Self { service, verifying, authentication: config.authentication.clone() }
    }

    pub(super) fn keys(&self) -> Option<&Keys> {
        match &self.authentication {
            Authentication::Keys(keys) => Some(keys),
            Authentication::None => None,
        }
    }
}

/// Settings shared by both S3 services.
fn builder(operations: impl S3, authentication: &Authentication) -> S3ServiceBuilder {
    let mut builder = S3ServiceBuilder::new(operations);
    let mut limits = S3Config::default();
    limits.xml_max_body_size = LARGEST_XML;
    limits.post_object_max_file_size = LARGEST_FORM;
    limits.form_max_fields_size = LARGEST_XML;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(limits))));
    builder.set_validation(access::DirectoryNames);
    if let Authentication::Keys(keys) = authentication {
        builder.set_auth(access::KeyFile(keys.clone()));
    }
    builder
}
