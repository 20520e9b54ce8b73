# The bucket as a file system by S3 Files, if `s3_files` is true.

resource "aws_s3files_file_system" "this" {
  count = var.s3_files ? 1 : 0

  bucket   = module.bucket.arn
  role_arn = aws_iam_role.s3files[0].arn

  # The service lists the bucket while the file system is made.
  depends_on = [aws_iam_role_policy.s3files]
}

resource "aws_s3files_access_point" "this" {
  count = var.s3_files ? 1 : 0

  file_system_id = aws_s3files_file_system.this[0].id

  posix_user {
    uid = 1000
    gid = 1000
  }
}

resource "aws_s3files_mount_target" "this" {
  count = var.s3_files ? length(module.network.subnet_ids) : 0

  file_system_id  = aws_s3files_file_system.this[0].id
  subnet_id       = module.network.subnet_ids[count.index]
  security_groups = [module.efs.security_group]
}

# S3 Files is built on EFS, whose service assumes the role.
resource "aws_iam_role" "s3files" {
  count = var.s3_files ? 1 : 0

  name = "${local.name}-s3files"
  assume_role_policy = templatefile("${local.policies}/assume.json.tftpl", {
    service = "elasticfilesystem.amazonaws.com"
  })
}

resource "aws_iam_role_policy" "s3files" {
  count = var.s3_files ? 1 : 0

  #checkov:skip=CKV_AWS_355:only calls that describe have no narrower resource
  name = "synchronise"
  role = aws_iam_role.s3files[0].id
  policy = templatefile("${local.policies}/s3files-service.json.tftpl", {
    bucket    = module.bucket.arn
    partition = data.aws_partition.here.partition
  })
}
