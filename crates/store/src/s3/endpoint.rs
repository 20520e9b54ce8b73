//! Computes the address of a bucket: the host, and whether the bucket is in the host name or in the
//! path.

use std::net::IpAddr;

use firstbyte_location::redacted;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::dialect::Addressing;
use super::express;
use super::settings::{ServiceSettings, Variants};
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::partitions::{Partition, name_at_aws};

/// Characters that are encoded in keys: all but `/` and the unreserved characters of RFC 3986, as
/// S3's signatures require.
const KEY_RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// Characters that are encoded in query values. Unlike in keys, `/` is one of them.
const QUERY_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Region to try first if none is configured. The bucket's response corrects it.
pub(super) const FIRST_REGION: &str = "us-east-1";

/// The server and the base path for requests to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BucketAddress {
    pub(super) origin: Origin,
    /// Path of the bucket or service, without a trailing `/`.
    base: String,
}

impl BucketAddress {
    /// Returns the address of `bucket`, or of the service if `bucket` is empty: at the configured
    /// endpoint, otherwise at AWS in `region`.
    pub(super) fn of(bucket: &str, settings: &ServiceSettings, region: &str) -> Result<Self> {
        let url = match express::zone(bucket).filter(|_| settings.endpoint_url.is_none()) {
            Some(zone) => zonal_url(zone, settings.variants, region),
            None => url(settings, region),
        };
        let mut origin = Origin::parse_url(&url).ok_or_else(|| Error::Options {
            what: format!("endpoint {}", redacted(&url)),
            why: "write http(s)://HOST[:PORT]".to_owned(),
        })?;
        let path =
            url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let mut base = path.trim_matches('/').to_owned();
        if !base.is_empty() {
            base.insert(0, '/');
        }
        if bucket.is_empty() {
        } else if wants_host(settings.addressing, &origin) && can_be_host(bucket, origin.tls) {
            origin.host = format!("{bucket}.{}", origin.host);
        } else {
            base = format!("{base}/{}", utf8_percent_encode(bucket, KEY_RESERVED));
        }
        Ok(Self { origin, base })
    }

    /// Returns the address at which `bucket` is created and deleted. Directory buckets have an
    /// endpoint of their region for that
    /// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-networking.html>).
    pub(super) fn for_control(bucket: &str, settings: &ServiceSettings, region: &str) -> Result<Self> {
        let Variants { fips, dual_stack } = settings.variants;
        let (fips, dual_stack) =
            (if fips { "-fips" } else { "" }, if dual_stack { ".dualstack" } else { "" });
        if express::zone(bucket).is_none() || settings.endpoint_url.is_some() {
            return Self::of(bucket, settings, region);
        }
        let domain = Partition::of(region).domain;
        let host = format!("s3express-control{fips}{dual_stack}.{region}.{domain}");
        let base = format!("/{}", utf8_percent_encode(bucket, KEY_RESERVED));
        Ok(Self { origin: Origin { tls: true, host, port: 443 }, base })
    }

    /// Returns the path and query of a key, or of the bucket itself if the key is empty.
    pub(super) fn target(&self, key: &str, query: &[(&str, String)]) -> String {
        let mut target = format!("{}/{}", self.base, utf8_percent_encode(key, KEY_RESERVED));
        // The path of a bucket has no final slash, because some servers distinguish `/bucket/` from
        // `/bucket`.
        if key.is_empty() && !self.base.is_empty() {
            target.pop();
        }
        for (index, (name, value)) in query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.push_str(name);
            target.push('=');
            target.extend(utf8_percent_encode(value, QUERY_RESERVED));
        }
        target
    }
}

/// Returns the URL of the service: the configured URL, otherwise that of AWS in `region`.
pub(super) fn url(settings: &ServiceSettings, region: &str) -> String {
    settings.endpoint_url.clone().unwrap_or_else(|| aws_url(settings.variants, region))
}

/// Returns the URL of S3 at AWS (<https://docs.aws.amazon.com/general/latest/gr/s3.html>).
fn aws_url(variants: Variants, region: &str) -> String {
    let fips = if variants.fips { "-fips" } else { "" };
    let dual_stack = if variants.dual_stack { ".dualstack" } else { "" };
    format!("https://s3{fips}{dual_stack}.{region}.{}", Partition::of(region).domain)
}

/// Returns the URL of S3 Express One Zone in a zone, by the endpoint rules of botocore 1.43.
fn zonal_url(zone: &str, variants: Variants, region: &str) -> String {
    let fips = if variants.fips { "-fips" } else { "" };
    let dual_stack = if variants.dual_stack { ".dualstack" } else { "" };
    format!("https://s3express{fips}-{zone}{dual_stack}.{region}.{}", Partition::of(region).domain)
}

/// Returns the URL of another AWS service in `region`.
pub(super) fn aws_service_url(service: &str, variants: Variants, region: &str) -> String {
    let fips = if variants.fips { "-fips" } else { "" };
    let partition = Partition::of(region);
    let domain = if variants.dual_stack { partition.dual_stack_domain } else { partition.domain };
    format!("https://{service}{fips}.{region}.{domain}")
}

/// Returns the region in the host name of an endpoint of S3 at AWS, such as
/// `bucket.s3.eu-west-3.amazonaws.com` or, in older responses, `s3-eu-west-3.amazonaws.com`.
pub(super) fn region_of_host(authority: &str) -> Option<&str> {
    let name = name_at_aws(authority.split(':').next()?)?;
    let last = name.rsplit('.').next()?;
    let region = last.strip_prefix("s3-").unwrap_or(last);
    // `s3.amazonaws.com` is in no region, and `s3-external-1` is a name for the first one.
    (region != "s3" && !region.starts_with("external-")).then_some(region)
}

/// Returns true if the bucket belongs in the host name. A numeric address has no subdomains, so the
/// bucket never belongs there.
fn wants_host(addressing: Addressing, origin: &Origin) -> bool {
    match addressing {
        Addressing::Auto => is_aws(origin),
        Addressing::Path => false,
        Addressing::Virtual => origin.host.parse::<IpAddr>().is_err(),
    }
}

/// Returns true for AWS, which requires the bucket in the host name. Other endpoints may have no
/// wildcard names or certificates, so their buckets are in the path.
fn is_aws(origin: &Origin) -> bool {
    name_at_aws(&origin.host).is_some()
}

/// Returns true if the name of a bucket can be part of a host name. With TLS, a wildcard
/// certificate must also cover that host name.
fn can_be_host(bucket: &str, tls: bool) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || (b == b'.' && !tls);
    (3..=63).contains(&bucket.len()) && bucket.bytes().all(legal)
}

/// Returns an error for a bucket that needs another protocol.
pub(super) fn check_bucket(bucket: &str) -> Result<()> {
    let location = || format!("s3://{bucket}");
    // The ARN of an access point has slashes and colons. The alias of the access point can be used
    // as a bucket name.
    if bucket.starts_with("arn:") {
        return Err(Error::Unsupported {
            location: location(),
            what: "an access point by its ARN (its alias works)",
            trace: None,
        });
    }
    Ok(())
}

pub(super) fn query_value(value: &str) -> String {
    utf8_percent_encode(value, QUERY_RESERVED).to_string()
}

pub(super) fn copy_source(bucket: &str, key: &str, version_id: Option<&str>) -> String {
    let mut source = format!("/{bucket}/{}", utf8_percent_encode(key, KEY_RESERVED));
    if let Some(id) = version_id {
        source.push_str("?versionId=");
        source.extend(utf8_percent_encode(id, QUERY_RESERVED));
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoint: Option<&str>) -> ServiceSettings {
        ServiceSettings { endpoint_url: endpoint.map(str::to_owned), ..ServiceSettings::default() }
    }

    fn address_by(settings: &ServiceSettings, bucket: &str) -> (String, String) {
        let address = BucketAddress::of(bucket, settings, "eu-west-1").unwrap();
        (address.origin.authority(), address.target("k", &[]))
    }

    fn address(bucket: &str, endpoint: Option<&str>) -> (String, String) {
        address_by(&at(endpoint), bucket)
    }

    #[test]
    fn the_configured_style_decides_where_the_bucket_is_if_its_name_permits() {
        let with = |addressing, endpoint| ServiceSettings { addressing, ..at(endpoint) };
        let host = with(Addressing::Virtual, Some("https://store.test:9000"));
        assert_eq!(address_by(&host, "data"), ("data.store.test:9000".into(), "/k".into()));
        assert_eq!(address_by(&host, "a.b").1, "/a.b/k");
        let by_number = with(Addressing::Virtual, Some("http://127.0.0.1:9000"));
        assert_eq!(address_by(&by_number, "data"), ("127.0.0.1:9000".into(), "/data/k".into()));
        let path = with(Addressing::Path, None);
        assert_eq!(address_by(&path, "data"), ("s3.eu-west-1.amazonaws.com".into(), "/data/k".into()));
    }

    #[test]
    fn variants_of_endpoints_have_the_names_that_aws_documents() {
        let host = |fips, dual_stack| {
            let settings = ServiceSettings { variants: Variants { fips, dual_stack }, ..at(None) };
            address_by(&settings, "data").0
        };
        assert_eq!(host(true, false), "data.s3-fips.eu-west-1.amazonaws.com");
        assert_eq!(host(false, true), "data.s3.dualstack.eu-west-1.amazonaws.com");
        assert_eq!(host(true, true), "data.s3-fips.dualstack.eu-west-1.amazonaws.com");
        let both = Variants { fips: true, dual_stack: true };
        assert_eq!(aws_service_url("lambda", both, "eu-west-1"), "https://lambda-fips.eu-west-1.api.aws");
    }

    #[test]
    fn each_partition_of_aws_has_a_domain_of_its_own() {
        for (region, domain) in [
            ("us-gov-west-1", "amazonaws.com"),
            ("cn-north-1", "amazonaws.com.cn"),
            ("eusc-de-east-1", "amazonaws.eu"),
            ("us-iso-east-1", "c2s.ic.gov"),
            ("us-isob-east-1", "sc2s.sgov.gov"),
            ("us-isof-south-1", "csp.hci.ic.gov"),
            ("eu-isoe-west-1", "cloud.adc-e.uk"),
            ("il-central-1", "amazonaws.com"),
        ] {
            let address = BucketAddress::of("data", &at(None), region).unwrap();
            assert_eq!(address.origin.host, format!("data.s3.{region}.{domain}"));
            assert_eq!(region_of_host(&address.origin.host), Some(region));
            let url = format!("https://s3.{region}.{domain}");
            assert_eq!(address_by(&at(Some(&url)), "data").0, format!("data.s3.{region}.{domain}"));
        }
        let dual_stack = Variants { fips: false, dual_stack: true };
        let lambda = aws_service_url("lambda", dual_stack, "eusc-de-east-1");
        assert_eq!(lambda, "https://lambda.eusc-de-east-1.api.amazonwebservices.eu");
    }

    #[test]
    fn aws_addresses_have_the_bucket_in_the_host_and_others_in_the_path() {
        assert_eq!(address("data", None), ("data.s3.eu-west-1.amazonaws.com".into(), "/k".into()));
        assert_eq!(address("Data", None), ("s3.eu-west-1.amazonaws.com".into(), "/Data/k".into()));
        assert_eq!(address("a.b", None).1, "/a.b/k");
        assert_eq!(
            address("data", Some("http://127.0.0.1:9000/")),
            ("127.0.0.1:9000".into(), "/data/k".into())
        );
        assert_eq!(address("data", Some("https://minio.example.org/s3")).1, "/s3/data/k");
        assert_eq!(
            BucketAddress::of("data", &at(None), "cn-north-1").unwrap().origin.host,
            "data.s3.cn-north-1.amazonaws.com.cn"
        );
        assert!(BucketAddress::of("data", &at(Some("minio:9000")), "x").is_err());
    }

    #[test]
    fn the_host_names_of_aws_have_a_region() {
        for (host, region) in [
            ("b.s3.eu-west-3.amazonaws.com", Some("eu-west-3")),
            ("b.s3-eu-west-3.amazonaws.com", Some("eu-west-3")),
            ("s3.dualstack.us-west-2.amazonaws.com", Some("us-west-2")),
            ("s3.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("b.s3.amazonaws.com", None),
            ("s3-external-1.amazonaws.com", None),
            ("minio.example.org", None),
        ] {
            assert_eq!(region_of_host(host), region, "{host}");
        }
    }

    #[test]
    fn a_directory_bucket_is_at_the_endpoint_of_its_zone() {
        let (host, target) = address("fast--use1-az4--x-s3", None);
        assert_eq!(host, "fast--use1-az4--x-s3.s3express-use1-az4.eu-west-1.amazonaws.com");
        assert_eq!(target, "/k");
        let own = address("fast--use1-az4--x-s3", Some("http://127.0.0.1:9000"));
        assert_eq!(own, ("127.0.0.1:9000".into(), "/fast--use1-az4--x-s3/k".into()));
        let control = BucketAddress::for_control("fast--use1-az4--x-s3", &at(None), "us-east-1").unwrap();
        assert_eq!(control.origin.host, "s3express-control.us-east-1.amazonaws.com");
        assert_eq!(control.target("", &[]), "/fast--use1-az4--x-s3");
        let usual = BucketAddress::for_control("data", &at(None), "us-east-1").unwrap();
        assert_eq!(usual.origin.host, "data.s3.us-east-1.amazonaws.com");
        // An access point of such a bucket.
        let (host, _) = address("team--use1-az4--xa-s3", None);
        assert_eq!(host, "team--use1-az4--xa-s3.s3express-use1-az4.eu-west-1.amazonaws.com");
        let both = Variants { fips: true, dual_stack: true };
        let host = address_by(&ServiceSettings { variants: both, ..at(None) }, "a--use1-az4--x-s3").0;
        assert_eq!(host, "a--use1-az4--x-s3.s3express-fips-use1-az4.dualstack.eu-west-1.amazonaws.com");
    }

    #[test]
    fn odd_keys_are_encoded_byte_by_byte_and_never_normalised() {
        let address = BucketAddress::of("b", &at(Some("http://h")), "x").unwrap();
        assert_eq!(address.target("a//b/../c/", &[]), "/b/a//b/../c/");
        assert_eq!(address.target("ü +?#%", &[]), "/b/%C3%BC%20%2B%3F%23%25");
        assert_eq!(address.target("/lead", &[]), "/b//lead");
        assert_eq!(
            address.target("", &[("prefix", "a/b".into()), ("x", String::new())]),
            "/b?prefix=a%2Fb&x="
        );
        assert_eq!(address.target(&"\u{1F600}".repeat(256), &[]).len(), 3 + 256 * 12);
    }

    #[test]
    fn buckets_that_need_another_protocol_are_refused() {
        assert!(check_bucket("arn:aws:s3:eu-west-1:1:accesspoint/x").is_err());
        assert!(check_bucket("plain").is_ok());
    }
}
