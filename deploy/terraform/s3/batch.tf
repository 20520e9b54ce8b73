# Instances, the queue, and a job definition for each file system.

locals {
  # Directory at which each file system is mounted, the type that the kernel must show there, and
  # from where an instance fills it. Lustre is linked to the bucket.
  mounts = merge(
    {
      efs = {
        directory = "/mnt/efs"
        type      = "nfs4"
        fill      = "s3://${module.bucket.name}/db/"
        command = join(" ", [
          "mount -t efs -o tls,iam,accesspoint=${module.efs.access_point_id}",
          "${module.efs.id}:/ /mnt/efs",
        ])
      }
    },
    {
      for system in aws_fsx_lustre_file_system.this : "lustre" => {
        directory = "/mnt/lustre"
        type      = "lustre"
        fill      = ""
        command   = "mount -t lustre -o noatime,flock ${system.dns_name}@tcp:/${system.mount_name} /mnt/lustre"
      }
    },
    local.gateway_mounts,
  )
}

resource "aws_launch_template" "this" {
  #checkov:skip=CKV_AWS_341:containers reach the metadata service through one more hop than the instance
  name                                 = local.name
  update_default_version               = true
  instance_initiated_shutdown_behavior = "terminate"
  user_data                            = base64encode(local.user_data)

  network_interfaces {
    #checkov:skip=CKV_AWS_88:the agent reaches ECS without a NAT gateway; the security group admits nothing
    device_index                = 0
    associate_public_ip_address = true
    delete_on_termination       = true
    security_groups             = [module.network.clients, aws_security_group.lustre.id]
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = 30
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  # Default tags do not reach what Batch starts.
  dynamic "tag_specifications" {
    for_each = ["instance", "volume", "network-interface"]

    content {
      resource_type = tag_specifications.value
      tags          = local.tags
    }
  }
}

locals {
  tags = { Name = local.name, project = "firstbyte", run = var.run }
  user_data = templatefile("${path.module}/start.mime.tftpl", {
    program        = "s3://${aws_s3_object.firstbyte.bucket}/${aws_s3_object.firstbyte.key}"
    region         = data.aws_region.here.region
    mounts         = local.mounts
    expected_entry = var.expected_entry
  })
}

resource "aws_batch_compute_environment" "this" {
  name_prefix = "${local.name}-"
  type        = "MANAGED"

  compute_resources {
    type                = var.spot ? "SPOT" : "EC2"
    allocation_strategy = var.spot ? "SPOT_PRICE_CAPACITY_OPTIMIZED" : "BEST_FIT_PROGRESSIVE"
    instance_type       = var.instance_types
    instance_role       = aws_iam_instance_profile.instance.arn
    min_vcpus           = 0
    max_vcpus           = var.max_vcpus
    subnets             = module.network.subnet_ids
    tags                = local.tags

    ec2_configuration {
      image_type = "ECS_AL2023"
    }

    launch_template {
      launch_template_id = aws_launch_template.this.id
      version            = aws_launch_template.this.latest_version
    }
  }

  lifecycle {
    create_before_destroy = true
  }

  # Without its role an instance cannot leave the cluster, and the environment cannot be deleted.
  depends_on = [aws_iam_role_policy.instance]
}

resource "aws_batch_job_queue" "this" {
  name     = local.name
  priority = 1
  state    = "ENABLED"

  compute_environment_order {
    order               = 1
    compute_environment = aws_batch_compute_environment.this.arn
  }
}

resource "aws_cloudwatch_log_group" "jobs" {
  #checkov:skip=CKV_AWS_158:a customer key stays for at least 7 days after destroy; the logs hold timings
  #checkov:skip=CKV_AWS_338:logs of a test need not outlive its results
  name              = "/firstbyte/${var.run}/s3"
  retention_in_days = var.log_days
}

resource "aws_batch_job_definition" "this" {
  for_each = local.mounts

  #checkov:skip=CKV_AWS_210:the jobs are not privileged; the check does not read jsonencode
  name                  = "${local.name}-${each.key}"
  type                  = "container"
  platform_capabilities = ["EC2"]
  propagate_tags        = true

  parameters = { command = "firstbyte doctor" }

  container_properties = jsonencode({
    image   = var.image
    command = ["/opt/firstbyte/job", "${each.value.directory}=${each.value.type}", "Ref::command"]
    resourceRequirements = [
      { type = "VCPU", value = tostring(var.vcpus) },
      { type = "MEMORY", value = tostring(var.memory_mib) },
    ]
    jobRoleArn = aws_iam_role.job.arn
    volumes = [
      { name = "program", host = { sourcePath = "/opt/firstbyte" } },
      { name = "data", host = { sourcePath = each.value.directory } },
    ]
    mountPoints = [
      { sourceVolume = "program", containerPath = "/opt/firstbyte", readOnly = true },
      { sourceVolume = "data", containerPath = each.value.directory, readOnly = false },
    ]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.jobs.name
        awslogs-region        = data.aws_region.here.region
        awslogs-stream-prefix = each.key
      }
    }
  })

  # An interrupted spot instance is no fault of the job.
  retry_strategy {
    attempts = 3

    evaluate_on_exit {
      on_status_reason = "Host EC2*"
      action           = "RETRY"
    }

    evaluate_on_exit {
      on_reason = "*"
      action    = "EXIT"
    }
  }

  timeout {
    attempt_duration_seconds = var.attempt_minutes * 60
  }
}
