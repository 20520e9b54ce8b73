//! Makes contenders for S3 objects from other projects' programs that are installed: s5cmd, aws,
//! rclone and mount-s3. Each does the work of the case in its usual way. Called for the cases of
//! targets.

use super::Request;
use crate::services::find_program;
use crate::words::literal;

/// Objects of a case.
#[derive(Debug)]
pub(super) enum Objects<'a> {
    /// An object: bucket and key.
    One(&'a str, &'a str),
    /// All objects below a prefix of a bucket.
    Below(&'a str, &'a str),
    /// The names, without content, below a prefix of a bucket.
    Names(&'a str, &'a str),
}

/// A program and its command.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
    /// True if the command itself prints the seconds of the work, without those of unmounting.
    pub(super) is_timed: bool,
}

/// Returns the installed programs, with their commands for these objects.
pub(super) fn programs(objects: &Objects<'_>, request: &Request) -> Vec<Program> {
    let reach = Reach::of(request);
    let all = [
        Some(("s5cmd", s5cmd(objects, &reach), false)),
        Some(("aws", aws(objects, &reach), false)),
        Some(("rclone", rclone(objects, &reach), false)),
        mount_s3(objects, &reach).map(|words| ("mount-s3", words, true)),
    ];
    let installed =
        all.into_iter().flatten().filter(|(name, ..)| find_program(name, &request.path).is_some());
    installed.map(|(name, command, is_timed)| Program { name, command, is_timed }).collect()
}

/// Options for access to the service.
struct Reach {
    endpoint: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    anonymous: bool,
}

impl Reach {
    fn of(request: &Request) -> Self {
        let value = |name: &str| {
            let at = request.options.iter().position(|option| option == name)?;
            request.options.get(at + 1).cloned()
        };
        Self {
            endpoint: request.endpoint.clone(),
            region: value("--region"),
            profile: value("--profile"),
            anonymous: request.options.iter().any(|option| option == "--no-sign-request"),
        }
    }

    /// Returns the options in the syntax of s5cmd, aws and mount-s3.
    fn options(&self, region: bool) -> Vec<String> {
        let pairs = [
            ("--endpoint-url", self.endpoint.as_ref()),
            ("--profile", self.profile.as_ref()),
            ("--region", self.region.as_ref().filter(|_| region)),
        ];
        let given = pairs.into_iter().filter_map(|(name, value)| Some([name.to_owned(), literal(value?)]));
        let anonymous = self.anonymous.then(|| "--no-sign-request".to_owned());
        given.flatten().chain(anonymous).collect()
    }
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

fn url(bucket: &str, key: &str) -> String {
    literal(&format!("s3://{bucket}/{key}"))
}

fn s5cmd(objects: &Objects<'_>, reach: &Reach) -> Vec<String> {
    let work = match objects {
        Objects::One(bucket, key) => words(&["cp", &url(bucket, key), "{out}/"]),
        Objects::Below(bucket, prefix) => words(&["cp", &(url(bucket, prefix) + "*"), "{out}/"]),
        Objects::Names(bucket, prefix) => words(&["ls", &(url(bucket, prefix) + "*")]),
    };
    [words(&["s5cmd", "--log", "error"]), reach.options(false), work].concat()
}

fn aws(objects: &Objects<'_>, reach: &Reach) -> Vec<String> {
    let work = match objects {
        Objects::One(bucket, key) => words(&["cp", "--quiet", &url(bucket, key), "{out}/"]),
        Objects::Below(bucket, prefix) => {
            words(&["cp", "--quiet", "--recursive", &url(bucket, prefix), "{out}/"])
        }
        Objects::Names(bucket, prefix) => words(&["ls", "--recursive", &url(bucket, prefix)]),
    };
    [words(&["aws"]), reach.options(true), words(&["s3"]), work].concat()
}

/// Makes the command of rclone. Its remote is defined in front of the path, with quoted values.
fn rclone(objects: &Objects<'_>, reach: &Reach) -> Vec<String> {
    let provider = if reach.endpoint.is_some() { "Other" } else { "AWS" };
    let values = [("endpoint", &reach.endpoint), ("region", &reach.region), ("profile", &reach.profile)];
    let values: String = values
        .into_iter()
        .filter_map(|(name, value)| Some(format!(",{name}=\"{}\"", value.as_ref()?.replace('"', "\"\""))))
        .collect();
    let remote = format!(":s3,provider={provider},env_auth={}{values}:", !reach.anonymous);
    let at = |bucket: &str, key: &str| literal(&format!("{remote}{bucket}/{key}"));
    match objects {
        Objects::One(bucket, key) | Objects::Below(bucket, key) => {
            words(&["rclone", "copy", &at(bucket, key), "{out}"])
        }
        Objects::Names(bucket, prefix) => words(&["rclone", "lsf", "-R", &at(bucket, prefix)]),
    }
}

/// Makes a command that mounts, reads the object once, and unmounts after the clock has stopped.
fn mount_s3(objects: &Objects<'_>, reach: &Reach) -> Option<Vec<String>> {
    let Objects::One(bucket, key) = objects else { return None };
    // S3 services other than AWS use path-style addresses.
    let style = words(if reach.endpoint.is_some() { &["--force-path-style"] } else { &[] });
    let script = r#"at={out}/mount-s3; mkdir -p $at; began=$(date +%s%N)
bucket=$1; key=$2; shift 2
mount-s3 "$bucket" $at --read-only "$@" >/dev/null && cat "$at/$key" >/dev/null; code=$?
ended=$(date +%s%N); umount $at
test $code = 0 && awk "BEGIN {{ printf \"{{\\\"seconds\\\": %.6f}}\\n\", ($ended - $began) / 1e9 }}""#;
    let names = vec![script.to_owned(), "mount-s3".into(), literal(bucket), literal(key)];
    Some([words(&["sh", "-c"]), names, reach.options(true), style].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_gets_the_options_of_the_service() {
        let request = Request {
            endpoint: Some("http://127.0.0.1:9000".into()),
            options: words(&["--region", "eu-west-1", "--no-sign-request"]),
            ..Request::default()
        };
        let (reach, one) = (Reach::of(&request), Objects::One("b", "a/{x}"));
        let shown = |command: Vec<String>| command.join(" ");
        assert_eq!(
            shown(s5cmd(&one, &reach)),
            "s5cmd --log error --endpoint-url http://127.0.0.1:9000 --no-sign-request cp s3://b/a/{{x}} {out}/"
        );
        assert!(
            shown(aws(&one, &reach)).contains("--region eu-west-1 --no-sign-request s3 cp --quiet s3://b/")
        );
        assert_eq!(
            shown(rclone(&Objects::Names("b", "p/"), &reach)),
            "rclone lsf -R :s3,provider=Other,env_auth=false,endpoint=\"http://127.0.0.1:9000\",\
             region=\"eu-west-1\":b/p/"
        );
        assert!(mount_s3(&one, &reach).unwrap().contains(&"--force-path-style".to_owned()));
        assert!(mount_s3(&Objects::Below("b", "p/"), &reach).is_none());
    }

    #[test]
    fn only_installed_programs_are_contenders() {
        let place = tempfile::tempdir().unwrap();
        let request = Request { path: place.path().display().to_string(), ..Request::default() };
        assert!(programs(&Objects::One("b", "k"), &request).is_empty());
        std::fs::write(place.path().join("rclone"), "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path().join("rclone"), mode).unwrap();
        let found = programs(&Objects::Below("b", "p/"), &request);
        assert_eq!(found.iter().map(|program| program.name).collect::<Vec<_>>(), ["rclone"]);
    }
}
