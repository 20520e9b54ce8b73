//! Common mistakes of users. Each message must say what failed, where and why, and what to try.

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use firstbyte_testkit::{Scripted, ScriptedReply, until};
use support::servers::S3;
use support::{Ran, World};

/// A command line, its exit code, and the texts that its single line of error must contain.
type Mistake<'a> = (&'a str, i32, &'a [&'a str]);

fn assert_mistakes(world: &World, mistakes: &[Mistake<'_>]) {
    for (line, code, facts) in mistakes {
        let words: Vec<&str> = line.split(' ').collect();
        world.run(&words).fails(*code, facts);
    }
}

fn planted(s3: &S3) -> World {
    let world = World::with_s3(s3);
    for name in ["file", "dir/a", "dir/b"] {
        world.write(name, b"content");
    }
    world.run(&["cp", "-r", "dir", "s3://bucket/dir"]).ok();
    world
}

#[test]
fn names_that_are_not_what_was_meant() {
    let s3 = S3::minio();
    let world = planted(&s3);
    assert_mistakes(
        &world,
        &[
            (
                "cp s3://bucket/dir .",
                2,
                &["s3://bucket/dir: is a prefix", "-r to copy", "ls s3://bucket/dir/"],
            ),
            ("cat s3://bucket/dir", 2, &["s3://bucket/dir: is a prefix", "`firstbyte ls s3://bucket/dir/`"]),
            ("mv s3://bucket/dir here", 2, &["s3://bucket/dir: is a prefix", "-r to move"]),
            ("rm s3://bucket/dir", 2, &["s3://bucket/dir: is a prefix; nothing was deleted", "-r"]),
            ("rm dir", 2, &["dir: is a directory; nothing was deleted", "-r"]),
            ("cp dir there", 2, &["dir: is a directory", "-r"]),
            ("mv dir there", 2, &["dir: is a directory", "-r"]),
            ("cp s3:/bucket/dir/a .", 2, &["s3:/bucket/dir/a: a `/` is missing", "s3://"]),
            ("cp http:/host/file .", 2, &["http:/host/file", "http://"]),
            ("cp s3://bucket/what? .", 1, &["s3://bucket/what?", "wildcards", "--no-glob"]),
            ("mv s3://bucket/what? .", 1, &["s3://bucket/what?", "wildcards", "--no-glob"]),
            ("rm s3://bucket/what?", 1, &["s3://bucket/what?", "wildcards", "[?]"]),
            (
                "cp s3://bucket/missing .",
                1,
                &["s3://bucket/missing: not found", "`firstbyte ls s3://bucket/`"],
            ),
            ("cp -r dir file", 2, &["file: is a file", "another destination"]),
            ("cp -r s3://bucket/dir dir/a", 2, &["dir/a: is a file", "another destination, such as dir/dir"]),
            ("cp -r dir/ file/below", 2, &["file: is a file"]),
            ("cp -r s3://bucket/dir file", 2, &["file: is a file"]),
            ("cp file file", 2, &["same"]),
            ("cp file", 2, &["destination"]),
            ("rb s3://bucket", 1, &["s3://bucket", "rm -r s3://bucket"]),
            ("presign s3://bucket", 2, &["s3://BUCKET/KEY"]),
            ("status nowhere", 1, &["nowhere: not found"]),
            ("stat nowhere", 1, &["nowhere: not found"]),
            ("cp ftp://host/file .", 2, &["ftp", "scheme"]),
        ],
    );
    let stat = String::from_utf8(world.run(&["stat", "s3://bucket/dir"]).ok().stdout).unwrap();
    assert!(stat.contains("prefix") && !stat.contains("strength"), "{stat}");
    let slash = String::from_utf8(world.run(&["stat", "s3://bucket"]).ok().stdout).unwrap();
    assert!(slash.contains("bucket"), "{slash}");
}

/// A service lists its buckets, and a bucket its objects, at the address where an object would be.
/// The listing must never be taken for an object, nor the service for an empty tree.
#[test]
fn a_service_is_no_tree_and_a_bucket_is_no_object() {
    let s3 = S3::minio();
    let world = planted(&s3);
    for line in [
        "cp -r s3:// here",
        "sync s3:// here",
        "sync --delete dir s3://",
        "sync -n dir s3://",
        "cp file s3://",
        "cp -r dir s3://",
        "mv -r s3:// here",
        "mv file s3://",
        "du s3://",
        "ls -R s3://",
        "check dir s3://",
        "check s3:// dir",
        "plan s3:// --out m",
        "cp --abort-stale=1d s3://",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        world.run(&words).fails(2, &["s3://: names no bucket; name one"]);
    }
    let hydrated = world.run(&["hydrate", "-r", "s3://"]);
    assert!(hydrated.code == Some(1) && hydrated.stderr.contains("names no bucket"), "{hydrated:?}");
    assert_eq!(world.run(&["ls", "s3://"]).ok().stdout, b"bucket/\n");
    for line in ["cat s3://bucket", "cat s3://bucket/", "cat s3://", "cat s3://bucket --range 0-9"] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = world.run(&words).fails(1, &["Is a directory"]);
        assert_eq!(ran.stdout, b"", "{line}");
    }
    assert!(!world.path("here").exists() && world.path("file").exists());
}

/// rsync and scp read `host:path` as a place on another host, rclone `remote:path` as one of its
/// remotes. Here both are paths, so data would end in a directory of that name.
#[test]
fn places_as_other_programs_write_them_are_no_new_directories() {
    let world = World::new();
    world.write("file", b"content");
    world.write("there:/old", b"content");
    assert_mistakes(
        &world,
        &[
            (
                "cp file lab:bucket/key",
                2,
                &["the directory lab:bucket does not exist", "s3+NAME://BUCKET/KEY"],
            ),
            (
                "mv file host:/path",
                2,
                &["the directory host: does not exist", "sftp://HOST/PATH", "./host:/path"],
            ),
            ("sync there: me@host:dir/", 2, &["the directory me@host:dir does not exist"]),
            ("cp file s3:bucket/key", 2, &["s3:bucket/key: a `//` is missing; write s3://", "./s3:"]),
            ("cp host:path here", 1, &["host:path: not found", "sftp://HOST/PATH"]),
        ],
    );
    world.run(&["cp", "http://host/a b", "here"]).fails(2, &["%20 for a space"]);
    for taken in ["./lab:bucket/key", "there:/new", "a:b", "dir/host:/x"] {
        world.run(&["cp", "file", taken]).ok();
        assert_eq!(world.read(taken), b"content");
    }
    assert!(!world.path("host:").exists());
}

#[test]
fn verbs_as_other_programs_call_them() {
    let world = World::new();
    for (typed, verb) in [
        ("delete", "rm"),
        ("remove", "rm"),
        ("copy", "cp"),
        ("list", "ls"),
        ("move", "mv"),
        ("umount", "unmount"),
        ("mirror", "sync"),
        ("download", "cp"),
        ("verify", "check"),
        ("mkdir", "mb"),
    ] {
        world.run(&[typed, "s3://bucket/key"]).fails(2, &[typed, &format!("firstbyte {verb}")]);
    }
    let unknown = world.run(&["frobnicate"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("frobnicate"), "{unknown:?}");
    let memory = world.run(&["--memory", "1", "cp", "a", "b"]);
    assert!(memory.code == Some(2), "{memory:?}");
    assert!(memory.stderr.contains("--memory") && memory.stderr.contains("32MiB"), "{memory:?}");
}

#[test]
fn options_as_other_programs_call_them() {
    let world = World::new();
    for (line, ours) in [
        ("serve . --port 8080", "--listen 127.0.0.1:PORT"),
        ("cp -R a b", "--recursive"),
        ("cp a b --dryrun", "--dry-run"),
        ("sync a b --bwlimit=1M", "--limit-rate RATE"),
        ("cp a b --transfers 4", "--concurrency N"),
        ("mount s3://bucket /mnt --cache-dir x", "--cache DIR"),
        ("sync a b --delete-after", "--delete"),
        ("sync a b --max-delete 5", "sync --delete, with --dry-run first"),
        ("cp a b --partial", "an interrupted copy always resumes"),
        ("cp -f a b", "existing files are replaced"),
        ("rm -f a", "--yes"),
        ("cp a b --no-follow-symlinks", "--archive"),
        ("cp a b --timeout 5", "--read-timeout TIME"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        world.run(&words).fails(2, &[words[0], ours, "--help"]);
    }
    // An option that deletes is never suggested. clap alone would suggest --abort-stale for some
    // wrong options.
    let guessed = world.run(&["cp", "a", "b", "--abort-failed"]);
    assert!(guessed.code == Some(2) && !guessed.stderr.contains("--abort-stale"), "{guessed:?}");
    world.run(&["s3", "ls", "s3://bucket"]).fails(2, &["leave it out: firstbyte ls"]);
    world.run(&["version"]).fails(2, &["firstbyte --version"]);
    // An option is not suggested if only another verb has it.
    let unknown = world.run(&["stat", "a", "--delete-after"]);
    assert!(unknown.code == Some(2) && !unknown.stderr.contains("is called"), "{unknown:?}");
}

#[test]
fn every_error_of_usage_is_one_line() {
    let world = World::new();
    for (line, said) in [
        ("ls -r s3://x/", "-r: ls has no such option; similar: -R"),
        ("snyc a b", "snyc: no such verb; similar: sync"),
        (
            "sync --delet a b",
            "--delet: sync has no such option; similar: --delete (see firstbyte sync --help)",
        ),
        (
            "--deadline 3s cp a b",
            "--deadline: is an option of cp, which goes after the verb: firstbyte cp --deadline ...",
        ),
        ("--delete=x sync a b", "--delete: is an option of sync, which goes after the verb: firstbyte sync"),
        ("--max-depth 1", "--max-depth: is an option of"),
        ("quite-another", "quite-another: no such verb (see firstbyte --help)"),
        ("--nope", "--nope: firstbyte has no such option"),
        ("cp --nope a b", "--nope: cp has no such option (see firstbyte cp --help)"),
        ("cp --concurrency x a b", "--concurrency x: write a number"),
        ("cp --compare foo a b", "--compare foo: no such value; write size-mtime, checksum, none"),
        ("cp a b --limit-rate", "--limit-rate: its value is missing; write --limit-rate <RATE>"),
        ("cat --range 5 x", "--range 5: write START-END"),
        ("completions a b", "b: completions takes no further operand"),
        ("cp --quiet=yes a b", "--quiet"),
        ("cp --recursive --recursive a b", "--recursive"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let run = world.run(&words);
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "{line}: {}", run.stderr);
        run.fails(2, &[said]);
    }
}

#[test]
fn a_limit_of_no_time_is_refused_wherever_it_is_given() {
    let mut world = World::new();
    world.write("file", b"content");
    for line in [
        "--read-timeout 0 stat file",
        "--read-timeout 0s stat file",
        "cp file to --deadline 0",
        "sync file to --deadline 0ms",
        "mv file to --deadline 0",
        "mount . mnt --read-deadline 0",
        "probe . --time 0",
        "bench run . --max-time 0",
        "bench functions --timeout 0",
        "advise run --data 5GB --read 1GB --deadline 0s --at ec2",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = world.run(&words);
        assert_eq!(ran.stderr.lines().count(), 1, "{line}: {ran:?}");
        assert!(ran.code == Some(1) || ran.code == Some(2), "{line}: {ran:?}");
        let named = ran.stderr.contains("above zero") || ran.stderr.contains("more than 0s");
        assert!(named && ran.stderr.contains("0"), "{line}: {ran:?}");
    }
    for (variable, line) in [
        ("FIRSTBYTE_READ_TIMEOUT", "stat file"),
        ("FIRSTBYTE_DEADLINE", "cp file to"),
        ("FIRSTBYTE_READ_DEADLINE", "mount . mnt"),
    ] {
        world.set(variable, "0");
        let words: Vec<&str> = line.split(' ').collect();
        world.run(&words).fails(2, &["above zero"]);
        world.set(variable, "1h");
    }
    assert_eq!(world.names(), ["file"]);
}

#[test]
fn names_with_a_slip_are_suggested() {
    let s3 = S3::ours();
    let world = planted(&s3);
    assert_mistakes(
        &world,
        &[
            ("cp s3://bukcet/dir/a out", 1, &["s3://bukcet: no such bucket; similar: s3://bucket"]),
            ("ls s3://bukcet/dir/", 1, &["s3://bukcet: no such bucket; similar: s3://bucket"]),
            ("cp s3://elsewhere/a out", 1, &["s3://elsewhere: no such bucket; `firstbyte ls s3://` lists"]),
            (
                "cp s3://bucket/d* .",
                1,
                &["s3://bucket/d*: matches the prefix s3://bucket/dir/ and no object", "add -r to copy"],
            ),
            ("rm s3://bucket/*", 1, &["matches the prefix s3://bucket/dir/", "add -r to delete"]),
            ("rm d*", 1, &["d*: matches the directory dir/ and no file", "add -r to delete"]),
            ("mv d* there/", 1, &["d*: matches the directory dir/ and no file", "add -r to move"]),
            ("stat s3://bucket/dirx", 1, &["not found; similar: s3://bucket/dir ["]),
            ("cp -r s3://bucket/dirx/ there", 1, &["similar: s3://bucket/dir/"]),
            (
                "stat s3://bucket/dir/quite-another",
                1,
                &["not found; `firstbyte ls s3://bucket/dir/` shows what is there"],
            ),
            ("ls s3://bucket/nothing/", 1, &["no objects there; `firstbyte ls s3://bucket/` shows"]),
            ("cat fiel", 1, &["fiel: not found; similar: file"]),
        ],
    );
    for name in ["many/a/x", "many/b/x", "many/c/x", "many/d/x"] {
        world.write(name, b"content");
    }
    let four = "matches the directories many/a/, many/b/, many/c/ and 1 more, and no file; add -r to copy them, as directories";
    world.run(&["cp", "many/*", "there/"]).fails(1, &[four]);
    world.run(&["cat", "mnay/a/x"]).fails(1, &["mnay: not found; similar: many"]);
}

#[test]
fn what_is_not_given_or_not_there_is_named() {
    let s3 = S3::ours();
    let world = planted(&s3);
    world.write("one/a", b"content");
    assert_mistakes(
        &world,
        &[
            ("bench run", 2, &["bench run needs <TARGET>", "firstbyte bench run --help"]),
            ("plan dir", 2, &["plan needs --out <FILE>"]),
            ("check file", 2, &["check needs <DST>"]),
            ("advise", 2, &["advise needs one of", "init"]),
            ("check s3://bucket/dir nowhere", 1, &["nowhere: not found"]),
            ("bench run nowhere", 1, &["error: nowhere: not found"]),
            ("bench report nowhere", 1, &["nowhere", "check the spelling"]),
            ("run nowhere", 1, &["nowhere", "check the spelling"]),
            ("cp file /proc/x", 1, &["/proc/x: no file can be created"]),
            ("cp file /proc/x/y/", 1, &["/proc/x: cannot create this directory", "name another"]),
            ("cp -r one /proc/x", 1, &["/proc/x: cannot create this directory", "name another"]),
            ("sync one /proc/x/y", 1, &["/proc/x: cannot create this directory", "name another"]),
            ("--log-file no/log ls dir", 1, &["--log-file no/log", "create its directory first"]),
            ("cp file /dev/full", 1, &["/dev/full: No space left on device", "another destination"]),
            ("cp file file/below", 1, &["file/below", "part of this path is a file"]),
            ("ls s3://nobucket", 1, &["s3://nobucket: no such bucket", "`firstbyte ls s3://`"]),
            ("serve nowhere", 1, &["nowhere", "check the spelling"]),
            (
                "serve . --listen 0.0.0.0:0 --write",
                2,
                &["read, change and delete", "KEY SECRET", "127.0.0.1"],
            ),
        ],
    );
    let usage = world.run(&["check", "file"]);
    assert!(!usage.stderr.contains("--endpoint-url"), "{usage:?}");
}

#[test]
fn refused_logins() {
    let s3 = S3::minio();
    let mut world = planted(&s3);
    assert_mistakes(
        &world,
        &[(
            "cp s3://bucket/dir/a out --no-sign-request",
            1,
            &["s3://bucket/dir/a", "leave --no-sign-request out"],
        )],
    );
    world.set("AWS_SECRET_ACCESS_KEY", "another");
    assert_mistakes(
        &world,
        &[
            ("ls s3://bucket", 1, &["SignatureDoesNotMatch", "secret", "clock", "path"]),
            ("cp file s3://bucket/x", 1, &["SignatureDoesNotMatch", "secret", "clock", "path"]),
        ],
    );
    world.set("AWS_ACCESS_KEY_ID", "unknown");
    assert_mistakes(&world, &[("ls s3://bucket", 1, &["InvalidAccessKeyId", "access key", "--profile"])]);
    let web =
        Scripted::start(|_, _| ScriptedReply::answer("401 Unauthorized", &["www-authenticate: Basic"], b""));
    let refused =
        world.run(&["cp", &format!("{}/file", web.url()), "out"]).fails(1, &["401", "USER:PASSWORD"]);
    assert!(!refused.stderr.contains("policy") && !refused.stderr.contains("profile"), "{refused:?}");
}

#[test]
fn http_and_https_confused() {
    let s3 = S3::minio();
    let mut world = planted(&s3);
    world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url.replace("http:", "https:"));
    let written = format!("; write FIRSTBYTE_ENDPOINT_URL={}", s3.url);
    assert_mistakes(&world, &[("ls s3://bucket", 1, &["answers without TLS", &written])]);
    let (page, plain) =
        (format!("cat {}/x", s3.url.replace("http:", "https:")), format!("write {}/x", s3.url));
    assert_mistakes(&world, &[(&page, 1, &["answers without TLS", &plain])]);
    // A TLS server replies to a plain HTTP request with an alert, or with text.
    let alert = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", alert.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in alert.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&[0x15, 3, 1, 0, 2, 2, 10]);
        }
    });
    world.set("FIRSTBYTE_ENDPOINT_URL", &url);
    assert_mistakes(&world, &[("ls s3://bucket", 1, &["expects TLS", "FIRSTBYTE_ENDPOINT_URL=https://"])]);
    let go = Scripted::start(|_, _| {
        ScriptedReply::answer("400 Bad Request", &[], b"Client sent an HTTP request to an HTTPS server.\n")
    });
    world.set("FIRSTBYTE_ENDPOINT_URL", go.url());
    assert_mistakes(&world, &[("ls s3://bucket", 1, &["expects TLS", "FIRSTBYTE_ENDPOINT_URL=https://"])]);
}

#[test]
fn an_interrupted_stream_has_nothing_to_resume() {
    let world = World::new();
    let mut child = world.spawn(&["cp", "-", "out"]);
    // Standard input stays open, because the run would end at the end of the input.
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[7; 9 << 20]).unwrap();
    until("it writes", || !world.names().is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.code == Some(130) && !ran.stderr.contains("to resume"), "{ran:?}");
    assert!(ran.stderr.contains("does not resume"), "{ran:?}");
}

#[test]
fn doctor_names_the_setting_that_chose_the_endpoint() {
    let mut world = World::new();
    let said = |world: &World, args: &[&str]| {
        String::from_utf8(world.run(&[args, &["doctor"]].concat()).stdout).unwrap()
    };
    let given = said(&world, &["--endpoint-url", "http://127.0.0.1:1"]);
    assert!(given.contains("http://127.0.0.1:1 (--endpoint-url)"), "{given}");
    assert!(given.contains("credentials") && given.contains("missing"), "{given}");
    world.set("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2");
    let variable = said(&world, &[]);
    assert!(variable.contains("http://127.0.0.1:2 (AWS_ENDPOINT_URL_S3)"), "{variable}");
    world.write("config", b"[profile lab]\nendpoint_url = http://127.0.0.1:3\n");
    let config = world.path("config");
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_ENDPOINT_URL_S3", "");
    let profile = said(&world, &["--profile", "lab"]);
    assert!(profile.contains("http://127.0.0.1:3 (endpoint_url of the profile)"), "{profile}");
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_named_with_its_setting() {
    let mut world = World::new();
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    let dead = || format!("http://127.0.0.1:{}", firstbyte_testkit::free_port());
    let ls = ["ls", "s3://bucket/"];
    let option = dead();
    let named = |setting: &str| format!(", from {setting}: cannot connect");
    world.run(&[&["--endpoint-url", &option], &ls[..]].concat()).fails(1, &[&named("--endpoint-url")]);
    world.write(
        "config",
        format!(
            "[profile lab]\naws_access_key_id = key\naws_secret_access_key = secret\nendpoint_url = {}\n",
            dead()
        )
        .as_bytes(),
    );
    let config = world.path("config");
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.run(&[&["--profile", "lab"], &ls[..]].concat()).fails(1, &[&named("endpoint_url of the profile")]);
    world.set("AWS_ENDPOINT_URL", &dead());
    world.run(&ls).fails(1, &[&named("AWS_ENDPOINT_URL")]);
    world.set("FIRSTBYTE_ENDPOINT_URL", &dead());
    let advice = "is the server up? check host and port in FIRSTBYTE_ENDPOINT_URL";
    world.run(&ls).fails(1, &[&named("FIRSTBYTE_ENDPOINT_URL"), advice]);
    let doctor = String::from_utf8(world.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(&format!("-> {advice}")), "{doctor}");
}

#[test]
fn a_range_past_the_end_is_a_mistake_of_the_command_line() {
    let s3 = S3::ours();
    let world = planted(&s3);
    let web = Scripted::start(|_, head| match head.to_ascii_lowercase().contains("range: bytes=9") {
        true => ScriptedReply::answer("416 Range Not Satisfiable", &["content-range: bytes */7"], b""),
        false => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content"),
    });
    for place in ["s3://bucket/dir/a", "file", &format!("{}/x", web.url())] {
        for range in ["9-10", "9-"] {
            let line =
                format!("--range {range}: begins past the end of {place} (7 bytes); its last byte is 6");
            world.run(&["cat", place, "--range", range]).fails(2, &[&line]);
        }
        assert_eq!(world.run(&["cat", place, "--range", "-9"]).ok().stdout, b"content");
    }
}

#[test]
fn a_copy_into_itself_is_refused_in_the_words_of_its_verb() {
    let s3 = S3::ours();
    let world = planted(&s3);
    assert_mistakes(
        &world,
        &[
            (
                "mv -r s3://bucket/dir s3://bucket/dir/old",
                2,
                &[
                    "s3://bucket/dir/old: lies inside its source s3://bucket/dir; nothing was moved",
                    "name a destination outside it, such as s3://bucket/old",
                ],
            ),
            (
                "cp -r dir dir/sub",
                2,
                &["dir/sub: lies inside its source dir; nothing was copied", "such as sub"],
            ),
            ("sync dir dir/sub", 2, &["nothing was copied", "such as sub"]),
            ("sync s3://bucket s3://bucket/x", 2, &["nothing was copied; name a destination outside it"]),
            ("mv file file", 2, &["the same; nothing was moved; name another destination"]),
        ],
    );
    assert_eq!(world.names(), ["dir/a", "dir/b", "file"]);
}

#[test]
fn a_failed_stream_is_named() {
    let world = World::new();
    world.write("dir/x", b"x");
    let directory = || std::fs::File::open(world.path("dir")).unwrap();
    let ran = world.command(&["cp", "-", "out"]).stdin(directory()).output().unwrap();
    Ran::from(ran).fails(1, &["standard input: Is a directory"]);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for line in [&["cat", "dir/x"], &["cp", "dir/x", "-"][..]] {
        let ran = world.command(line).stdout(full()).output().unwrap();
        Ran::from(ran).fails(1, &["standard output: No space left on device"]);
    }
}
