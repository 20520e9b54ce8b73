output "bucket" {
  description = "Bucket behind the file systems. FSx for Lustre shows what is below db/."
  value       = module.bucket.name
}

output "queue" {
  description = "Name of the job queue."
  value       = aws_batch_job_queue.this.name
}

output "job_definitions" {
  description = "Names of the job definitions by file system, as `bench run --on batch:QUEUE:DEFINITION` has them."
  value       = { for key, job in aws_batch_job_definition.this : key => job.name }
}

output "measure_policy" {
  description = "ARN of a policy for the user who measures: submit jobs, follow and end them."
  value       = aws_iam_policy.submit.arn
}

output "log_group" {
  description = "Log group of the jobs."
  value       = aws_cloudwatch_log_group.jobs.name
}
