variable "name" {
  description = "Prefix of all names."
  type        = string
}

variable "vpc_id" {
  description = "The network of the mount targets."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets, each of which gets a mount target."
  type        = list(string)
}

variable "clients" {
  description = "Security group of what mounts the file system."
  type        = string
}

variable "owner" {
  description = "User and group that own everything reached through the access point."
  type        = number
  default     = 1000

  validation {
    condition     = var.owner > 0
    error_message = "The owner must be an unprivileged user, so greater than 0."
  }
}
