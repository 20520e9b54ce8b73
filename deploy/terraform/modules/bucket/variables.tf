variable "name" {
  description = "What the bucket's name begins with. AWS appends digits that make it unique."
  type        = string

  validation {
    condition     = length(var.name) <= 36
    error_message = "The name of a bucket leaves room for 36 characters."
  }
}
