//! `advise prices` as users run it: prices that are shown, prices that are missing, and the import
//! of AWS's price files.

use crate::support;

use serde_json::Value;
use support::World;

/// Returns an offer file of S3 that has `filler` products which the import skips.
fn offer(filler: usize) -> String {
    let product = |sku: &str, usage: &str| {
        format!(
            r#""{sku}": {{"sku": "{sku}", "productFamily": "Storage", "attributes": {{"regionCode": "us-east-1",
            "servicecode": "AmazonS3", "usagetype": "{usage}", "description": "{}"}}}}"#,
            "made ".repeat(40)
        )
    };
    let term = |sku: &str, unit: &str, usd: &str| {
        format!(
            r#""{sku}": {{"{sku}.T": {{"priceDimensions": {{"{sku}.T.D": {{"unit": "{unit}", "beginRange": "0",
            "pricePerUnit": {{"USD": "{usd}"}}}}}}, "sku": "{sku}"}}}}"#
        )
    };
    let filler: Vec<usize> = (0..filler).collect();
    let products: Vec<String> = filler.iter().map(|number| product(&format!("F{number}"), "Other")).collect();
    let terms: Vec<String> =
        filler.iter().map(|number| term(&format!("F{number}"), "GB-Mo", "1.0000000000")).collect();
    format!(
        "{{\"offerCode\": \"AmazonS3\", \"publicationDate\": \"2026-11-02T00:00:00Z\",\n\"products\": {{\n{},\n{}}},\n\
         \"terms\": {{\"OnDemand\": {{\n{},\n{}}}}}}}\n",
        product("GET", "Requests-Tier2"),
        products.join(",\n"),
        term("GET", "Requests", "0.0000003000"),
        terms.join(",\n"),
    )
}

fn rows(world: &World, args: &[&str]) -> Vec<Value> {
    let ran = world.run(&[&["advise", "prices", "--json"], args].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn get_price(world: &World) -> Value {
    let rows = rows(world, &["s3-standard/get", "--region", "us-east-1"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[test]
fn prices_are_shown_with_day_age_and_source() {
    let world = World::new();
    let rows = rows(&world, &["--region", "us-east-1", "--day", "2026-11-23"]);
    let of = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(of("ec2/r6i.24xlarge")["usd"], 6.048);
    assert_eq!(of("ec2/r6i.24xlarge")["day"], "2026-07-20");
    assert_eq!(of("ec2/r6i.24xlarge")["age_days"], 126);
    assert!(of("efs/elastic-read")["source"].as_str().is_some_and(|source| !source.is_empty()));
    assert_eq!(of("fsx-lustre/persistent-2-1000")["missing"], true, "what is not known is named");

    assert!(rows.iter().all(|row| !row["key"].as_str().unwrap().starts_with("gcs/")), "{rows:?}");
    let google = self::rows(&world, &["--region", "us-central1"]);
    assert!(google.iter().all(|row| row["key"].as_str().unwrap().starts_with('g')), "{google:?}");

    let ran = world.run(&["advise", "prices", "efs", "--region", "us-east-1", "--day", "2026-11-23"]);
    let text = String::from_utf8(ran.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("efs/elastic-read")).unwrap();
    assert!(line.contains("0.03 $/GiB") && line.contains("2026-06-01   175 days"), "{line}");
}

#[test]
fn an_unknown_region_names_the_nearest_and_a_past_day_has_no_price() {
    let world = World::new();
    let ran = world.run(&["advise", "prices", "--region", "us-esat-1"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("there is no region `us-esat-1`; nearest: us-east-1"), "{ran:?}");
    let ran = world.run(&["advise", "prices", "ec2/", "--day", "2020-01-01"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("no price of ec2/ is known for 2020-01-01"),
        "{ran:?}"
    );
    let ran = world.run(&["advise", "prices", "--day", "yesterday"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("write for example 2026-11-23"), "{ran:?}");
}

#[test]
fn an_import_overrides_the_embedded_price_and_keeps_what_was_imported() {
    let world = World::new();
    assert_eq!(get_price(&world)["usd"], 4e-7);
    let file = world.write("s3.json", offer(10).as_bytes());
    let ran = world.run(&["advise", "prices", "import", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let own = get_price(&world);
    assert_eq!((own["usd"].as_f64(), own["day"].as_str()), (Some(3e-7), Some("2026-11-02")));
    assert_eq!(own["source"], "AWS Price List, AmazonS3");

    // A second import keeps the prices of the first. `-` reads the file from standard input.
    let second = offer(10).replace("Requests-Tier2", "Requests-Tier1");
    let ran = world
        .run_with_input(&["advise", "prices", "import", "-", "--region", "us-east-1"], second.as_bytes());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(get_price(&world)["usd"], 3e-7);
    assert_eq!(rows(&world, &["s3-standard/put", "--region", "us-east-1"])[0]["usd"], 3e-7);

    // The offer has no prices for this region, so the import changes nothing.
    let ran = world
        .run_with_input(&["advise", "prices", "import", "-", "--region", "eu-west-1"], second.as_bytes());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("standard input: it has no price that is used in eu-west-1"), "{ran:?}");
    assert_eq!(get_price(&world)["usd"], 3e-7);
}

#[test]
fn broken_files_are_one_line_and_change_nothing() {
    let world = World::new();
    let whole = offer(10);
    for (content, why) in [
        (&whole[..whole.len() / 2], "the file ends early: download it again"),
        ("", "the file ends early"),
        ("key,price\n", "expected value"),
        ("{}", "not an offer file of the AWS Price List"),
    ] {
        let file = world.write("broken.json", content.as_bytes());
        let ran = world.run(&["advise", "prices", "import", file.to_str().unwrap(), "--out", "own.toml"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(why) && ran.stderr.contains("broken.json"), "{ran:?}");
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{ran:?}");
        assert!(!world.path("own.toml").exists());
    }
    world.write("../home/.config/firstbyte/prices.toml", b"[[list]]\nregion = \"us-east-1\"\n");
    let ran = world.run(&["advise", "prices"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("prices.toml:1: missing field `day`"), "{ran:?}");
}

#[test]
fn an_import_needs_little_memory_whatever_the_size_of_the_file() {
    let world = World::new();
    let (small, large) = (offer(10), offer(60_000));
    assert!(large.len() > 20 << 20, "{}", large.len());
    let peak = |content: &str| {
        let file = world.write("offer.json", content.as_bytes());
        let ran =
            world.run(&["--json", "advise", "prices", "import", file.to_str().unwrap(), "--out", "own.toml"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let receipt: Value = serde_json::from_slice(&ran.stdout).unwrap();
        receipt["peak_memory_bytes"].as_u64().unwrap()
    };
    let (least, most) = (peak(&small), peak(&large));
    assert!(most < 64 << 20, "{most} bytes");
    assert!(most < least + (4 << 20), "{least} and {most} bytes: memory grows with the file");
}
