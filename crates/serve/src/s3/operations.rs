//! Maps each S3 operation to its function. s3s answers operations that are missing here with
//! NotImplemented. docs/reference/serve.md has the same table for users, and a test compares both
//! tables.

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::s3::api::S3Api;
use crate::s3::{attributes, buckets, listings, multipart, private, reads, unfinished, writes};

macro_rules! operations {
    (
        answered { $($name:ident: $input:ty => $output:ty, $function:path;)* }
        nothing_set { $($empty:ident: $empty_input:ty => $empty_output:ty;)* }
        nothing_to_delete { $($done:ident: $done_input:ty => $done_output:ty;)* }
        not_configured { $($none:ident: $none_input:ty => $none_output:ty, $code:literal;)* }
    ) => {
        #[async_trait::async_trait]
        impl S3 for S3Api {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $function(self, request).await
            })*

            // No configuration is stored, so the answer is empty.
            $(async fn $empty(&self, request: S3Request<$empty_input>) -> S3Result<S3Response<$empty_output>> {
                self.configured_bucket(&request.input.bucket).await?;
                Ok(S3Response::new(<$empty_output>::default()))
            })*

            // No configuration is stored, so there is nothing to delete.
            $(async fn $done(&self, request: S3Request<$done_input>) -> S3Result<S3Response<$done_output>> {
                self.check_writing()?;
                self.bucket(&request.input.bucket).await?;
                let status = http::StatusCode::NO_CONTENT;
                Ok(S3Response::with_status(<$done_output>::default(), status))
            })*

            // No configuration is stored, and S3 has a specific error for it.
            $(async fn $none(&self, request: S3Request<$none_input>) -> S3Result<S3Response<$none_output>> {
                self.configured_bucket(&request.input.bucket).await?;
                Err(private::not_configured($code))
            })*
        }
    };
}

operations! {
answered {
    list_buckets: ListBucketsInput => ListBucketsOutput, buckets::list;
    head_bucket: HeadBucketInput => HeadBucketOutput, buckets::head;
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput, buckets::location;
    create_bucket: CreateBucketInput => CreateBucketOutput, buckets::create;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput, buckets::delete;

    list_objects: ListObjectsInput => ListObjectsOutput, listings::first_version;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output, listings::second_version;
    list_object_versions: ListObjectVersionsInput => ListObjectVersionsOutput, listings::versions;
    head_object: HeadObjectInput => HeadObjectOutput, reads::head;
    get_object: GetObjectInput => GetObjectOutput, reads::get;
    get_object_attributes: GetObjectAttributesInput => GetObjectAttributesOutput, attributes::get;
    put_object: PutObjectInput => PutObjectOutput, writes::put;
    post_object: PostObjectInput => PostObjectOutput, writes::post;
    copy_object: CopyObjectInput => CopyObjectOutput, writes::copy;
    delete_object: DeleteObjectInput => DeleteObjectOutput, writes::delete;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput, writes::delete_many;

    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput, multipart::create;
    upload_part: UploadPartInput => UploadPartOutput, multipart::upload_part;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput, multipart::copy_part;
    complete_multipart_upload:
        CompleteMultipartUploadInput => CompleteMultipartUploadOutput, multipart::complete;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput, multipart::abort;
    list_parts: ListPartsInput => ListPartsOutput, unfinished::list_parts;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput, unfinished::list_uploads;

    get_bucket_acl: GetBucketAclInput => GetBucketAclOutput, private::bucket_acl;
    get_object_acl: GetObjectAclInput => GetObjectAclOutput, private::object_acl;
    put_bucket_acl: PutBucketAclInput => PutBucketAclOutput, private::put_bucket_acl;
    put_object_acl: PutObjectAclInput => PutObjectAclOutput, private::put_object_acl;
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput, private::object_tags;
    delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput, private::delete_object_tags;
    get_bucket_request_payment:
        GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput, private::payer;
    get_bucket_ownership_controls:
        GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput, private::ownership;
    get_object_retention: GetObjectRetentionInput => GetObjectRetentionOutput, private::retention;
    get_object_legal_hold: GetObjectLegalHoldInput => GetObjectLegalHoldOutput, private::legal_hold;
}
nothing_set {
    get_bucket_versioning: GetBucketVersioningInput => GetBucketVersioningOutput;
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput;
    get_bucket_notification_configuration:
        GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput;
    get_bucket_accelerate_configuration:
        GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput;
    list_bucket_analytics_configurations:
        ListBucketAnalyticsConfigurationsInput => ListBucketAnalyticsConfigurationsOutput;
    list_bucket_intelligent_tiering_configurations:
        ListBucketIntelligentTieringConfigurationsInput => ListBucketIntelligentTieringConfigurationsOutput;
    list_bucket_inventory_configurations:
        ListBucketInventoryConfigurationsInput => ListBucketInventoryConfigurationsOutput;
    list_bucket_metrics_configurations:
        ListBucketMetricsConfigurationsInput => ListBucketMetricsConfigurationsOutput;
}
nothing_to_delete {
    delete_bucket_cors: DeleteBucketCorsInput => DeleteBucketCorsOutput;
    delete_bucket_encryption: DeleteBucketEncryptionInput => DeleteBucketEncryptionOutput;
    delete_bucket_lifecycle: DeleteBucketLifecycleInput => DeleteBucketLifecycleOutput;
    delete_bucket_policy: DeleteBucketPolicyInput => DeleteBucketPolicyOutput;
    delete_bucket_replication: DeleteBucketReplicationInput => DeleteBucketReplicationOutput;
    delete_bucket_tagging: DeleteBucketTaggingInput => DeleteBucketTaggingOutput;
    delete_bucket_website: DeleteBucketWebsiteInput => DeleteBucketWebsiteOutput;
    delete_public_access_block: DeletePublicAccessBlockInput => DeletePublicAccessBlockOutput;
}
not_configured {
    get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput, "NoSuchBucketPolicy";
    get_bucket_policy_status:
        GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput, "NoSuchBucketPolicy";
    get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput, "NoSuchTagSet";
    get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput, "NoSuchCORSConfiguration";
    get_bucket_lifecycle_configuration:
        GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput, "NoSuchLifecycleConfiguration";
    get_bucket_encryption:
        GetBucketEncryptionInput => GetBucketEncryptionOutput, "ServerSideEncryptionConfigurationNotFoundError";
    get_bucket_replication:
        GetBucketReplicationInput => GetBucketReplicationOutput, "ReplicationConfigurationNotFoundError";
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput, "NoSuchWebsiteConfiguration";
    get_object_lock_configuration:
        GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput, "ObjectLockConfigurationNotFoundError";
    get_public_access_block:
        GetPublicAccessBlockInput => GetPublicAccessBlockOutput, "NoSuchPublicAccessBlockConfiguration";
    get_bucket_analytics_configuration:
        GetBucketAnalyticsConfigurationInput => GetBucketAnalyticsConfigurationOutput, "NoSuchConfiguration";
    get_bucket_intelligent_tiering_configuration:
        GetBucketIntelligentTieringConfigurationInput => GetBucketIntelligentTieringConfigurationOutput, "NoSuchConfiguration";
    get_bucket_inventory_configuration:
        GetBucketInventoryConfigurationInput => GetBucketInventoryConfigurationOutput, "NoSuchConfiguration";
    get_bucket_metrics_configuration:
        GetBucketMetricsConfigurationInput => GetBucketMetricsConfigurationOutput, "NoSuchConfiguration";
    delete_bucket_analytics_configuration:
        DeleteBucketAnalyticsConfigurationInput => DeleteBucketAnalyticsConfigurationOutput, "NoSuchConfiguration";
    delete_bucket_intelligent_tiering_configuration:
        DeleteBucketIntelligentTieringConfigurationInput => DeleteBucketIntelligentTieringConfigurationOutput, "NoSuchConfiguration";
    delete_bucket_inventory_configuration:
        DeleteBucketInventoryConfigurationInput => DeleteBucketInventoryConfigurationOutput, "NoSuchConfiguration";
    delete_bucket_metrics_configuration:
        DeleteBucketMetricsConfigurationInput => DeleteBucketMetricsConfigurationOutput, "NoSuchConfiguration";
}
}
