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

variable "vcpus" {
  description = "Processors of a job: 64 in the published setting (full.tfvars)."
  type        = number
  default     = 4

  validation {
    condition     = var.vcpus >= 1 && var.vcpus <= 192
    error_message = "A job has 1 to 192 processors."
  }
}

variable "memory_mib" {
  description = "Memory of a job in MiB: 524288 in the published setting. The instance must have some more for the agent."
  type        = number
  default     = 14000

  validation {
    condition     = var.memory_mib >= 1024
    error_message = "A job needs at least 1024 MiB."
  }
}

variable "instance_types" {
  description = "Instance types that Batch may start. They must hold a job."
  type        = list(string)
  default     = ["m6i.xlarge"]

  validation {
    condition     = length(var.instance_types) > 0
    error_message = "Name at least one instance type."
  }
}

variable "max_vcpus" {
  description = "Processors of all instances together: what runs at most, and so the most that an hour costs."
  type        = number
  default     = 16

  validation {
    condition     = var.max_vcpus >= 1
    error_message = "At least one processor is needed."
  }
}

variable "spot" {
  description = "True for spot instances: cheaper, and interrupted jobs are tried again."
  type        = bool
  default     = false
}

variable "image" {
  description = "Container image of the jobs. It needs no firstbyte: the instance lends its own."
  type        = string
  default     = "public.ecr.aws/amazonlinux/amazonlinux:2023"
}

variable "firstbyte" {
  description = "The static program for x86-64 that `make dist` writes, for example dist/firstbyte-0.1.0-linux-x86_64."
  type        = string
}

variable "expected_entry" {
  description = "Name that the mounted directory must hold, so that an empty file system is noticed. Empty: not checked."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^[A-Za-z0-9._/-]*$", var.expected_entry))
    error_message = "The name may have letters, digits, dots, slashes, underscores and hyphens."
  }
}

variable "lustre" {
  description = "True to make an FSx for Lustre file system linked to the bucket. It is billed for each hour that it exists."
  type        = bool
  default     = false
}

variable "lustre_type" {
  description = "Deployment type of FSx for Lustre: SCRATCH_2, as published, or PERSISTENT_2."
  type        = string
  default     = "SCRATCH_2"

  validation {
    condition     = contains(["SCRATCH_2", "PERSISTENT_2"], var.lustre_type)
    error_message = "The type must be SCRATCH_2 or PERSISTENT_2."
  }
}

variable "lustre_gib" {
  description = "Capacity of FSx for Lustre in GiB: 1200, or a multiple of 2400."
  type        = number
  default     = 1200

  validation {
    condition     = var.lustre_gib == 1200 || (var.lustre_gib > 0 && var.lustre_gib % 2400 == 0)
    error_message = "The capacity must be 1200 or a multiple of 2400 GiB."
  }
}

variable "lustre_mbps_per_tib" {
  description = "Throughput of PERSISTENT_2 in MB/s for each TiB."
  type        = number
  default     = 125

  validation {
    condition     = contains([125, 250, 500, 1000], var.lustre_mbps_per_tib)
    error_message = "The throughput must be 125, 250, 500 or 1000 MB/s/TiB."
  }
}

variable "gateway" {
  description = "True to start a gateway on an instance with local disks, through which jobs mount the bucket."
  type        = bool
  default     = false
}

variable "gateway_instance_type" {
  description = "Instance type of the gateway. Its local disks hold the cache, and its network serves all jobs."
  type        = string
  default     = "i4i.xlarge"
}

variable "attempt_minutes" {
  description = "Minutes after which a job is stopped."
  type        = number
  default     = 120

  validation {
    condition     = var.attempt_minutes >= 1
    error_message = "A job needs at least a minute."
  }
}

variable "directory_buckets" {
  description = "ARNs of directory buckets of S3 Express One Zone that the jobs may read and write. They are not made here."
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
