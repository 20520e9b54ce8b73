//! `doctor` as users and programs run it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;

fn doctor(endpoint: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
    command.args(["doctor", "--endpoint-url", endpoint]).args(arguments);
    command.env("AWS_ACCESS_KEY_ID", "an-id").env("AWS_SECRET_ACCESS_KEY", "a-secret-never-shown");
    command.output().unwrap()
}

/// Returns the URL of an address at which no process listens.
fn unused_address() -> String {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{address}")
}

fn finding<'a>(receipt: &'a Value, what: &str) -> &'a Value {
    let findings = receipt["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["what"] == what)
        .unwrap_or_else(|| panic!("nothing about {what}: {receipt}"))
}

#[test]
fn programs_get_every_finding_with_its_status_and_warnings_with_advice() {
    let output = doctor(&unused_address(), &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(receipt["verb"], "doctor");
    let names = "processors,kernel,memory,open files,cache directory,current directory,FUSE,mounting,FUSE passthrough,proxies,\
                 credentials,S3 endpoint,clock";
    for what in names.split(',') {
        let finding = finding(&receipt, what);
        assert!(!finding["found"].as_str().unwrap().is_empty(), "{what}");
        assert_eq!(finding["status"] == "warn", finding["advice"].is_string(), "{what}");
    }
    let warned =
        receipt["findings"].as_array().unwrap().iter().filter(|finding| finding["status"] == "warn").count();
    assert_eq!(receipt["warnings"], warned);
    assert_eq!(finding(&receipt, "S3 endpoint")["status"], "warn");
}

#[test]
fn credentials_are_named_and_never_shown() {
    for arguments in [&["--json"][..], &[]] {
        let output = doctor(&unused_address(), arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("AWS_ACCESS_KEY_ID"), "{text}");
        assert!(!text.contains("a-secret-never-shown"), "{text}");
    }
}

#[test]
fn a_clock_that_is_wrong_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 403 Forbidden\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let output = doctor(&endpoint, &["--json"]);
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(finding(&receipt, "clock")["status"], "warn");
}

/// Runs `doctor --expect` with these expectations, in the root directory.
fn expecting(expectations: &[String]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
    command.arg("doctor").args(expectations.iter().flat_map(|one| ["--expect-fs", one]));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_directory_on_another_file_system_or_an_empty_one_fails() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display();
    assert_eq!(expecting(&["/proc=proc".into()]).0, Some(0));

    let (code, text) = expecting(&["/proc=proc".into(), "/proc=lustre".into()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/proc is on proc") && text.contains("not on lustre"), "{text}");

    // The expected type is not enough: a job that starts before the mount would see an empty
    // directory.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = firstbyte_mount::mount_table::Mounts::parse(mounts.as_bytes());
    let kind = &mounts.of(&place.path().canonicalize().unwrap()).unwrap().kind;
    let (code, text) = expecting(&[format!("{path}={kind}")]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is empty"), "{text}");
    std::fs::write(place.path().join("data"), "").unwrap();
    assert_eq!(expecting(&[format!("{path}={kind}")]).0, Some(0));

    assert_eq!(expecting(&[format!("{path}")]).0, Some(2));
    assert_eq!(expecting(&[format!("{path}/missing={kind}")]).0, Some(1));
}
