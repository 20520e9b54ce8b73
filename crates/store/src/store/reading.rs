//! Reads ranges: from a gateway if the options name gateways, otherwise from the location itself.
//! If a response holds only the beginning of a range, further requests read the rest.

use std::sync::Arc;

use firstbyte_location::{Location, Strength};

use super::Store;
use super::required::require_key;
use crate::body::Body;
use crate::error::{Error, Result};
use crate::gateways::{GatewayReader, Ring};
use crate::local;
use crate::query::Get;

impl Store {
    /// Requests an object or a range of it. Sends one request, and returns after the head of the
    /// response, which has the length and the version. Any range of an empty object gives an empty
    /// body.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::RangeIgnored`], [`Error::Archived`], and errors of the
    /// connection or the store.
    pub fn get(&self, location: &Location, get: &Get) -> Result<Body> {
        require_key(location)?;
        let cancel = self.client.scoped_cancel(&get.cancel);
        let body = self.get_routed(location, get)?;
        let end = get.range.zip(body.stat().size()).map(|(asked, size)| asked.end.min(size));
        let body = match end.filter(|end| *end > body.range().end) {
            Some(end) => self.continued(location, get, body, end)?,
            None => body,
        };
        Ok(body.throttled(&get.throttle, &cancel))
    }

    /// Requests a range from a gateway. Without a usable gateway, requests it from the origin.
    fn get_routed(&self, location: &Location, get: &Get) -> Result<Body> {
        if let Some(ring) = self.ring_for(location)? {
            let scoped = Get { cancel: self.client.scoped_cancel(&get.cancel), ..get.clone() };
            let origin: Arc<dyn GatewayReader> = Arc::new(self.clone());
            if let Some(body) = ring.get(location, &scoped, &origin)? {
                return Ok(body);
            }
        }
        self.get_once(location, get)
    }

    /// Returns the gateways for a location, if it is an object and the options name gateways.
    /// Malformed gateway options are reported here, so they make only reads of objects fail.
    fn ring_for(&self, location: &Location) -> Result<Option<&Ring>> {
        if !matches!(location, Location::Object(_)) {
            return Ok(None);
        }
        if let Some(ring) = self.ring.get() {
            return Ok(ring.as_ref());
        }
        let ring = Ring::new(&self.client.options, |options| Ok(Arc::new(Self::new(options)?)))?;
        Ok(self.ring.get_or_init(|| ring).as_ref())
    }

    fn get_once(&self, location: &Location, get: &Get) -> Result<Body> {
        match location {
            Location::Local(path) => local::get(path, get, self.client.scoped_cancel(&get.cancel)),
            Location::Object(object) => self.objects(object)?.get(object, get),
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.get(get),
        }
    }

    /// Returns a body that requests the rest of its range when the response ends. Fails for an
    /// object without a version, because several responses could then belong to different contents.
    fn continued(&self, location: &Location, get: &Get, body: Body, end: u64) -> Result<Body> {
        let version = body.stat().version.clone();
        if version.strength() == Strength::None {
            let detail = format!("bytes {} where more were asked", body.range());
            return Err(Error::Protocol { location: location.to_string(), detail, trace: None });
        }
        let (store, location) = (self.clone(), location.clone());
        let get = Get { version: Some(version), checksum: false, ..get.clone() };
        let rest = move |range| store.get_routed(&location, &Get { range: Some(range), ..get.clone() });
        Ok(body.continued_to(end, Box::new(rest)))
    }
}

impl GatewayReader for Store {
    fn get(&self, location: &Location, get: &Get) -> Result<Body> {
        self.get_once(location, get)
    }
}
