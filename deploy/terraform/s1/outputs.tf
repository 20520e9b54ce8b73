output "bucket" {
  description = "Bucket that the functions read from."
  value       = module.bucket.name
}

output "functions" {
  description = "Names of the functions by kind, with {memory} for their memory in MB, as `bench run --on lambda:NAME` has it."
  value       = { for kind in keys(local.kinds) : kind => "${local.name}-${kind}-{memory}" }

  # A name is of use only after its function is made.
  depends_on = [aws_lambda_function.this]
}

output "measure_policy" {
  description = "ARN of a policy for the user who measures: call the functions, and change their memory and timeout."
  value       = aws_iam_policy.measure.arn
}

output "api" {
  description = "URL of the example API. Requests must be signed."
  value       = aws_apigatewayv2_stage.api.invoke_url
}

output "log_group" {
  description = "Log group of the functions."
  value       = aws_cloudwatch_log_group.functions.name
}
