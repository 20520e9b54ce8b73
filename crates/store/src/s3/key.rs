//! Holds the key that signs requests. Every source of credentials returns this type.

use std::fmt;
use std::time::SystemTime;

/// An access key. `Debug` omits its secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AccessKey {
    pub(super) id: String,
    pub(super) secret: String,
    /// The session token of a temporary key.
    pub(super) session_token: Option<String>,
    pub(super) expiry: Option<SystemTime>,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKey({})", self.id)
    }
}
