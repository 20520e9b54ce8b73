terraform {
  required_version = ">= 1.5.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.69"
    }
  }
}

# Every resource carries the tags by which `left` finds it.
provider "aws" {
  region = var.region

  default_tags {
    tags = {
      project = "firstbyte"
      run     = var.run
    }
  }
}
