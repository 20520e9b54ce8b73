//! Starts and stops a server: binds the port, makes the shared state, and runs listener and
//! sweeper.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use firstbyte_pacing::RateLimit;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::attempts::Attempts;
use crate::auth::Sessions;
use crate::config::{Authentication, Config, Exposure, Writing};
use crate::error::{Error, Result};
use crate::listener;
use crate::metrics::Metrics;
use crate::root::Root;
use crate::s3::Service;
use crate::site::Site;
use crate::sweeper;
use crate::uploads::Uploads;

/// Connections the kernel holds before they are accepted: a thousand clients may start at once.
const BACKLOG: u32 = 4096;

/// A server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    site: Arc<Site>,
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
    /// When the directory, the address, the certificate or a setting cannot be used, or when access
    /// needs no keys and the configuration does not confirm that this is intended.
    pub fn bind(mut config: Config) -> Result<Self> {
        let open = matches!(config.authentication, Authentication::None);
        if open && !config.listen.ip().is_loopback() && config.exposure == Exposure::Guarded {
            let may = if config.writing == Writing::Refused { "read" } else { "read, change and delete" };
            return Err(Error::Exposed { address: config.listen, path: config.directory, may });
        }
        config.base_path = base_path(&config.base_path)?;
        let root = Root::open(&config.directory)
            .map_err(|source| Error::Directory { path: config.directory.clone(), source })?;
        let acceptor = config.tls.as_ref().map(crate::tls::acceptor).transpose()?;
        let listener = listen(config.listen)?;
        let address =
            listener.local_addr().map_err(|source| Error::Listen { address: config.listen, source })?;
        let uploads = Arc::new(Uploads::new(root.clone()));
        let site = Site {
            address,
            root: root.clone(),
            uploads: uploads.clone(),
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            metrics: Metrics::default(),
            rate: config.limits.rate.map(|rate| Arc::new(RateLimit::new(rate))),
            s3: Service::new(root, uploads, &config),
            config,
        };
        Ok(Self { listener, acceptor, site: Arc::new(site) })
    }

    /// Where to reach it, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.acceptor.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.site.address, self.site.config.base_path)
    }

    /// Answers until `shutdown` is done, then lets running requests finish within the drain time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let site = self.site.clone();
        tokio::select! {
            () = listener::run(self.listener, self.acceptor, self.site, shutdown) => {}
            () = sweeper::run(&site) => {}
        }
        sweeper::finish(&site).await;
    }

    /// Starts a server on threads of its own.
    ///
    /// # Errors
    /// As [`Self::bind`], or when the threads cannot be had.
    pub fn start(config: Config) -> Result<Running> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("firstbyte-serve")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let server = {
            let _inside = runtime.enter();
            Self::bind(config)?
        };
        let (url, address) = (server.url(), server.site.address);
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(server.run(async {
                // The channel is signalled or closed: stop in both cases.
                let _ = stopped.await;
            }));
        };
        let thread =
            std::thread::Builder::new().name("firstbyte-serve".into()).spawn(run).map_err(Error::Runtime)?;
        Ok(Running { url, address, stop: Some(stop), thread: Some(thread) })
    }
}

/// A server running on threads of its own; dropping it stops it.
#[derive(Debug)]
pub struct Running {
    url: String,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Where to reach it, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it: running requests may finish within the drain time.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server's thread has been reported there.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
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

/// The base path with one leading and no trailing slash, or empty.
fn base_path(text: &str) -> Result<String> {
    let trimmed = text.trim_matches('/');
    if trimmed.is_empty() {
        return Ok(String::new());
    }
    if trimmed.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'?' | b'#')) {
        return Err(Error::Setting(format!(
            "the base path `{text}` cannot stand in a URL; use one such as /data"
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
        assert!(base_path("/a b").is_err());
    }
}
