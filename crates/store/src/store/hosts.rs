//! Implements the operations of [`Store`] for web servers and SFTP servers, which have no buckets.

#[cfg(any(feature = "http", feature = "sftp"))]
use std::sync::Arc;

#[cfg(feature = "http")]
use firstbyte_location::HttpUrl;
use firstbyte_location::Location;
#[cfg(feature = "sftp")]
use firstbyte_location::SftpPath;

use super::Store;
use crate::backend::Entries;
use crate::body::Body;
use crate::error::{Error, Result};
#[cfg(feature = "http")]
use crate::http::Http;
use crate::object::Stat;
use crate::query::{Get, ListOptions};
#[cfg(feature = "sftp")]
use crate::sftp::Sftp;
use crate::upload::{Payload, PutOptions, Written};

/// A resource on a server that has no buckets.
pub(super) enum BucketlessHost<'a> {
    #[cfg(feature = "http")]
    Web(&'a Arc<Http>, &'a HttpUrl),
    #[cfg(feature = "sftp")]
    Ssh(&'a Arc<Sftp>, &'a SftpPath),
    /// Never constructed: a build without `http` and `sftp` has no such servers.
    #[cfg(not(any(feature = "http", feature = "sftp")))]
    Neither(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
}

/// Evaluates an expression for the backend and the resource of a server.
macro_rules! on {
    ($host:expr, $backend:ident, $place:ident => $value:expr) => {
        match $host {
            #[cfg(feature = "http")]
            BucketlessHost::Web($backend, $place) => $value,
            #[cfg(feature = "sftp")]
            BucketlessHost::Ssh($backend, $place) => $value,
            #[cfg(not(any(feature = "http", feature = "sftp")))]
            BucketlessHost::Neither(never, _) => match never {},
        }
    };
}

impl BucketlessHost<'_> {
    pub(super) fn stat(self) -> Result<Stat> {
        on!(self, backend, place => backend.stat(place))
    }

    pub(super) fn get(self, get: &Get) -> Result<Body> {
        on!(self, backend, place => backend.get(place, get))
    }

    pub(super) fn list(self, options: &ListOptions) -> Result<Entries> {
        on!(self, backend, place => backend.list(place, options))
    }

    pub(super) fn put(self, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
        on!(self, backend, place => backend.put(place, payload, options))
    }

    pub(super) fn delete(self) -> Result<()> {
        on!(self, backend, place => backend.delete(place))
    }
}

impl Store {
    /// Returns the resource on a server that a location names.
    pub(super) fn host<'a>(&'a self, location: &'a Location) -> Result<BucketlessHost<'a>> {
        match location {
            #[cfg(feature = "http")]
            Location::Http(url) => Ok(BucketlessHost::Web(&self.http, url)),
            #[cfg(feature = "sftp")]
            Location::Sftp(place) => Ok(BucketlessHost::Ssh(&self.sftp, place)),
            other => Err(Error::left_out(other)),
        }
    }
}
