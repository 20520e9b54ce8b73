//! Determines the gateways through which a job reads: a list of URLs, a file with URLs, or the
//! nodes of a Slurm job.

use firstbyte_store::SigningKeys;

/// The variable in which Slurm lists the nodes of a job.
pub const NODES: &str = "SLURM_JOB_NODELIST";

/// Default port of the gateways of a Slurm job.
const DEFAULT_PORT: u16 = 8090;

/// Maximum number of nodes of a job. A longer list results from a mistake in a range.
const MAX_NODES: usize = 100_000;

/// Returns the URLs that `text` names. `text` is `URL,URL,...`, or `@FILE` for a file with one URL
/// on each line, or `slurm` or `slurm:PORT` for one gateway on each of `nodes`. `nodes` is the
/// value of [`NODES`].
///
/// # Errors
/// The mistake, and what to write instead.
pub fn urls(text: &str, nodes: Option<&str>) -> Result<Vec<String>, String> {
    let urls: Vec<String> = if let Some(path) = text.strip_prefix('@') {
        let listed = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    } else if let Some(port) = slurm_port(text)? {
        let nodes = nodes.ok_or("SLURM_JOB_NODELIST is not set: this is no job of Slurm; list the URLs")?;
        nodes_in(nodes)?.iter().map(|node| format!("http://{node}:{port}")).collect()
    } else {
        text.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
    };
    if urls.is_empty() {
        return Err(format!("`{text}` names no gateway; write http://HOST:PORT, separated by commas"));
    }
    Ok(urls.into_iter().map(|url| url.trim_end_matches('/').to_owned()).collect())
}

fn slurm_port(text: &str) -> Result<Option<u16>, String> {
    match text.split_once(':') {
        None if text == "slurm" => Ok(Some(DEFAULT_PORT)),
        Some(("slurm", port)) => {
            port.parse().map(Some).map_err(|_| format!("`{text}`: write slurm or slurm:PORT"))
        }
        _ => Ok(None),
    }
}

/// Reads the access key for gateways, which is the first key in a key file of `serve --auth`.
///
/// # Errors
/// The file cannot be read, or contains no key.
pub fn key(path: &str) -> Result<SigningKeys, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = lines.next().unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(id), Some(secret)) => Ok(SigningKeys {
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
            session_token: None,
        }),
        _ => Err(format!("{path}: no key; write a line ACCESS_KEY SECRET read")),
    }
}

/// Expands a list of nodes such as `gpu[01-03,07],login`, which is written as a hostlist expression
/// of Slurm's `scontrol`.
fn nodes_in(list: &str) -> Result<Vec<String>, String> {
    let mut nodes = Vec::new();
    for expression in top_level(list) {
        expand(expression, &mut nodes).map_err(|why| format!("SLURM_JOB_NODELIST `{list}`: {why}"))?;
    }
    Ok(nodes)
}

/// Splits a list at those commas that are not in brackets.
fn top_level(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Adds the node names of an expression. Brackets are expanded in order.
fn expand(expression: &str, nodes: &mut Vec<String>) -> Result<(), String> {
    let Some((before, rest)) = expression.split_once('[') else {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if !expression.bytes().all(is_name) {
            return Err(format!("`{expression}` is no name of a node"));
        }
        if nodes.len() >= MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        nodes.push(expression.to_owned());
        return Ok(());
    };
    let (ranges, behind) = rest.split_once(']').ok_or("a bracket is not closed")?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{range}` is no range"));
        let (from, to) = (number(first)?, number(last)?);
        if to.saturating_sub(from) >= MAX_NODES as u64 {
            return Err(format!("`{range}` has too many nodes"));
        }
        for number in from..=to {
            let width = first.len();
            expand(&format!("{before}{number:0width$}{behind}"), nodes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_lists_are_expanded_as_slurm_does() {
        for (list, nodes) in [
            ("one", "one"),
            ("gpu[01-03,07],login", "gpu01 gpu02 gpu03 gpu07 login"),
            ("a[9-11]", "a9 a10 a11"),
            ("rack[1-2]n[08-09]-ib", "rack1n08-ib rack1n09-ib rack2n08-ib rack2n09-ib"),
            ("x.example.org,y", "x.example.org y"),
        ] {
            assert_eq!(nodes_in(list).unwrap().join(" "), nodes, "{list}");
        }
        for list in ["a[1-", "a[x]", "a[0-99999999]", "a b", "a/b", "[0-999][0-999]"] {
            assert!(nodes_in(list).is_err(), "{list}");
        }
    }

    #[test]
    fn a_list_a_file_or_a_job_names_gateways() {
        assert_eq!(urls("http://a:1/, http://b:2", None).unwrap(), ["http://a:1", "http://b:2"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# gateways\nhttp://a:1\n\nhttps://b:2\n").unwrap();
        let at = format!("@{}", file.path().display());
        assert_eq!(urls(&at, None).unwrap(), ["http://a:1", "https://b:2"]);
        let job = Some("n[1-2]");
        assert_eq!(urls("slurm", job).unwrap(), ["http://n1:8090", "http://n2:8090"]);
        assert_eq!(urls("slurm:99", job).unwrap(), ["http://n1:99", "http://n2:99"]);
        for (text, why) in [
            ("", "names no gateway"),
            (",", "names no gateway"),
            ("slurm", "SLURM_JOB_NODELIST"),
            ("slurm:x", "slurm:PORT"),
            ("@/missing", "/missing"),
        ] {
            assert!(urls(text, None).unwrap_err().contains(why), "{text}");
        }
    }
}
