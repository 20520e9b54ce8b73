//! Reads the AWS configuration files as aws-cli does, for the parser of `aws-runtime`.
//!
//! The parser refuses or ignores lines that aws-cli accepts: indented comments, `key: value`, and
//! names of sections in quotes or with blanks (botocore's `configloader.py` splits them like a
//! shell). The text is rewritten before it is parsed, so that a file means the same here. `profile`
//! and `chain` get all contents from this module.

use std::borrow::Cow;
use std::env;
use std::path::PathBuf;

use aws_runtime::env_config::file::{Builder as EnvConfigFilesBuilder, EnvConfigFileKind, EnvConfigFiles};

/// The kinds of the files, each with its variable and its name in `~/.aws`.
const CONFIG_FILES: [(EnvConfigFileKind, &str, &str); 2] = [
    (EnvConfigFileKind::Config, "AWS_CONFIG_FILE", "config"),
    (EnvConfigFileKind::Credentials, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
];

/// Properties whose value is the name of another section.
const SECTION_REFERENCES: [&str; 3] = ["source_profile", "services", "sso_session"];

/// Returns the paths of the configuration file and the credentials file. A leading `~` is the home
/// directory, since the variables are often set where no shell expands it.
pub(super) fn paths() -> [PathBuf; 2] {
    CONFIG_FILES.map(|(_, variable, name)| path(variable, name))
}

fn path(variable: &str, name: &str) -> PathBuf {
    let home = || env::home_dir().unwrap_or_default();
    match env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) {
        None => home().join(".aws").join(name),
        Some(path) => match path.strip_prefix("~") {
            Ok(rest) => home().join(rest),
            Err(_) => path,
        },
    }
}

/// Returns the contents of both files for the parser. A file that cannot be read is empty, as in
/// aws-cli.
pub(super) fn contents() -> EnvConfigFiles {
    CONFIG_FILES.iter().fold(EnvConfigFiles::builder(), with_file).build()
}

/// Returns the configuration file and the credentials file, each with its contents alone.
pub(super) fn each_file() -> [(PathBuf, EnvConfigFiles); 2] {
    CONFIG_FILES.map(|file| (path(file.1, file.2), with_file(EnvConfigFiles::builder(), &file).build()))
}

fn with_file(
    builder: EnvConfigFilesBuilder,
    (kind, variable, name): &(EnvConfigFileKind, &str, &str),
) -> EnvConfigFilesBuilder {
    let path = path(variable, name);
    let text = std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.inspect_err(|error| tracing::debug!(path = %path.display(), %error, "not read"));
    builder.with_contents(*kind, rewrite(&text.unwrap_or_default()))
}

/// Returns true if the configuration file has the section `[KIND NAME]`, with or without contents.
pub(super) fn has_section(kind: &str, name: &str) -> bool {
    let [config, _] = paths();
    let text = std::fs::read_to_string(config).unwrap_or_default();
    rewrite(&text).lines().any(|line| {
        let inner = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| inner.split(' ').eq([kind, name]))
    })
}

/// Returns the name of a profile or section in the form that the parser accepts. Any other
/// character is percent-encoded.
pub(super) fn identifier(name: &str) -> Cow<'_, str> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/.%@:+".contains(&byte);
    if name.bytes().all(is_legal) {
        return Cow::Borrowed(name);
    }
    let encode =
        |byte: u8| if is_legal(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(name.bytes().map(encode).collect())
}

/// Returns the text of a file in the grammar of the parser, with the same number of lines.
fn rewrite(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    // True after a property without a value. Indented lines after it are its nested properties.
    let mut has_nested = false;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let trimmed = line.trim();
        let line = match trimmed.chars().next() {
            None | Some('#' | ';') => Cow::Borrowed(""),
            Some('[') if !line.starts_with([' ', '\t']) => section(trimmed),
            _ if !line.starts_with([' ', '\t']) => {
                let property = property(line);
                has_nested = property.trim_end().ends_with('=');
                property
            }
            // botocore ignores such a line in every profile that is read.
            _ if has_nested && !trimmed.contains('=') => Cow::Borrowed(""),
            _ => Cow::Borrowed(line),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

/// Returns the line of a section, `[NAME]` or `[KIND NAME]`, with the name as an identifier.
fn section(line: &str) -> Cow<'_, str> {
    let Some((inner, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return Cow::Borrowed(line);
    };
    let inner = inner.trim();
    let kinds = ["profile", "services", "sso-session"];
    let (kind, name) = match inner.split_once([' ', '\t']) {
        Some((kind, name)) if kinds.contains(&kind) => (Some(kind), name.trim()),
        _ => (None, inner),
    };
    let quoted = |quote| name.strip_prefix(quote).and_then(|name: &str| name.strip_suffix(quote));
    let name = identifier(quoted('"').or_else(|| quoted('\'')).unwrap_or(name));
    Cow::Owned(kind.map_or_else(|| format!("[{name}]"), |kind| format!("[{kind} {name}]")))
}

/// Returns the line of a property with `=` instead of `:`.
fn property(line: &str) -> Cow<'_, str> {
    let Some(at) = line.find(['=', ':']) else { return Cow::Borrowed(line) };
    let (key, value) = (line[..at].trim_end(), line[at + 1..].trim());
    if SECTION_REFERENCES.iter().any(|reference| key.eq_ignore_ascii_case(reference)) {
        // The parser takes the rest of a line from ` #` on for a comment.
        let comment = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
        let name = value[..comment.unwrap_or(value.len())].trim_end();
        return Cow::Owned(format!("{key} = {}", identifier(name)));
    }
    match line.as_bytes()[at] {
        b'=' => Cow::Borrowed(line),
        _ => Cow::Owned(format!("{key} = {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_only_other_clients_accept_are_rewritten() {
        for (line, wanted) in [
            ("[default]", "[default]"),
            ("[profile p] # a comment", "[profile p]"),
            ("[profile \"site\"]", "[profile site]"),
            ("[profile 'my site']", "[profile my%20site]"),
            ("[my site]", "[my%20site]"),
            ("[services  m]", "[services m]"),
            ("region: eu-west-1", "region = eu-west-1"),
            ("endpoint_url = http://h:1", "endpoint_url = http://h:1"),
            ("endpoint_url=http://h:1", "endpoint_url=http://h:1"),
            ("source_profile = my site", "source_profile = my%20site"),
            ("services = m # a comment", "services = m"),
        ] {
            assert_eq!(rewrite(line), format!("{wanted}\n"), "{line}");
        }
    }

    #[test]
    fn comments_are_left_out_wherever_they_stand() {
        let text =
            "; first\n[profile p]\ns3 =\n  # below\n  addressing_style = path\n  odd\n\nregion = r # kept\n";
        let wanted = "\n[profile p]\ns3 =\n\n  addressing_style = path\n\n\nregion = r # kept\n";
        assert_eq!(rewrite(text), wanted);
        let process = "[profile p]\ncredential_process = run\n  with more\n";
        assert_eq!(rewrite(process), process);
    }
}
