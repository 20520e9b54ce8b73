output "id" {
  description = "Id of the file system."
  value       = aws_efs_file_system.this.id
}

output "arn" {
  description = "ARN of the file system."
  value       = aws_efs_file_system.this.arn
}

output "access_point_id" {
  description = "Id of the access point."
  value       = aws_efs_access_point.this.id
}

# A mount works only after the mount targets exist.
output "access_point_arn" {
  description = "ARN of the access point."
  value       = aws_efs_access_point.this.arn
  depends_on  = [aws_efs_mount_target.this]
}

output "security_group" {
  description = "Id of the security group of the mount targets, which admits NFS from what reads."
  value       = aws_security_group.this.id
}
