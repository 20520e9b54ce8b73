use std::fmt::Write as _;

use super::*;

/// Makes an offer file of EC2 with `instances` supported products in each of two regions, among
/// products that are not supported.
fn ec2(instances: usize) -> String {
    let mut products = String::new();
    let mut terms = String::new();
    for number in 0..instances {
        for (region, factor) in [("us-east-1", 1.0), ("ap-northeast-2", 1.25)] {
            for (system, tenancy) in [("Linux", "Shared"), ("Windows", "Shared"), ("Linux", "Dedicated")] {
                let sku = format!("{system}{tenancy}{region}{number}");
                let _ = writeln!(
                    products,
                    r#""{sku}": {{"sku": "{sku}", "productFamily": "Compute Instance", "attributes": {{
                    "regionCode": "{region}", "instanceType": "m{number}.large", "operatingSystem": "{system}",
                    "tenancy": "{tenancy}", "preInstalledSw": "NA", "licenseModel": "No License required",
                    "capacitystatus": "Used", "vcpu": "2", "usagetype": "BoxUsage:m{number}.large"}}}},"#
                );
                terms.push_str(&term(&sku, "Hrs", &[("0", 0.1 * factor * (number + 1) as f64)]));
            }
        }
    }
    for (usage, unit, dollars) in [
        ("EBS:VolumeP-Throughput.gp3", "GiBps-mo", 40.96),
        ("EBS:VolumeUsage.gp3", "GB-Mo", 0.08),
        ("EBS:VolumeUsage.gp2", "GB-Mo", 0.1),
        ("NatGateway-Hours", "Fortnights", 9.0),
    ] {
        let _ = writeln!(
            products,
            r#""{usage}": {{"attributes": {{"regionCode": "us-east-1", "usagetype": "{usage}"}}}},"#
        );
        terms.push_str(&term(usage, unit, &[("0", dollars), ("100", dollars / 2.0)]));
    }
    document("AmazonEC2", &products, &terms)
}

fn term(sku: &str, unit: &str, tiers: &[(&str, f64)]) -> String {
    let tiers: Vec<String> = tiers
        .iter()
        .map(|(begin, dollars)| {
            format!(
                r#""{sku}.T.{begin}": {{"unit": "{unit}", "beginRange": "{begin}", "endRange": "Inf",
                "description": "made", "pricePerUnit": {{"USD": "{dollars:.10}"}}, "appliesTo": []}}"#
            )
        })
        .collect();
    let tiers = tiers.join(",");
    format!(
        r#""{sku}": {{"{sku}.T": {{"sku": "{sku}", "priceDimensions": {{{tiers}}}, "termAttributes": {{}}}}}},
"#
    )
}

fn document(offer: &str, products: &str, terms: &str) -> String {
    let (products, terms) =
        (products.trim_end().trim_end_matches(','), terms.trim_end().trim_end_matches(','));
    format!(
        r#"{{"formatVersion": "v1.0", "disclaimer": "made", "offerCode": "{offer}", "version": "2026",
"publicationDate": "2026-10-02T18:04:05Z", "products": {{
{products}
}}, "terms": {{"OnDemand": {{
{terms}
}}, "Reserved": {{"X": {{"X.Y": {{"anything": [1, 2, {{}}]}}}}}}}}, "attributesList": {{}}}}
"#
    )
}

fn read(text: &str, region: Option<&str>) -> Result<Imported, ImportError> {
    import("made.json", text.as_bytes(), region)
}

fn usd(imported: &Imported, key: &str, region: &str) -> Option<f64> {
    let price = imported.catalogue.price(key, region, "2026-10-02".parse().unwrap());
    price.map(|price| (price.usd * 1e9).round() / 1e9)
}

#[test]
fn instances_and_volumes_are_kept_and_the_rest_is_not() {
    let imported = read(&ec2(3), None).unwrap();
    assert_eq!((imported.offer.as_str(), imported.day.to_string().as_str()), ("AmazonEC2", "2026-10-02"));
    assert_eq!(usd(&imported, "ec2/m1.large", "us-east-1"), Some(0.2));
    assert_eq!(usd(&imported, "ec2/m1.large", "ap-northeast-2"), Some(0.25));
    assert_eq!(usd(&imported, "ebs-gp3/throughput", "us-east-1"), Some(0.04), "a GiB/s is 1,024 MiB/s");
    assert_eq!(usd(&imported, "ebs-gp3/storage", "us-east-1"), Some(0.08), "the first tier counts");
    assert_eq!(imported.catalogue.prices().count(), 3 * 2 + 2);
    assert_eq!(imported.products, 3 * 2 * 3 + 4);
    assert_eq!(imported.skipped, ["nat/hour in us-east-1: billed by the `Fortnights`"]);
    let price = imported.catalogue.prices().next().unwrap();
    assert_eq!(price.source, "AWS Price List, AmazonEC2");
}

#[test]
fn a_region_limits_what_is_kept() {
    let imported = read(&ec2(3), Some("ap-northeast-2")).unwrap();
    assert!(imported.catalogue.prices().all(|price| price.region == "ap-northeast-2"));
    assert_eq!(imported.catalogue.prices().count(), 3);
}

#[test]
fn products_that_disagree_have_no_price() {
    let product = r#"{"attributes": {"regionCode": "us-east-1", "usagetype": "Requests-Tier2"}}"#;
    let products = format!(r#""A": {product}, "B": {product}"#);
    let terms =
        |second: f64| term("A", "Requests", &[("0", 4e-7)]) + &term("B", "Requests", &[("0", second)]);
    let same = read(&document("AmazonS3", &products, &terms(4e-7)), None).unwrap();
    assert_eq!(usd(&same, "s3-standard/get", "us-east-1"), Some(4e-7));
    let other = read(&document("AmazonS3", &products, &terms(5e-7)), None).unwrap();
    assert_eq!(usd(&other, "s3-standard/get", "us-east-1"), None);
    assert_eq!(other.skipped, ["s3-standard/get in us-east-1: products disagree on the price"]);
}

#[test]
fn a_truncated_file_is_one_clear_line_wherever_it_ends() {
    let whole = ec2(2);
    for end in (0..whole.trim_end().len()).step_by(7) {
        let error = read(&whole[..end], None).unwrap_err();
        let line = whole[..end].matches('\n').count() + 1;
        let text = error.to_string();
        assert!(matches!(error, ImportError::Truncated { .. }), "{end}: {text}");
        // After a line end, the reader already counts the next line.
        assert!(
            (0..2).any(|back| text.starts_with(&format!("made.json:{}: the file ends early", line - back))),
            "{end}: {text}, line {line}"
        );
    }
}

#[test]
fn foreign_files_are_refused_by_what_they_are() {
    for (text, why) in [
        ("{}", "made.json: not an offer file of the AWS Price List: it has no `offerCode`"),
        ("[1, 2]", "made.json:1: invalid type: sequence, expected an offer file of the AWS Price List"),
        ("\nkey: value", "made.json:2: expected value"),
        (r#"{"offerCode": "AmazonS3"}"#, "made.json: it has no `publicationDate`"),
        (r#"{"products": {}}"#, "made.json:1: `products` comes before `offerCode`"),
        (r#"{"offerCode": "AmazonS3", "terms": {}}"#, "made.json:1: `terms` comes before `products`"),
    ] {
        let error = read(text, None).unwrap_err().to_string();
        assert!(error.starts_with(why), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = read(&document("AmazonChime", "", ""), None).unwrap_err().to_string();
    assert!(error.starts_with("made.json: no price of the offer AmazonChime is used"), "{error}");
}

#[test]
fn imported_prices_are_written_as_a_catalogue_and_read_again() {
    let imported = read(&ec2(2), None).unwrap();
    let text = imported.catalogue.to_toml();
    let again = PriceCatalogue::parse("prices.toml", &text).unwrap();
    assert!(again.prices().eq(imported.catalogue.prices()), "{text}");
    assert!(again.prices().count() > 4);
}
