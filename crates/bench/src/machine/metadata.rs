//! Finds region and instance type, from the environment of a function or the metadata of an
//! instance.
//!
//! The metadata service is queried only if the firmware reports EC2, so that other machines do not
//! wait for an address that never answers. The query was never run on EC2; tests use a server of
//! their own. Called by `machine`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte::environment;

/// Region and type of the machine or function.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct InstanceIdentity {
    pub(super) region: Option<String>,
    pub(super) instance_type: Option<String>,
}

/// Time limit for all requests together.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// Link-local address of the service.
const SERVICE_ADDRESS: ([u8; 4], u16) = ([169, 254, 169, 254], 80);
/// Longest accepted response, in bytes. The service sends one word, so a longer response has
/// another sender.
const MAX_RESPONSE_BYTES: u64 = 16 << 10;

/// Finds the values in the environment, or, on EC2, in the instance's metadata.
pub(super) fn identity(env: &dyn Fn(&str) -> Option<String>) -> InstanceIdentity {
    let mut identity = InstanceIdentity {
        region: environment::region(env),
        instance_type: env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
            .map(|megabytes| format!("function of {megabytes} MB")),
    };
    let is_function = identity.instance_type.is_some();
    let is_disabled =
        env("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if !is_function && !is_disabled && is_ec2(Path::new("/sys/class/dmi/id")) {
        let found = query(SERVICE_ADDRESS.into(), Instant::now() + QUERY_TIMEOUT).unwrap_or_default();
        // The variable is the default region of requests. The metadata have the region of the
        // instance.
        identity.region = found.region.or(identity.region);
        identity.instance_type = found.instance_type;
    }
    identity
}

/// True if the firmware identifies EC2: `Amazon EC2` as the vendor on Nitro, the instance's id as
/// the asset tag on metal.
fn is_ec2(firmware: &Path) -> bool {
    let read = |file: &str| std::fs::read_to_string(firmware.join(file)).unwrap_or_default();
    read("sys_vendor").trim() == "Amazon EC2" || read("board_asset_tag").starts_with("i-")
}

/// Queries version 2 of the service: first a token, then the two values.
fn query(service: SocketAddr, until: Instant) -> io::Result<InstanceIdentity> {
    let lifetime = "X-aws-ec2-metadata-token-ttl-seconds: 60";
    let token = request(service, until, "PUT /latest/api/token", lifetime)?;
    let token = format!("X-aws-ec2-metadata-token: {token}");
    let value = |name: &str| request(service, until, &format!("GET /latest/meta-data/{name}"), &token).ok();
    Ok(InstanceIdentity { region: value("placement/region"), instance_type: value("instance-type") })
}

/// Sends one request on its own connection. Returns the body of a response with status 200.
fn request(service: SocketAddr, until: Instant, line: &str, header: &str) -> io::Result<String> {
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut stream = TcpStream::connect_timeout(&service, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    // HTTP/1.0: the server closes after the body, which is never chunked.
    write!(stream, "{line} HTTP/1.0\r\nHost: {service}\r\n{header}\r\nContent-Length: 0\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            read => answer.extend_from_slice(&part[..read]),
        }
        if answer.len() as u64 > MAX_RESPONSE_BYTES {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
    }
    let answer = String::from_utf8(answer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let is_ok = head.split(' ').nth(1) == Some("200");
    let body = body.trim();
    let is_word = !body.is_empty() && body.chars().all(|symbol| symbol.is_ascii_graphic());
    if is_ok && is_word {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.lines().next().unwrap_or("").to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_testkit::{Scripted, ScriptedReply};
    use std::net::TcpListener;

    #[test]
    fn instance_metadata_are_requested_with_a_token() {
        let service = Scripted::start(|_, head| {
            let has_token = head.contains("X-aws-ec2-metadata-token: secret\r\n");
            let (status, body) = match head.split(" HTTP").next().unwrap() {
                "PUT /latest/api/token" if head.contains("token-ttl-seconds: 60") => ("200 x", "secret"),
                "GET /latest/meta-data/placement/region" if has_token => ("200 x", "eu-west-1"),
                "GET /latest/meta-data/instance-type" if has_token => ("200 x", "c7i.large"),
                _ => ("401 x", "no"),
            };
            ScriptedReply::answer(status, &[], body.as_bytes()).then_close()
        });
        let address = service.url().strip_prefix("http://").unwrap().parse().unwrap();
        let found = query(address, Instant::now() + Duration::from_secs(30)).unwrap();
        let wanted =
            InstanceIdentity { region: Some("eu-west-1".into()), instance_type: Some("c7i.large".into()) };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_metadata_service_that_never_answers_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error =
            query(listener.local_addr().unwrap(), Instant::now() + Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error:?}");
    }

    #[test]
    fn only_the_firmware_of_ec2_identifies_ec2() {
        let firmware = tempfile::tempdir().unwrap();
        assert!(!is_ec2(firmware.path()));
        std::fs::write(firmware.path().join("sys_vendor"), "QEMU\n").unwrap();
        assert!(!is_ec2(firmware.path()));
        std::fs::write(firmware.path().join("board_asset_tag"), "i-0123456789abcdef0\n").unwrap();
        assert!(is_ec2(firmware.path()));
        std::fs::remove_file(firmware.path().join("board_asset_tag")).unwrap();
        std::fs::write(firmware.path().join("sys_vendor"), "Amazon EC2\n").unwrap();
        assert!(is_ec2(firmware.path()));
    }

    #[test]
    fn the_instance_type_of_a_function_is_its_memory() {
        let vars = |name: &str| match name {
            "AWS_REGION" => Some("eu-north-1".to_owned()),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" => Some("512".to_owned()),
            _ => None,
        };
        let found = identity(&vars);
        assert_eq!(found.region.as_deref(), Some("eu-north-1"));
        assert_eq!(found.instance_type.as_deref(), Some("function of 512 MB"));
    }
}
