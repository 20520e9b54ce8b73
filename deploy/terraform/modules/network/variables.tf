variable "name" {
  description = "Prefix of all names."
  type        = string
}

variable "subnets" {
  description = "Subnets, each in an availability zone of its own."
  type        = number
  default     = 2

  validation {
    condition     = var.subnets >= 1 && var.subnets <= 6
    error_message = "The number of subnets must be 1 to 6."
  }
}

variable "internet" {
  description = "True if the subnets reach the internet through a gateway. Instances of ECS need that; functions do not."
  type        = bool
  default     = false
}
