# Functions by kind and memory. `mounted` has EFS at /mnt/data and `plain` has not, so that the time a mount adds shows.
# `boto3`, `shutil` and `package` are the Python handlers of deploy/functions.

locals {
  efs_mount = { arn = module.efs.access_point_arn, path = "/mnt/data" }

  native = {
    zip     = "${local.dist}/function-${var.architecture}.zip"
    runtime = "provided.al2023"
    handler = "bootstrap"
    layers  = []
  }
  python = {
    zip     = "${local.dist}/handlers.zip"
    runtime = "python3.12"
    layers  = []
  }
  kinds = merge(
    {
      plain   = merge(local.native, { mounts = [] })
      mounted = merge(local.native, { mounts = [local.efs_mount] })
      boto3   = merge(local.python, { handler = "boto3_s3.handle", mounts = [] })
      shutil  = merge(local.python, { handler = "mount.handle", mounts = [local.efs_mount] })
      package = merge(local.python, {
        handler = "with_firstbyte.handle"
        layers  = [aws_lambda_layer_version.firstbyte.arn]
        mounts  = []
      })
    },
    {
      for point in aws_s3files_access_point.this :
      "s3files" => merge(local.native, { mounts = [{ arn = point.arn, path = "/mnt/data" }] })
    },
  )
  functions = {
    for pair in setproduct(keys(local.kinds), var.memory_sizes) :
    "${pair[0]}-${pair[1]}" => merge(local.kinds[pair[0]], { memory = pair[1] })
  }
}

resource "aws_lambda_layer_version" "firstbyte" {
  layer_name               = local.name
  filename                 = "${local.dist}/layer-${var.architecture}.zip"
  source_code_hash         = filebase64sha256("${local.dist}/layer-${var.architecture}.zip")
  compatible_runtimes      = ["python3.12"]
  compatible_architectures = [var.architecture]
}

# Log groups are made here, so that `destroy` deletes them: the functions may not make groups of their own.
resource "aws_cloudwatch_log_group" "functions" {
  #checkov:skip=CKV_AWS_158:a customer key stays for at least 7 days after destroy; the logs hold timings
  #checkov:skip=CKV_AWS_338:logs of a test need not outlive its results
  name              = "/firstbyte/${var.run}/s1"
  retention_in_days = var.log_days
}

resource "aws_lambda_function" "this" {
  for_each = local.functions

  #checkov:skip=CKV_AWS_50:tracing adds to the start, which is measured
  #checkov:skip=CKV_AWS_115:reserved concurrency would take from the account what it may lack; 20 starts are the most
  #checkov:skip=CKV_AWS_116:every call waits for its answer, so no event can be lost
  #checkov:skip=CKV_AWS_272:the zips are built by the user who applies this
  function_name    = "${local.name}-${each.key}"
  role             = aws_iam_role.function.arn
  filename         = each.value.zip
  source_code_hash = filebase64sha256(each.value.zip)
  runtime          = each.value.runtime
  handler          = each.value.handler
  layers           = each.value.layers
  architectures    = [var.architecture]
  memory_size      = each.value.memory
  timeout          = var.timeout_seconds

  ephemeral_storage {
    size = var.tmp_mb
  }

  vpc_config {
    subnet_ids         = module.network.subnet_ids
    security_group_ids = [module.network.clients]
  }

  dynamic "file_system_config" {
    for_each = each.value.mounts

    content {
      arn              = file_system_config.value.arn
      local_mount_path = file_system_config.value.path
    }
  }

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.functions.name
  }

  # A function may use a mount, and send its first line, as soon as it exists.
  depends_on = [aws_iam_role_policy.function, aws_s3files_mount_target.this]
}

resource "aws_iam_role" "function" {
  name               = "${local.name}-function"
  assume_role_policy = templatefile("${local.policies}/assume.json.tftpl", { service = "lambda.amazonaws.com" })
}

resource "aws_iam_role_policy" "function" {
  for_each = merge(
    {
      function = templatefile("${local.policies}/function.json.tftpl", { logs = aws_cloudwatch_log_group.functions.arn })
      read     = templatefile("${local.policies}/read.json.tftpl", { bucket = module.bucket.arn })
      efs = templatefile("${local.policies}/efs.json.tftpl", {
        file_system  = module.efs.arn
        access_point = module.efs.access_point_arn
      })
    },
    {
      for system in aws_s3files_file_system.this :
      "s3files" => templatefile("${local.policies}/s3files-client.json.tftpl", { file_system = system.arn })
    },
    {
      for buckets in [var.directory_buckets] :
      "express" => templatefile("${local.policies}/express-read.json.tftpl", { buckets = buckets }) if length(buckets) > 0
    },
  )

  name   = each.key
  role   = aws_iam_role.function.id
  policy = each.value
}

# A policy for the user who measures. It is attached to nothing here.
resource "aws_iam_policy" "measure" {
  name = "${local.name}-measure"
  policy = templatefile("${local.policies}/measure.json.tftpl", {
    functions = [for function in aws_lambda_function.this : function.arn]
  })
}
