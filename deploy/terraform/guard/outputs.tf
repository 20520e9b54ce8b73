output "budget" {
  description = "Name of the budget."
  value       = aws_budgets_budget.this.name
}
