//! Tests each action of the function on a real store, and which files remain afterwards.

use crate::support;

use std::fs;

use firstbyte_link::LinkConfig;
use firstbyte_location::{Algorithm, Hasher};
use firstbyte_testkit::{BUCKET, Scripted, ScriptedReply, bytes, scratch};
use serde_json::json;
use support::{Function, Store};

const MIB: usize = 1 << 20;

fn crc32c(content: &[u8]) -> String {
    Hasher::of(Algorithm::Crc32c, content).to_hex()
}

#[test]
fn a_download_is_the_object_and_is_removed_with_the_answer_unless_it_is_kept() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", 5 * MIB + 3);
    let mut function = Function::start(&store.url());
    let event = json!({"action": "download", "source": source, "keep": true});
    let cold = function.answer(&event);
    assert!(fs::read(function.path("big")).unwrap() == content);
    assert_eq!(
        (&cold["verb"], &cold["objects"], &cold["invocation"]),
        (&json!("download"), &json!(1), &json!(1))
    );
    assert_eq!(cold["bytes"], content.len());
    assert_eq!(cold["memory_limit_bytes"], 3008_u64 << 20);
    assert!(cold["continue"].is_null() && cold["stages"]["part_seconds"].is_null(), "{cold}");
    assert!(cold["tmp_bytes"].as_u64().unwrap() >= content.len() as u64);
    let at = |name: &str| cold["stages"][name].as_f64().unwrap_or_else(|| panic!("{name}: {cold}"));
    assert!(at("ready_seconds") <= at("opened_seconds") && at("opened_seconds") <= at("first_byte_seconds"));
    assert!(at("first_byte_seconds") <= at("all_seconds"));
    assert!(
        cold["init_seconds"].as_f64().unwrap() > 0.0 && cold["remaining_seconds"].as_f64().unwrap() > 0.0
    );

    let warm = function.answer(&json!({"action": "download", "source": source, "destination": function.path("d/").to_str().unwrap()}));
    assert_eq!((&warm["invocation"], &warm["environment"]), (&json!(2), &cold["environment"]));
    assert_eq!(warm["destination"], function.path("d/big").to_str().unwrap());
    assert_eq!(function.names(), ["big", "d"], "only what was to be kept, and an empty directory");
    assert!(fs::read_dir(function.path("d")).unwrap().next().is_none());
    let other =
        Function::start(&store.url()).answer(&json!({"action": "list", "source": format!("s3://{BUCKET}/")}));
    assert_ne!(other["environment"], cold["environment"]);
}

#[test]
fn an_open_reads_what_is_asked_for_and_writes_nothing() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", 9 * MIB);
    let mut function = Function::start(&store.url());
    for (read, expected, stage) in [
        (json!("all"), &content[..], "all_seconds"),
        (json!("1%"), &content[..content.len().div_ceil(100)], "part_seconds"),
        (json!("2MiB"), &content[..2 * MIB], "part_seconds"),
        (
            json!({"offset": 5 * MIB + 7, "length": 100_000}),
            &content[5 * MIB + 7..][..100_000],
            "part_seconds",
        ),
    ] {
        let answer = function.answer(&json!({"action": "open", "source": source, "read": read}));
        assert_eq!(answer["bytes"], expected.len(), "{read}");
        assert_eq!(answer["crc32c"], crc32c(expected), "{read}");
        assert!(answer["stages"][stage].is_number() && answer["requests"].as_u64().unwrap() > 0, "{answer}");
    }
    assert!(function.names().is_empty(), "{:?}", function.names());
}

#[test]
fn a_prefix_is_copied_and_listed() {
    let store = Store::minio();
    for number in 0..40 {
        store.put(
            &format!("run/{}/f{number:02}", number % 3),
            &bytes(number, 1000 + usize::try_from(number).unwrap()),
        );
    }
    store.put("run2/other", b"x");
    let source = format!("s3://{BUCKET}/run/");
    let mut function = Function::start(&store.url());
    let listed = function.answer(&json!({"action": "list", "source": source}));
    assert_eq!((&listed["objects"], &listed["bytes"]), (&json!(40), &json!(40_000 + 39 * 20)));
    let event = json!({"action": "copy-many", "source": source, "concurrency": 8});
    let copied = function.answer(&event);
    assert_eq!((&copied["objects"], &copied["failed"]), (&json!(40), &json!([])), "{copied}");
    assert!(function.names().is_empty(), "{:?}", function.names());

    let mut event = event;
    event["keep"] = json!(true);
    function.answer(&event);
    for number in 0..40_u64 {
        let path = function.path(&format!("run/{}/f{number:02}", number % 3));
        assert!(fs::read(path).unwrap() == bytes(number, 1000 + usize::try_from(number).unwrap()));
    }
    event["keep"] = json!(false);
    function.fails(&event, "BadInput", &["has files already", "\"keep\": true"]);
    assert_eq!(function.names(), ["run"]);

    // `copy-many` can also upload.
    let back = json!({"action": "copy-many", "source": function.path("run").to_str().unwrap(), "destination": format!("s3://{BUCKET}/back")});
    assert_eq!(function.answer(&back)["objects"], 40);
    assert_eq!(
        function.answer(&json!({"action": "list", "source": format!("s3://{BUCKET}/back/")}))["objects"],
        40
    );
}

#[test]
fn a_call_removes_only_files_that_it_made_itself() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", MIB);
    let outside = scratch();
    let mut function = Function::start(&store.url());
    let tmp = function.path("kept").parent().unwrap().to_owned();
    fs::create_dir(function.path("kept")).unwrap();
    for name in ["kept/file", "file"] {
        fs::write(function.path(name), "before").unwrap();
    }
    std::os::unix::fs::symlink(outside.path(), function.path("link")).unwrap();
    let download = |to: &std::path::Path| json!({"action": "download", "source": source, "destination": to});

    for directory in [&function.path("kept"), &tmp] {
        function.fails(&download(directory), "IsDirectory", &["is a directory"]);
        assert_eq!(function.names(), ["file", "kept", "link"]);
        assert!(fs::read(function.path("kept/file")).unwrap() == b"before");
    }
    // A file that was there has the new content, and stays.
    function.answer(&download(&function.path("file")));
    assert!(fs::read(function.path("file")).unwrap() == content);
    // Links and `..` lead out of the function's directory, where files stay.
    let by_dots = tmp.join("..").join(outside.path().file_name().unwrap()).join("dots");
    for to in [function.path("link/linked"), by_dots] {
        function.answer(&download(&to));
        assert!(fs::read(outside.path().join(to.file_name().unwrap())).unwrap() == content, "{to:?}");
    }
    function.answer(&download(&function.path("new")));
    assert_eq!(function.names(), ["file", "kept", "link"]);
}

#[test]
fn a_mount_is_checked_first_and_read_then() {
    let store = Store::start();
    let data = scratch();
    let mut function = Function::start(&store.url());
    let directory = data.path().to_str().unwrap();
    let event = json!({"action": "mounted", "directory": directory, "file": "big", "read": "2MiB"});
    function.fails(&event, "NotMounted", &[directory, "is empty, on "]);
    let content = bytes(1, 5 * MIB);
    fs::write(data.path().join("big"), &content).unwrap();
    let read = function.answer(&event);
    assert_eq!((&read["bytes"], &read["crc32c"]), (&json!(2 * MIB), &json!(crc32c(&content[..2 * MIB]))));
    assert!(read["mounted"].as_str().unwrap().contains(" at /"), "{read}");
    assert!(read["stages"]["ready_seconds"].as_f64() < read["stages"]["part_seconds"].as_f64());
    let checked = function.answer(&json!({"action": "mounted", "directory": directory}));
    assert!(checked["bytes"] == 0 && checked["stages"]["opened_seconds"].is_null(), "{checked}");

    let expected = json!({"action": "mounted", "directory": directory, "filesystem": "nfs4"});
    function.fails(&expected, "NotMounted", &["is on ", "not on nfs4"]);
    let missing = json!({"action": "mounted", "directory": "/mnt/none", "file": "x"});
    function.fails(
        &missing,
        "NotMounted",
        &["/mnt/none: there is no such directory; mounted here are", " at /)"],
    );
    function.fails(
        &json!({"action": "mounted", "directory": directory, "file": "none"}),
        "NotFound",
        &["none"],
    );
}

#[test]
fn failures_are_one_line_with_a_stable_type() {
    let store = Store::minio();
    let (source, _) = store.put_seeded("dir/big", MIB);
    let mut function = Function::start(&store.url());
    function.fails(&json!({"action": "upload"}), "BadInput", &["`upload` is no action", "copy-many"]);
    function.fails(
        &json!({"action": "open", "source": source, "raed": 1}),
        "BadInput",
        &["unknown field `raed`"],
    );
    function.fails(&json!({"action": "open", "source": "ftp://h/x"}), "BadInput", &["ftp://h/x"]);
    function.fails(
        &json!({"action": "open", "source": source, "read": {"offset": MIB, "length": 1}}),
        "BadInput",
        &["begins at byte 1048576, past the end"],
    );
    function.fails(
        &json!({"action": "download", "source": source, "continue": "x"}),
        "BadInput",
        &["no token"],
    );
    let missing = format!("s3://{BUCKET}/none");
    for action in ["download", "open"] {
        function.fails(
            &json!({"action": action, "source": missing}),
            "NotFound",
            &[&missing, "check the name"],
        );
    }
    let directory = format!("s3://{BUCKET}/dir/");
    function.fails(&json!({"action": "download", "source": directory}), "BadInput", &["copy-many"]);
    function.fails(
        &json!({"action": "list", "source": "s3://nowhere-at-all"}),
        "NoSuchBucket",
        &["s3://nowhere-at-all"],
    );
    let unreachable = json!({"action": "open", "source": source, "endpoint_url": "http://127.0.0.1:9"});
    function.fails(&unreachable, "Unreachable", &["127.0.0.1:9", "VPC endpoint"]);
    // The function still works after every failure.
    assert_eq!(function.answer(&json!({"action": "open", "source": source}))["bytes"], MIB);
    assert!(function.names().is_empty(), "{:?}", function.names());
}

#[test]
fn a_wrong_key_and_missing_credentials_are_named() {
    for store in [Store::start(), Store::minio()] {
        let (source, _) = store.put_seeded("big", MIB);
        let tmp = scratch();
        let mut denied = Function::start_in(&store.url(), tmp.path(), &[("AWS_SECRET_ACCESS_KEY", "wrong")]);
        denied.fails(
            &json!({"action": "open", "source": source}),
            "Denied",
            &[&source, "SignatureDoesNotMatch", "the role of the function"],
        );
        let none = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
        let mut without_role = Function::start_in(&store.url(), tmp.path(), &none);
        without_role.fails(
            &json!({"action": "open", "source": source}),
            "NoCredentials",
            &["give the function a role"],
        );
    }
    let refusing = Scripted::start(|_, _| {
        ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>")
    });
    for action in ["list", "copy-many"] {
        let event = json!({"action": action, "source": "s3://b/run/"});
        Function::start(refusing.url()).fails(&event, "Denied", &["s3://b", "may lack s3:ListBucket"]);
    }
}

#[test]
fn a_store_that_cannot_be_reached_through_its_link_does_not_outlast_the_deadline() {
    let store = Store::start();
    let (source, _) = store.put_seeded("big", MIB);
    let stall = firstbyte_link::RandomDelay {
        chance: firstbyte_link::Chance::new(1.0),
        duration: std::time::Duration::from_secs(600),
    };
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), store.url().trim_start_matches("http://"));
    let faults = firstbyte_link::Faults { delay: stall, ..Default::default() };
    let link = firstbyte_link::Link::start(LinkConfig { faults, ..config }).unwrap();
    let mut function = Function::start(&format!("http://{}", link.address()));
    for action in ["download", "open", "list", "copy-many"] {
        match function.invoke(&json!({"action": action, "source": source}), std::time::Duration::from_secs(1))
        {
            support::Outcome::Error(error) => {
                assert_eq!(error["errorType"], "Deadline", "{action}: {error}")
            }
            other => panic!("{action}: {other:?}"),
        }
    }
}

#[test]
fn a_store_that_asks_to_slow_down_is_waited_for_and_counted() {
    // The object is only one block long, so it is requested as a whole.
    let busy = Scripted::start(|number, head| match number {
        0 => ScriptedReply::answer("503 Slow Down", &[], b""),
        _ if head.starts_with("HEAD") => {
            ScriptedReply::raw("200 OK", &["etag: \"1\"", "content-length: 4"], b"")
        }
        _ => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"abcd"),
    });
    let answer = Function::start(busy.url()).answer(&json!({"action": "open", "source": "s3://b/k"}));
    assert_eq!((&answer["bytes"], &answer["crc32c"]), (&json!(4), &json!(crc32c(b"abcd"))));
    assert_eq!(answer["retries"], 1, "{answer}");
}

#[test]
fn a_prefix_is_not_copied_into_itself_and_an_object_not_onto_itself() {
    let store = Store::start();
    let (source, _) = store.put_seeded("run/a", 10);
    let (prefix, mut function) = (format!("s3://{BUCKET}/run"), Function::start(&store.url()));
    for destination in [format!("{prefix}/copy"), prefix.clone(), format!("{prefix}/")] {
        let event = json!({"action": "copy-many", "source": prefix, "destination": destination});
        function.fails(&event, "BadInput", &[&prefix]);
    }
    let event = json!({"action": "download", "source": source, "destination": format!("{prefix}/")});
    function.fails(&event, "BadInput", &["are the same"]);
    assert_eq!(function.answer(&json!({"action": "list", "source": prefix}))["objects"], 1);
}

#[test]
fn an_object_whose_key_ends_in_a_slash_is_copied_or_named_if_it_has_content() {
    let page = b"<ListBucketResult><IsTruncated>false</IsTruncated>\
        <Contents><Key>run/data/</Key><Size>4</Size><ETag>\"1\"</ETag></Contents>\
        <Contents><Key>run/k</Key><Size>4</Size><ETag>\"1\"</ETag></Contents>\
        <Contents><Key>run/marker/</Key><Size>0</Size><ETag>\"2\"</ETag></Contents></ListBucketResult>";
    let odd = Scripted::start(move |_, head| match head.contains("list-type=2") {
        true => ScriptedReply::answer("200 OK", &[], page),
        false => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"abcd"),
    });
    let answer = Function::start(odd.url()).answer(&json!({"action": "copy-many", "source": "s3://b/run"}));
    assert_eq!(answer["objects"], 1, "{answer}");
    let failed = answer["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{answer}");
    assert_eq!(failed[0]["location"], "s3://b/run/data/");
}
