//! Defines how a store signs S3 requests.

use std::fmt;

/// Whether S3 requests are signed, and with which credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// The credentials found by AWS's chain.
    #[default]
    Chain,
    /// The given credentials only.
    Keys(SigningKeys),
    /// No signature. For public buckets.
    Anonymous,
}

/// An access key. `Debug` omits the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKeys {
    /// The key's id, which is not secret.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: String,
    /// The session token of temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}
