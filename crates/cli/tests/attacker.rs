//! Attacks by another local user. The attacker prepares the directories that this program uses if
//! there is no home or the cache is shared, with links, pipes, modes and foreign owners. Neither as
//! root nor as an ordinary user may the program write or read a file of the victim for the
//! attacker.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply, bytes, lacks_root, patience};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::place::detach;
use support::{PROGRAM, Ran, World, names_below};

/// User id of the attacker; below, the id of a group to which attacker and victim belong.
const ATTACKER: u32 = 12_345;
const GROUP: u32 = 23_456;

/// The directories in which a victim runs the program.
struct Scene {
    world: World,
    victim: u32,
    /// A file that only the victim can read, in a directory of the victim.
    secret: PathBuf,
    /// True if the program has to make root's runtime directory, because the attacker has not
    /// prepared it.
    is_runtime_new: bool,
    /// An S3 service that lets uploads begin but accepts no part.
    service: Scripted,
}

/// Replies of [`Scene::service`].
fn begins_uploads(_: usize, head: &str) -> ScriptedReply {
    let begun = "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
    match head.split(' ').next() {
        Some("POST") => ScriptedReply::answer("200 OK", &["content-type: application/xml"], begun.as_bytes()),
        Some("PUT") => ScriptedReply::Silence,
        _ => ScriptedReply::answer("404 Not Found", &[], b""),
    }
}

impl Scene {
    fn new(victim: u32) -> Self {
        let world = World::new();
        let program = world.path("firstbyte");
        fs::create_dir_all(world.path("tmp")).unwrap();
        fs::copy(PROGRAM, &program).unwrap();
        world.write("src/x", &bytes(1, 300_000));
        world.write("src/small", b"small");
        world.write("large", &bytes(2, 20 << 20));
        let secret = world.write("private/secret", b"of the victim");
        let root = world.path("").parent().unwrap().to_owned();
        for path in [&root, &world.path(""), &world.path("src"), &world.path("tmp")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(world.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(world.path("private"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        for path in [&secret, &world.path("private")] {
            chown(path, Some(victim), Some(victim)).unwrap();
        }
        Self { world, victim, secret, is_runtime_new: true, service: Scripted::start(begins_uploads) }
    }

    /// Returns the directory that root uses for control sockets and logs, in the `/run` of this
    /// scene.
    fn runtime(&self) -> PathBuf {
        self.world.path("tmp/firstbyte")
    }

    /// Returns the directory that the program uses if there is no home.
    fn own(&self) -> PathBuf {
        self.world.path("tmp").join(format!("firstbyte-{}", self.victim))
    }

    /// Runs the program as the victim, without a home, with the `/tmp` and `/run` of this scene.
    fn run(&self, arguments: &[&str]) -> Ran {
        let script = "mount --bind tmp /tmp && mount --bind tmp /run && exec \"$@\"";
        let mut command = Command::new("timeout");
        command
            .arg(patience(Duration::from_secs(60)).as_secs().to_string())
            .args(["unshare", "--mount", "sh", "-c", script, "sh"]);
        let (user, group) = (format!("--reuid={}", self.victim), format!("--groups={GROUP}"));
        let program = self.world.path("firstbyte");
        command.args(["setpriv", &user, "--regid=65534", &group]).arg(program).args(arguments);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (variable, value) in [
            ("FIRSTBYTE_ENDPOINT_URL", self.service.url()),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
        ] {
            command.env(variable, value);
        }
        Ran::from(command.current_dir(self.world.path("")).stdin(Stdio::null()).output().unwrap())
    }

    fn give(&self, path: &Path, user: u32) {
        rustix::fs::chownat(
            CWD,
            path,
            Some(rustix::fs::Uid::from_raw(user)),
            Some(rustix::fs::Gid::from_raw(GROUP)),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
    }

    /// Returns everything in the scene's `/tmp` and in the victim's directory. Leaves out root's
    /// runtime directory if the program makes it.
    fn state(&self) -> BTreeMap<PathBuf, (u32, u32, u64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.world.path("tmp"), self.world.path("private")];
        while let Some(path) = waiting.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.insert(path, (metadata.mode(), metadata.uid(), metadata.nlink(), content));
        }
        found.remove(&self.world.path("tmp"));
        if self.is_runtime_new {
            found.remove(&self.runtime());
        }
        found
    }
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// Prepares the names that a cache, a runtime directory and uploads use. Makes them symbolic links
/// to the secret or its directory, pipes, and hard links of the secret.
fn plant_links_to_secret(scene: &Scene, directory: &Path) {
    fs::create_dir_all(directory.join("packs")).unwrap();
    fs::write(directory.join("format"), "firstbyte cache 3\n").unwrap();
    symlink(&scene.secret, directory.join("usage")).unwrap();
    symlink(scene.secret.parent().unwrap(), directory.join("objects")).unwrap();
    symlink(scene.secret.parent().unwrap(), directory.join("temporary")).unwrap();
    fs::hard_link(&scene.secret, directory.join("packs/state")).unwrap();
    pipe(&directory.join("packs/0.pack"));
    scene.give(&directory.join("packs"), ATTACKER);
    fs::set_permissions(directory.join("packs"), fs::Permissions::from_mode(0o777)).unwrap();
}

/// Prepares the directory that the program uses if there is no home.
type Prepare = fn(&Scene, &Path);

const PREPARED: [(&str, Prepare); 6] = [
    ("a link to the victim's directory", |scene, own| {
        symlink(scene.secret.parent().unwrap(), own).unwrap();
        scene.give(own, ATTACKER);
    }),
    ("a directory of the attacker", |scene, own| {
        fs::create_dir(own).unwrap();
        plant_links_to_secret(scene, own);
        scene.give(own, ATTACKER);
        fs::set_permissions(own, fs::Permissions::from_mode(0o777)).unwrap();
    }),
    ("an empty directory of the attacker", |scene, own| {
        fs::create_dir(own).unwrap();
        scene.give(own, ATTACKER);
        fs::set_permissions(own, fs::Permissions::from_mode(0o777)).unwrap();
    }),
    ("a directory of the victim that all can write to", |scene, own| {
        fs::create_dir(own).unwrap();
        plant_links_to_secret(scene, own);
        scene.give(own, scene.victim);
        fs::set_permissions(own, fs::Permissions::from_mode(0o777)).unwrap();
    }),
    ("a pipe", |scene, own| {
        pipe(own);
        scene.give(own, ATTACKER);
    }),
    ("a file of the attacker", |scene, own| {
        fs::write(own, "x").unwrap();
        scene.give(own, ATTACKER);
    }),
];

/// Destination of an upload, which [`Scene::service`] lets begin.
const UPLOAD: &str = "s3://bucket/large";

/// Returns whether a run printed the victim's secret, on standard output or standard error.
fn shows_the_secret(ran: &Ran) -> bool {
    ran.stderr.contains("of the victim") || String::from_utf8_lossy(&ran.stdout).contains("of the victim")
}

/// Runs every verb that uses a cache, journals or control sockets. A verb may fail, but nothing may
/// change in the scene.
fn assert_nothing_changes(scene: &Scene, what: &str) {
    let before = scene.state();
    let verbs: [&[&str]; 7] = [
        &["hydrate", "-r", "src"],
        &["status"],
        &["status", "--verify"],
        &["release", "--all"],
        &["release", "src/x"],
        &["cp", "large", UPLOAD, "--deadline", "500ms"],
        &["mount", "src", "private"],
    ];
    for verb in verbs {
        let ran = scene.run(verb);
        assert!(matches!(ran.code, Some(0..=3)), "{what}, {verb:?}: {ran:?}");
        assert!(!shows_the_secret(&ran), "{what}, {verb:?}: {ran:?}");
        let now = scene.state();
        let changed: Vec<_> = now.iter().filter(|(path, state)| before.get(*path) != Some(state)).collect();
        assert!(changed.is_empty() && now.len() == before.len(), "{what}, {verb:?}: {changed:?} {ran:?}");
    }
}

#[test]
fn nothing_of_the_victims_is_written_or_read_where_another_user_prepared_its_directory() {
    if lacks_root() {
        return;
    }
    for victim in [0, 65_534] {
        for (what, prepare) in PREPARED {
            let scene = Scene::new(victim);
            prepare(&scene, &scene.own());
            assert_nothing_changes(&scene, &format!("{what}, user {victim}"));
        }
    }
}

/// Returns the journals of uploads that are in a directory.
fn journals(directory: &Path) -> Vec<PathBuf> {
    let is_journal = |name: &String| name.starts_with("upload-");
    names_below(directory).into_iter().filter(is_journal).map(|name| directory.join(name)).collect()
}

#[test]
fn an_upload_keeps_its_journal_in_a_directory_of_the_victim_alone_and_follows_no_link_there() {
    if lacks_root() {
        return;
    }
    for victim in [0, 65_534] {
        let scene = Scene::new(victim);
        let upload = |deadline: &str| scene.run(&["cp", "large", UPLOAD, "--deadline", deadline]);
        // Tries longer and longer deadlines until one is long enough for an upload to begin on this
        // machine.
        let long_enough = |deadline: &&str| {
            let ran = upload(deadline);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            !journals(&scene.own()).is_empty()
        };
        let deadline = ["1s", "5s", "25s"].into_iter().find(long_enough).expect("a journal");
        let [journal] = &journals(&scene.own())[..] else { panic!("not one journal") };
        assert_eq!(fs::metadata(journal).unwrap().mode() & 0o777, 0o600);
        // States in which an attacker could have left the directory while every user could write
        // to it.
        let prepared: [Prepare; 4] = [
            |scene, journal| symlink(&scene.secret, journal).unwrap(),
            |scene, journal| fs::hard_link(&scene.secret, journal).unwrap(),
            |_, journal| pipe(journal),
            |scene, journal| {
                fs::write(journal, "planted").unwrap();
                scene.give(journal, ATTACKER);
                fs::set_permissions(journal, fs::Permissions::from_mode(0o666)).unwrap();
            },
        ];
        for prepare in prepared {
            fs::remove_file(journal).unwrap();
            prepare(&scene, journal);
            let before = scene.state();
            let ran = upload(deadline);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(!shows_the_secret(&ran), "{ran:?}");
            assert_eq!(scene.state(), before, "{ran:?}");
        }
    }
}

#[test]
fn nothing_of_roots_is_written_or_read_where_another_user_prepared_its_runtime_directory() {
    if lacks_root() {
        return;
    }
    for (what, prepare) in PREPARED {
        let scene = Scene { is_runtime_new: false, ..Scene::new(0) };
        prepare(&scene, &scene.runtime());
        let before = scene.state();
        let mounted = scene.run(&["mount", "src", "private", "--nonempty"]);
        assert!(matches!(mounted.code, Some(1 | 2)), "{what}: {mounted:?}");
        assert!(!shows_the_secret(&mounted), "{what}: {mounted:?}");
        assert_eq!(scene.state(), before, "{what}: {mounted:?}");
    }
}

/// Makes a cache directory that victim and attacker share. `prepare` runs before the victim uses
/// the directory.
fn shared_cache(victim: u32, prepare: impl Fn(&Scene, &Path)) -> (Scene, PathBuf) {
    let scene = Scene::new(victim);
    let shared = scene.world.path("tmp/shared");
    fs::create_dir(&shared).unwrap();
    prepare(&scene, &shared);
    scene.give(&shared, ATTACKER);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).unwrap();
    (scene, shared)
}

/// Runs a verb of the victim with the shared cache.
#[track_caller]
fn run_shared(scene: &Scene, verb: &[&str]) -> Ran {
    let ran = scene.run(&[verb, &["--cache-shared", "--cache", "/tmp/shared"]].concat());
    assert!(matches!(ran.code, Some(0..=3)), "{verb:?}: {ran:?}");
    ran
}

/// Id of a user who is in no group with the victim.
const STRANGER: u32 = 34_567;

#[test]
fn nothing_of_the_victims_is_written_to_a_file_of_a_stranger_in_a_shared_cache() {
    if lacks_root() {
        return;
    }
    for victim in [0, 65_534] {
        let (scene, shared) = shared_cache(victim, |_, _| {});
        let run = |verb: &[&str]| run_shared(&scene, verb);
        // Makes the files of a cache, to learn their real names.
        run(&["hydrate", "-r", "src"]).ok();
        for mode in [0o666, 0o444, 0] {
            let files: Vec<PathBuf> = names_below(&shared).iter().map(|name| shared.join(name)).collect();
            assert!(files.len() > 4, "{files:?}");
            for path in &files {
                let content = fs::read(path).unwrap();
                fs::remove_file(path).unwrap();
                fs::write(path, content).unwrap();
                chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let of_stranger = |path: &PathBuf| {
                let found = fs::metadata(path).ok().filter(|found| found.uid() == STRANGER)?;
                Some((path.clone(), found.mode(), found.mtime_nsec(), fs::read(path).unwrap()))
            };
            let before: Vec<_> = files.iter().filter_map(of_stranger).collect();
            run(&["hydrate", "-r", "src"]);
            run(&["status", "-r"]);
            scene.world.write("src/new", b"not of the cache yet");
            run(&["hydrate", "src/new"]);
            let now: Vec<_> = files.iter().filter_map(of_stranger).collect();
            let changed: Vec<_> =
                now.iter().filter(|file| !before.contains(file)).map(|file| &file.0).collect();
            assert!(changed.is_empty(), "mode {mode:o}, user {victim}: {changed:?}");
        }
    }
}

#[test]
fn nothing_of_the_victims_is_written_or_read_in_a_shared_cache_that_a_member_prepared() {
    if lacks_root() {
        return;
    }
    for victim in [0, 65_534] {
        let (scene, _) = shared_cache(victim, plant_links_to_secret);
        let secret = fs::metadata(&scene.secret).unwrap();
        for verb in [&["hydrate", "-r", "src"][..], &["status"], &["release", "--all"]] {
            let ran = run_shared(&scene, verb);
            assert!(!shows_the_secret(&ran), "{verb:?}: {ran:?}");
        }
        let now = fs::metadata(&scene.secret).unwrap();
        assert_eq!(fs::read(&scene.secret).unwrap(), b"of the victim");
        assert_eq!(
            (now.mode(), now.uid(), now.mtime_nsec()),
            (secret.mode(), secret.uid(), secret.mtime_nsec())
        );
        assert_eq!(fs::read_dir(scene.secret.parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn without_a_home_the_cache_is_in_a_directory_of_the_user_alone() {
    if lacks_root() {
        return;
    }
    for victim in [0, 65_534] {
        let scene = Scene::new(victim);
        scene.run(&["hydrate", "-r", "src"]).ok();
        let found = fs::metadata(scene.own()).unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (0o700, victim));
        let shown = scene.run(&["status", "-r"]).ok();
        assert!(String::from_utf8_lossy(&shown.stdout).contains("src/small"), "{shown:?}");
    }
}

#[test]
fn users_of_one_group_share_a_cache_if_they_say_so() {
    if lacks_root() {
        return;
    }
    let scene = Scene::new(65_534);
    let shared = scene.world.path("tmp/shared");
    fs::create_dir(&shared).unwrap();
    scene.give(&shared, ATTACKER);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).unwrap();
    let refused = scene.run(&["hydrate", "src/x", "--cache", "/tmp/shared"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    scene.run(&["hydrate", "src/x", "--cache", "/tmp/shared", "--cache-shared"]).ok();
    let other = Scene { victim: ATTACKER, ..scene };
    let shown = other.run(&["status", "-r", "--cache", "/tmp/shared", "--cache-shared"]).ok();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("src/x"), "{shown:?}");
    other.run(&["release", "--all", "--cache", "/tmp/shared", "--cache-shared"]).ok();
}

#[test]
fn root_sees_that_it_may_not_look_into_a_mount_of_a_user() {
    if lacks_root() {
        return;
    }
    let scene = Scene::new(65_534);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(scene.world.path("firstbyte"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for (variable, name) in [("XDG_RUNTIME_DIR", "tmp/run"), ("XDG_CACHE_HOME", "tmp/cache"), ("", "tmp/mnt")]
    {
        let directory = scene.world.path(name);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        scene.give(&directory, scene.victim);
        if !variable.is_empty() {
            command.env(variable, directory);
        }
    }
    let mounted =
        command.args(["mount", "src", "tmp/mnt"]).current_dir(scene.world.path("")).output().unwrap();
    let seen = scene.world.run(&["status", "tmp/mnt"]);
    assert!(detach(&scene.world.path("tmp/mnt")), "{mounted:?}");
    seen.fails(1, &["tmp/mnt", "only its owner"]);
}
