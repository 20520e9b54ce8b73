# A Batch queue whose jobs read a database from EFS or FSx for Lustre, with S3 behind it: the setting of suite s3.

data "aws_region" "here" {}

locals {
  name     = "firstbyte-${var.run}-s3"
  policies = "${path.module}/../../policies"
}

module "network" {
  source = "../modules/network"

  name     = local.name
  internet = true
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

# Instances fetch the program from here when they start, and lend it to the jobs.
resource "aws_s3_object" "firstbyte" {
  bucket      = module.bucket.name
  key         = "bin/firstbyte"
  source      = var.firstbyte
  source_hash = filemd5(var.firstbyte)
}
