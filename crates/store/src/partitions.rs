//! Lists the partitions of AWS and their domains. The addresses of S3 and of other services, and
//! the advice about unreachable hosts, follow from this list.

/// A partition of AWS. Accounts and names of buckets are valid in one partition
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>).
pub(crate) struct Partition {
    /// The start of the names of its regions.
    pub(crate) regions: &'static str,
    /// The domain of its endpoints.
    pub(crate) domain: &'static str,
    /// The domain of the dual-stack endpoints of services other than S3.
    pub(crate) dual_stack_domain: &'static str,
}

/// The partitions of AWS, by `partitions.json` of botocore 1.43 (as of 28 November 2026). The last
/// one has all other regions.
const PARTITIONS: [Partition; 8] = [
    Partition::new("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    Partition::new("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    Partition::new("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    Partition::new("us-gov-", "amazonaws.com", "api.aws"),
    Partition::new("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    Partition::new("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    Partition::new("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    Partition::new("", "amazonaws.com", "api.aws"),
];

impl Partition {
    const fn new(regions: &'static str, domain: &'static str, dual_stack_domain: &'static str) -> Self {
        Self { regions, domain, dual_stack_domain }
    }

    /// Returns the partition of a region.
    pub(crate) fn of(region: &str) -> &'static Self {
        let [others @ .., last] = &PARTITIONS;
        others.iter().find(|it| region.starts_with(it.regions)).unwrap_or(last)
    }
}

/// Returns the part of a host name before the domain of AWS. `None` for other hosts.
pub(crate) fn name_at_aws(host: &str) -> Option<&str> {
    PARTITIONS.iter().find_map(|it| host.strip_suffix(it.domain)?.strip_suffix('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_aws_are_those_below_its_domains() {
        assert_eq!(name_at_aws("s3.eusc-de-east-1.amazonaws.eu"), Some("s3.eusc-de-east-1"));
        assert_eq!(name_at_aws("b.s3.cn-north-1.amazonaws.com.cn"), Some("b.s3.cn-north-1"));
        for other in ["amazonaws.com", "notamazonaws.com", "minio.example.org", ""] {
            assert_eq!(name_at_aws(other), None, "{other}");
        }
    }
}
