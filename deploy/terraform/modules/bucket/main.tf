# A private, encrypted, versioned bucket that `destroy` empties. Used by s1 and s3.

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_18:access logs would need a second bucket that outlives this one
  #checkov:skip=CKV_AWS_144:the data is made from a seed; a copy in another region has no use
  #checkov:skip=CKV_AWS_145:a customer key stays for at least 7 days after destroy; S3's own key encrypts
  #checkov:skip=CKV2_AWS_62:nothing acts on events of this bucket
  bucket_prefix = "${var.name}-"
  force_destroy = true
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

# Old versions and parts of uploads that were given up are billed like objects.
resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "leftovers"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }

    noncurrent_version_expiration {
      noncurrent_days = 1
    }
  }

  # A rule about old versions needs versions.
  depends_on = [aws_s3_bucket_versioning.this]
}
