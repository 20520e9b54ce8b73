//! `gs://` and `az://`: runs each verb against an emulator of the service.

use crate::support;

use std::sync::Arc;

use firstbyte_testkit::{
    AZURE_KEY, Process, Scripted, ScriptedReply, azure_connection, azurite, bytes, fake_gcs_server, free_port,
};
use support::place::Place;
use support::{World, names_below};

#[test]
fn a_copy_within_azure_has_the_properties_that_are_named() {
    let cloud = azure("az://properties");
    cloud.world.write("page", b"content");
    cloud.world.run(&["cp", "page", &cloud.at("page"), "--metadata", "run=7"]).ok();
    for target in ["other", "page"] {
        let words =
            ["--content-type", "text/x-vcf", "--cache-control", "no-cache", "--storage-class", "Cool"];
        cloud.world.run(&[&["cp", &cloud.at("page"), &cloud.at(target)], &words[..]].concat()).ok();
        let stat = cloud.world.run(&["--json", "stat", &cloud.at(target)]).ok().receipt();
        assert_eq!(
            (&stat["content_type"], &stat["cache_control"]),
            (&"text/x-vcf".into(), &"no-cache".into())
        );
        assert_eq!(
            (&stat["storage_class"], &stat["metadata"]["run"]),
            (&"Cool".into(), &"7".into()),
            "{stat}"
        );
    }
}

#[test]
fn an_empty_blob_that_marks_a_directory_is_no_file() {
    let cloud = azure("az://folders");
    cloud.world.write("empty", b"");
    cloud.world.write("file", b"content");
    for (name, file, mark) in [
        ("data", "empty", "hdi_isfolder=true"),
        ("data/sub", "empty", "hdi_isfolder=true"),
        ("data/sub/file", "file", "run=7"),
        ("data/plain", "empty", "hdi_isfolder=false"),
    ] {
        cloud.world.run(&["cp", file, &cloud.at(name), "--metadata", mark]).ok();
    }
    assert_eq!(cloud.text(&["ls", "-R", &cloud.at("")]), "data/plain\ndata/sub/file\n");
    for words in [&["cp", "-r"][..], &["sync"]] {
        cloud.world.run(&[words, &[&cloud.at("data"), "copy"]].concat()).ok();
        assert_eq!(names_below(&cloud.world.path("copy")), ["plain", "sub/file"]);
    }
    assert!(cloud.text(&["stat", &cloud.at("data/sub")]).contains("prefix"));
    cloud.world.run(&["cp", &cloud.at("data/sub"), "one"]).fails(1, &["data/sub", "is a directory"]);
    // All blobs are deleted, also those that mark directories.
    let deleted = cloud.world.run(&["--json", "rm", "-r", &cloud.at("data")]).ok().receipt();
    assert_eq!(deleted["deleted"], 4, "{deleted}");
    cloud.world.run(&["stat", &cloud.at("data")]).fails(1, &["not found"]);
}

/// A server, a world that uses the server, and the location of a bucket on it.
struct Cloud<S> {
    _server: S,
    world: World,
    root: &'static str,
}

fn google() -> Cloud<Process> {
    let server = fake_gcs_server();
    let mut world = World::new();
    world.set("STORAGE_EMULATOR_HOST", &server.url());
    let root = "gs://bucket";
    world.run(&["mb", root]).ok();
    Cloud { _server: server, world, root }
}

/// Makes a world for the Azurite server, which all tests share. Each test uses a container of its
/// own.
fn azure(root: &'static str) -> Cloud<Arc<Process>> {
    let server = azurite();
    let mut world = World::new();
    world.set("AZURE_STORAGE_CONNECTION_STRING", &azure_connection(&server.url(), AZURE_KEY));
    world.run(&["mb", root]).ok();
    Cloud { _server: server, world, root }
}

const NAMES: [&str; 4] = ["a", "dir/b", "dir/\u{fc} +%41", "z.gz"];

fn plant(world: &World) {
    for (seed, name) in (1..).zip(NAMES) {
        world.write(&format!("tree/{name}"), &bytes(seed, 10_000));
    }
}

impl<S> Cloud<S> {
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.world.run(words).ok().stdout).unwrap()
    }

    #[track_caller]
    fn assert_synced(&self, from: &str, to: &str, copied: u64, skipped: u64) {
        let receipt = self.world.run(&["--json", "sync", from, to]).ok().receipt();
        let counts = (receipt["objects"].as_u64(), receipt["skipped"].as_u64());
        assert_eq!(counts, (Some(copied), Some(skipped)), "{receipt}");
    }

    /// Copies a large file (in several parts or a session), a small file and an empty file to the
    /// service, and back.
    fn files_go_there_and_come_back(&self) {
        for (name, content) in
            [("big", bytes(7, (20 << 20) + 3)), ("small", bytes(8, 9)), ("empty", Vec::new())]
        {
            self.world.write(name, &content);
            let there = self.world.run(&["--json", "cp", name, &self.at(name), "--metadata", "run=7"]).ok();
            let back = self.world.run(&["--json", "cp", &self.at(name), "back"]).ok();
            if name != "big" || self.root.starts_with("gs") {
                assert_eq!(there.receipt()["verified"], "full", "{name}");
                assert_eq!(back.receipt()["verified"], "full", "{name}");
            }
            assert!(self.world.read("back") == content, "{name}");
            let stat = self.world.run(&["--json", "stat", &self.at(name)]).ok().receipt();
            assert_eq!(stat["size"].as_u64(), Some(content.len() as u64), "{stat}");
            assert!(stat.to_string().contains("\"run\":\"7\""), "{stat}");
        }
        let part = self.world.run(&["cat", &self.at("big"), "--range", "5000000-5000009"]).ok().stdout;
        assert_eq!(part, bytes(7, 6 << 20)[5_000_000..5_000_010]);
        // Copies within the service, and with the bytes passing through this machine.
        self.world.run(&["cp", &self.at("big"), &self.at("copies/big")]).ok();
        self.world.run(&["mv", &self.at("copies/big"), &self.at("copies/moved")]).ok();
        self.world.run(&["check", "big", &self.at("copies/moved"), "--content"]).ok();
        self.world.run(&["cp", &self.at("copies/big"), "none"]).fails(1, &["not found"]);
        self.world.run_with_input(&["cp", "-", &self.at("piped")], &bytes(9, 9_000_000)).ok();
        assert!(self.world.run(&["cat", &self.at("piped")]).ok().stdout == bytes(9, 9_000_000));
    }

    fn trees_go_there_and_come_back(&self) {
        plant(&self.world);
        // Stores date objects in whole seconds, so the files are made clearly older than the
        // objects.
        self.world.age("tree");
        let tree = self.at("tree");
        self.assert_synced("tree", &tree, 4, 0);
        self.assert_synced("tree", &tree, 0, 4);
        self.assert_synced(&tree, "back", 4, 0);
        self.assert_synced(&tree, "back", 0, 4);
        self.assert_synced("back", &tree, 0, 4);
        for name in names_below(&self.world.path("tree")) {
            let read = |root: &str| self.world.read(&format!("{root}/{name}"));
            assert!(read("tree") == read("back"), "{name}");
        }
        self.world.write("tree/a", &bytes(77, 10_001));
        self.assert_synced("tree", &tree, 1, 3);
        self.world.run(&["check", "tree", &tree, "--content"]).ok();

        assert_eq!(self.text(&["ls", "-R", "-1", &tree]).lines().count(), NAMES.len());
        assert_eq!(self.text(&["ls", "-1", &tree]), "a\ndir/\nz.gz\n");
        assert_eq!(self.text(&["ls", "-1", &self.at("tree/*.gz")]).trim(), "z.gz");
        assert!(self.text(&["du", "-s", &tree]).contains("40001"));
        assert!(self.text(&["ls", &self.root[..5]]).contains(&self.root[5..]));
        self.world.run(&["hydrate", "-r", &tree, "--wait"]).ok();

        self.world.run(&["rm", "-r", "-y", &tree]).ok();
        self.world.run(&["ls", &tree]).fails(1, &["not found"]);
        self.world.run(&["ls", &format!("{tree}/")]).fails(1, &["no objects there"]);
    }

    fn reads_through_a_mount(self) {
        let content = bytes(3, 300_000);
        self.world.write("x", &content);
        self.world.run(&["cp", "x", &self.at("dir/x")]).ok();
        let place = Place::new(self.world);
        place.mount(self.root, &["--cache", "cache"]);
        assert!(place.read("dir/x").unwrap() == content);
        place.unmount().ok();
    }

    fn mistakes_are_explained(&self, scheme: &str) {
        self.world.run(&["cat", &self.at("none")]).fails(1, &["not found", "`firstbyte ls "]);
        self.world.run(&["cp", &self.at("none"), "here"]).fails(1, &["not found"]);
        let missing = format!("{scheme}://no-such-bucket/key");
        let (kind, service) = (if scheme == "az" { "container" } else { "bucket" }, &self.root[..5]);
        let facts = [format!("no-such-bucket: no such {kind}"), format!("`firstbyte ls {service}`")];
        self.world.run(&["cat", &missing]).fails(1, &facts.each_ref().map(String::as_str));
        self.world.write("small", b"small");
        self.world.run(&["cp", "small", &missing]).fails(1, &[&facts[0]]);
        self.world.run(&["presign", &self.at("x")]).fails(2, &["not an S3 object"]);
        self.world.run(&["ls", "--versions", self.root]).fails(1, &["a version of an object"]);
        self.world
            .run(&["cp", "small", &self.at("s"), "--acl", "private"])
            .fails(2, &["--acl", "only S3 has it"]);
        self.world.run(&["cp", &format!("{scheme}:/bucket/key"), "."]).fails(2, &["a `/` is missing"]);
    }
}

#[test]
fn files_go_to_google_and_come_back() {
    google().files_go_there_and_come_back();
}

#[test]
fn files_go_to_azure_and_come_back() {
    azure("az://files").files_go_there_and_come_back();
}

#[test]
fn trees_go_to_google_and_come_back() {
    google().trees_go_there_and_come_back();
}

#[test]
fn trees_go_to_azure_and_come_back() {
    azure("az://trees").trees_go_there_and_come_back();
}

#[test]
fn a_bucket_of_google_is_mounted() {
    google().reads_through_a_mount();
}

#[test]
fn a_container_of_azure_is_mounted() {
    azure("az://mounted").reads_through_a_mount();
}

#[test]
fn mistakes_with_google_are_explained() {
    let cloud = google();
    cloud.mistakes_are_explained("gs");
    cloud.world.run(&["rb", cloud.root]).ok();
    let mut world = World::new();
    // No server listens at this address.
    world.set("GCE_METADATA_HOST", &format!("127.0.0.1:{}", free_port()));
    world.run(&["ls", "gs://bucket"]).fails(1, &["no usable credentials", "GOOGLE_APPLICATION_CREDENTIALS"]);
    let file = world.write("key.json", br#"{"type": "service_account", "private_key": "hidden"}"#);
    world.set("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap());
    let ran =
        world.run(&["ls", "gs://bucket"]).fails(1, &["key.json", "neither the key of a service account"]);
    assert!(!ran.stderr.contains("hidden"), "{ran:?}");
}

#[test]
fn mistakes_with_azure_are_explained() {
    let mut cloud = azure("az://mistakes");
    cloud.mistakes_are_explained("az");
    cloud.world.run(&["rb", cloud.root]).fails(1, &["container"]);
    let wrong = "d3JvbmctYnV0LXNlY3JldA==";
    let connection = azure_connection(&azurite().url(), wrong);
    cloud.world.set("AZURE_STORAGE_CONNECTION_STRING", &connection);
    cloud.world.run(&["ls", cloud.root]).fails(1, &["access denied", "AZURE_STORAGE_KEY"]);
    // The log must contain neither the key nor the signatures.
    let ran = cloud.world.run(&["-vvv", "ls", cloud.root]);
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), ran.stderr);
    assert!(!said.contains(wrong) && !said.contains("SharedKey"), "{said}");
    let mut world = World::new();
    world.run(&["ls", "az://bucket"]).fails(1, &["no storage account", "AZURE_STORAGE_ACCOUNT"]);
    world.set("AZURE_STORAGE_ACCOUNT", "me");
    world.set("AZURE_STORAGE_KEY", "hidden!");
    let ran = world.run(&["ls", "az://bucket"]).fails(1, &["not in base64"]);
    assert!(!ran.stderr.contains("hidden"), "{ran:?}");
}

/// If a signature is used instead of a key, each request has it, but no output or log shows it.
#[test]
fn a_shared_access_signature_is_not_shown() {
    let server = azurite();
    let mut world = World::new();
    let secret = "c2VjcmV0LXNpZ25hdHVyZQ";
    let endpoint = format!("{}/devstoreaccount1", server.url());
    let connection =
        format!("BlobEndpoint={endpoint};SharedAccessSignature=sv=2021-08-06&sp=rl&sig={secret}");
    world.set("AZURE_STORAGE_CONNECTION_STRING", &connection);
    let ran = world.run(&["-vvv", "--log-file", "log", "ls", "az://signed"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("denied"), "{ran:?}");
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(!ran.stderr.contains(secret) && !log.contains(secret), "{ran:?}: {log}");
}

/// Azurite does not check tokens. So the renewal is tested with a scripted store, which refuses the
/// first token as if it were revoked, and accepts the second.
#[test]
fn a_token_is_asked_for_once_and_again_after_it_was_refused() {
    let tokens = Scripted::start(|number, _| {
        let body = format!(r#"{{"access_token": "tok3n-{number}", "expires_in": "3600"}}"#);
        ScriptedReply::answer("200 OK", &[], body.as_bytes())
    });
    let store = Scripted::start(|_, head| {
        if head.contains("tok3n-0") {
            return ScriptedReply::answer(
                "401 Unauthorized",
                &["x-ms-error-code: InvalidAuthenticationInfo"],
                b"",
            );
        }
        let name = if head.contains("marker=next") { "second" } else { "first" };
        let marker = if name == "first" { "next" } else { "" };
        let body = format!(
            "\u{feff}<?xml version=\"1.0\"?><EnumerationResults><Blobs><Blob><Name>{name}</Name><Properties>\
             <Content-Length>1</Content-Length></Properties></Blob></Blobs><NextMarker>{marker}</NextMarker>\
             </EnumerationResults>"
        );
        ScriptedReply::answer("200 OK", &[], body.as_bytes())
    });
    let mut world = World::new();
    world.set("AZURE_STORAGE_CONNECTION_STRING", &format!("AccountName=me;BlobEndpoint={}", store.url()));
    world.set("IDENTITY_ENDPOINT", &format!("{}/token", tokens.url()));
    world.set("IDENTITY_HEADER", "h3ader");
    let ran = world.run(&["-vvv", "ls", "-1", "az://container"]);
    assert_eq!((ran.code, ran.stdout.as_slice()), (Some(0), b"first\nsecond\n".as_slice()), "{ran:?}");
    assert!(!ran.stderr.contains("tok3n") && !ran.stderr.contains("h3ader"), "{ran:?}");
    assert_eq!(tokens.heads().len(), 2);
    assert!(tokens.heads()[0].contains("x-identity-header: h3ader"));
    assert!(store.heads()[1..].iter().all(|head| head.contains("authorization: Bearer tok3n-1")));
}
