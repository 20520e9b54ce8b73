# The published setting: jobs of 64 processors and 512 GB, four at once, on EFS and FSx for Lustre.
vcpus          = 64
memory_mib     = 524288
instance_types = ["r6i.24xlarge"]
max_vcpus      = 384
lustre         = true
