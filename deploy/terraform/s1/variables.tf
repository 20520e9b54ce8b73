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

variable "memory_sizes" {
  description = "Memory of the functions in MB: one of each kind for each size."
  type        = list(number)
  default     = [512, 1024, 3008]

  validation {
    condition     = alltrue([for size in var.memory_sizes : size >= 128 && size <= 10240])
    error_message = "Each size must be 128 to 10240 MB."
  }
}

variable "tmp_mb" {
  description = "Size of /tmp in MB. It must hold the object that is downloaded: 5 GB by default, and room for its journal."
  type        = number
  default     = 6144

  validation {
    condition     = var.tmp_mb >= 512 && var.tmp_mb <= 10240
    error_message = "The size of /tmp must be 512 to 10240 MB."
  }
}

variable "timeout_seconds" {
  description = "Deadline of the functions in seconds."
  type        = number
  default     = 300

  validation {
    condition     = var.timeout_seconds >= 1 && var.timeout_seconds <= 900
    error_message = "The deadline must be 1 to 900 s."
  }
}

variable "api_timeout_seconds" {
  description = "Deadline of the example API in seconds. The gateway gives up after 30 s in any case."
  type        = number
  default     = 29

  validation {
    condition     = var.api_timeout_seconds >= 1 && var.api_timeout_seconds <= 30
    error_message = "The deadline must be 1 to 30 s."
  }
}

variable "architecture" {
  description = "Processor of the functions: x86_64 or arm64. The arm64 binaries were never run by us."
  type        = string
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture must be x86_64 or arm64."
  }
}

variable "dist" {
  description = "Directory with the zips that `make dist` writes; by default dist/ of this repository."
  type        = string
  default     = null
}

variable "s3_files" {
  description = "True to mount the bucket by S3 Files at /mnt/data, in one more function for each size."
  type        = bool
  default     = false
}

variable "directory_buckets" {
  description = "ARNs of directory buckets of S3 Express One Zone that the functions may read. They are not made here."
  type        = list(string)
  default     = []

  validation {
    condition = alltrue([
      for arn in var.directory_buckets :
      can(regex("^arn:aws[a-z-]*:s3express:[a-z0-9-]+:[0-9]{12}:bucket/[a-z0-9.-]+--x-s3$", arn))
    ])
    error_message = "Each ARN must look like arn:aws:s3express:REGION:ACCOUNT:bucket/data--use1-az4--x-s3."
  }
}

variable "log_days" {
  description = "Days for which logs are kept. `destroy` deletes them before."
  type        = number
  default     = 7

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 365], var.log_days)
    error_message = "CloudWatch accepts 1, 3, 5, 7, 14, 30, 60, 90 or 365 days."
  }
}
