//! Starts and stops a server: binds the port, makes the shared state, and runs the listener and the
//! sweeper.

mod sweeper;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::access::attempts::Attempts;
use crate::access::sessions::BrowserSessions;
use crate::config::{Authentication, Buckets, Config, ServeSource, UnauthenticatedListening, WritePolicy};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::http::connections::Connections;
use crate::http::hosts::Hosts;
use crate::http::listener;
use crate::http::metrics::ServerMetrics;
use crate::object::root::ServedRoot;
use crate::object::uploads::Uploads;
use crate::path::EntryPath;
use crate::route::RequestRouter;
use crate::state::{DirectoryState, ServedSource, ServerState};

/// Number of connections that the kernel queues before they are accepted. A thousand clients may
/// connect at once.
const BACKLOG: u32 = 4096;

/// A server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    connections: Arc<Connections>,
    state: Arc<ServerState>,
    served: ServedSource,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the directory and listens. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The directory, the address, the certificate or a setting cannot be used, or the server would
    /// listen beyond loopback without keys and the configuration does not confirm that.
    pub fn bind(mut config: Config) -> Result<Self> {
        let open = matches!(config.authentication, Authentication::None);
        if open && !config.listen.ip().is_loopback() && config.exposure == UnauthenticatedListening::Guarded {
            let may = if config.writing == WritePolicy::Refused { "read" } else { "read, change and delete" };
            let source_name = config.source.to_string();
            return Err(Error::Exposed { address: config.listen, source_name, may });
        }
        config.base_path = base_path(&config.base_path)?;
        check_bucket(&config.buckets)?;
        config.cors.check(!open)?;
        let opened = OpenedSource::new(&mut config)?;
        let tls = config.tls.as_ref().map(crate::http::tls::acceptor).transpose()?;
        let (acceptor, certified) = tls.map_or((None, Vec::new()), |(tls, names)| (Some(tls), names));
        let hosts = Hosts::new(&[&config.names[..], &certified].concat(), &config.host_style)?;
        let listener = listen(config.listen)?;
        let address =
            listener.local_addr().map_err(|source| Error::Listen { address: config.listen, source })?;
        let metrics = Arc::new(ServerMetrics::default());
        let connections = Connections::new(config.limits.clone(), config.access_log, metrics.clone());
        let state = Arc::new(ServerState {
            address,
            sessions: BrowserSessions::default(),
            metrics,
            attempts: Arc::new(Attempts::default()),
            hosts,
            config,
        });
        let served = opened.into_served(&state);
        Ok(Self { listener, acceptor, connections: Arc::new(connections), state, served })
    }

    /// Returns the URL of the server, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.state.scheme(), self.state.address, self.state.config.base_path)
    }

    /// Answers until `shutdown` completes, then lets running requests finish within the drain time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let router = Arc::new(RequestRouter::new(self.state, self.served.clone()));
        let serving = listener::run(self.listener, self.acceptor, self.connections, router, shutdown);
        match self.served {
            ServedSource::Gateway(_) => serving.await,
            ServedSource::Directory(directory) => {
                tokio::select! {
                    () = serving => {}
                    () = sweeper::run(&directory) => {}
                }
                sweeper::finish(&directory).await;
            }
        }
    }

    /// Starts a server on its own threads.
    ///
    /// # Errors
    /// The same as for [`Self::bind`], or the threads cannot be created.
    pub fn start(config: Config) -> Result<RunningServer> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("firstbyte-serve")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let server = {
            let _inside = runtime.enter();
            Self::bind(config)?
        };
        let (url, address) = (server.url(), server.state.address);
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(server.run(async {
                // The server stops when the channel is signalled, and also when it is closed.
                let _ = stopped.await;
            }));
        };
        let thread =
            std::thread::Builder::new().name("firstbyte-serve".into()).spawn(run).map_err(Error::Runtime)?;
        Ok(RunningServer { url, address, stop: Some(stop), thread: Some(thread) })
    }
}

/// The opened source of a server that has no state yet.
enum OpenedSource {
    Directory(ServedRoot),
    Gateway(Box<Gateway>),
}

impl OpenedSource {
    /// Opens the source of `config`. A gateway sets `config.buckets`.
    fn new(config: &mut Config) -> Result<Self> {
        match &config.source {
            ServeSource::Directory(path) => {
                let failed = |source| Error::Directory { path: path.clone(), source };
                Ok(Self::Directory(ServedRoot::open(path).map_err(failed)?))
            }
            ServeSource::Gateway(_) if config.writing == WritePolicy::Allowed => {
                Err(Error::Setting("a gateway only reads; leave --write out".to_owned()))
            }
            ServeSource::Gateway(source) => {
                let (gateway, buckets) = Gateway::new(source, &config.buckets)?;
                config.buckets = buckets;
                check_bucket(&config.buckets)?;
                Ok(Self::Gateway(Box::new(gateway)))
            }
        }
    }

    fn into_served(self, state: &Arc<ServerState>) -> ServedSource {
        match self {
            Self::Directory(root) => ServedSource::Directory(Arc::new(DirectoryState {
                shared: Arc::clone(state),
                uploads: Arc::new(Uploads::new(root.clone())),
                root,
            })),
            Self::Gateway(gateway) => ServedSource::Gateway(Arc::from(gateway)),
        }
    }
}

/// A server on its own threads. Dropping this value stops the server.
#[derive(Debug)]
pub struct RunningServer {
    url: String,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    /// Returns the URL of the server, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server. Running requests may finish within the drain time.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread has already been reported by that thread.
            let _ = thread.join();
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let error = |source| Error::Listen { address, source };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(error)?;
    socket.set_reuseaddr(true).map_err(error)?;
    socket.bind(address).map_err(error)?;
    socket.listen(BACKLOG).map_err(error)
}

/// Refuses a name for the only bucket that is not a valid path component.
fn check_bucket(buckets: &Buckets) -> Result<()> {
    let Buckets::Named(name) = buckets else { return Ok(()) };
    let is_name = EntryPath::parse(name.as_bytes()).is_ok_and(|path| path.as_bytes() == name.as_bytes());
    if is_name && !name.is_empty() && !name.contains('/') {
        return Ok(());
    }
    Err(Error::Setting(format!("the bucket cannot be called `{name}`; give it a plain name, such as data")))
}

/// Normalizes the base path to one leading slash and no trailing slash. An empty path stays empty.
fn base_path(text: &str) -> Result<String> {
    let trimmed = text.trim_matches('/');
    if trimmed.is_empty() {
        return Ok(String::new());
    }
    // Paths are compared as sent, so a character that clients may encode differently is refused.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.bytes().all(is_plain);
    if !trimmed.split('/').all(is_name) {
        return Err(Error::Setting(format!(
            "the base path `{text}` cannot be used; write plain names, such as /data"
        )));
    }
    Ok(format!("/{trimmed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_beyond_loopback_without_keys_must_be_meant() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::new(directory.path());
        config.listen = "0.0.0.0:0".parse().unwrap();
        assert!(matches!(Server::start(config), Err(Error::Exposed { .. })));
    }

    #[test]
    fn base_paths_are_brought_to_one_form() {
        assert_eq!(base_path("/").unwrap(), "");
        assert_eq!(base_path("data/x/").unwrap(), "/data/x");
        for odd in
            ["/a b", "/a//b", "/..", "/a/./b", "/a%20b", "/a?b", "/a#b", "/\"a\"", "/a\\b", "/<a>", "/\u{e9}"]
        {
            assert!(base_path(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_only_bucket_needs_a_plain_name() {
        for name in ["data", "Data.2", "a b"] {
            assert!(check_bucket(&Buckets::Named(name.to_owned())).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0b", ".firstbyte", ".x.firstbyte-part"] {
            assert!(check_bucket(&Buckets::Named(name.to_owned())).is_err(), "{name:?}");
        }
    }
}
