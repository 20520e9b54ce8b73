# The example API. Callers sign their requests: it is not open to the internet.

resource "aws_lambda_function" "api" {
  #checkov:skip=CKV_AWS_50:tracing adds to the start, which is measured
  #checkov:skip=CKV_AWS_115:reserved concurrency would take from the account what it may lack; the stage throttles
  #checkov:skip=CKV_AWS_116:every call waits for its answer, so no event can be lost
  #checkov:skip=CKV_AWS_272:the zips are built by the user who applies this
  function_name    = "${local.name}-api"
  role             = aws_iam_role.function.arn
  filename         = "${local.dist}/api-${var.architecture}.zip"
  source_code_hash = filebase64sha256("${local.dist}/api-${var.architecture}.zip")
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.architecture]
  memory_size      = max(var.memory_sizes...)
  timeout          = var.api_timeout_seconds

  vpc_config {
    subnet_ids         = module.network.subnet_ids
    security_group_ids = [module.network.clients]
  }

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.functions.name
  }

  depends_on = [aws_iam_role_policy.function]
}

resource "aws_apigatewayv2_api" "this" {
  name          = local.name
  protocol_type = "HTTP"
}

resource "aws_apigatewayv2_integration" "api" {
  api_id                 = aws_apigatewayv2_api.this.id
  integration_type       = "AWS_PROXY"
  integration_uri        = aws_lambda_function.api.invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = var.api_timeout_seconds * 1000
}

resource "aws_apigatewayv2_route" "api" {
  api_id             = aws_apigatewayv2_api.this.id
  route_key          = "GET /{proxy+}"
  authorization_type = "AWS_IAM"
  target             = "integrations/${aws_apigatewayv2_integration.api.id}"
}

resource "aws_apigatewayv2_stage" "api" {
  api_id      = aws_apigatewayv2_api.this.id
  name        = "$default"
  auto_deploy = true

  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.api.arn
    format          = jsonencode({ route = "$context.routeKey", status = "$context.status", ms = "$context.responseLatency" })
  }

  default_route_settings {
    throttling_burst_limit = 20
    throttling_rate_limit  = 20
  }
}

resource "aws_cloudwatch_log_group" "api" {
  #checkov:skip=CKV_AWS_158:a customer key stays for at least 7 days after destroy; the logs hold timings
  #checkov:skip=CKV_AWS_338:logs of a test need not outlive its results
  name              = "/firstbyte/${var.run}/api"
  retention_in_days = var.log_days
}

resource "aws_lambda_permission" "api" {
  statement_id  = "gateway"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.api.function_name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.this.execution_arn}/*"
}
