//! A running host on a loopback address. Called by `bench functions`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::code::Code;
use super::host::Host;
use super::settings::HostSettings;
use super::{http, invoke_api, launching};
use crate::error::{Error, Result};
use crate::plan::Medium;
use crate::stage::MediumStages;

/// A running host. Dropping it stops it and removes its files.
pub struct FunctionServer {
    host: Arc<Host>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// The host's files, removed after all environments.
    _stage: MediumStages,
}

impl FunctionServer {
    /// Starts a host.
    ///
    /// # Errors
    /// The code does not exist, the address cannot be listened on, or limits cannot be set on this
    /// machine.
    pub fn start(settings: HostSettings) -> Result<Self> {
        let wrong = |what: String| Error::Service { name: settings.name.clone(), what };
        if !settings.listen.ip().is_loopback() {
            return Err(wrong(format!(
                "{}: not an address of this machine alone: any caller that reaches it runs the code; listen on 127.0.0.1",
                settings.listen
            )));
        }
        launching::check(&settings)?;
        let stage = MediumStages::new(&settings.disk)?;
        let code = Code::prepare(&settings.source, &stage.directory(Medium::Disk, "code")?)?;
        let listener = TcpListener::bind(settings.listen)
            .map_err(|error| wrong(format!("{}: {error}", settings.listen)))?;
        let address = listener.local_addr().map_err(|error| wrong(error.to_string()))?;
        let root = stage.directory(Medium::Disk, "environments")?;
        let host = Arc::new(Host::new(settings, code, root)?);
        let (called, stop) = (Arc::clone(&host), Arc::new(AtomicBool::new(false)));
        let handler = move |request| invoke_api::answer(&called, request);
        http::serve(listener, Arc::clone(&stop), Arc::new(handler)).map_err(Error::file("thread"))?;
        Ok(Self { host, address, stop, _stage: stage })
    }

    /// Returns the endpoint for callers.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for FunctionServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.host.stop();
    }
}

impl std::fmt::Debug for FunctionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionServer").field("address", &self.address).finish_non_exhaustive()
    }
}
