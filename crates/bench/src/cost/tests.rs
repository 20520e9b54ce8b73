use super::*;

fn tariff() -> Tariff {
    Tariff {
        services: model::ModelCatalogue::current(),
        prices: prices::PriceCatalogue::current(),
        day: "2026-11-23".parse().unwrap(),
        region: Some("us-east-1".into()),
        transfer: Some(Transfer::None),
        endpoint: None,
        declared: None,
        found_regions: BTreeMap::new(),
    }
}

/// A plan of one case and one contender, with these TOML lines.
fn plan(contender: &str, more: &str) -> Plan {
    let text = format!(
        "[vars]\nsize = \"1GiB\"\ntarget = \"s3://bucket/big\"\n{more}\n[[case]]\nname = \"one\"\nrounds = 3\n\
         [[case.contender]]\nname = \"reader\"\n{contender}\n"
    );
    Plan::parse("made", &text, &BTreeMap::new()).unwrap()
}

fn line(contender: &str, tariff: &Tariff) -> Line {
    let costs = estimate(&plan(contender, ""), None, tariff);
    assert_eq!(costs.lines.len(), 1, "{costs:?}");
    costs.lines.into_iter().next().unwrap()
}

const READER: &str = "command = [\"true\", \"{target}\"]\nbytes = \"{size}\"";

#[test]
fn requests_and_transfer_of_all_runs_are_priced_by_region() {
    let own = line(READER, &tariff());
    assert_eq!((own.service.as_deref(), own.runs), (Some("s3-standard"), 4));
    assert_eq!((own.gets, own.lists, own.bytes), (4.0 * 8_192.0, 4.0, 4.0 * 1_073_741_824.0));
    assert!((own.usd - 4.0 * (8_192.0 * 4e-7 + 5e-6)).abs() < 1e-12, "{own:?}");
    assert!(own.missing.is_empty() && own.oldest_days == Some(236), "{own:?}");
    let out = line(READER, &Tariff { transfer: Some(Transfer::Internet), ..tariff() });
    assert!((out.usd - own.usd - 4.0 * 0.09).abs() < 1e-9, "{out:?}");
    let jobs = line(&format!("{READER}\njobs = 5"), &tariff());
    assert!((jobs.usd - 5.0 * own.usd).abs() < 1e-12);
    let twice = estimate(&plan(READER, ""), Some(7), &tariff());
    assert!((twice.usd() - 2.0 * own.usd).abs() < 1e-12);
}

#[test]
fn unknown_facts_are_listed_with_the_option_that_states_them() {
    let missing = |contender: &str, tariff: &Tariff| line(contender, tariff).missing.join("; ");
    assert!(missing(READER, &Tariff { transfer: None, ..tariff() }).contains("--transfer"));
    assert!(missing(READER, &Tariff { region: None, ..tariff() }).contains("--region"));
    let seoul = Tariff { region: Some("ap-northeast-2".into()), ..tariff() };
    assert!(missing(READER, &seoul).contains("the price s3-standard/get in ap-northeast-2"));
    let other = Tariff { endpoint: Some("https://store.example".into()), ..tariff() };
    assert!(missing(READER, &other).contains("https://store.example; give --bill-as"));
    assert!(missing("command = [\"true\", \"{target}\"]", &tariff()).contains("how many bytes"));
    assert!(
        missing("command = [\"true\"]\ntarget = \"s3://{else}\"", &tariff()).contains("{else} has no value")
    );
    assert!(missing(&format!("{READER}\nworkload = \"upload\""), &tariff()).contains("upload"));
    assert!(missing(&format!("{READER}\ntarget = \"/proc\""), &tariff()).contains("file system (proc)"));
}

#[test]
fn the_user_declares_the_service_of_an_endpoint_or_a_path() {
    let declared = |what: Declared, endpoint: &str| Tariff {
        declared: Some(what),
        endpoint: Some(endpoint.to_owned()),
        ..tariff()
    };
    let express = line(READER, &declared(Declared::Service("s3-express".into()), "https://store.example"));
    assert_eq!(express.service.as_deref(), Some("s3-express"));
    let path = format!("{READER}\ntarget = \"/proc\"");
    let efs = line(&path, &declared(Declared::Service("efs-elastic".into()), ""));
    assert!((efs.usd - 4.0 * 0.03).abs() < 1e-9, "{efs:?}");
    assert_eq!(
        line(&path, &declared(Declared::Nothing, "")).free.as_deref(),
        Some("declared with --bill-as")
    );
    // A tunnel to a service is an address of this machine.
    let tunnel = line(READER, &declared(Declared::Service("s3-standard".into()), "http://127.0.0.1:9000"));
    assert_eq!((tunnel.service.as_deref(), tunnel.free), (Some("s3-standard"), None));
    // The name of an AWS bucket decides the service, even if another one is declared.
    let aws = Tariff { declared: Some(Declared::Service("efs-elastic".into())), ..tariff() };
    assert_eq!(line(READER, &aws).service.as_deref(), Some("s3-standard"));
}

#[test]
fn data_in_a_class_that_may_bill_retrieval_has_no_known_cost() {
    let archived = line(&format!("{READER}\nbilled = {{ class = \"GLACIER_IR\" }}"), &tariff());
    assert!(archived.missing.join(" ").contains("GLACIER_IR, which may bill retrieval"), "{archived:?}");
}

#[test]
fn google_azure_and_cloudflare_are_billed_by_their_own_lists() {
    let gets = |tariff: &Tariff, target: &str| line(&format!("{READER}\ntarget = \"{target}\""), tariff);
    let of = |region: &str| Tariff { region: Some(region.to_owned()), ..tariff() };
    let google = gets(&of("us-central1"), "gs://bucket/big");
    assert_eq!((google.service.as_deref(), google.missing.len()), (Some("gcs"), 0), "{google:?}");
    assert!((google.usd - 4.0 * (8_192.0 * 4e-7 + 5e-6)).abs() < 1e-9, "{google:?}");
    let elsewhere = gets(&of("us-east-1"), "gs://bucket/big");
    assert!(elsewhere.missing[0].contains("gcs/get in us-east-1"), "{elsewhere:?}");
    assert_eq!(gets(&of("westus"), "az://container/big").service.as_deref(), Some("azure-blob"));
    let endpoint = Some("https://account.r2.cloudflarestorage.com".to_owned());
    let (transfer, day) = (Some(Transfer::Internet), "2026-11-28".parse().unwrap());
    let cloudflare = line(READER, &Tariff { endpoint, transfer, day, ..tariff() });
    assert_eq!((cloudflare.service.as_deref(), cloudflare.missing.len()), (Some("r2"), 0), "{cloudflare:?}");
    assert!((cloudflare.usd - 4.0 * (8_192.0 * 3.6e-7 + 4.5e-6)).abs() < 1e-9, "{cloudflare:?}");
}

#[test]
fn a_bucket_is_priced_by_the_region_where_it_was_found() {
    let found = |region: &str| BTreeMap::from([("bucket".to_owned(), region.to_owned())]);
    let seoul = line(READER, &Tariff { found_regions: found("ap-northeast-2"), ..tariff() });
    assert!(seoul.missing[0].contains("s3-standard/get in ap-northeast-2"), "{seoul:?}");
    let own = Tariff { found_regions: found("us-east-1"), region: None, ..tariff() };
    assert!(line(READER, &own).missing.is_empty());
}

#[test]
fn stand_ins_and_local_disks_bill_nothing() {
    let service = "[[services]]\nname = \"far\"\ncommand = [\"link\"]\n";
    let words = "command = [\"true\", \"--endpoint-url\", \"{far.url}\", \"s3://b/big\"]\nbytes = \"1GiB\"";
    let costs = estimate(&plan(words, service), None, &tariff());
    assert_eq!((costs.lines[0].target.as_str(), costs.usd()), ("stand-ins", 0.0));
    let here = line(READER, &Tariff { endpoint: Some("http://127.0.0.1:9000".into()), ..tariff() });
    assert_eq!(here.free.as_deref(), Some("on this machine"));
    assert!(line("command = [\"true\"]", &tariff()).free.is_some());
}

#[test]
fn a_directory_bucket_is_billed_as_express_and_an_endpoint_is_not_the_target() {
    let express = line("command = [\"true\", \"s3://b--use1-az4--x-s3/k\"]\nbytes = \"1GiB\"", &tariff());
    assert_eq!(express.service.as_deref(), Some("s3-express"));
    let words =
        "command = [\"true\", \"--endpoint-url\", \"https://store.example\", \"s3://b/k\"]\nbytes = \"1GiB\"";
    assert_eq!(line(words, &tariff()).target, "s3://b/k");
}

#[test]
fn data_read_once_is_paid_once() {
    let billed = "billed = { bytes = \"1GiB\", gets = \"100\", lists = \"0\", once = true }";
    let costs = estimate(&plan(&format!("{READER}\n{billed}"), ""), None, &tariff());
    assert!((costs.usd() - 100.0 * 4e-7).abs() < 1e-12, "{costs:?}");
    assert!((costs.of_run("one", "reader", true) - costs.usd()).abs() < 1e-12);
    assert!(costs.of_run("one", "reader", false).abs() < 1e-12);
}

/// A function called by 20 jobs. An empty `endpoint` is AWS's.
fn function(endpoint: &str) -> String {
    format!(
        "jobs = 20\ntarget = \"{{target}}\"\nbytes = \"{{size}}\"\n[case.contender.invoke]\nfunction = \"f\"\n\
         endpoint = \"{endpoint}\"\nmemory = \"1024MB\"\ntimeout = \"30\"\n\
         event = {{ action = \"download\", source = \"{{target}}\" }}"
    )
}

#[test]
fn function_calls_cost_their_whole_timeouts_and_their_reads() {
    let costs = estimate(&plan(&function(""), ""), None, &tariff());
    let of = |target: &str| costs.lines.iter().find(|line| line.target == target).unwrap();
    // 1,024 MB of Lambda are one GiB. There are four rounds, warm-up included.
    let calls = 20.0 * 30.0 * 1.66667e-5 + 20.0 * 2e-7;
    assert!((of("lambda:f").usd - 4.0 * calls).abs() < 1e-9, "{costs:?}");
    let data = of("s3://bucket/big");
    assert!(data.usd > 0.0 && data.missing.is_empty(), "{costs:?}");
    let run = costs.of_run("one", "reader", true);
    assert!((run - calls - data.usd / 4.0).abs() < 1e-9, "{run}");
    let elsewhere = estimate(&plan(&function(""), ""), None, &Tariff { region: None, ..tariff() });
    assert!(elsewhere.missing().any(|missing| missing.starts_with("lambda:f: its region")), "{elsewhere:?}");
}

#[test]
fn calls_of_a_function_on_this_machine_cost_nothing() {
    let service = "[[services]]\nname = \"host\"\ncommand = [\"true\"]";
    let costs = estimate(&plan(&function("{host.url}"), service), None, &Tariff { region: None, ..tariff() });
    assert!(costs.lines.iter().all(|line| line.free.is_some()), "{costs:?}");
    assert_eq!((costs.usd(), costs.missing().count()), (0.0, 0));
}
