//! Named endpoints. `s3+NAME://` is the service that `config.toml` gives this name, on either side
//! of every verb. The two services have different access keys, so a request that goes to the wrong
//! one is refused.

use crate::support;

use firstbyte_testkit::{
    ACCESS_KEY, Certificate, CertificateKind, Quirk, QuirkStore, SECRET_KEY, Scripted, ScriptedReply, bytes,
    free_port, lacks_root,
};
use support::servers::S3;
use support::{World, kills};

const NAMES: [&str; 4] = ["a", "dir/b", "dir/\u{fc} +%41", "z.html"];

/// Makes a world with this `config.toml`.
fn world_with(config: &str) -> World {
    let mut world = World::new();
    let directory = world.write("config/firstbyte/config.toml", config.as_bytes());
    let base = directory.parent().unwrap().parent().unwrap().to_owned();
    world.set("XDG_CONFIG_HOME", base.to_str().unwrap());
    world
}

/// Two services with different access keys, and a world that names them `one` and `two`.
struct TwoServices {
    one: S3,
    two: S3,
    world: World,
}

fn two_of_ours() -> TwoServices {
    let keys = World::new();
    let start = |name: &str| {
        let file = keys.write(name, format!("{name} secret-of-{name} write\n").as_bytes());
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        S3::ours_with(&["--write", "--auth", file.to_str().unwrap()])
    };
    two(start("one"), start("two"), "")
}

fn two(one: S3, two: S3, more: &str) -> TwoServices {
    let endpoint = |name: &str, url: &str| format!("[endpoint.{name}]\nurl = '{url}'\nprofile = '{name}'\n");
    let config = format!("{}{}{more}", endpoint("one", &one.url), endpoint("two", &two.url));
    let mut world = world_with(&config);
    let profile = |name: &str, key: &str, secret: &str| {
        format!("[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    };
    let keys =
        format!("{}{}", profile("one", "one", "secret-of-one"), profile("two", "two", "secret-of-two"));
    let credentials = world.write("credentials", keys.as_bytes());
    world.set("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap());
    TwoServices { one, two, world }
}

fn text(world: &World, words: &[&str]) -> String {
    String::from_utf8(world.run(words).ok().stdout).unwrap()
}

#[test]
fn every_verb_takes_a_named_endpoint_on_either_side() {
    let TwoServices { one, two: _two, world } = two_of_ours();
    for (seed, name) in (1..).zip(NAMES) {
        world.write(&format!("tree/{name}"), &bytes(seed, 10_000));
    }
    world.run(&["cp", "-r", "tree/", "s3+one://bucket/t/", "--metadata", "run=7"]).ok();
    // Copies from one service to the other, and within one service.
    world.run(&["cp", "-r", "s3+one://bucket/t/", "s3+two://bucket/t/"]).ok();
    world.run(&["check", "s3+one://bucket/t", "s3+two://bucket/t"]).ok();
    let receipt = world.run(&["--json", "sync", "s3+one://bucket/t", "s3+two://bucket/t"]).ok().receipt();
    assert_eq!((receipt["objects"].as_u64(), receipt["skipped"].as_u64()), (Some(0), Some(4)), "{receipt}");
    assert_eq!(receipt["source"], "s3+one://bucket/t");
    let stat = text(&world, &["stat", "s3+two://bucket/t/z.html"]);
    assert!(stat.contains("run") && stat.contains("text/html"), "{stat}");
    world.run(&["mv", "s3+two://bucket/t/a", "s3+two://bucket/moved"]).ok();
    world.run(&["mv", "-r", "s3+two://bucket/t/dir/", "s3+one://bucket/back/"]).ok();
    assert_eq!(text(&world, &["ls", "-R", "s3+one://bucket/back"]).lines().count(), 2);
    world.run(&["rm", "-r", "--yes", "s3+one://bucket/back"]).ok();
    assert!(world.run(&["cat", "s3+two://bucket/moved"]).ok().stdout == world.read("tree/a"));
    assert_eq!(text(&world, &["ls", "s3+two://"]), "bucket/\n");
    assert_eq!(text(&world, &["ls", "s3+one://bucket/t/*"]).lines().count(), 3, "a pattern");
    world.run(&["ls", "s3+one://buck*/t/"]).fails(2, &["wildcard"]);
    world.run(&["hydrate", "--wait", "s3+one://bucket/t/a"]).ok();
    assert!(text(&world, &["status", "-r"]).contains("s3+one://bucket/t/a"));
    let url = text(&world, &["presign", "s3+one://bucket/t/a"]);
    assert!(url.starts_with(&one.url), "{url}");
    world.write("list", b"cp s3+one://bucket/t/a s3+two://bucket/by-run\n");
    world.run(&["run", "list"]).ok();
    world.run(&["stat", "s3+two://bucket/by-run"]).ok();
    world.run(&["cp", "-r", "--no-glob", "s3+one://bucket/t/", "out"]).ok();
    assert_eq!(world.read("out/z.html"), world.read("tree/z.html"));
    // Locations without a name still use the service that the variables set.
    world.run(&["cat", "s3+one://bucket/none"]).fails(1, &["s3+one://bucket/none"]);
}

#[test]
fn a_tree_goes_from_one_stranger_to_another_whatever_kills_it() {
    let (minio, versity) = (S3::minio(), S3::versitygw());
    // The large object is sent in several parts, each small one in one request.
    let (count, each, large) = (24_u64, 512 << 10, 20 << 20);
    let length = count * each + large;
    let link = kills::slow_link(&minio, length);
    let config = format!(
        "[endpoint.minio]\nurl = 'http://{}'\n[endpoint.versity]\nurl = '{}'\n",
        link.address(),
        versity.url
    );
    let mut world = world_with(&config);
    world.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    world.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    world.set("AWS_REGION", "us-east-1");
    for seed in 1..=count {
        world.write(&format!("tree/d{}/{seed}.html", seed % 3), &bytes(seed, usize::try_from(each).unwrap()));
    }
    world.write("tree/large.html", &bytes(99, usize::try_from(large).unwrap()));
    world.age("tree");
    world.run(&["cp", "-r", "tree/", "s3+minio://bucket/t/", "--metadata", "run=7"]).ok();
    let copy = ["-r", "s3+minio://bucket/t/", "s3+versity://bucket/t/"];
    let survival = kills::survive(&world, &copy, link, length, 7, 3);
    assert!(survival.kills > 0);
    // Runs after a kill have not fetched all bytes again.
    assert!(survival.carried.bytes_to_client < length * (1 + survival.kills), "{:?}", survival.carried);
    let direct =
        format!("[endpoint.minio]\nurl = '{}'\n[endpoint.versity]\nurl = '{}'\n", minio.url, versity.url);
    world.write("config/firstbyte/config.toml", direct.as_bytes());
    world.run(&["check", "--content", "s3+minio://bucket/t", "s3+versity://bucket/t"]).ok();
    world.run(&["check", "tree", "s3+versity://bucket/t"]).ok();
    for name in ["d1/1.html", "large.html"] {
        let stat = |service: &str| {
            world.run(&["--json", "stat", &format!("{service}://bucket/t/{name}")]).ok().receipt()
        };
        let (old, new) = (stat("s3+minio"), stat("s3+versity"));
        for field in ["content_type", "modified", "metadata", "size"] {
            assert!(!new[field].is_null() && old[field] == new[field], "{name}, {field}: {old} {new}");
        }
    }
}

#[test]
fn a_copy_between_two_services_needs_no_more_memory_for_longer_parts() {
    const SIZE: u64 = 200 << 30;
    let server = Scripted::start(|_, head| {
        let request = head.split_once(' ').unwrap();
        let tag = "etag: \"e\"";
        match request {
            ("HEAD", _) => ScriptedReply::raw("200 OK", &[tag, &format!("content-length: {SIZE}")], b""),
            ("GET", _) => {
                let range = head.split_once("range: bytes=").unwrap().1.lines().next().unwrap();
                let (first, last) = range.split_once('-').unwrap();
                let length = last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1;
                let line = format!("content-range: bytes {first}-{last}/{SIZE}");
                ScriptedReply::answer("206 Partial Content", &[tag, &line], &vec![7; length])
            }
            ("POST", _) => {
                let text =
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                ScriptedReply::answer("200 OK", &[], text.as_bytes())
            }
            ("DELETE", _) => ScriptedReply::answer("204 No Content", &[], b""),
            _ => ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>"),
        }
    });
    let mut world = World::new();
    let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "here-1")];
    keys.into_iter().for_each(|(name, value)| world.set(name, value));
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    let ran = world.run(&["--json", "cp", &format!("{}/large", server.url()), "s3://b/large"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let receipt = ran.receipt();
    assert!(receipt["peak_memory_bytes"].as_u64().unwrap() < 64 << 20, "{receipt}");
}

#[test]
fn a_named_endpoint_is_mounted_and_hydrated() {
    if lacks_root() {
        return;
    }
    let TwoServices { one: _one, two: _two, world } = two_of_ours();
    let content = bytes(4, 3 << 20);
    world.write("file", &content);
    world.run(&["cp", "file", "s3+one://bucket/d/file"]).ok();
    world.run(&["cp", "file", "s3+one://bucket/d/other"]).ok();
    let place = world.path("mnt");
    std::fs::create_dir(&place).unwrap();
    world.run(&["mount", "s3+one://bucket/d", "mnt"]).ok();
    let read = std::fs::read(place.join("file"));
    let hydrated = world.run(&["hydrate", "--wait", "mnt/other"]);
    let status = world.run(&["status", "mnt/other"]);
    world.run(&["unmount", "mnt"]).ok();
    assert!(read.unwrap() == content);
    hydrated.ok();
    assert!(String::from_utf8_lossy(&status.ok().stdout).contains("hydrated"));
    // A second name of the same version uses the same blocks in the cache.
    let receipt = world.run(&["--json", "hydrate", "--wait", "s3+one://bucket/d/other"]).ok().receipt();
    assert_eq!(receipt["received_bytes"], 0, "{receipt}");
}

#[test]
fn each_endpoint_has_an_authority_of_its_own() {
    let certificates = [(); 2].map(|()| Certificate::make(CertificateKind::Authority));
    let servers = certificates.each_ref().map(|made| {
        let (chain, key) = (made.certificate(), made.key());
        let tls = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        S3::ours_with(&[&["--write"], &tls[..]].concat())
    });
    let endpoint = |name: &str, at: usize, authority: usize| {
        let bundle = certificates[authority].certificate();
        format!("[endpoint.{name}]\nurl = '{}'\nca_bundle = '{}'\n", servers[at].url, bundle.display())
    };
    let config = [endpoint("one", 0, 0), endpoint("two", 1, 1), endpoint("wrong", 1, 0)].concat();
    let mut world = world_with(&config);
    world.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    world.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    world.write("file", &bytes(5, 100_000));
    world.run(&["cp", "file", "s3+one://bucket/file"]).ok();
    world.run(&["cp", "s3+one://bucket/file", "s3+two://bucket/file"]).ok();
    world.run(&["cp", "s3+two://bucket/file", "s3+one://bucket/back"]).ok();
    assert!(world.run(&["cat", "s3+one://bucket/back"]).ok().stdout == world.read("file"));
    let words = ["not signed by a trusted authority"];
    world.run(&["cp", "s3+one://bucket/file", "s3+wrong://bucket/no"]).fails(1, &words);
    world.run(&["cp", "s3+wrong://bucket/file", "out"]).fails(1, &words);
}

#[test]
fn two_names_of_one_endpoint_copy_in_the_server_if_their_profile_is_the_same() {
    let keys = World::new();
    let file = keys.write("keys", b"one secret-of-one write\n");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let one = S3::ours_with(&["--write", "--auth", file.to_str().unwrap()]);
    let endpoint = |name: &str, profile: &str| {
        format!("[endpoint.{name}]\nurl = '{}'\nprofile = '{profile}'\n", one.url)
    };
    let config = [endpoint("one", "a"), endpoint("again", "a"), endpoint("other", "b")].concat();
    let mut world = world_with(&config);
    let profile =
        |name: &str| format!("[{name}]\naws_access_key_id = one\naws_secret_access_key = secret-of-one\n");
    let credentials = world.write("credentials", [profile("a"), profile("b")].concat().as_bytes());
    world.set("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap());
    world.write("file", &bytes(6, 100_000));
    world.run(&["cp", "file", "s3+one://bucket/d/file"]).ok();
    for (name, in_server) in [("one", true), ("again", true), ("other", false)] {
        let target = format!("s3+{name}://bucket/{name}");
        let ran = world.run(&["-vv", "cp", "s3+one://bucket/d/file", &target]).ok();
        assert_eq!(ran.stderr.contains("CopyObject"), in_server, "{name}: {}", ran.stderr);
        assert!(world.run(&["cat", &target]).ok().stdout == world.read("file"));
        // Moving an object onto itself would delete the object, so it is refused.
        for words in [
            ["mv", "s3+one://bucket/d/file", &format!("s3+{name}://bucket/d/file")].as_slice(),
            &["mv", "-r", "s3+one://bucket/d/", &format!("s3+{name}://bucket/d/")],
        ] {
            assert_ne!(world.run(words).code, Some(0), "{words:?}");
            assert!(world.run(&["cat", "s3+one://bucket/d/file"]).ok().stdout == world.read("file"));
        }
    }
}

#[test]
fn doctor_lists_the_endpoints_and_an_unknown_name_is_one_line() {
    let world = world_with("[endpoint.lab]\nurl = 'http://127.0.0.1:1'\nregion = 'eu-west-1'\n");
    let doctor = text(&world, &["--no-sign-request", "--read-timeout", "1s", "doctor"]);
    assert!(doctor.contains("s3+lab:// is http://127.0.0.1:1, region eu-west-1"), "{doctor}");
    for words in [
        &["ls", "s3+other://b"][..],
        &["cp", "s3+other://b/k", "."],
        &["rm", "-r", "--yes", "s3+other://b/k"],
    ] {
        world.run(words).fails(2, &["s3+other://", "config.toml", "it names lab"]);
    }
    let wrong = world_with("[endpoint.lab]\nadressing = 'path'\n");
    wrong.run(&["ls", "s3+lab://b"]).fails(2, &["config.toml", "line 2", "adressing"]);
    wrong.write("x", b"x");
    // A broken configuration file stops only the runs that need the file.
    wrong.run(&["cp", "x", "y"]).ok();
}

#[test]
fn an_endpoint_says_how_buckets_are_addressed_and_listed() {
    let store = QuirkStore::start(&[Quirk::NoListV2, Quirk::NoChecksums]);
    store.set_page(3);
    (0..10).for_each(|number| store.insert(&format!("d/{number} +"), b"x"));
    let config = format!("[endpoint.old]\nurl = '{}'\nlist_version = 1\nchecksums = false\n", store.url());
    let mut world = world_with(&config);
    world.set("AWS_ACCESS_KEY_ID", "k");
    world.set("AWS_SECRET_ACCESS_KEY", "s");
    assert_eq!(text(&world, &["ls", "-R", "s3+old://bucket/"]).lines().count(), 10);
    world.write("f", b"x");
    world.run(&["cp", "f", "s3+old://bucket/f"]).ok();
    let requests = store.requests();
    assert!(!requests.iter().any(|request| request.contains("list-type")), "{requests:?}");
    // The store is addressed by host name. A proxy takes the place of a name server.
    let hosted = QuirkStore::start(&[Quirk::HostStyleOnly]);
    hosted.insert("k", b"x");
    for (addressing, code) in [("host", 0), ("path", 1)] {
        let config = format!("[endpoint.far]\nurl = 'http://store.test'\naddressing = '{addressing}'\n");
        let mut world = world_with(&config);
        world.set("AWS_ACCESS_KEY_ID", "k");
        world.set("AWS_SECRET_ACCESS_KEY", "s");
        world.set("http_proxy", hosted.url());
        let ran = world.run(&["ls", "s3+far://bucket/"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}

#[test]
fn variables_are_about_plain_locations_alone() {
    let (plain, named) = (QuirkStore::start(&[]), QuirkStore::start(&[]));
    plain.insert("plain", b"x");
    named.insert("named", b"x");
    let mut world = world_with(&format!("[endpoint.lab]\nurl = '{}'\n", named.url()));
    world.set("AWS_ENDPOINT_URL", plain.url());
    world.set("AWS_ACCESS_KEY_ID", "k");
    world.set("AWS_SECRET_ACCESS_KEY", "s");
    assert_eq!(text(&world, &["ls", "s3://bucket/"]), "plain\n");
    assert_eq!(text(&world, &["ls", "s3+lab://bucket/"]), "named\n");
    let option = format!("http://127.0.0.1:{}", free_port());
    assert_eq!(text(&world, &["--endpoint-url", &option, "ls", "s3+lab://bucket/"]), "named\n");
}

#[test]
fn a_directory_bucket_of_a_store_that_lists_in_no_order_is_used_by_its_sessions() {
    let store = QuirkStore::start(&[Quirk::UnsortedListing]);
    let mut world = World::new();
    for (name, value) in
        [("AWS_ENDPOINT_URL", store.url()), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")]
    {
        world.set(name, value);
    }
    for number in 0..20 {
        world.write(&format!("tree/d{}/{number}", number % 3), format!("{number}").as_bytes());
    }
    let bucket = "s3://fast--use1-az4--x-s3";
    world.run(&["cp", "-r", "tree", &format!("{bucket}/t")]).ok();
    world.run(&["check", "tree", &format!("{bucket}/t")]).ok();
    std::fs::remove_file(world.path("tree/d0/0")).unwrap();
    let synced = world.run(&["--json", "sync", "--delete", "tree", &format!("{bucket}/t")]).ok().receipt();
    assert_eq!(synced["deleted"], 1, "{synced}");
    world.run(&["cp", "-r", &format!("{bucket}/t/"), "back"]).ok();
    world.run(&["check", "--content", "tree", "back"]).ok();
    let sessions = store.requests().iter().filter(|request| request.contains("session")).count();
    assert!(sessions >= 4, "{sessions}");
}
