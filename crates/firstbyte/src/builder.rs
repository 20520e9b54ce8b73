//! Adds builder methods to the options of a client, for programs that use no other crate of this
//! project.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_store::{Signing, SigningKeys};

use crate::options::ClientOptions;

impl ClientOptions {
    /// Sets the S3 endpoint, `http(s)://HOST[:PORT]`. Default: AWS.
    #[must_use]
    pub fn endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.store.endpoint_url = Some(url.into());
        self
    }

    /// Sets the region. Default: the region in the environment variables.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.store.region = Some(region.into());
        self
    }

    /// Selects a profile in the AWS configuration files. Needs the feature `aws-config`.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.store.profile = Some(name.into());
        self
    }

    /// Sets the access key that signs requests to S3. A temporary key also has a session token.
    #[must_use]
    pub fn keys(
        mut self,
        access_key_id: impl Into<String>,
        secret_access_key: impl Into<String>,
        session_token: Option<String>,
    ) -> Self {
        let (access_key_id, secret_access_key) = (access_key_id.into(), secret_access_key.into());
        self.store.signing = Signing::Keys(SigningKeys { access_key_id, secret_access_key, session_token });
        self
    }

    /// Sends requests to S3 unsigned, for public buckets.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.store.signing = Signing::Anonymous;
        self
    }

    /// Sets the directory of the cache, which other processes may share.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.reads.cache = Some(directory.into());
        self
    }

    /// Disables the cache. Bytes that were read are then kept only in memory.
    #[must_use]
    pub fn without_cache(mut self) -> Self {
        self.reads.cache = None;
        self
    }

    /// Sets the maximum size of the cache, bytes.
    #[must_use]
    pub fn cache_size(mut self, bytes: u64) -> Self {
        self.reads.cache_size = Some(bytes);
        self
    }

    /// Sets the maximum memory of buffers, bytes. The limit applies to reads and to copies
    /// separately.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.set_memory(bytes);
        self
    }

    /// Sets the maximum time that a read may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.set_deadline(deadline);
        self
    }

    /// Sets the time after which a connection on which no byte arrives counts as dead.
    #[must_use]
    pub fn read_timeout(mut self, silence: Duration) -> Self {
        self.set_read_timeout(silence);
        self
    }
}
