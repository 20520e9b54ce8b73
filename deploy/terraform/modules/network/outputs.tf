output "vpc_id" {
  description = "Id of the network."
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "Ids of the subnets."
  value       = aws_subnet.this[*].id
}

output "clients" {
  description = "Id of the security group of what reads."
  value       = aws_security_group.clients.id
}
