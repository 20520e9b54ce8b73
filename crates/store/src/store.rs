//! [`Store`]: every operation on a location, passed to the backend of its scheme.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use firstbyte_listing::Order;
use firstbyte_location::{EndpointName, Entry, HttpUrl, Kind, Location, ObjectLocation, Service, Version};

#[cfg(feature = "azure")]
use crate::azure::Azure;
use crate::backend::{Entries, ObjectBackend};
use crate::cancel::Cancel;
use crate::error::{Error, Result, unsupported};
use crate::gateways::Ring;
#[cfg(feature = "google")]
use crate::google::Google;
#[cfg(feature = "http")]
use crate::http::Http;
use crate::object::{ObjectVersion, Stat};
use crate::options::Options;
use crate::order::Ordered;
use crate::query::{ListOptions, ListedPage, Unfinished};
use crate::requests::CounterSnapshot;
use crate::s3::{self, Endpoint, NamedServices, Presign, Presigned, S3, ServiceAnswer, ServiceRequest};
#[cfg(feature = "sftp")]
use crate::sftp::Sftp;
use crate::sorted::Sorted;
use crate::upload::{Payload, PutOptions, Written};
use crate::wire::Client;
use crate::{local, post};

mod hosts;
mod parts;
mod reading;

/// An iterator over entries, in bounded memory. An error ends it, except for errors of single local
/// directories.
pub struct Listing {
    entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
}

impl Listing {
    /// A listing of entries that the caller has.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = Result<Entry>> + Send + 'static) -> Self {
        Self { entries: Box::new(entries) }
    }
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next()
    }
}

/// Opens locations. Cheap to clone; clones share connections, credentials and counters. All methods
/// block.
#[derive(Clone)]
pub struct Store {
    client: Arc<Client>,
    s3: Arc<S3>,
    named: Arc<NamedServices>,
    #[cfg(feature = "google")]
    google: Arc<Google>,
    #[cfg(feature = "azure")]
    azure: Arc<Azure>,
    #[cfg(feature = "http")]
    http: Arc<Http>,
    #[cfg(feature = "sftp")]
    sftp: Arc<Sftp>,
    /// The gateways that ranges are read through, once a range is read. `None`: all come from the
    /// origin.
    ring: Arc<OnceLock<Option<Ring>>>,
}

impl Store {
    /// A store with these options. It makes no connection yet.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn new(options: Options) -> Result<Self> {
        options.check()?;
        let client = Arc::new(Client::new(Arc::new(options), s3::ca_bundle));
        Ok(Self {
            named: Arc::new(NamedServices::new(client.options.config_file.clone())),
            s3: Arc::new(S3::new(Arc::clone(&client))),
            #[cfg(feature = "google")]
            google: Arc::new(Google::new(Arc::clone(&client))),
            #[cfg(feature = "azure")]
            azure: Arc::new(Azure::new(Arc::clone(&client))),
            #[cfg(feature = "http")]
            http: Arc::new(Http::new(Arc::clone(&client))),
            #[cfg(feature = "sftp")]
            sftp: Arc::new(Sftp::new(Arc::clone(&client))),
            ring: Arc::default(),
            client,
        })
    }

    /// A clone whose requests and listings all end when `cancel` is cancelled. It shares
    /// connections, credentials and counters.
    #[must_use]
    pub fn scoped(&self, cancel: &Cancel) -> Self {
        self.with_client(self.client.scoped(cancel))
    }

    /// A clone whose requests no scope ends: they clear up what a cancelled run has left.
    #[must_use]
    pub fn unscoped(&self) -> Self {
        self.with_client(self.client.with_scope(Cancel::new()))
    }

    /// A clone that makes each request once, for a caller that repeats it. It shares connections,
    /// credentials and counters.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        self.with_client(self.client.without_retries())
    }

    /// Counts a request that the caller sends again.
    pub fn count_retry(&self) {
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn with_client(&self, client: Client) -> Self {
        let client = Arc::new(client);
        Self {
            named: Arc::clone(&self.named),
            s3: Arc::new(self.s3.by(Arc::clone(&client))),
            #[cfg(feature = "google")]
            google: Arc::new(self.google.by(Arc::clone(&client))),
            #[cfg(feature = "azure")]
            azure: Arc::new(self.azure.by(Arc::clone(&client))),
            #[cfg(feature = "http")]
            http: Arc::new(self.http.by(Arc::clone(&client))),
            #[cfg(feature = "sftp")]
            sftp: Arc::new(self.sftp.by(Arc::clone(&client))),
            ring: Arc::clone(&self.ring),
            client,
        }
    }

    /// The backend of a service that speaks the protocol of S3: at the endpoint of the options, or
    /// at a named one.
    fn s3_of(&self, service: Service) -> Result<Arc<S3>> {
        match service {
            Service::NamedS3(name) => Ok(Arc::new(self.named.get(name, &self.client)?)),
            _ => Ok(Arc::clone(&self.s3)),
        }
    }

    /// The backend of an object's service.
    fn objects(&self, object: &ObjectLocation) -> Result<Arc<dyn ObjectBackend>> {
        match object.service {
            Service::S3 | Service::NamedS3(_) => Ok(self.s3_of(object.service)?),
            #[cfg(feature = "google")]
            Service::Google => Ok(Arc::clone(&self.google) as _),
            #[cfg(feature = "azure")]
            Service::Azure => Ok(Arc::clone(&self.azure) as _),
            #[cfg(not(all(feature = "azure", feature = "google")))]
            _ => Err(Error::left_out(&Location::Object(object.clone()))),
        }
    }

    /// Where requests for a service that speaks the protocol of S3 go, and which setting says so.
    /// No request.
    ///
    /// # Errors
    /// A profile that is missing or cannot be used; a region that is not a valid name; a name that
    /// no endpoint has.
    pub fn endpoint_of(&self, service: Service) -> Result<Endpoint> {
        self.s3_of(service)?.endpoint()
    }

    /// Whether two objects are in one service, which can copy between them: by the same scheme, or
    /// by two endpoint names of one URL and profile.
    #[must_use]
    pub fn is_one_service(&self, one: &ObjectLocation, other: &ObjectLocation) -> bool {
        match (one.service, other.service) {
            (Service::NamedS3(one), Service::NamedS3(other)) => self.named.are_one(one, other),
            (one, other) => one == other,
        }
    }

    /// The endpoints that the configuration file names.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn endpoint_names(&self) -> Result<Vec<EndpointName>> {
        self.named.names()
    }

    /// The service that holds the objects of a location, as far as the location does not say it:
    /// the endpoint that the options or the configuration name. Empty for the scheme's own service.
    #[must_use]
    pub fn service_of(&self, location: &Location) -> String {
        match location {
            Location::Object(object) => match object.service {
                // An unusable configuration is reported by every request.
                Service::S3 | Service::NamedS3(_) => {
                    self.s3_of(object.service).map(|it| it.configured_url()).unwrap_or_default()
                }
                #[cfg(feature = "google")]
                Service::Google => self.google.emulator(),
                #[cfg(feature = "azure")]
                Service::Azure => self.azure.account_url(),
                #[cfg(not(all(feature = "azure", feature = "google")))]
                _ => String::new(),
            },
            Location::Local(_) | Location::Http(_) | Location::Sftp(_) => String::new(),
        }
    }

    /// Sends one signed request to another service of AWS, and returns its whole answer, whatever
    /// the status. It is not repeated.
    ///
    /// # Errors
    /// Missing credentials, a missing region, and errors of the connection.
    pub fn call_service(&self, request: &ServiceRequest<'_>) -> Result<ServiceAnswer> {
        self.s3.call_service(request)
    }

    /// Sends one `POST` with these headers to a web server, and reads its answer. It is not
    /// repeated.
    ///
    /// # Errors
    /// Errors of the connection, and a status that is no success.
    pub fn post(
        &self,
        url: &HttpUrl,
        headers: Vec<(String, String)>,
        body: &[u8],
        cancel: &Cancel,
    ) -> Result<()> {
        post::post(&self.client, url, headers, body, cancel)
    }

    /// Makes a URL by which anyone may read or write one object until it expires. No request, or
    /// one if the bucket's region is not known.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores other than S3; missing credentials.
    pub fn presign(&self, location: &Location, presign: &Presign) -> Result<Presigned> {
        match location {
            Location::Object(object) if object.service.is_s3() && !object.key.is_empty() => {
                self.s3_of(object.service)?.presign(object, presign)
            }
            other => Err(unsupported(other, "a presigned URL")),
        }
    }

    /// Describes the object, file or directory at `location`. One request, or two if a key is
    /// only a prefix.
    ///
    /// # Errors
    /// [`Error::NotFound`], and errors of the connection or the store.
    pub fn stat(&self, location: &Location) -> Result<Stat> {
        match location {
            Location::Local(path) => local::stat(path),
            Location::Object(object) => self.objects(object)?.stat(object),
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.stat(),
        }
    }

    /// Describes the object at `location`, never a prefix. One request.
    ///
    /// # Errors
    /// [`Error::NotFound`], also if a key is only a prefix, and errors of the connection or the
    /// store.
    pub fn stat_object(&self, location: &Location) -> Result<Stat> {
        match location {
            Location::Object(object) if !object.key.is_empty() => self.objects(object)?.head(object),
            _ => self.stat(location),
        }
    }

    /// Describes one version of the object at `location`. One request.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores other than S3 and Google; otherwise as
    /// [`stat_object`](Self::stat_object).
    pub fn stat_version(&self, location: &Location, id: &str) -> Result<Stat> {
        match location {
            #[cfg(feature = "google")]
            Location::Object(object) if object.service == Service::Google && !object.key.is_empty() => {
                self.google.stat_version(object, Some(id))
            }
            _ => {
                let object = object_with_versions(location)?;
                self.s3_of(object.service)?.head(object, Some(id))
            }
        }
    }

    /// Lists the versions of the objects under `location`, or of the object there, by key and from
    /// the newest to the oldest. Of `options` only `recursive` counts.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores other than S3. Failures before the first entries; later
    /// ones are items of the listing.
    pub fn list_versions(
        &self,
        location: &Location,
        options: &ListOptions,
    ) -> Result<impl Iterator<Item = Result<ObjectVersion>> + Send + use<>> {
        let object = object_with_versions(location)?;
        self.s3_of(object.service)?.list_versions(object, options)
    }

    /// True if a key of an object store begins with that of `location` and a `/`. One request.
    /// False for other stores, where a file cannot be a directory too.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn has_below(&self, location: &Location) -> Result<bool> {
        match location {
            Location::Object(object) => self.objects(object)?.has_below(object),
            _ => Ok(false),
        }
    }

    /// Lists what is under `location`.
    ///
    /// # Errors
    /// Failures before the first entries; later ones are items of the listing.
    pub fn list(&self, location: &Location, options: &ListOptions) -> Result<Listing> {
        let entries = self.entries(location, options)?;
        let entries: Entries = match (options.order, location) {
            (Order::Any, _) => entries,
            (Order::Bytes, _) if self.is_unsorted(location) => Box::new(Sorted::new(entries)),
            (Order::Bytes, Location::Object(object)) => {
                Box::new(Ordered::of_bucket(entries, object, &self.client.unsorted))
            }
            (Order::Bytes, _) => Box::new(Ordered::new(entries, location)),
        };
        Ok(Listing { entries })
    }

    /// True if the store is known not to list `location` in the order of names. An ordered listing
    /// is then sorted here, so it begins after the last page, wherever it starts.
    #[must_use]
    pub fn is_unsorted(&self, location: &Location) -> bool {
        matches!(location, Location::Object(object) if self.client.unsorted.has(object))
    }

    /// How many seconds the clock of the store is ahead of this machine's, by its last listing;
    /// negative if it is behind. 0 if it is right, or not known.
    #[must_use]
    pub fn clock_ahead(&self, location: &Location) -> i64 {
        match location {
            Location::Object(object) => self.client.clocks.ahead(object.service),
            _ => 0,
        }
    }

    /// The entries of a listing, as the store has them.
    fn entries(&self, location: &Location, options: &ListOptions) -> Result<Entries> {
        let entries: Entries = match location {
            Location::Local(path) => {
                Box::new(local::list(path, options, self.client.scoped_cancel(&Cancel::new()))?)
            }
            Location::Object(object) => self.objects(object)?.list(object, options)?,
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.list(options)?,
        };
        Ok(entries)
    }

    /// The first page of a listing: from an object store some thousand names by one request; from
    /// other stores, and those that list in no order, all in their order.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_page(&self, location: &Location, options: &ListOptions) -> Result<ListedPage> {
        match location {
            Location::Object(object) if !self.is_unsorted(location) => {
                self.objects(object)?.list_page(object, options)
            }
            _ => {
                let order = if self.is_unsorted(location) { Order::Bytes } else { options.order };
                let entries = self
                    .list(location, &ListOptions { order, ..options.clone() })?
                    .collect::<Result<Vec<_>>>()?;
                Ok(ListedPage { entries, is_last: true })
            }
        }
    }

    /// Writes a whole object atomically: readers see the old one or the new one.
    ///
    /// # Errors
    /// [`Error::Precondition`], [`Error::Checksum`] if the store received other bytes, and errors
    /// of the connection or the store.
    pub fn put(&self, location: &Location, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
        require_key(location)?;
        match location {
            Location::Local(path) => local::put(path, payload, options),
            Location::Object(object) => self.objects(object)?.put(object, payload, options),
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.put(payload, options),
        }
    }

    /// Copies within one service, without downloading the bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if source and destination are on different services, else those of
    /// [`put`](Self::put).
    pub fn copy(
        &self,
        source: &Location,
        version: &Version,
        destination: &Location,
        options: &PutOptions,
    ) -> Result<Written> {
        require_key(destination)?;
        match (source, destination) {
            (Location::Object(from), Location::Object(to)) if self.is_one_service(from, to) => {
                self.objects(to)?.copy(from, version, to, options)
            }
            _ => Err(unsupported(destination, WITHIN)),
        }
    }

    /// Deletes one object or file. A missing one is not an error.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn delete(&self, location: &Location) -> Result<()> {
        require_key(location)?;
        match location {
            Location::Local(path) => local::delete(path),
            Location::Object(object) => self.objects(object)?.delete(object),
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.delete(),
        }
    }

    /// Creates a directory, and those above it, on a host that is reached by SFTP.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for other stores; errors of the connection or the store.
    pub fn create_directory(&self, location: &Location) -> Result<()> {
        match location {
            #[cfg(feature = "sftp")]
            Location::Sftp(place) => self.sftp.create_directory(place),
            other => Err(unsupported(other, "creating a directory")),
        }
    }

    /// Removes an empty directory on a host that is reached by SFTP. A missing one is not an error.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for other stores; errors of the connection or the store, also if the
    /// directory is not empty.
    pub fn remove_directory(&self, location: &Location, unfinished: Unfinished) -> Result<()> {
        match location {
            #[cfg(feature = "sftp")]
            Location::Sftp(place) => self.sftp.remove_directory(place, unfinished),
            other => Err(unsupported(other, "removing a directory")),
        }
    }

    /// The kind of what has this name on a host that is reached by SFTP: a link counts as itself.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for other stores; [`Error::NotFound`], and errors of the connection.
    pub fn kind_of_name(&self, location: &Location) -> Result<Kind> {
        match location {
            #[cfg(feature = "sftp")]
            Location::Sftp(place) => self.sftp.kind_of_name(place),
            other => Err(unsupported(other, "a look at a link")),
        }
    }

    /// Deletes many objects or files, in as few requests as the store allows. Returns the failures.
    #[must_use]
    pub fn delete_many(&self, locations: &[Location]) -> Vec<(Location, Error)> {
        let mut objects = Vec::new();
        #[cfg(feature = "sftp")]
        let mut files = Vec::new();
        let mut failed = Vec::new();
        for location in locations {
            if let Err(error) = require_key(location) {
                failed.push((location.clone(), error));
                continue;
            }
            match location {
                Location::Object(object) => objects.push(object.clone()),
                #[cfg(feature = "sftp")]
                Location::Sftp(place) => files.push(place.clone()),
                other => failed.extend(self.delete(other).err().map(|error| (other.clone(), error))),
            }
        }
        while let Some(first) = objects.first().cloned() {
            let (own, others) = objects.into_iter().partition::<Vec<_>, _>(|it| it.service == first.service);
            match self.objects(&first) {
                Ok(backend) => failed.extend(backend.delete_many(&own)),
                // Each error is made anew: none can be cloned.
                Err(_) => failed.extend(own.into_iter().filter_map(|object| {
                    let error = self.objects(&object).err()?;
                    Some((Location::Object(object), error))
                })),
            }
            objects = others;
        }
        #[cfg(feature = "sftp")]
        failed.extend(self.sftp.delete_many(&files));
        failed
    }

    /// Makes a bucket, in the region of the options.
    ///
    /// # Errors
    /// A location that is not a bucket; a name that is taken; errors of the connection or the
    /// store.
    pub fn create_bucket(&self, location: &Location) -> Result<()> {
        let bucket = bucket_of(location)?;
        self.objects(bucket)?.create_bucket(bucket)
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// A location that is not a bucket; a bucket that is missing or not empty; errors of the
    /// connection or the store.
    pub fn delete_bucket(&self, location: &Location) -> Result<()> {
        let bucket = bucket_of(location)?;
        self.objects(bucket)?.delete_bucket(bucket)
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> CounterSnapshot {
        let counters = &self.client.counters;
        let requests = counters.requests.snapshot();
        let received = self.client.received();
        #[cfg(feature = "sftp")]
        let received = received + self.sftp.received();
        CounterSnapshot {
            requests: requests.total(),
            requests_by_kind: requests,
            retries: counters.retries.load(Ordering::Relaxed),
            received,
            sent: counters.sent.load(Ordering::Relaxed),
        }
    }
}

/// Refuses a bucket in an object's place. Without a key, the request that writes an object would
/// create the bucket, and the one that deletes an object would delete it.
///
/// # Errors
/// [`Error::Io`], of a directory.
pub fn require_key(location: &Location) -> Result<()> {
    match location {
        Location::Object(object) if object.key.is_empty() => {
            Err(Error::Io { location: location.to_string(), source: rustix::io::Errno::ISDIR.into() })
        }
        _ => Ok(()),
    }
}

/// The bucket that a location is.
fn bucket_of(location: &Location) -> Result<&ObjectLocation> {
    match location {
        Location::Object(object) if object.key.is_empty() => Ok(object),
        other => Err(unsupported(other, "an operation on buckets")),
    }
}

/// The S3 object at a location, of which there may be several versions.
fn object_with_versions(location: &Location) -> Result<&ObjectLocation> {
    object_in_s3(location, "a version of an object").and_then(|object| match object.bucket.is_empty() {
        false => Ok(object),
        true => Err(unsupported(location, "a version of an object")),
    })
}

/// What only S3 does with two objects.
const WITHIN: &str = "a copy within the service";

/// The object in S3 at a location, for what only S3 has.
fn object_in_s3<'l>(location: &'l Location, what: &'static str) -> Result<&'l ObjectLocation> {
    match location {
        Location::Object(object) if object.service.is_s3() => Ok(object),
        other => Err(unsupported(other, what)),
    }
}
