# FSx for Lustre with its link to the bucket, if `lustre` is true: names appear at once, contents when first read.

resource "aws_fsx_lustre_file_system" "this" {
  count = var.lustre ? 1 : 0

  #checkov:skip=CKV_AWS_190:a customer key stays for at least 7 days after destroy; the service's own key encrypts
  deployment_type             = var.lustre_type
  storage_capacity            = var.lustre_gib
  per_unit_storage_throughput = var.lustre_type == "PERSISTENT_2" ? var.lustre_mbps_per_tib : null
  file_system_type_version    = "2.15"
  subnet_ids                  = [module.network.subnet_ids[0]]
  security_group_ids          = [aws_security_group.lustre.id]
  skip_final_backup           = true

  tags = { Name = local.name }
}

resource "aws_fsx_data_repository_association" "bucket" {
  count = var.lustre ? 1 : 0

  file_system_id                   = aws_fsx_lustre_file_system.this[0].id
  file_system_path                 = "/"
  data_repository_path             = "s3://${module.bucket.name}/db"
  batch_import_meta_data_on_create = true

  s3 {
    auto_import_policy {
      events = ["NEW", "CHANGED", "DELETED"]
    }
  }
}

# Lustre talks on these ports in both directions.
resource "aws_security_group" "lustre" {
  name        = "${local.name}-lustre"
  description = "FSx for Lustre and its clients"
  vpc_id      = module.network.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "lustre" {
  for_each = local.lustre_ports

  security_group_id            = aws_security_group.lustre.id
  description                  = "Lustre within the group"
  referenced_security_group_id = aws_security_group.lustre.id
  ip_protocol                  = "tcp"
  from_port                    = each.value[0]
  to_port                      = each.value[1]
}

resource "aws_vpc_security_group_egress_rule" "lustre" {
  for_each = local.lustre_ports

  security_group_id            = aws_security_group.lustre.id
  description                  = "Lustre within the group"
  referenced_security_group_id = aws_security_group.lustre.id
  ip_protocol                  = "tcp"
  from_port                    = each.value[0]
  to_port                      = each.value[1]
}

locals {
  lustre_ports = { main = [988, 988], more = [1018, 1023] }
}
