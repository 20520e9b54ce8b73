//! Limits the cost of a store's requests, and finds the regions on which their prices depend.
//! Called by probes, and when the cost of a run is computed.

use firstbyte_location::ObjectLocation;

use crate::spending::Spending;
use crate::store::Store;

impl Store {
    /// Returns a clone whose requests may cost at most as much as `spending` allows. Requests of
    /// other clones do not count towards that limit. The clones share connections, credentials and
    /// counters.
    #[must_use]
    pub fn with_spending(&self, spending: Spending) -> Self {
        self.with_client(self.client.with_spending(spending))
    }

    /// Returns the region in which a request has found a bucket of S3, if it is not the configured
    /// one. Sends no request.
    #[must_use]
    pub fn found_region(&self, object: &ObjectLocation) -> Option<String> {
        if !object.service.is_s3() {
            return None;
        }
        self.s3_of(object.service).ok()?.found_region(&object.bucket)
    }
}
