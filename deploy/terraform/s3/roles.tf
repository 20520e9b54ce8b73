# Roles: the instance starts the agent and mounts, the job reads and writes data. A policy for who submits jobs.

resource "aws_iam_role" "instance" {
  name               = "${local.name}-instance"
  assume_role_policy = templatefile("${local.policies}/assume.json.tftpl", { service = "ec2.amazonaws.com" })
}

resource "aws_iam_instance_profile" "instance" {
  name = "${local.name}-instance"
  role = aws_iam_role.instance.name
}

resource "aws_iam_role_policy" "instance" {
  for_each = {
    instance = templatefile("${local.policies}/instance.json.tftpl", { logs = aws_cloudwatch_log_group.jobs.arn })
    read     = templatefile("${local.policies}/read.json.tftpl", { bucket = module.bucket.arn })
    efs      = local.efs_policy
  }

  name   = each.key
  role   = aws_iam_role.instance.id
  policy = each.value
}

resource "aws_iam_role" "job" {
  name               = "${local.name}-job"
  assume_role_policy = templatefile("${local.policies}/assume.json.tftpl", { service = "ecs-tasks.amazonaws.com" })
}

resource "aws_iam_role_policy" "job" {
  for_each = merge(
    {
      read  = templatefile("${local.policies}/read.json.tftpl", { bucket = module.bucket.arn })
      write = templatefile("${local.policies}/write.json.tftpl", { bucket = module.bucket.arn })
    },
    {
      for buckets in [var.directory_buckets] :
      "express" => templatefile("${local.policies}/express-write.json.tftpl", { buckets = buckets }) if length(buckets) > 0
    },
  )

  name   = each.key
  role   = aws_iam_role.job.id
  policy = each.value
}

# A policy for the user who measures. It is attached to nothing here.
resource "aws_iam_policy" "submit" {
  name = "${local.name}-submit"
  policy = templatefile("${local.policies}/submit.json.tftpl", {
    queue = aws_batch_job_queue.this.arn
    # Job definitions in any revision.
    definitions = flatten([for job in aws_batch_job_definition.this : [job.arn_prefix, "${job.arn_prefix}:*"]])
  })
}

locals {
  efs_policy = templatefile("${local.policies}/efs.json.tftpl", {
    file_system  = module.efs.arn
    access_point = module.efs.access_point_arn
  })
}
