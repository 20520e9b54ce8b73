//! Maps the products of AWS's price files to price keys, and the units of the files to those of the
//! keys. Called by the importer and its parser.
//!
//! Usage types and groups have the names by which infracost finds products. Outside us-east-1 a
//! usage type starts with the code of its region: `APN2-Requests-Tier1`. No source states the names
//! for S3 Express One Zone, S3 Files, elastic throughput of EFS and FSx for Lustre, so their prices
//! are not imported.

use firstbyte_advise::usage::{PriceKey, Unit, find_key};
use serde::Deserialize;

/// The attribute by which a product is recognized.
enum ProductSelector {
    /// The attribute `usagetype`, without the region's code.
    Usage(&'static str),
    /// The attribute `group`.
    Group(&'static str),
}

use ProductSelector::{Group, Usage};

/// The supported products: offer, identifying attribute and price key of each.
const RULES: [(&str, ProductSelector, &str); 21] = [
    ("AmazonS3", Usage("TimedStorage-ByteHrs"), "s3-standard/storage"),
    ("AmazonS3", Usage("Requests-Tier1"), "s3-standard/put"),
    ("AmazonS3", Usage("Requests-Tier2"), "s3-standard/get"),
    ("AmazonEFS", Usage("TimedStorage-ByteHrs"), "efs/storage"),
    ("AmazonEFS", Usage("ProvisionedTP-MiBpsHrs"), "efs/provisioned"),
    ("AmazonEC2", Usage("EBS:VolumeUsage.gp3"), "ebs-gp3/storage"),
    ("AmazonEC2", Usage("EBS:VolumeP-IOPS.gp3"), "ebs-gp3/iops"),
    ("AmazonEC2", Usage("EBS:VolumeP-Throughput.gp3"), "ebs-gp3/throughput"),
    ("AmazonEC2", Usage("EBS:SnapshotUsage"), "ebs-snapshot/storage"),
    ("AmazonEC2", Usage("NatGateway-Hours"), "nat/hour"),
    ("AmazonEC2", Usage("NatGateway-Bytes"), "nat/data"),
    ("AWSLambda", Group("AWS-Lambda-Duration"), "lambda/x86"),
    ("AWSLambda", Group("AWS-Lambda-Duration-ARM"), "lambda/arm"),
    ("AWSLambda", Group("AWS-Lambda-Requests"), "lambda/requests"),
    ("AWSLambda", Group("AWS-Lambda-Storage-Duration"), "lambda/tmp"),
    ("AmazonECS", Usage("Fargate-vCPU-Hours:perCPU"), "fargate/vcpu"),
    ("AmazonECS", Usage("Fargate-GB-Hours"), "fargate/memory"),
    ("AmazonApiGateway", Usage("ApiGatewayRequest"), "api-gateway/rest"),
    ("AmazonApiGateway", Usage("ApiGatewayHttpRequest"), "api-gateway/http"),
    ("AWSDataTransfer", Usage("DataTransfer-Out-Bytes"), "transfer/internet"),
    ("AWSDataTransfer", Usage("DataTransfer-Regional-Bytes"), "transfer/zone"),
];

/// Attributes that identify a product. All others are skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ProductAttributes {
    #[serde(rename = "regionCode")]
    pub(super) region: String,
    usagetype: String,
    group: String,
    #[serde(rename = "instanceType")]
    instance_type: String,
    #[serde(rename = "operatingSystem")]
    operating_system: String,
    tenancy: String,
    #[serde(rename = "preInstalledSw")]
    software: String,
    #[serde(rename = "licenseModel")]
    licence: String,
    capacitystatus: String,
    marketoption: String,
}

impl ProductAttributes {
    /// Returns the key of the product; `None` if its price is not kept.
    pub(super) fn key(&self, offer: &str) -> Option<String> {
        if offer == "AmazonEC2" && self.is_plain_instance() {
            return Some(format!("ec2/{}", self.instance_type));
        }
        let named = |name: &ProductSelector| match name {
            Usage(usage) => is_usage(&self.usagetype, usage),
            Group(group) => self.group == *group,
        };
        let rule = RULES.iter().find(|(of, name, _)| *of == offer && named(name));
        rule.map(|(_, _, key)| (*key).to_owned())
    }

    /// Returns whether the product is an ordinary instance: Linux, on demand, with shared tenancy,
    /// without a licence, and not reserved.
    fn is_plain_instance(&self) -> bool {
        !self.instance_type.is_empty()
            && self.operating_system == "Linux"
            && self.tenancy == "Shared"
            && self.software == "NA"
            && self.licence == "No License required"
            && self.capacitystatus == "Used"
            && matches!(self.marketoption.as_str(), "" | "OnDemand")
    }
}

/// Returns whether `usagetype` is `usage`, with or without the code of a region before it.
fn is_usage(usagetype: &str, usage: &str) -> bool {
    match usagetype.strip_suffix(usage) {
        Some("") => true,
        Some(region) => {
            let code = region.strip_suffix('-').unwrap_or("");
            !code.is_empty()
                && code.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
        }
        None => false,
    }
}

/// Returns whether the prices of `offer` are kept.
pub(super) fn is_known(offer: &str) -> bool {
    RULES.iter().any(|(of, ..)| *of == offer)
}

/// Returns the offers whose prices are kept.
pub(super) fn offers() -> Vec<&'static str> {
    let mut offers: Vec<_> = RULES.iter().map(|(of, ..)| *of).collect();
    offers.dedup();
    offers
}

/// Returns the unit of `key`, and the factor that converts AWS's `unit` to it; `None` if the file
/// bills by another unit. AWS writes GB where it bills GiB.
pub(super) fn unit(key: &str, unit: &str) -> Option<(Unit, f64)> {
    let &PriceKey { unit: own, .. } = find_key(key)?;
    let lower = unit.to_ascii_lowercase();
    let count = match (own, lower.as_str()) {
        (Unit::GiBMonth, "gb-mo") | (Unit::GiB, "gb") | (Unit::GiBHours, "hours" | "gb-hours") => 1.0,
        (Unit::GiBSeconds, "seconds" | "gb-seconds" | "lambda-gb-second") => 1.0,
        (Unit::Requests, "requests" | "request") => 1.0,
        (Unit::Hours, "hrs" | "hours") | (Unit::VcpuHours, "hours" | "vcpu-hours") => 1.0,
        (Unit::MiBpsMonth, "mibps-mo") | (Unit::IopsMonth, "iops-mo") => 1.0,
        (Unit::MiBpsMonth, "gibps-mo") => 1024.0,
        _ => return None,
    };
    Some((own, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_key_of_the_table() {
        for (_, _, key) in RULES {
            assert!(find_key(key).is_some(), "{key}");
        }
    }

    #[test]
    fn a_region_before_the_usage_type_is_skipped_and_nothing_else() {
        assert!(is_usage("Requests-Tier1", "Requests-Tier1"));
        assert!(is_usage("APN2-Requests-Tier1", "Requests-Tier1"));
        for other in
            ["Requests-SIA-Tier1", "APN2-SIA-Requests-Tier1x", "apn2-Requests-Tier1", "-Requests-Tier1"]
        {
            assert!(!is_usage(other, "Requests-Tier1"), "{other}");
        }
        assert!(!is_usage("APN2-IATimedStorage-ByteHrs", "TimedStorage-ByteHrs"));
    }

    #[test]
    fn gibibytes_per_second_are_a_thousand_and_twenty_four() {
        assert_eq!(unit("ebs-gp3/throughput", "GiBps-mo"), Some((Unit::MiBpsMonth, 1024.0)));
        assert_eq!(unit("s3-standard/storage", "GB-Mo"), Some((Unit::GiBMonth, 1.0)));
        assert_eq!(unit("s3-standard/storage", "Hrs"), None);
    }
}
