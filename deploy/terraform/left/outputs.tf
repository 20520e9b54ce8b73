output "arns" {
  description = "Resources that are left. AWS lists deleted ones for some minutes, network interfaces for longer."
  value       = data.aws_resourcegroupstaggingapi_resources.run.resource_tag_mapping_list[*].resource_arn
}
