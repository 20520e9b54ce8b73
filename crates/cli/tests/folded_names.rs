//! Destinations that treat two names as one. The second source is refused, and the message names
//! it. The first source is lost neither by a copy nor by a move.

use crate::support;

use std::fs;

use firstbyte_testkit::{WeakFs, Weakness};
use support::servers::S3;
use support::{Ran, World, names_below};

/// Makes a world with a directory `m` that ignores letter case.
fn folding(s3: &S3) -> (World, WeakFs) {
    let world = World::with_s3(s3);
    for name in ["back", "m"] {
        fs::create_dir_all(world.path(name)).unwrap();
    }
    let mounted = WeakFs::mount(&world.path("back"), &world.path("m"), Weakness::FoldsCase);
    (world, mounted)
}

/// Checks that one of two names was copied and the other was refused.
#[track_caller]
fn assert_one_refused(world: &World, ran: &Ran, below: &str) {
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let receipt = ran.receipt();
    let failed = receipt["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{receipt}");
    let error = failed[0]["error"].as_str().unwrap();
    assert!(error.contains("takes this name for"), "{receipt}");
    let names = names_below(&world.path(below));
    assert_eq!(names.len(), 1, "{names:?}");
    let content = world.read(&format!("{below}/{}", names[0]));
    assert_eq!(content, names[0].rsplit('/').next().unwrap().as_bytes(), "the first is as it was copied");
    let refused = failed[0]["location"].as_str().unwrap();
    assert!(!refused.ends_with(&names[0]), "{refused}");
}

#[test]
fn the_second_of_two_names_that_become_one_file_is_refused() {
    let s3 = S3::ours();
    let (world, _mounted) = folding(&s3);
    for name in ["Readme", "README"] {
        world.write(&format!("tree/{name}"), name.as_bytes());
        fs::create_dir_all(s3.root.join("bucket/tree")).unwrap();
        fs::write(s3.root.join("bucket/tree").join(name), name).unwrap();
    }
    for (place, args) in [
        ("cp-local", &["--json", "cp", "-r", "tree/"][..]),
        ("cp-s3", &["--json", "cp", "-r", "s3://bucket/tree/"]),
        ("sync-local", &["--json", "sync", "tree"]),
        ("sync-s3", &["--json", "sync", "--delete", "s3://bucket/tree"]),
        ("archive", &["--json", "cp", "-a", "tree/"]),
    ] {
        let target = format!("m/{place}");
        let args = [args, &[target.as_str()]].concat();
        assert_one_refused(&world, &world.run(&args), &format!("back/{place}"));
        // In a repeated run, the first file is unchanged, and the second is refused again.
        let again = world.run(&args);
        assert_one_refused(&world, &again, &format!("back/{place}"));
        assert_eq!(again.receipt()["objects"], 0, "{args:?}: {again:?}");
        assert!(names_below(&world.path("m")).iter().all(|name| !name.contains("firstbyte")));
    }
}

#[test]
fn a_move_keeps_the_source_that_is_refused() {
    let s3 = S3::ours();
    let (world, _mounted) = folding(&s3);
    for name in ["Readme", "README"] {
        world.write(&format!("tree/{name}"), name.as_bytes());
    }
    let ran = world.run(&["--json", "mv", "-r", "tree/", "m/moved"]);
    assert_one_refused(&world, &ran, "back/moved");
    let left = names_below(&world.path("tree"));
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(world.read(&format!("tree/{}", left[0])), left[0].as_bytes());
    assert_ne!(left, names_below(&world.path("back/moved")));
}

#[test]
fn what_a_folded_name_left_at_the_destination_is_not_deleted_as_an_extra() {
    let s3 = S3::ours();
    let (world, _mounted) = folding(&s3);
    world.write("tree/Data/x", b"new");
    world.write("back/out/data/x", b"old");
    let ran = world.run(&["--json", "sync", "--delete", "tree", "m/out"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("takes this name for"), "{ran:?}");
    assert_eq!(names_below(&world.path("back/out")), ["data/x"]);
    assert_eq!(world.read("back/out/data/x"), b"old");
}

#[test]
fn two_named_sources_do_not_become_one_file() {
    let s3 = S3::ours();
    let (world, _mounted) = folding(&s3);
    for name in ["one/x", "two/x", "two/X"] {
        world.write(name, name.as_bytes());
    }
    fs::create_dir(world.path("plain")).unwrap();
    // The two sources have the same destination name, so the run is refused before any byte is
    // copied.
    let ran = world.run(&["cp", "one/x", "two/x", "plain/"]);
    assert!(ran.code == Some(2) && names_below(&world.path("plain")).is_empty(), "{ran:?}");
    let ran = world.run(&["--json", "cp", "one/x", "two/X", "m/"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let receipt = ran.receipt();
    let refused = &receipt["failed"][0]["location"];
    assert_eq!(receipt["failed"].as_array().map(Vec::len), Some(1), "{receipt}");
    let names = names_below(&world.path("back"));
    assert_eq!(names.len(), 1, "{names:?}");
    let content = String::from_utf8(world.read(&format!("back/{}", names[0]))).unwrap();
    assert!(["one/x", "two/X"].contains(&content.as_str()) && *refused != content.as_str(), "{receipt}");
    // A destination file that existed before is replaced, as `cp` does.
    world.write("plain/x", b"before");
    world.run(&["cp", "one/x", "plain/"]).ok();
    assert_eq!(world.read("plain/x"), b"one/x");
}

#[test]
fn a_name_can_be_moved_to_another_spelling_of_itself() {
    let (world, _mounted) = folding(&S3::ours());
    world.write("back/Readme", b"content");
    world.write("back/Data/x", b"x");
    world.run(&["mv", "m/Readme", "m/README"]).ok();
    world.run(&["mv", "-r", "m/Data", "m/DATA"]).ok();
    assert_eq!(names_below(&world.path("back")), ["DATA/x", "README"]);
    assert_eq!(world.read("back/README"), b"content");
    // A file of another name is replaced, as on any file system.
    world.write("back/other", b"other");
    world.run(&["mv", "m/other", "m/README"]).ok();
    assert_eq!(
        (names_below(&world.path("back")), world.read("back/README")),
        (vec!["DATA/x".into(), "README".into()], b"other".to_vec())
    );
}
