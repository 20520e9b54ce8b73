# A bucket, an EFS file system, and functions that read from both: the settings of suites s1 and s5.

data "aws_partition" "here" {}

locals {
  name     = "firstbyte-${var.run}-s1"
  policies = "${path.module}/../../policies"
  dist     = coalesce(var.dist, "${path.module}/../../../dist")
}

module "network" {
  source = "../modules/network"

  name = local.name
}

module "bucket" {
  source = "../modules/bucket"

  name = local.name
}

module "efs" {
  source = "../modules/efs"

  name       = local.name
  vpc_id     = module.network.vpc_id
  subnet_ids = module.network.subnet_ids
  clients    = module.network.clients
}
