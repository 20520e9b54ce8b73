# A gateway on an instance with local disks, if `gateway` is true: jobs mount the database through it, and S3 sends each
# byte once. Its key is made by the gateway when it starts, and lies in the bucket, which only the roles here may read.

data "aws_ssm_parameter" "image" {
  name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}

resource "aws_instance" "gateway" {
  count = var.gateway ? 1 : 0

  #checkov:skip=CKV_AWS_88:the program and the packages come without a NAT gateway; the security group admits jobs only
  #checkov:skip=CKV_AWS_126:its own counters are at /metrics
  ami                         = data.aws_ssm_parameter.image.insecure_value
  instance_type               = var.gateway_instance_type
  subnet_id                   = module.network.subnet_ids[0]
  associate_public_ip_address = true
  ebs_optimized               = true
  iam_instance_profile        = aws_iam_instance_profile.gateway.name
  vpc_security_group_ids      = [module.network.clients, aws_security_group.gateway.id]
  user_data = templatefile("${path.module}/gateway.sh.tftpl", {
    bucket  = module.bucket.name
    program = "s3://${aws_s3_object.firstbyte.bucket}/${aws_s3_object.firstbyte.key}"
    region  = data.aws_region.here.region
  })
  user_data_replace_on_change = true

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }

  root_block_device {
    volume_size           = 10
    volume_type           = "gp3"
    encrypted             = true
    delete_on_termination = true
  }

  tags        = { Name = "${local.name}-gateway" }
  volume_tags = local.tags

  depends_on = [aws_iam_role_policy.gateway]
}

resource "aws_security_group" "gateway" {
  #checkov:skip=CKV2_AWS_5:the gateway carries it, if there is one
  name        = "${local.name}-gateway"
  description = "The gateway, which jobs connect to"
  vpc_id      = module.network.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "gateway" {
  security_group_id            = aws_security_group.gateway.id
  description                  = "Jobs read from the gateway"
  referenced_security_group_id = module.network.clients
  ip_protocol                  = "tcp"
  from_port                    = local.gateway_port
  to_port                      = local.gateway_port
}

resource "aws_vpc_security_group_egress_rule" "gateway" {
  security_group_id            = module.network.clients
  description                  = "Jobs read from the gateway"
  referenced_security_group_id = aws_security_group.gateway.id
  ip_protocol                  = "tcp"
  from_port                    = local.gateway_port
  to_port                      = local.gateway_port
}

resource "aws_iam_role" "gateway" {
  name               = "${local.name}-gateway"
  assume_role_policy = templatefile("${local.policies}/assume.json.tftpl", { service = "ec2.amazonaws.com" })
}

resource "aws_iam_instance_profile" "gateway" {
  name = "${local.name}-gateway"
  role = aws_iam_role.gateway.name
}

resource "aws_iam_role_policy" "gateway" {
  for_each = {
    read  = templatefile("${local.policies}/read.json.tftpl", { bucket = module.bucket.arn })
    write = templatefile("${local.policies}/write.json.tftpl", { bucket = module.bucket.arn })
  }

  name   = each.key
  role   = aws_iam_role.gateway.id
  policy = each.value
}

locals {
  gateway_port = 8090

  # Command by which an instance of the jobs mounts the database through the gateway. The mount's
  # own cache is small, since the gateway has a large one.
  gateway_mounts = {
    for gateway in aws_instance.gateway : "gateway" => {
      directory = "/mnt/gateway"
      type      = "fuse.firstbyte"
      fill      = ""
      command = join(" ", [
        "aws s3 cp --quiet --region ${data.aws_region.here.region} s3://${module.bucket.name}/bin/gateway.keys gateway.keys &&",
        "FIRSTBYTE_REGION=${data.aws_region.here.region} ./firstbyte mount s3://${module.bucket.name}/db /mnt/gateway --allow-other",
        "--cache /var/cache/firstbyte --cache-size 10GB --metadata-ttl 1h",
        "--via http://${gateway.private_ip}:${local.gateway_port} --via-key gateway.keys",
      ])
    }
  }
}
