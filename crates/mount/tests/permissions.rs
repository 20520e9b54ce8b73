//! Tests the modes and owners that a mount shows, and the access that the kernel grants because of
//! them.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use firstbyte_location::Location;
use firstbyte_mount::{AllowedUsers, Mount, MountOptions, ShownModes, StoredModes};
use firstbyte_store::{Metadata, Payload, PutOptions, Store, StoreOptions};
use firstbyte_testkit::{Backend, lacks_root, scratch, until};
use support::{Mounted, options};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

/// A local directory that is mounted for every user.
struct Local {
    source: TempDir,
    directory: TempDir,
    mount: Mount,
}

impl Local {
    fn start(options: &MountOptions, plant: impl FnOnce(&Path)) -> Self {
        let (source, directory) = (scratch(), scratch());
        for path in [source.path(), directory.path()] {
            set_mode(path, 0o755);
        }
        plant(source.path());
        let store = Store::new(StoreOptions::default()).unwrap();
        let location = Location::Local(source.path().to_owned());
        let mount = support::mount(&store, &location, directory.path(), options).unwrap();
        Self { source, directory, mount }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns true if another user can read a file below the mount.
    fn is_read_by_a_stranger(&self, name: &str) -> bool {
        is_read_by_a_stranger(&self.path(name))
    }
}

/// Returns true if another user can read a file.
fn is_read_by_a_stranger(path: &Path) -> bool {
    Command::new("cat").arg(path).uid(NOBODY).gid(NOBODY).output().unwrap().status.success()
}

impl Drop for Local {
    fn drop(&mut self) {
        self.mount.stop().unwrap();
        self.mount.wait().unwrap();
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn write(path: PathBuf, content: &[u8], mode: u32) {
    fs::write(&path, content).unwrap();
    set_mode(&path, mode);
}

/// Returns the mode, user and group that a path shows.
fn shown(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.mode() & 0o7777, found.uid(), found.gid())
}

#[test]
fn other_users_reach_only_what_the_source_shows_them() {
    if lacks_root() {
        return;
    }
    let everyone =
        MountOptions { access: AllowedUsers::Everyone, metadata_ttl: Duration::from_millis(1), ..options() };
    let local = Local::start(&everyone, |source| {
        write(source.join("open"), b"x", 0o644);
        write(source.join("closed"), b"x", 0o600);
        fs::create_dir_all(source.join("private/deep")).unwrap();
        write(source.join("private/deep/open"), b"x", 0o644);
        set_mode(&source.join("private"), 0o700);
        write(source.join("theirs"), b"x", 0o600);
        chown(source.join("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
    });
    // In the second round, the files are known from a listing and not from lookups.
    for _ in 0..2 {
        assert!(local.is_read_by_a_stranger("open") && local.is_read_by_a_stranger("theirs"));
        assert!(!local.is_read_by_a_stranger("closed") && !local.is_read_by_a_stranger("private/deep/open"));
        assert_eq!(fs::read_dir(local.directory.path()).unwrap().count(), 4);
        assert_eq!(shown(&local.path("theirs")), (0o600, NOBODY, NOBODY));
        assert_eq!(shown(&local.path("private")), (0o700, 0, 0));
    }
    set_mode(&local.source.path().join("open"), 0o600);
    set_mode(&local.source.path().join("private"), 0o755);
    until("the kernel looks again", || !local.is_read_by_a_stranger("open"));
    until("the kernel looks again", || local.is_read_by_a_stranger("private/deep/open"));
}

#[test]
fn a_link_leads_other_users_only_where_they_could_go_without_the_mount() {
    if lacks_root() {
        return;
    }
    let outside = scratch();
    set_mode(outside.path(), 0o700);
    write(outside.path().join("secret"), b"x", 0o644);
    let plant = |source: &Path| {
        for (directory, mode) in [("closed", 0o700), ("open", 0o755), ("links", 0o755)] {
            fs::create_dir(source.join(directory)).unwrap();
            write(source.join(directory).join("f"), b"x", 0o644);
            set_mode(&source.join(directory), mode);
        }
        let secret = outside.path().join("secret");
        for (target, link) in [
            (secret.as_path(), "outside"),
            (outside.path(), "directory"),
            (Path::new("../closed/f"), "closed"),
            (Path::new("../open/f"), "open"),
        ] {
            std::os::unix::fs::symlink(target, source.join("links").join(link)).unwrap();
        }
    };
    let everyone = MountOptions { access: AllowedUsers::Everyone, ..options() };
    let local = Local::start(&everyone, plant);
    // In the second round, the names are known from a listing and not from lookups.
    for _ in 0..2 {
        for name in ["links/outside", "links/directory/secret", "links/closed", "closed/f"] {
            assert!(!local.is_read_by_a_stranger(name), "{name}");
        }
        assert!(local.is_read_by_a_stranger("links/open"));
        let names = fs::read_dir(local.path("links")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.filter(|name| name == "outside" || name == "closed").count(), 0);
    }
    let own = Local::start(&options(), plant);
    assert_eq!(fs::read(own.path("links/outside")).unwrap(), b"x");
}

#[test]
fn other_users_reach_only_what_a_host_shows_its_login() {
    if lacks_root() {
        return;
    }
    let everyone =
        MountOptions { access: AllowedUsers::Everyone, metadata_ttl: Duration::from_millis(1), ..options() };
    let mut root = PathBuf::new();
    let mounted = Mounted::with(Backend::Sftp, &everyone, |subject| {
        let Location::Sftp(base) = &subject.base else { panic!("{}", subject.base) };
        root = PathBuf::from(OsStr::from_bytes(&base.path));
        for (name, mode) in
            [("open", 0o644), ("closed", 0o600), ("private/open", 0o644), ("theirs", 0o600), ("tool", 0o750)]
        {
            subject.place(name, b"x");
            set_mode(&root.join(name), mode);
        }
        chown(root.join("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        set_mode(&root.join("private"), 0o700);
        set_mode(&root, 0o755);
    });
    let is_read = |name: &str| is_read_by_a_stranger(&mounted.path(name));
    // In the second round, the files are known from a listing and not from lookups.
    for _ in 0..2 {
        assert!(is_read("open"));
        // The owner's id comes from another machine, and has no meaning on this one.
        for name in ["closed", "private/open", "theirs", "tool"] {
            assert!(!is_read(name), "{name}");
            assert_eq!(fs::read(mounted.path(name)).unwrap(), b"x", "{name}");
        }
        assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 5);
        assert_eq!(shown(&mounted.path("tool")), (0o750, 0, 0));
        assert_eq!(shown(&mounted.path("theirs")), (0o600, 0, 0));
        assert_eq!(shown(&mounted.path("private")), (0o700, 0, 0));
    }
    set_mode(&root.join("open"), 0o600);
    set_mode(&root.join("private"), 0o755);
    until("the kernel looks again", || !is_read("open"));
    until("the kernel looks again", || is_read("private/open"));
}

#[test]
fn a_root_that_is_closed_closes_all_below_it() {
    if lacks_root() {
        return;
    }
    let everyone = MountOptions { access: AllowedUsers::Everyone, ..options() };
    let local = Local::start(&everyone, |source| {
        write(source.join("open"), b"x", 0o644);
        set_mode(source, 0o700);
    });
    assert!(!local.is_read_by_a_stranger("open"));
    assert_eq!(fs::read(local.path("open")).unwrap(), b"x");
}

#[test]
fn programs_below_a_mount_can_be_run_and_directories_have_no_count_of_links() {
    let local = Local::start(&options(), |source| {
        fs::copy("/bin/true", source.join("program")).unwrap();
        fs::create_dir_all(source.join("d/e")).unwrap();
    });
    assert!(Command::new(local.path("program")).status().unwrap().success());
    for directory in ["", "d", "d/e"] {
        assert_eq!(fs::metadata(local.path(directory)).unwrap().nlink(), 1, "{directory}");
    }
}

#[test]
fn programs_that_count_links_find_what_is_in_subdirectories() {
    let local = Local::start(&options(), |source| {
        fs::create_dir_all(source.join("d/e/f")).unwrap();
        for name in ["x", "d/x", "d/e/x", "d/e/f/x"] {
            write(source.join(name), b"x", 0o644);
        }
    });
    // Perl before 5.32 relies on link counts by default: a count of 2 would mean that there are no
    // subdirectories.
    let program = "use File::Find; $File::Find::dont_use_nlink = 0;
        find({ no_chdir => 1, wanted => sub { print \"$_\\n\" if -f $_ } }, $ARGV[0]);";
    let found =
        Command::new("perl").args(["-e", program]).arg(local.directory.path()).output().unwrap().stdout;
    let mut found: Vec<_> = std::str::from_utf8(&found).unwrap().lines().collect();
    found.sort_unstable();
    let expected = ["d/e/f/x", "d/e/x", "d/x", "x"].map(|name| local.path(name));
    assert_eq!(found, expected.map(|path| path.to_str().unwrap().to_owned()));
}

#[test]
fn modes_and_owners_that_are_given_are_shown_instead() {
    let modes = ShownModes {
        file: Some(0o550),
        directory: Some(0o711),
        user: Some(7),
        group: Some(8),
        ..ShownModes::default()
    };
    let options = MountOptions { modes, ..options() };
    let local = Local::start(&options, |source| {
        write(source.join("x"), b"x", 0o600);
        fs::create_dir(source.join("d")).unwrap();
    });
    assert_eq!(shown(&local.path("x")), (0o550, 7, 8));
    assert_eq!(shown(&local.path("d")), (0o711, 7, 8));
}

#[test]
fn modes_stored_with_objects_are_shown_if_wanted() {
    let plant = |subject: &firstbyte_testkit::Subject| {
        for (name, mode, owner) in
            [("rclone", "0100755", "1000"), ("s3fs", "33256", "1000"), ("plain", "", "")]
        {
            let user = [("mode", mode), ("uid", owner), ("gid", owner)];
            let user = user.iter().filter(|(_, value)| !value.is_empty());
            let user = user.map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let metadata = Metadata { user, ..Metadata::default() };
            let put = PutOptions { metadata, ..PutOptions::default() };
            subject.store.put(&subject.at(name), Payload::Bytes(b"x"), &put).unwrap();
        }
    };
    let modes = ShownModes { stored: StoredModes::Show, ..ShownModes::default() };
    let mounted = Mounted::with(Backend::ServeS3, &MountOptions { modes, ..options() }, plant);
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 3);
    assert_eq!(shown(&mounted.path("rclone")), (0o755, 1000, 1000));
    assert_eq!(shown(&mounted.path("s3fs")), (0o750, 1000, 1000));
    assert_eq!(shown(&mounted.path("plain")).0, 0o444);
}

#[test]
fn modes_stored_with_objects_are_not_shown_by_a_lookup_either() {
    // There are so many names that the last one is looked up separately.
    let plant = |subject: &firstbyte_testkit::Subject| {
        for number in 0..1_100 {
            let empty = PutOptions::default();
            subject.store.put(&subject.at(&format!("{number:04}")), Payload::Bytes(b"x"), &empty).unwrap();
        }
        let user = [("mode".into(), "0100700".into())].into();
        let metadata = Metadata { user, ..Metadata::default() };
        let put = PutOptions { metadata, ..PutOptions::default() };
        subject.store.put(&subject.at("last"), Payload::Bytes(b"x"), &put).unwrap();
    };
    let mounted = Mounted::with(Backend::ServeS3, &options(), plant);
    assert_eq!(shown(&mounted.path("last")).0, 0o444);
}
