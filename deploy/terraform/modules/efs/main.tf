# An elastic EFS file system with one access point and a mount target in each subnet. Used by s1 and s3.

resource "aws_efs_file_system" "this" {
  #checkov:skip=CKV_AWS_184:a customer key stays for at least 7 days after destroy; EFS's own key encrypts
  creation_token  = var.name
  encrypted       = true
  throughput_mode = "elastic"

  tags = { Name = var.name }
}

resource "aws_efs_access_point" "this" {
  file_system_id = aws_efs_file_system.this.id

  posix_user {
    uid = var.owner
    gid = var.owner
  }

  root_directory {
    path = "/data"

    creation_info {
      owner_uid   = var.owner
      owner_gid   = var.owner
      permissions = "0755"
    }
  }

  tags = { Name = var.name }
}

resource "aws_security_group" "this" {
  name        = "${var.name}-efs"
  description = "Mount targets of EFS"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "nfs" {
  security_group_id            = aws_security_group.this.id
  description                  = "NFS from what reads"
  referenced_security_group_id = var.clients
  ip_protocol                  = "tcp"
  from_port                    = 2049
  to_port                      = 2049
}

resource "aws_vpc_security_group_egress_rule" "nfs" {
  security_group_id            = var.clients
  description                  = "NFS to EFS"
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "tcp"
  from_port                    = 2049
  to_port                      = 2049
}

resource "aws_efs_mount_target" "this" {
  count = length(var.subnet_ids)

  file_system_id  = aws_efs_file_system.this.id
  subnet_id       = var.subnet_ids[count.index]
  security_groups = [aws_security_group.this.id]
}
