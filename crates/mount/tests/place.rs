//! Tests mount points: where a mount may be made, and how it ends.

use crate::support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use firstbyte_location::Location;
use firstbyte_mount::{Error, Mount, MountOptions, OccupiedAction, UnmountMode, unmount};
use firstbyte_store::{Store, StoreOptions};
use firstbyte_testkit::{Backend, bytes, scratch};
use support::{Mounted, options};

fn source() -> (tempfile::TempDir, Location, Store) {
    let directory = scratch();
    fs::write(directory.path().join("x"), b"content").unwrap();
    let location = Location::Local(directory.path().to_owned());
    (directory, location, Store::new(StoreOptions::default()).unwrap())
}

fn end(mount: &Mount) {
    mount.stop().unwrap();
    mount.wait().unwrap();
}

#[track_caller]
fn refused(directory: &Path, options: &MountOptions) -> Error {
    let (_held, location, store) = source();
    match support::mount(&store, &location, directory, options) {
        Ok(mount) => {
            end(&mount);
            panic!("mounted at {}", directory.display());
        }
        Err(error) => error,
    }
}

#[test]
fn a_directory_that_holds_something_is_refused_by_default() {
    let directory = scratch();
    fs::write(directory.path().join("data"), b"of an instance store").unwrap();
    let error = refused(directory.path(), &options());
    assert!(matches!(error, Error::NotEmpty { .. }) && error.to_string().contains("data"), "{error}");
    let (_held, location, store) = source();
    let told = MountOptions { occupied: OccupiedAction::Hide, ..options() };
    let mount = support::mount(&store, &location, directory.path(), &told).unwrap();
    assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"content");
    end(&mount);
    assert_eq!(fs::read(directory.path().join("data")).unwrap(), b"of an instance store");
}

#[test]
fn a_directory_something_is_mounted_on_is_refused_also_when_that_is_empty() {
    let (empty, directory) = (scratch(), scratch());
    let store = Store::new(StoreOptions::default()).unwrap();
    let location = Location::Local(empty.path().to_owned());
    let first = support::mount(&store, &location, directory.path(), &options()).unwrap();
    let error = refused(directory.path(), &options());
    assert!(
        matches!(error, Error::AlreadyMounted { .. }) && error.to_string().contains("fuse.firstbyte"),
        "{error}"
    );
    end(&first);
}

#[test]
fn what_is_no_directory_is_refused() {
    let directory = scratch();
    fs::write(directory.path().join("file"), b"").unwrap();
    assert!(matches!(refused(&directory.path().join("file"), &options()), Error::NotADirectory { .. }));
    assert!(matches!(refused(&directory.path().join("nothing"), &options()), Error::NoDirectory { .. }));
}

#[test]
fn a_place_behind_links_and_odd_names_is_found_again() {
    let base = scratch();
    let odd = base.path().join("a b\\\n\tü");
    fs::create_dir(&odd).unwrap();
    std::os::unix::fs::symlink(&odd, base.path().join("link")).unwrap();
    let (_held, location, store) = source();
    let mount = support::mount(&store, &location, &base.path().join("link"), &options()).unwrap();
    assert_eq!(fs::read(odd.join("x")).unwrap(), b"content");
    assert!(matches!(refused(&odd, &options()), Error::AlreadyMounted { .. }));
    unmount(&odd, UnmountMode::Clean).unwrap();
    mount.wait().unwrap();
    assert_eq!(fs::read_dir(&odd).unwrap().count(), 0);
}

#[test]
fn only_our_own_mounts_are_ended() {
    let directory = scratch();
    assert!(matches!(unmount(directory.path(), UnmountMode::Clean), Err(Error::NotOurs { .. })));
    let error = unmount(Path::new("/proc"), UnmountMode::Lazy).unwrap_err();
    assert!(error.to_string().contains("proc is mounted there"), "{error}");
    assert!(Path::new("/proc/self").exists());
}

#[test]
fn a_mount_in_use_is_not_ended_unless_it_may_go_on_for_those_who_have_files_open() {
    let content = bytes(3, 1 << 20);
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("x", &content));
    let file = fs::File::open(mounted.path("x")).unwrap();
    assert!(matches!(unmount(mounted.directory.path(), UnmountMode::Clean), Err(Error::Busy { .. })));
    unmount(mounted.directory.path(), UnmountMode::Lazy).unwrap();
    assert!(!mounted.path("x").exists());
    let mut read = vec![0; content.len()];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == content);
    drop(file);
    mounted.mount.wait().unwrap();
}

#[test]
fn a_single_object_is_the_only_file() {
    let (held, _, store) = source();
    let directory = scratch();
    let location = Location::Local(held.path().join("x"));
    let mount = support::mount(&store, &location, directory.path(), &options()).unwrap();
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x"]);
    assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"content");
    assert!(!directory.path().join("y").exists());
    end(&mount);
}

#[test]
fn counters_are_served_and_reads_noted() {
    use std::io::{Read, Write};
    let (order, directory) = (scratch(), scratch());
    let (held, location, store) = source();
    let options = MountOptions {
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        record: Some(order.path().join("order")),
        ..options()
    };
    let mount = support::mount(&store, &location, directory.path(), &options).unwrap();
    assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"content");
    let mut connection = std::net::TcpStream::connect(mount.metrics().unwrap()).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("firstbyte_mount_read_bytes_total 7\n"), "{answer}");
    assert!(answer.contains("firstbyte_mount_operations_total{operation=\"open\"} 1\n"), "{answer}");
    end(&mount);
    let noted = fs::read_to_string(order.path().join("order")).unwrap();
    assert!(noted.contains(&format!("\"root\":\"{}\"", held.path().display())), "{noted}");
    assert!(noted.contains("\"read\":\"x\",\"from\":0,\"to\":7,"), "{noted}");
}
