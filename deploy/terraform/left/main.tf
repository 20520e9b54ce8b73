# Lists what still carries the tags of a run, and makes nothing.

data "aws_resourcegroupstaggingapi_resources" "run" {
  tag_filter {
    key    = "project"
    values = ["firstbyte"]
  }

  tag_filter {
    key    = "run"
    values = [var.run]
  }
}
