//! The configuration files and variables of AWS. Each setting is either obeyed, or refused by its
//! name. Data for a private service must never be sent to AWS.

use crate::support;

use firstbyte_testkit::{Certificate, CertificateKind, Quirk, QuirkStore, Scripted, ScriptedReply};
use support::World;
use support::servers::S3;

const KEYS: &str = "aws_access_key_id = key\naws_secret_access_key = secret\n";

/// Makes a store with one object, `name`.
fn store_with(name: &str, quirks: &[Quirk]) -> QuirkStore {
    let store = QuirkStore::start(quirks);
    store.insert(name, b"content");
    store
}

/// Makes a world that has this configuration file and uses its profile `p`.
fn world_with(config: &str) -> World {
    let mut world = World::new();
    let (config, keys) = (world.write("config", config.as_bytes()), format!("[p]\n{KEYS}"));
    let credentials = world.write("credentials", keys.as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap());
    world.set("AWS_PROFILE", "p");
    world.set("AWS_REGION", "us-east-1");
    world
}

/// Returns the names that `ls` of the bucket prints.
#[track_caller]
fn listed(world: &World) -> String {
    String::from_utf8(world.run(&["ls", "s3://bucket/"]).ok().stdout).unwrap()
}

#[test]
fn the_endpoint_of_a_services_section_comes_before_that_of_the_profile() {
    let (own, general) = (store_with("own", &[]), store_with("general", &[]));
    let services = format!("[services mine]\ns3 =\n  endpoint_url = {}\n", own.url());
    let alone = world_with(&format!("[profile p]\nservices = mine\n{services}"));
    assert_eq!(listed(&alone), "own\n");
    let both = format!("[profile p]\nendpoint_url = {}\nservices = mine\n{services}", general.url());
    let mut both = world_with(&both);
    both.set("AWS_ENDPOINT_URL_S3", "");
    both.set("AWS_ENDPOINT_URL", "");
    assert_eq!(listed(&both), "own\n", "empty variables are unset");
    let variable = store_with("variable", &[]);
    both.set("AWS_ENDPOINT_URL", variable.url());
    assert_eq!(listed(&both), "variable\n", "variables come before files");
    both.set("AWS_ENDPOINT_URL_S3", general.url());
    assert_eq!(listed(&both), "general\n", "the service's variable comes before the general one");
    both.set("FIRSTBYTE_ENDPOINT_URL", own.url());
    assert_eq!(listed(&both), "own\n", "options come first");
}

#[test]
fn a_file_is_found_and_read_as_by_aws_cli() {
    let store = store_with("own", &[]);
    let url = format!("endpoint_url = {}\n", store.url());
    for (profile, config) in [
        ("p", format!("[profile p]\n{url}s3 =\n  # a comment\n  addressing_style = path\n")),
        ("p", format!("[profile p]\n{url}[profile other]\nregion: eu-west-1\ns3 =\n  ; a comment\n")),
        ("p", format!("[profile \"p\"]\n{url}")),
        ("p", format!("[profile p]\nservices = 'm'\n[services 'm']\ns3 =\n  {url}").replace("= 'm'", "= m")),
        ("my site", format!("[profile 'my site']\n{url}")),
        // Keys in the credentials file come before a process in the other file.
        ("p", format!("[profile p]\n{url}credential_process = false\n")),
    ] {
        let mut world = world_with(&config);
        world.write("credentials", format!("[{profile}]\n{KEYS}aws_session_token =\n").as_bytes());
        world.set("AWS_PROFILE", profile);
        assert_eq!(listed(&world), "own\n", "{config}");
        // The program expands the tilde, since no shell has.
        let home = world.path("").display().to_string();
        world.set("HOME", &home);
        world.set("AWS_CONFIG_FILE", "~/config");
        world.set("AWS_SHARED_CREDENTIALS_FILE", "~/credentials");
        assert_eq!(listed(&world), "own\n", "{config}");
    }
    let mut alone = world_with("");
    let home = alone.write("config", format!("[default]\n{url}{KEYS}").as_bytes());
    alone.set("HOME", home.parent().unwrap().to_str().unwrap());
    alone.set("AWS_CONFIG_FILE", "~/config");
    alone.set("AWS_SHARED_CREDENTIALS_FILE", "~/absent");
    alone.set("AWS_PROFILE", "");
    assert_eq!(listed(&alone), "own\n");
}

#[test]
fn a_section_for_other_services_leaves_the_endpoint_of_the_profile() {
    let store = store_with("general", &[]);
    let other = "services = mine\n[services mine]\ndynamodb =\n  endpoint_url = http://127.0.0.1:1\n";
    let world = world_with(&format!("[profile p]\nendpoint_url = {}\n{other}", store.url()));
    assert_eq!(listed(&world), "general\n");
}

#[test]
fn a_services_section_that_does_not_exist_is_named() {
    let store = store_with("x", &[]);
    let world = world_with(&format!("[profile p]\nservices = absent\nendpoint_url = {}\n", store.url()));
    world.run(&["ls", "s3://bucket/"]).fails(2, &["[services absent]", "config"]);
    assert!(store.requests().is_empty());
}

#[test]
fn configured_endpoints_are_ignored_if_the_profile_or_a_variable_demands_it() {
    let store = store_with("x", &[]);
    let ignoring = "[profile p]\nignore_configured_endpoint_urls = true\n";
    let mut world = world_with(&format!("{ignoring}endpoint_url = {}\n", store.url()));
    // The proxy cannot be reached, so if the program used it, the request would fail.
    world.set("https_proxy", "http://127.0.0.1:1");
    world.set("AWS_ENDPOINT_URL_S3", store.url());
    world.run(&["ls", "s3://bucket/"]).fails(1, &["127.0.0.1:1"]);
    assert!(store.requests().is_empty());
    world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
    assert_eq!(listed(&world), "x\n", "an option is not ignored");
}

#[test]
fn the_addressing_style_of_the_profile_puts_the_bucket_into_the_host_name() {
    let store = store_with("x", &[Quirk::HostStyleOnly]);
    let at = "[profile p]\nendpoint_url = http://store.test\n";
    let path = world_through(at, &store);
    path.run(&["ls", "s3://bucket/"]).fails(1, &["SecondLevelDomainForbidden", "addressing_style = virtual"]);
    for style in [
        "s3 =\n  addressing_style = virtual\n",
        "addressing_style = path\ns3 =\n  addressing_style = virtual\n",
        "services = s\n[services s]\ns3 =\n  addressing_style = virtual\n",
    ] {
        let world = world_through(&format!("{at}{style}"), &store);
        assert_eq!(listed(&world), "x\n", "{style}");
        world.run(&["cp", "s3://bucket/x", "copy"]).ok();
        assert_eq!(world.read("copy"), b"content");
    }
}

/// Makes a world in which the store is the proxy for all hosts.
fn world_through(config: &str, store: &QuirkStore) -> World {
    let mut world = world_with(config);
    world.set("http_proxy", store.url());
    world
}

#[test]
fn settings_that_cannot_be_honoured_are_refused_by_name() {
    let store = store_with("x", &[]);
    let at = format!("[profile p]\nendpoint_url = {}\n", store.url());
    for (setting, facts) in [
        ("use_fips_endpoint = true\n", ["use_fips_endpoint", "another endpoint"]),
        ("use_dualstack_endpoint = true\n", ["use_dualstack_endpoint", "another endpoint"]),
        ("s3 =\n  use_dualstack_endpoint = true\n", ["use_dualstack_endpoint", "another endpoint"]),
        ("s3 =\n  use_accelerate_endpoint = true\n", ["use_accelerate_endpoint", "not supported"]),
        ("s3 =\n  signature_version = s3\n", ["signature_version s3", "s3v4"]),
        ("s3 =\n  addressing_style = sideways\n", ["addressing_style sideways", "path or virtual"]),
        ("use_fips_endpoint = maybe\n", ["use_fips_endpoint maybe", "true or false"]),
    ] {
        let world = world_with(&format!("{at}{setting}"));
        world.run(&["ls", "s3://bucket/"]).fails(2, &facts);
        assert!(store.requests().is_empty(), "{setting}");
    }
    let mut world = world_with(&at);
    world.set("AWS_USE_FIPS_ENDPOINT", "true");
    world.run(&["ls", "s3://bucket/"]).fails(2, &["use_fips_endpoint"]);
    let other =
        "s3 =\n  signature_version = s3v4\n  max_concurrent_requests = 5\n  addressing_style = path\n";
    assert_eq!(listed(&world_with(&format!("{at}{other}"))), "x\n", "settings without effect are accepted");
}

#[test]
fn the_endpoints_of_fips_and_dual_stack_are_those_of_aws() {
    let sent = |config: &str| {
        // The proxy refuses, but only after it has received the target of the tunnel.
        let proxy = Scripted::start(|_, _| ScriptedReply::answer("403 Forbidden", &[], b"").then_close());
        let mut world = world_with(config);
        world.set("https_proxy", proxy.url());
        assert_ne!(world.run(&["ls", "s3://bucket/"]).code, Some(0));
        proxy.heads()[0].lines().next().unwrap().to_owned()
    };
    let fips = sent("[profile p]\nuse_fips_endpoint = true\n");
    assert!(fips.starts_with("CONNECT bucket.s3-fips.us-east-1.amazonaws.com:443 "), "{fips}");
    let dual_stack = sent("[profile p]\ns3 =\n  use_dualstack_endpoint = true\n");
    assert!(
        dual_stack.starts_with("CONNECT bucket.s3.dualstack.us-east-1.amazonaws.com:443 "),
        "{dual_stack}"
    );
}

#[test]
fn the_certificates_of_the_profile_are_trusted() {
    let certificate = Certificate::make(CertificateKind::Authority);
    let (chain, key) = (certificate.certificate(), certificate.key());
    let options = ["--write", "--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let s3 = S3::ours_with(&options);
    let mut world = World::with_s3(&s3);
    world.run(&["ls", "s3://bucket/"]).fails(1, &["not signed by a trusted authority"]);
    let config = world.write("config", format!("[default]\nca_bundle = {}\n", chain.display()).as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.run(&["ls", "s3://bucket/"]).ok();
}

/// Makes a world whose credentials come from a role, through the STS at this URL.
fn world_with_role(sts: &str, store: &QuirkStore) -> World {
    let mut world = World::new();
    let config = "[profile r]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n[profile base]\n";
    let config = world.write("config", config.as_bytes());
    let credentials = world.write("credentials", format!("[base]\n{KEYS}").as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap());
    world.set("AWS_PROFILE", "r");
    world.set("AWS_REGION", "us-east-1");
    world.set("AWS_ENDPOINT_URL_STS", sts);
    world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
    world
}

/// Returns the host and the port in a URL.
fn host(url: &str) -> &str {
    url.split_once("://").unwrap().1
}

const ROLE: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>a</AccessKeyId>\
    <SecretAccessKey>b</SecretAccessKey><SessionToken>t</SessionToken>\
    <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";

#[test]
fn a_role_is_assumed_by_our_own_client() {
    let store = store_with("x", &[]);
    let sts =
        Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["content-type: text/xml"], ROLE.as_bytes()));
    assert_eq!(listed(&world_with_role(sts.url(), &store)), "x\n");
    assert!(sts.requests().iter().any(|request| request.body.starts_with(b"Action=AssumeRole")));
}

#[test]
fn a_silent_sts_is_named_after_the_deadline() {
    let store = store_with("x", &[]);
    let sts = Scripted::start(|_, _| ScriptedReply::Silence);
    let mut world = world_with_role(sts.url(), &store);
    world.set("FIRSTBYTE_READ_TIMEOUT", "1s");
    world.run(&["ls", "s3://bucket/"]).fails(1, &["STS at", host(sts.url()), "has not answered for 1s"]);
    world.write("file", b"x");
    world.run(&["cp", "file", "s3://bucket/new"]).fails(1, &["STS at", host(sts.url())]);
    assert_eq!(sts.requests().len(), 2, "one request a run");
}

#[test]
fn a_silent_metadata_service_is_named_after_the_deadline() {
    let store = store_with("x", &[]);
    let metadata = Scripted::start(|_, _| ScriptedReply::Silence);
    for variable in ["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT"] {
        let mut world = World::new();
        world.set("AWS_REGION", "us-east-1");
        world.set("AWS_EC2_METADATA_DISABLED", "false");
        world.set(variable, metadata.url());
        world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
        world.set("FIRSTBYTE_READ_TIMEOUT", "1s");
        world
            .run(&["ls", "s3://bucket/"])
            .fails(1, &["credentials", host(metadata.url()), "has not answered"]);
    }
}

#[test]
fn the_bundle_of_the_options_holds_for_sts() {
    let store = store_with("x", &[]);
    let certificate = Certificate::make(CertificateKind::Authority);
    let unusual = firstbyte_testkit::TlsBehaviour::default();
    let sts = firstbyte_testkit::TlsPeer::start(&certificate, unusual, ROLE.as_bytes().to_vec());
    let mut world = world_with_role(sts.url(), &store);
    world.run(&["ls", "s3://bucket/"]).fails(1, &["credentials", "not signed by a trusted authority"]);
    let bundle = certificate.certificate();
    world.set("FIRSTBYTE_CA_BUNDLE", bundle.to_str().unwrap());
    assert_eq!(listed(&world), "x\n");
}

#[test]
fn an_endpoint_below_s3_is_that_of_the_profile() {
    let (nested, general) = (store_with("nested", &[]), store_with("general", &[]));
    let s3 = format!("s3 =\n  endpoint_url = {}\n", nested.url());
    let mut world = world_with(&format!("[profile p]\nendpoint_url = {}\n{s3}", general.url()));
    assert_eq!(listed(&world), "nested\n");
    world.set("AWS_ENDPOINT_URL", general.url());
    assert_eq!(listed(&world), "general\n", "variables come before files");
}

#[test]
fn variables_that_end_with_a_line_break_are_read_without_it() {
    let server = Scripted::start(|_, head| {
        let is_clean = head.contains("Credential=key/") && head.contains("x-amz-security-token: token\r\n");
        let page = "<ListBucketResult><IsTruncated>false</IsTruncated>\
            <Contents><Key>own</Key><Size>1</Size></Contents></ListBucketResult>";
        ScriptedReply::answer(if is_clean { "200 OK" } else { "403 Forbidden" }, &[], page.as_bytes())
    });
    let mut world = World::new();
    for (name, value) in [
        ("AWS_ENDPOINT_URL", server.url()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SECURITY_TOKEN", "token"),
    ] {
        world.set(name, &format!(" {value}\n"));
    }
    assert_eq!(listed(&world), "own\n");
}

#[test]
fn a_role_needs_no_region_and_its_agent_no_proxy() {
    let store = store_with("x", &[]);
    let sts = Scripted::start(|_, _| ScriptedReply::answer("403 Forbidden", &[], b"").then_close());
    let mut world = World::new();
    let token = world.write("token", b"token");
    world.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    world.set("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap());
    world.set("AWS_ENDPOINT_URL_S3", store.url());
    world.set("https_proxy", sts.url());
    world.run(&["ls", "s3://bucket/"]).fails(1, &["credentials"]);
    assert!(sts.heads()[0].starts_with("CONNECT sts.us-east-1.amazonaws.com:443 "), "{:?}", sts.heads());
    let keys = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
    let agent = Scripted::start(move |_, _| ScriptedReply::answer("200 OK", &[], keys.as_bytes()));
    let mut world = World::new();
    world.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/creds", agent.url()));
    world.set("AWS_ENDPOINT_URL_S3", store.url());
    world.set("AWS_REGION", "us-east-1");
    world.set("http_proxy", store.url());
    assert_eq!(listed(&world), "x\n");
    assert!(agent.heads()[0].starts_with("GET /creds "), "{:?}", agent.heads());
}
