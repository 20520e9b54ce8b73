//! Tests what a call finds in the function's directory: copies of earlier calls, and what a process
//! that was killed has left.

use crate::support;

use std::fs;
use std::time::Duration;

use firstbyte_testkit::{BUCKET, bytes, lacks_root, scratch};
use serde_json::json;
use support::{Function, SmallFileSystem, Store};

const MIB: usize = 1 << 20;

#[test]
fn a_copy_that_is_there_already_takes_no_room_and_is_not_made_again() {
    if lacks_root() {
        return;
    }
    let store = Store::start();
    // Two copies of the object do not fit.
    let (source, content) = store.put_seeded("run/big", 5 * MIB);
    for event in [
        json!({"action": "download", "source": source, "keep": true}),
        json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run"), "keep": true}),
    ] {
        let small = SmallFileSystem::mounted();
        let mut function = Function::start_in(&store.url(), small.0.path(), &[]);
        let [first, second] = [(); 2].map(|()| function.answer(&event));
        assert_eq!((&first["objects"], &first["skipped"]), (&json!(1), &json!(0)), "{first}");
        assert_eq!((&second["objects"], &second["skipped"]), (&json!(0), &json!(1)), "{second}");
        assert!(second["bytes"] == 0 && second["stages"]["all_seconds"].is_number(), "{second}");
        let path = if event["action"] == "download" { "big" } else { "run/big" };
        assert!(fs::read(function.path(path)).unwrap() == content);
        drop(function);
    }
}

#[test]
fn an_object_that_several_calls_copy_needs_its_room_once() {
    if lacks_root() {
        return;
    }
    let store = Store::start();
    let (_, content) = store.put_seeded("run/big", 6 * MIB);
    let link = store.behind(1 << 20);
    let small = SmallFileSystem::mounted();
    let mut function = Function::start_in(&format!("http://{}", link.address()), small.0.path(), &[]);
    let event = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run"), "keep": true});
    let answers = function.answers_with_continuations(&event, Duration::from_secs(3));
    // On a busy machine a call may end late, and its repetition continues the object.
    assert!(answers.len() > 1 || function.late_calls > 0, "{answers:#?}");
    assert!(fs::read(function.path("run/big")).unwrap() == content);
    drop(function);
}

#[test]
fn a_new_process_removes_what_a_killed_one_has_written() {
    let store = Store::start();
    for number in 0..40_u64 {
        store.put(&format!("run/{number:02}"), &bytes(number, 64 << 10));
    }
    let (source, _) = store.put_seeded("big", 8 * MIB);
    let link = store.behind(1 << 20);
    let (tmp, slow) = (scratch(), format!("http://{}", link.address()));
    fs::write(tmp.path().join("own"), "of the function's author").unwrap();
    let start = |endpoint: &str| Function::start_in(endpoint, tmp.path(), &[]);
    let writes = |function: &Function| {
        let names = function.names();
        names.iter().any(|name| name == "run" || name.ends_with(".firstbyte-part"))
    };
    let many = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run")});
    let one = json!({"action": "download", "source": source});
    for event in [&many, &one] {
        start(&slow).kill_while(event, writes);
        let mut next = start(&store.url());
        // The same event is not refused for the files that the first process has left.
        next.answer(event);
        assert_eq!(next.names(), ["own"], "{event}");
    }
    // What is to be kept is no leftover, though a killed process had written it before.
    start(&slow).kill_while(&many, writes);
    let keep = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run"), "keep": true});
    start(&store.url()).answer(&keep);
    let mut last = start(&store.url());
    last.answer(&json!({"action": "list", "source": format!("s3://{BUCKET}/run/")}));
    assert_eq!(last.names(), ["own", "run"]);
    assert_eq!(fs::read_dir(last.path("run")).unwrap().count(), 40);
}
