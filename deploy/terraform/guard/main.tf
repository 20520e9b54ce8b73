# A budget whose alarm is sent by e-mail. AWS counts costs a few times a day: this warns, and stops nothing.

resource "aws_budgets_budget" "this" {
  name         = "firstbyte-${var.run}"
  budget_type  = "COST"
  time_unit    = "MONTHLY"
  limit_amount = tostring(var.limit_usd)
  limit_unit   = "USD"

  dynamic "cost_filter" {
    for_each = var.by_tag ? [1] : []

    content {
      name   = "TagKeyValue"
      values = [format("user:run$%s", var.run)]
    }
  }

  notification {
    notification_type          = "ACTUAL"
    comparison_operator        = "GREATER_THAN"
    threshold                  = 100
    threshold_type             = "PERCENTAGE"
    subscriber_email_addresses = [var.email]
  }

  notification {
    notification_type          = "FORECASTED"
    comparison_operator        = "GREATER_THAN"
    threshold                  = 100
    threshold_type             = "PERCENTAGE"
    subscriber_email_addresses = [var.email]
  }
}
