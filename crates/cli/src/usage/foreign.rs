//! The names that verbs and options have in other programs: aws-cli, s5cmd, rclone, rsync, s3fs,
//! curl, and cp, rm and ls of coreutils. `docs/reference/migration.md` has the same options with
//! their reasons; `tests/docs/test_migration.py` checks that each of them gets advice here.

use clap::Arg;

/// Our verbs, each with the names that it has in other programs.
const VERBS: [(&str, &[&str]); 13] = [
    ("cp", &["copy", "copyto", "copyurl", "download", "upload", "get", "put", "fetch", "pipe", "rcat"]),
    ("sync", &["mirror", "rsync"]),
    ("mv", &["move", "moveto", "rename"]),
    ("rm", &["delete", "remove", "del", "unlink", "deletefile", "purge"]),
    ("ls", &["list", "dir", "lsf", "lsd", "lsl", "find"]),
    ("du", &["size", "usage", "ncdu"]),
    ("cat", &["read", "show"]),
    ("stat", &["info", "head", "lsjson", "head-object"]),
    ("check", &["compare", "diff", "cmp", "verify"]),
    ("presign", &["sign", "share", "url", "link-to"]),
    ("mb", &["mkbucket", "mkdir", "create-bucket"]),
    ("rb", &["rmbucket", "rmdir", "delete-bucket"]),
    ("unmount", &["umount"]),
];

/// Words that are no verb in this program, with advice.
const WORDS: [(&str, &[&str]); 2] = [
    ("leave it out: firstbyte ls, firstbyte cp", &["s3", "s3api"]),
    ("write firstbyte --version", &["version"]),
];

/// Our options, shown with a value if they take one, each with its names in other programs. An
/// option that the verb lacks is not suggested.
const OPTIONS: [(&str, &[&str]); 38] = [
    ("--acl NAME", &["--s3-acl"]),
    ("--allow-other", &["-oallow_other"]),
    (
        "--archive",
        &[
            "-l",
            "-p",
            "-d",
            "-o",
            "-g",
            "-D",
            "--links",
            "--perms",
            "--preserve",
            "--times",
            "--owner",
            "--group",
            "-t",
        ],
    ),
    ("--archive, to keep links as links", &["--no-follow-symlinks", "--no-dereference"]),
    ("--ca-bundle FILE", &["--no-verify-ssl", "--insecure", "-k", "--no-check-certificate", "--cacert"]),
    ("--cache DIR", &["--cache-dir", "--file-cache-dir", "--vfs-cache-mode", "--tmp-path"]),
    ("--cache-size SIZE", &["--vfs-cache-max-size"]),
    ("--compare checksum", &["--checksum", "--check-content", "-c"]),
    ("--compare none", &["-I", "--ignore-times"]),
    (
        "--concurrency N",
        &[
            "--transfers",
            "--checkers",
            "--numworkers",
            "--jobs",
            "--parallel",
            "--workers",
            "--multi-thread-streams",
            "--s3-upload-concurrency",
            "-c",
        ],
    ),
    ("--content", &["--download"]),
    ("--deadline TIME", &["--max-duration", "--stop-after", "--max-time"]),
    ("--delete", &["--delete-after", "--delete-before", "--delete-during", "--delete-excluded"]),
    ("--dry-run", &["--dryrun", "--dry", "-i", "--interactive"]),
    ("--durability full", &["--fsync"]),
    ("--endpoint-url URL", &["--endpoint", "--s3-endpoint", "--host"]),
    ("--exclude PATTERN and --include PATTERN, in their order", &["--filter", "--filter-from"]),
    ("--expires TIME", &["--expires-in", "--expire"]),
    ("--human-readable", &["-H", "--humanize"]),
    ("--json", &["--output", "--stat", "--stats", "--use-json-log"]),
    ("--limit-rate RATE", &["--bwlimit", "--max-bandwidth", "--rate"]),
    ("--listen 127.0.0.1:PORT", &["--port", "--addr", "--address", "--bind", "-p"]),
    ("--max-depth N", &["--maxdepth"]),
    ("--metadata-ttl TIME", &["--dir-cache-time", "--attr-timeout"]),
    ("--no-clobber", &["--ignore-existing", "--skip-existing"]),
    ("--no-glob", &["--raw"]),
    ("--progress always", &["--show-progress"]),
    ("--progress never", &["--no-progress"]),
    ("--quiet", &["--only-show-errors", "--silent", "--log"]),
    (
        "--read-timeout TIME",
        &["--timeout", "--cli-read-timeout", "--cli-connect-timeout", "--contimeout", "--connect-timeout"],
    ),
    ("--recursive", &["-R", "--recurse", "--all-objects"]),
    ("--size-only", &["-s"]),
    ("--sse KIND", &["--s3-server-side-encryption"]),
    ("--sse-c-key FILE", &["--sse-c"]),
    ("--storage-class CLASS", &["--s3-storage-class"]),
    ("--versions", &["--all-versions"]),
    ("--yes", &["-f", "--force"]),
    ("-vv", &["--debug", "--trace"]),
];

/// Options that this program does not need, or cannot have, with advice.
const ADVICE: [(&str, &[&str]); 22] = [
    (
        "leave it out: an interrupted copy always resumes",
        &["-P", "--partial", "--append", "--append-verify", "--continue", "--resume", "-C"],
    ),
    (
        "leave it out: existing files are replaced, complete and at once",
        &["-f", "--force", "--inplace", "--partial-suffix"],
    ),
    (
        "leave it out: links below a source are always followed",
        &["-L", "-l", "-k", "--follow-symlinks", "--copy-links", "--dereference"],
    ),
    (
        "leave it out: part and buffer sizes follow the measured throughput",
        &[
            "-p",
            "--part-size",
            "--s3-chunk-size",
            "--buffer-size",
            "--vfs-read-ahead",
            "--vfs-read-chunk-size",
            "--page-size",
            "--chunk-size",
        ],
    ),
    (
        "leave it out: failed requests are always sent again",
        &["--retries", "--low-level-retries", "--retry-count", "--retry"],
    ),
    ("leave it out: the region of each bucket is found", &["--source-region", "--destination-region"]),
    (
        "leave it out: checksums are always compared where the store has them",
        &["--checksum-algorithm", "--checksum-mode", "--ignore-checksum"],
    ),
    (
        "leave it out: metadata is always copied; --metadata replaces what it names",
        &["--metadata-directive", "--copy-props", "-M"],
    ),
    ("leave it out: prefixes are always listed in parallel", &["--fast-list"]),
    ("leave it out: holes are always kept between local files", &["-S", "--sparse"]),
    (
        "leave it out: an archived object is named as failed",
        &["--force-glacier-transfer", "--ignore-glacier-warnings"],
    ),
    ("leave it out: equal times are asked for where the store has the file's own", &["--exact-timestamps"]),
    ("leave it out: an error of one object does not stop the others", &["--exit-on-error"]),
    (
        "use sync --delete, with --dry-run first",
        &[
            "--delete",
            "--max-delete",
            "--delete-after",
            "--delete-before",
            "--delete-during",
            "--delete-excluded",
        ],
    ),
    ("use mv -r", &["--remove-source-files", "--move"]),
    (
        "not possible: what a run overwrites is gone unless the bucket keeps versions",
        &["-b", "--backup", "--backup-dir", "--suffix"],
    ),
    (
        "not possible: a run knows its source and its destination only",
        &["--link-dest", "--compare-dest", "--copy-dest", "--track-renames", "--immutable", "--existing"],
    ),
    (
        "set it in the endpoint's table of config.toml",
        &["--s3-force-path-style", "--s3-list-version", "--s3-disable-checksum", "--use-list-objects-v1"],
    ),
    (
        "not possible: hard links, access lists and extended attributes are not copied",
        &["-H", "-A", "-X", "--hard-links", "--acls", "--xattrs"],
    ),
    (
        "not possible: owners and modes are kept as they are (cp -a)",
        &["--chmod", "--chown", "--usermap", "--groupmap"],
    ),
    ("leave it out: bytes and files are sent as they are", &["-z", "--compress", "-W", "--whole-file"]),
    (
        "docs/reference/migration.md says what to do instead",
        &[
            "--grants",
            "--website-redirect",
            "--query",
            "--flatten",
            "--credentials-file",
            "--install-completion",
            "--max-transfer",
            "--order-by",
            "--vfs-cache-max-age",
            "--vfs-cache-mode",
            "-e",
            "--rsh",
            "--rsync-path",
            "-x",
            "--one-file-system",
            "--info",
            "--itemize-changes",
        ],
    ),
];

/// Returns our verb for a verb of another program.
pub fn verb(typed: &str) -> Option<&'static str> {
    find(&VERBS, typed)
}

/// Returns advice for a word that is no verb.
pub fn advice_for_word(typed: &str) -> Option<&'static str> {
    find(&WORDS, typed)
}

fn find(table: &[(&'static str, &[&str])], typed: &str) -> Option<&'static str> {
    table.iter().find(|(_, names)| names.contains(&typed)).map(|(ours, _)| *ours)
}

/// Returns advice for an option of another program. `options` are those of the verb.
pub fn option(typed: &str, options: &[Arg]) -> Option<String> {
    let mut named = OPTIONS.iter().filter(|(_, names)| names.contains(&typed));
    let ours = named.find_map(|(ours, _)| option_text(ours, options));
    ours.map(|ours| format!("use {ours}")).or_else(|| advice(typed, options))
}

/// Returns the advice of [`ADVICE`]. Advice for short options, and advice to use another verb, is
/// only for verbs that copy, recognised by `--compare`: `-f` of an `ls` means something else.
fn advice(typed: &str, options: &[Arg]) -> Option<String> {
    let copies = options.iter().any(|arg| arg.get_long() == Some("compare"));
    let advice = find(&ADVICE, typed)?;
    let is_of_copies = !typed.starts_with("--") || advice.starts_with("use ");
    (copies || !is_of_copies).then(|| advice.to_owned())
}

/// Formats our option, if the verb has it, with its short form if it takes no value.
fn option_text(ours: &str, options: &[Arg]) -> Option<String> {
    let Some(long) = ours.strip_prefix("--") else { return Some(ours.to_owned()) };
    let long = long.split([' ', ',']).next()?;
    let found = options.iter().find(|arg| arg.get_long() == Some(long))?;
    Some(match found.get_short() {
        Some(short) if ours.len() == "--".len() + long.len() => format!("-{short} ({ours})"),
        _ => ours.to_owned(),
    })
}
