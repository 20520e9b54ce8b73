# A network whose way to S3 is a gateway endpoint, which costs nothing. There is no NAT gateway. Used by s1 and s3.

data "aws_availability_zones" "here" {
  #checkov:skip=CKV_AWS_394:ids of zones would tie this to one region; no zone is added while a run lasts
  state = "available"
}

data "aws_region" "here" {}

resource "aws_vpc" "this" {
  #checkov:skip=CKV2_AWS_11:flow logs of a network that lives for hours cost more than they show
  cidr_block           = "10.74.0.0/16"
  enable_dns_support   = true
  enable_dns_hostnames = true

  tags = { Name = var.name }
}

# The default group has no rules, so that nothing works through it by accident.
resource "aws_default_security_group" "unused" {
  vpc_id = aws_vpc.this.id
}

resource "aws_subnet" "this" {
  count = var.subnets

  vpc_id            = aws_vpc.this.id
  availability_zone = data.aws_availability_zones.here.names[count.index]
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)

  tags = { Name = "${var.name}-${count.index}" }
}

resource "aws_route_table" "this" {
  vpc_id = aws_vpc.this.id

  tags = { Name = var.name }
}

resource "aws_route_table_association" "this" {
  count = var.subnets

  subnet_id      = aws_subnet.this[count.index].id
  route_table_id = aws_route_table.this.id
}

resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${data.aws_region.here.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.this.id]

  tags = { Name = var.name }
}

resource "aws_internet_gateway" "this" {
  count = var.internet ? 1 : 0

  vpc_id = aws_vpc.this.id

  tags = { Name = var.name }
}

resource "aws_route" "internet" {
  count = var.internet ? 1 : 0

  route_table_id         = aws_route_table.this.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

# Readers are functions or instances. Nothing may connect to them.
resource "aws_security_group" "clients" {
  #checkov:skip=CKV2_AWS_5:functions and instances outside this module carry it
  name        = "${var.name}-clients"
  description = "Functions and instances that read"
  vpc_id      = aws_vpc.this.id
}

resource "aws_vpc_security_group_egress_rule" "s3" {
  security_group_id = aws_security_group.clients.id
  description       = "S3 through the gateway endpoint"
  prefix_list_id    = aws_vpc_endpoint.s3.prefix_list_id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "internet" {
  count = var.internet ? 1 : 0

  security_group_id = aws_security_group.clients.id
  description       = "The services of AWS, and registries of images"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
