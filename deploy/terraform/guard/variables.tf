variable "region" {
  description = "AWS region, for example us-east-1."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "The region must look like us-east-1."
  }
}

variable "run" {
  description = "Name of this run: part of all names, and the value of the tag `run`."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,17}[a-z0-9]$", var.run))
    error_message = "The run must have 2 to 19 lower-case letters, digits and hyphens."
  }
}

variable "limit_usd" {
  description = "Amount in US dollars at which the alarm is sent."
  type        = number

  validation {
    condition     = var.limit_usd > 0
    error_message = "The limit must be greater than 0."
  }
}

variable "email" {
  description = "Address that gets the alarm."
  type        = string

  validation {
    condition     = can(regex("^[^@ ]+@[^@ ]+$", var.email))
    error_message = "The address must look like name@example.org."
  }
}

variable "by_tag" {
  description = "True to count only what carries the tag `run`. The tag must then be activated for cost allocation."
  type        = bool
  default     = false
}
