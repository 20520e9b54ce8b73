//! `serve`: serves a directory, or a remote location through the cache, over HTTP and the S3 API.

pub mod gateway;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use firstbyte_hydrate::HydrationJob;
use firstbyte_location::{Location, shown, units};
use firstbyte_serve::{
    AccessLog, Authentication, Buckets, Config, Cors, Error as StartError, Origins, ServeSource, Server,
    ServerKeys, ServerLimits, SignatureVersions, TlsFiles, UnauthenticatedListening, WritePolicy,
};
use firstbyte_store::io_advice;
use serde_json::json;

use self::gateway::GatewayArgs;
use super::address;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::{console, json};
use crate::signals::{self, ForcedEnd};

/// Serve a directory, or a remote location through the cache, over HTTP and the S3 API on one port;
/// by default read-only and on loopback
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte serve data                                    # http://127.0.0.1:8080/, buckets: data's directories
  firstbyte serve data --bucket data --write              # data itself is the bucket
  firstbyte serve data --listen 0.0.0.0:8080 --auth keys  # lines of: ACCESS_KEY SECRET read|write [PREFIX]
  firstbyte serve data --listen 127.0.0.1:0               # prints the URL it got
  firstbyte serve s3://bucket/run7 --cache /scratch/cache # a gateway: fetched once, for all clients
docs/reference/gateway.md is about gateways, docs/reference/serve.md about the rest.")]
pub struct ServeArgs {
    /// Directory to serve; nothing outside it can be reached. Or a remote location to read through
    /// the cache
    #[arg(value_name = "LOCATION")]
    pub location: OsString,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Let clients change the directory
    #[arg(long)]
    write: bool,
    /// Allow access only with keys from this file, with lines ACCESS_KEY SECRET read|write
    /// `[PREFIX]`. A prefix such as bucket/public opens bucket/public and what lies below it, not
    /// bucket/public-2
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Also accept S3 signatures of version 2, for old clients only. They cover less of a request,
    /// and are accepted within 15 minutes of their date
    #[arg(long, requires = "auth")]
    allow_sigv2: bool,
    /// Listen beyond loopback without --auth. Every client that can connect may then read
    /// everything, and with --write also change it. Needed in addition to --listen
    #[arg(long, conflicts_with = "auth")]
    public_unauthenticated: bool,
    /// Certificate chain for HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key for HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Limit on bytes per second over all connections
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_rate: Option<u64>,
    /// Limit on bytes per second of each connection
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_connection_rate: Option<u64>,
    /// Allow web pages of another origin to read: `*`, or https://HOST; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Allow web pages of another origin to read and write; may be repeated. `*` needs --auth
    #[arg(long, value_name = "ORIGIN")]
    cors_write: Vec<String>,
    /// Host name of this server, for clients or a proxy; may be repeated. BUCKET.DOMAIN/key is then
    /// /BUCKET/key. Requests for other host names are refused
    #[arg(long, value_name = "DOMAIN")]
    host_style: Vec<String>,
    /// Path that a reverse proxy adds in front of every path
    #[arg(long, value_name = "PATH", default_value = "")]
    base_path: String,
    /// Serve LOCATION itself as the only bucket, called NAME. /NAME/key and /key are then the same
    /// file
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Log each request to standard error
    #[arg(long)]
    access_log: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// The first option on the command line that only a gateway has. Variables, which are for all
    /// runs, do not count.
    #[arg(skip)]
    pub given_for_gateways: Option<String>,
}

impl ServeArgs {
    /// Returns the source to serve, and for a gateway the job that fills its cache.
    fn source(&self, globals: &Globals) -> Result<(ServeSource, Option<HydrationJob>)> {
        match Location::parse(&self.location)? {
            Location::Local(path) => match &self.given_for_gateways {
                Some(option) => Err(Error::usage(format!(
                    "{option} is for a remote LOCATION, and {} is a directory",
                    shown(&self.location)
                ))),
                None => Ok((ServeSource::Directory(path), None)),
            },
            remote => {
                let (config, job) = self.gateway.config(&remote, globals)?;
                Ok((ServeSource::Gateway(config), job))
            }
        }
    }

    fn config(&self, source: ServeSource) -> Result<Config> {
        Ok(Config {
            listen: address::resolve("--listen", &self.listen)?,
            writing: if self.write { WritePolicy::Allowed } else { WritePolicy::Refused },
            buckets: self.bucket.clone().map_or(Buckets::FirstLevel, Buckets::Named),
            authentication: match &self.auth {
                Some(file) => {
                    Authentication::Keys(ServerKeys::read(file).map_err(|e| Error::failed(e.to_string()))?)
                }
                None => Authentication::None,
            },
            signatures: if self.allow_sigv2 { SignatureVersions::V2Too } else { SignatureVersions::V4Only },
            exposure: if self.public_unauthenticated {
                UnauthenticatedListening::Public
            } else {
                UnauthenticatedListening::Guarded
            },
            tls: match (&self.tls_cert, &self.tls_key) {
                (Some(certificate), Some(key)) => {
                    Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
                }
                _ => None,
            },
            cors: Cors { read: origins(&self.cors), write: origins(&self.cors_write) },
            names: self.listen.rsplit_once(':').map(|(host, _)| host.to_owned()).into_iter().collect(),
            host_style: self.host_style.clone(),
            base_path: self.base_path.clone(),
            access_log: if self.access_log { AccessLog::To(console::log) } else { AccessLog::Off },
            limits: ServerLimits {
                rate: self.limit_rate,
                connection_rate: self.limit_connection_rate,
                ..ServerLimits::default()
            },
            ..Config::of(source)
        })
    }

    /// Returns the lines about the rights of clients, how to change these rights, and how to use
    /// aws-cli.
    fn greeting(&self, url: &str, is_gateway: bool) -> [String; 2] {
        let (keys, who) = match &self.auth {
            Some(file) => ("KEY", format!("with a key of {}", shown(file))),
            None => ("any", "no key needed".to_owned()),
        };
        let rights = match (self.write, self.auth.is_some()) {
            _ if is_gateway => format!("read-only, {who}; a gateway does not write"),
            (false, _) => format!("read-only, {who}; --write lets clients change {}", shown(&self.location)),
            (true, true) => format!("clients may read and write, {who}"),
            (true, false) => format!("read and write, {who}; --auth FILE requires one"),
        };
        let secret = if self.auth.is_some() { "SECRET" } else { "any" };
        let endpoint = url.trim_end_matches('/');
        let aws = format!(
            "AWS_ACCESS_KEY_ID={keys} AWS_SECRET_ACCESS_KEY={secret} aws --endpoint-url {endpoint} s3 ls"
        );
        [rights, aws]
    }
}

fn origins(listed: &[String]) -> Origins {
    match listed {
        [] => Origins::None,
        origins if origins.iter().any(|origin| origin == "*") => Origins::Any,
        origins => Origins::Listed(origins.to_vec()),
    }
}

/// Converts the error of a server that does not start. If the directory is wrong, adds advice.
fn cannot_start(error: StartError) -> Error {
    match &error {
        StartError::Directory { source, .. } => {
            let advice = io_advice(source.kind()).map(str::to_owned);
            Error { advice, ..Error::failed(error.to_string()) }
        }
        StartError::Setting(_) | StartError::Exposed { .. } => Error::usage(error.to_string()),
        _ => Error::failed(error.to_string()),
    }
}

/// Prints the URL when the server is ready, and serves until a signal arrives. Requests that are
/// running then have [`signals::GRACE`] to end after Ctrl-C, and in addition the drain time after
/// SIGTERM.
pub fn run(args: &ServeArgs, globals: &Globals) -> Result<Exit> {
    let (source, job) = args.source(globals)?;
    let is_gateway = matches!(source, ServeSource::Gateway(_));
    if is_gateway {
        super::faults::log_faults().map_err(|error| Error::io("signals", &error))?;
    }
    let config = args.config(source)?;
    // After Ctrl-C the server ends soon. After SIGTERM, which service managers send, running
    // requests may take the drain time.
    let terminated = config.limits.drain + signals::GRACE;
    let ending = ForcedEnd { interrupted: signals::GRACE, terminated, exit: Exit::Done };
    let interruption = signals::first_signal_but_hangup(ending)?;
    let running = Server::start(config).map_err(cannot_start)?;
    if globals.json {
        let fields = json!({ "source": shown(&args.location).to_string(), "url": running.url() });
        console::print(json::summary("serve", &fields))?;
    } else {
        console::print(running.url())?;
        // The introduction is for people, so it is printed only on a terminal.
        if !globals.quiet && io::stderr().is_terminal() {
            args.greeting(running.url(), is_gateway).iter().for_each(console::say);
        }
    }
    if let Some(job) = job {
        // The thread is not joined; it ends with the process.
        std::thread::Builder::new()
            .name("hydrate".into())
            .spawn(move || gateway::report(&job))
            .map_err(|error| Error::io("hydrate", &error))?;
    }
    // Receiving fails if the sender was dropped, which happens only after it has sent.
    let _ = interruption.recv();
    running.stop();
    // A signal is the normal end of a server, so it does not count as an interruption.
    Ok(Exit::Done)
}
