//! The usage of one option that is billed, in quantities with units. The advice determines the
//! usage, and [`crate::prices`] computes its cost.
//!
//! Decimal and binary units differ: AWS writes GB but mostly bills GiB. So [`Unit::to`] converts
//! explicitly, and only between units of one dimension. Quantities are the amounts that are used;
//! minimums and steps belong to the price.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Hours per month as AWS counts them: 365 days of 24 hours, divided by twelve.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// Number of GB in a GiB.
const GB_PER_GIB: f64 = 1.073_741_824;

/// The usage of one option that is billed: storage and compute.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OptionUsage {
    /// Billed items.
    pub items: Vec<UsageItem>,
    /// People who wait for each job, if the workload states what their time is worth.
    #[serde(default)]
    pub waiting: Option<WaitingPeople>,
}

/// One billed item.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct UsageItem {
    /// Key of the price, see [`KEYS`]: `s3-standard/get`, `ec2/r6i.24xlarge`.
    pub price: String,
    /// The quantity, in `unit`.
    pub quantity: f64,
    /// The unit of `quantity`.
    pub unit: Unit,
    /// Whether `quantity` is used by each job, or each month whatever runs.
    pub per: Per,
}

impl UsageItem {
    /// Makes an item of `quantity` for each job.
    #[must_use]
    pub fn per_job(price: &str, quantity: f64, unit: Unit) -> Self {
        Self { price: price.to_owned(), quantity, unit, per: Per::Job }
    }

    /// Makes an item of `quantity` for each month, even without jobs.
    #[must_use]
    pub fn per_month(price: &str, quantity: f64, unit: Unit) -> Self {
        Self { price: price.to_owned(), quantity, unit, per: Per::Month }
    }
}

/// People who wait for a job. Their time is not billed, so its value is reported separately.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct WaitingPeople {
    /// Hours that people wait for one job.
    pub hours: f64,
    /// Value of one hour, in dollars.
    pub per_hour: f64,
}

/// The period for which an amount is counted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Each job: reads, requests, hours of an instance that ends with the job.
    Job,
    /// Each month: usage that is billed even while no job runs, such as stored data and file
    /// systems.
    Month,
}

/// The unit of a billed quantity.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Unit {
    /// 10^9 bytes.
    #[serde(rename = "GB")]
    GB,
    /// 2^30 bytes.
    #[serde(rename = "GiB")]
    GiB,
    /// 10^9 bytes for a month.
    #[serde(rename = "GB-month")]
    GBMonth,
    /// 2^30 bytes for a month.
    #[serde(rename = "GiB-month")]
    GiBMonth,
    /// 2^30 bytes for an hour: memory of a container.
    #[serde(rename = "GiB-hour")]
    GiBHours,
    /// 2^30 bytes for a second: memory of a serverless function.
    #[serde(rename = "GiB-second")]
    GiBSeconds,
    /// Requests of one kind.
    #[serde(rename = "request")]
    Requests,
    /// Hours of one instance or gateway.
    #[serde(rename = "hour")]
    Hours,
    /// Hours of one virtual processor.
    #[serde(rename = "vCPU-hour")]
    VcpuHours,
    /// 10^6 bytes per second, provisioned for a month.
    #[serde(rename = "MBps-month")]
    MBpsMonth,
    /// 2^20 bytes per second, provisioned for a month.
    #[serde(rename = "MiBps-month")]
    MiBpsMonth,
    /// One operation per second, provisioned for a month.
    #[serde(rename = "IOPS-month")]
    IopsMonth,
}

/// The quantity that a unit measures. Units of one dimension can be converted into each other.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Dimension {
    Bytes,
    ByteTime,
    Requests,
    Hours,
    VcpuHours,
    Throughput,
    Operations,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 12] = [
        Self::GB,
        Self::GiB,
        Self::GBMonth,
        Self::GiBMonth,
        Self::GiBHours,
        Self::GiBSeconds,
        Self::Requests,
        Self::Hours,
        Self::VcpuHours,
        Self::MBpsMonth,
        Self::MiBpsMonth,
        Self::IopsMonth,
    ];

    /// Converts `quantity` from this unit to `other`; `None` if the units measure different things.
    /// A month has [`HOURS_PER_MONTH`] hours.
    #[must_use]
    pub fn to(self, other: Self, quantity: f64) -> Option<f64> {
        if self == other {
            return Some(quantity);
        }
        let ((dimension, factor), (wanted, by)) = (self.scale(), other.scale());
        (dimension == wanted).then(|| quantity * factor / by)
    }

    /// Returns the dimension of the unit, and the size of the unit in multiples of the dimension's
    /// smallest unit.
    fn scale(self) -> (Dimension, f64) {
        match self {
            Self::GB => (Dimension::Bytes, 1.0),
            Self::GiB => (Dimension::Bytes, GB_PER_GIB),
            Self::GiBSeconds => (Dimension::ByteTime, 1.0),
            Self::GiBHours => (Dimension::ByteTime, 3_600.0),
            Self::GiBMonth => (Dimension::ByteTime, 3_600.0 * HOURS_PER_MONTH),
            Self::GBMonth => (Dimension::ByteTime, 3_600.0 * HOURS_PER_MONTH / GB_PER_GIB),
            Self::Requests => (Dimension::Requests, 1.0),
            Self::Hours => (Dimension::Hours, 1.0),
            Self::VcpuHours => (Dimension::VcpuHours, 1.0),
            Self::MBpsMonth => (Dimension::Throughput, 1.0),
            Self::MiBpsMonth => (Dimension::Throughput, 1.048_576),
            Self::IopsMonth => (Dimension::Operations, 1.0),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GB => "GB",
            Self::GiB => "GiB",
            Self::GBMonth => "GB-month",
            Self::GiBMonth => "GiB-month",
            Self::GiBHours => "GiB-hour",
            Self::GiBSeconds => "GiB-second",
            Self::Requests => "request",
            Self::Hours => "hour",
            Self::VcpuHours => "vCPU-hour",
            Self::MBpsMonth => "MBps-month",
            Self::MiBpsMonth => "MiBps-month",
            Self::IopsMonth => "IOPS-month",
        })
    }
}

/// A price that a usage can refer to.
#[derive(Clone, Copy, Debug)]
pub struct PriceKey {
    /// The key. `*` stands for the name of an instance type.
    pub name: &'static str,
    /// The unit that the provider bills.
    pub unit: Unit,
    /// Description of what is billed.
    pub what: &'static str,
}

/// The prices that a usage can refer to. A catalogue may lack some of them for a region.
pub const KEYS: [PriceKey; 56] = [
    key("s3-standard/storage", Unit::GiBMonth, "data in a bucket"),
    key("s3-standard/get", Unit::Requests, "GET, SELECT and other read requests"),
    key("s3-standard/put", Unit::Requests, "PUT, COPY, POST and LIST requests"),
    key("s3-express/storage", Unit::GiBMonth, "data in a directory bucket"),
    key("s3-express/get", Unit::Requests, "GET and HEAD requests"),
    key("s3-express/put", Unit::Requests, "PUT, COPY, POST and LIST requests"),
    key("s3-express/read", Unit::GiB, "data read"),
    key("s3-express/write", Unit::GiB, "data uploaded"),
    key("s3-files/storage", Unit::GiBMonth, "data held in the file system's own storage"),
    key("s3-files/read", Unit::GiB, "reads served from the file system's own storage"),
    key("s3-files/write", Unit::GiB, "writes, and data that is brought into its storage"),
    key("efs/storage", Unit::GiBMonth, "data in the Standard class"),
    key("efs/elastic-read", Unit::GiB, "reads with elastic throughput"),
    key("efs/elastic-write", Unit::GiB, "writes with elastic throughput"),
    key("efs/provisioned", Unit::MiBpsMonth, "provisioned throughput above what storage includes"),
    key("fsx-lustre/scratch-2", Unit::GiBMonth, "Scratch 2, SSD, 200 MB/s/TiB"),
    key("fsx-lustre/persistent-2-125", Unit::GiBMonth, "Persistent 2, SSD, 125 MB/s/TiB"),
    key("fsx-lustre/persistent-2-250", Unit::GiBMonth, "Persistent 2, SSD, 250 MB/s/TiB"),
    key("fsx-lustre/persistent-2-500", Unit::GiBMonth, "Persistent 2, SSD, 500 MB/s/TiB"),
    key("fsx-lustre/persistent-2-1000", Unit::GiBMonth, "Persistent 2, SSD, 1,000 MB/s/TiB"),
    key("ebs-gp3/storage", Unit::GiBMonth, "gp3 volumes"),
    key("ebs-gp3/throughput", Unit::MiBpsMonth, "gp3 throughput above 125 MiB/s a volume"),
    key("ebs-gp3/iops", Unit::IopsMonth, "gp3 operations above 3,000 a second a volume"),
    key("ebs-snapshot/storage", Unit::GiBMonth, "snapshots in the standard tier"),
    key("lambda/x86", Unit::GiBSeconds, "memory of a function while it runs or starts, x86-64"),
    key("lambda/arm", Unit::GiBSeconds, "memory of a function while it runs or starts, arm64"),
    key("lambda/requests", Unit::Requests, "invocations"),
    key("lambda/tmp", Unit::GiBSeconds, "/tmp above 512 MB while a function runs"),
    key("api-gateway/rest", Unit::Requests, "requests to a REST API"),
    key("api-gateway/http", Unit::Requests, "requests to an HTTP API"),
    key("fargate/vcpu", Unit::VcpuHours, "processors of a task, Linux x86-64"),
    key("fargate/memory", Unit::GiBHours, "memory of a task, Linux x86-64"),
    key("ec2/*", Unit::Hours, "an instance on demand, Linux, shared tenancy: ec2/r6i.24xlarge"),
    key("ec2-spot/*", Unit::Hours, "an instance at the spot price, Linux"),
    key("transfer/internet", Unit::GiB, "data sent to the internet, first 10 TB of a month"),
    key("transfer/zone", Unit::GiB, "data sent to another availability zone, each direction"),
    key("transfer/region", Unit::GiB, "data sent to another region"),
    key("nat/hour", Unit::Hours, "a NAT gateway"),
    key("nat/data", Unit::GiB, "data through a NAT gateway"),
    key("gcs/storage", Unit::GiBMonth, "Google Cloud: data in a bucket, Standard class, one region"),
    key("gcs/get", Unit::Requests, "Google Cloud: operations of class B"),
    key("gcs/put", Unit::Requests, "Google Cloud: operations of class A, with lists"),
    key("gcs/region", Unit::GiB, "Google Cloud: data sent to another region"),
    key("gcs/internet", Unit::GiB, "Google Cloud: data sent to the internet, first TiB of a month"),
    key("gce/*", Unit::Hours, "Google Cloud: a machine on demand: gce/n2-standard-8"),
    key("gce-spot/*", Unit::Hours, "Google Cloud: a machine at the spot price"),
    key("azure-blob/storage", Unit::GBMonth, "Azure: data in the hot tier, local redundancy"),
    key("azure-blob/get", Unit::Requests, "Azure: read and other operations, hot tier"),
    key("azure-blob/put", Unit::Requests, "Azure: write and list operations, hot tier"),
    key("azure-blob/region", Unit::GB, "Azure: data sent to another region"),
    key("azure-blob/internet", Unit::GB, "Azure: data sent to the internet, first 10 TB of a month"),
    key("azure-vm/*", Unit::Hours, "Azure: a virtual machine, Linux: azure-vm/d32ds_v4"),
    key("azure-vm-spot/*", Unit::Hours, "Azure: a virtual machine at the spot price"),
    key("r2/storage", Unit::GBMonth, "Cloudflare R2: data in a bucket, Standard class"),
    key("r2/get", Unit::Requests, "Cloudflare R2: operations of class B"),
    key("r2/put", Unit::Requests, "Cloudflare R2: operations of class A, with lists"),
];

const fn key(name: &'static str, unit: Unit, what: &'static str) -> PriceKey {
    PriceKey { name, unit, what }
}

/// Finds the entry of [`KEYS`] for `price`; `None` if there is no such price.
#[must_use]
pub fn find_key(price: &str) -> Option<&'static PriceKey> {
    KEYS.iter().find(|key| match key.name.strip_suffix('*') {
        Some(start) => price.strip_prefix(start).is_some_and(|name| !name.is_empty()),
        None => key.name == price,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimal_and_binary_are_different_units() {
        assert_eq!(Unit::GiB.to(Unit::GB, 1.0), Some(1.073_741_824));
        assert_eq!(Unit::GB.to(Unit::GiB, 273.049_319_424).map(|gib| (gib * 10.0).round()), Some(2_543.0));
        assert_eq!(Unit::GiBMonth.to(Unit::GiBHours, 1.0), Some(730.0));
        assert_eq!(Unit::GiB.to(Unit::GiBMonth, 1.0), None);
        assert_eq!(Unit::Hours.to(Unit::VcpuHours, 1.0), None);
    }

    #[test]
    fn a_unit_is_written_as_it_is_read() {
        for unit in Unit::ALL {
            assert_eq!(serde_json::to_string(&unit).unwrap(), format!("\"{unit}\""));
        }
    }

    #[test]
    fn a_key_is_found_by_name_or_by_instance() {
        assert_eq!(find_key("efs/elastic-read").map(|key| key.unit), Some(Unit::GiB));
        assert_eq!(find_key("ec2/r6i.24xlarge").map(|key| key.name), Some("ec2/*"));
        assert!(find_key("ec2/").is_none());
        assert!(find_key("efs/elastic").is_none());
    }

    proptest! {
        #[test]
        fn conversions_are_reversible_and_transitive(
            quantity in 1e-6..1e9f64,
            units in proptest::sample::subsequence(Unit::ALL.to_vec(), 3),
        ) {
            let [a, b, c] = units[..] else { unreachable!() };
            prop_assert_eq!(a.to(b, quantity).is_some(), b.to(a, quantity).is_some());
            if let Some(there) = a.to(b, quantity) {
                let back = b.to(a, there).unwrap();
                prop_assert!((back / quantity - 1.0).abs() < 1e-12);
                if let Some(direct) = a.to(c, quantity) {
                    let through = b.to(c, there).unwrap();
                    prop_assert!((through / direct - 1.0).abs() < 1e-12);
                }
            }
        }
    }
}
