//! Selects the keys of a bucket that a request may see: served keys that its rights cover. Listings
//! ask the origin only for keys below the common directory of these keys, and show no others.

use super::origin::GatewayOrigin;
use crate::access::keys::{KeyRights, RequestRights};

/// The visible keys of one bucket.
#[derive(Clone, Copy)]
pub(crate) struct Visible<'a> {
    origin: &'a GatewayOrigin,
    access: &'a RequestRights,
    bucket: &'a str,
}

impl<'a> Visible<'a> {
    pub(super) fn new(origin: &'a GatewayOrigin, access: &'a RequestRights, bucket: &'a str) -> Self {
        Self { origin, access, bucket }
    }

    pub(crate) fn shows(&self, key: &str) -> bool {
        self.origin.serves(key)
            && self.access.allows(KeyRights::Read, self.origin.path(self.bucket, key).as_bytes())
    }

    /// True if some visible key may start with `beginning`.
    pub(crate) fn reaches(&self, beginning: &str) -> bool {
        self.origin.reaches(beginning)
            && self.access.reaches(self.origin.path(self.bucket, beginning).as_bytes())
    }

    /// Returns the key prefix of all visible keys, or the only visible key; empty for all. `None`:
    /// no key is visible.
    pub(crate) fn root(&self) -> Option<String> {
        let home = String::from_utf8_lossy(self.access.home().as_bytes()).into_owned();
        let home = match self.origin.has_buckets() {
            false => home,
            true if home.is_empty() || home == self.bucket => String::new(),
            true => home.strip_prefix(self.bucket)?.strip_prefix('/')?.to_owned(),
        };
        let scope = self.origin.scope();
        let (shorter, longer) =
            if home.len() < scope.len() { (home.as_str(), scope) } else { (scope, home.as_str()) };
        let rest = longer.strip_prefix(shorter)?;
        (shorter.is_empty() || rest.is_empty() || rest.starts_with('/')).then(|| longer.to_owned())
    }
}
