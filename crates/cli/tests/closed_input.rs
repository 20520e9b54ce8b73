//! If standard input was closed when the program started, reading it is an error, not an empty
//! input.

use crate::support;

use std::fs;
use std::process::Command;

use support::servers::S3;
use support::{Ran, World, names_below};

/// Runs `args` in a shell, with standard input as the shell's `redirection` sets it.
fn run(world: &World, redirection: &str, args: &[&str]) -> Ran {
    let bare = world.command(args);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec \"$0\" \"$@\" {redirection}")).arg(bare.get_program()).args(args);
    shell.env_clear().envs(bare.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::from(shell.current_dir(bare.get_current_dir().unwrap()).output().unwrap())
}

#[test]
fn nothing_is_replaced_by_an_input_that_is_closed_or_cannot_be_read() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let object = s3.root.join("bucket/object");
    fs::write(&object, "old").unwrap();
    world.write("file", b"old");
    world.write("tree/a", b"a");
    world.write("out/a", b"old");
    for (redirection, fact) in [
        ("<&-", "standard input: it is closed"),
        ("0>/dev/null", "open for writing alone"),
        ("</", "directory"),
    ] {
        for args in [
            &["cp", "-", "s3://bucket/object"][..],
            &["cp", "-", "file"],
            &["cp", "-r", "--files-from", "-", "tree", "out"],
            &["sync", "--files-from", "-", "tree", "out"],
            &["run", "-"],
        ] {
            let ran = run(&world, redirection, args);
            assert_eq!(ran.code, Some(1), "{redirection} {args:?}: {ran:?}");
            assert!(ran.stderr.to_lowercase().contains(fact), "{redirection} {args:?}: {ran:?}");
        }
    }
    assert_eq!(fs::read(&object).unwrap(), b"old");
    assert_eq!((world.read("file"), world.read("out/a")), (b"old".to_vec(), b"old".to_vec()));
    assert_eq!(names_below(&world.path("")), ["file", "out/a", "tree/a"]);
    // An input that is open but empty gives an empty object, as in every program.
    run(&world, "</dev/null", &["cp", "-", "s3://bucket/object"]).ok();
    assert_eq!(fs::read(&object).unwrap(), b"");
}
