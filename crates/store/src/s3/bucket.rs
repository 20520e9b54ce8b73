//! Creates and deletes buckets, by CreateBucket and DeleteBucket.

use firstbyte_location::ObjectLocation;

use super::operation::S3Operation;
use super::{S3, S3Call, endpoint, express, xml};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::upload::Payload;

impl S3 {
    /// Sends `CreateBucket`. Creates the bucket in the region of the options.
    pub(crate) fn create_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let region = self.region(&bucket.bucket)?;
        // S3 does not allow the name of the first region in a body: a request without a body
        // selects it.
        let body = match express::zone(&bucket.bucket) {
            Some(zone) => express::bucket_configuration(zone),
            None if region == endpoint::FIRST_REGION => String::new(),
            None => {
                let region = xml::escape(&region);
                format!(
                    "<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
                )
            }
        };
        let cancel = Cancel::new();
        let mut call = S3Call::new(S3Operation::CreateBucket, bucket, &cancel);
        call.payload = Payload::Bytes(body.as_bytes());
        self.call_text(&call).map(drop)
    }

    /// Sends `DeleteBucket`. The service refuses to delete a bucket that is not empty.
    pub(crate) fn delete_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        self.call_text(&S3Call::new(S3Operation::DeleteBucket, bucket, &cancel)).map(drop)
    }
}
