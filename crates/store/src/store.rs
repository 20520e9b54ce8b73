//! Defines [`Store`], which passes every operation on a location to the backend of the location's
//! scheme.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use firstbyte_listing::EntryOrder;
use firstbyte_location::{EndpointName, EntryKind, HttpUrl, Location, ObjectLocation, Service, Version};

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
use crate::options::StoreOptions;
use crate::order::OrderedListing;
use crate::query::{ListOptions, ListedPage, Unfinished};
use crate::requests::StoreCounts;
use crate::s3::{self, Endpoint, NamedServices, Presign, Presigned, S3, ServiceAnswer, ServiceRequest};
#[cfg(feature = "sftp")]
use crate::sftp::Sftp;
use crate::sorted::SortedListing;
use crate::upload::{Payload, PutOptions, Written};
use crate::wire::WireClient;
use crate::{local, post};

use listing::Listing;

mod hosts;
pub(crate) mod listing;
mod parts;
mod reading;
pub(crate) mod required;

use required::{bucket_of, object_with_versions, require_bucket, require_key};

/// Reads and writes locations. Clones are cheap, and share connections, credentials and counters.
/// All methods block.
#[derive(Clone)]
pub struct Store {
    pub(crate) client: Arc<WireClient>,
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
    /// The gateways for ranges, set when a range is first read. `None` if all bytes come from the
    /// origin.
    ring: Arc<OnceLock<Option<Ring>>>,
}

impl Store {
    /// Returns a store with these options. Makes no connection yet.
    pub fn new(options: StoreOptions) -> Result<Self> {
        options.check()?;
        let client = Arc::new(WireClient::new(Arc::new(options), s3::ca_bundle));
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

    /// Returns a clone whose requests and listings all end when `cancel` is cancelled. The clone
    /// shares connections, credentials and counters.
    #[must_use]
    pub fn scoped(&self, cancel: &Cancel) -> Self {
        self.with_client(self.client.scoped(cancel))
    }

    /// Returns a clone that belongs to no scope, so no cancellation ends its requests. Used for
    /// cleaning up after a cancelled run.
    #[must_use]
    pub fn unscoped(&self) -> Self {
        self.with_client(self.client.with_scope(Cancel::new()))
    }

    /// Returns a clone that sends each request only once, for a caller that repeats requests
    /// itself. The clone shares connections, credentials and counters.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        self.with_client(self.client.without_retries())
    }

    /// Counts a retry that the caller makes.
    pub fn count_retry(&self) {
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn with_client(&self, client: WireClient) -> Self {
        let client = Arc::new(client);
        Self {
            named: Arc::clone(&self.named),
            s3: Arc::new(self.s3.with_client(Arc::clone(&client))),
            #[cfg(feature = "google")]
            google: Arc::new(self.google.with_client(Arc::clone(&client))),
            #[cfg(feature = "azure")]
            azure: Arc::new(self.azure.with_client(Arc::clone(&client))),
            #[cfg(feature = "http")]
            http: Arc::new(self.http.with_client(Arc::clone(&client))),
            #[cfg(feature = "sftp")]
            sftp: Arc::new(self.sftp.with_client(Arc::clone(&client))),
            ring: Arc::clone(&self.ring),
            client,
        }
    }

    /// Returns the backend of a service that speaks S3, at the endpoint of the options or at a
    /// named endpoint.
    pub(crate) fn s3_of(&self, service: Service) -> Result<Arc<S3>> {
        match service {
            Service::NamedS3(name) => Ok(Arc::new(self.named.get(name, &self.client)?)),
            _ => Ok(Arc::clone(&self.s3)),
        }
    }

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

    /// Returns the endpoint of a service that speaks S3, and the setting that gave it. Sends no
    /// request.
    ///
    /// # Errors
    /// A missing or unusable profile, an invalid region, or a name without an endpoint.
    pub fn endpoint_of(&self, service: Service) -> Result<Endpoint> {
        self.s3_of(service)?.endpoint()
    }

    /// Returns the address of the service that holds the objects of `service`. Sends no request.
    /// `None` if the configuration is unusable, or the service was left out of this build.
    #[must_use]
    pub fn address_of(&self, service: Service) -> Option<String> {
        match service {
            Service::S3 | Service::NamedS3(_) => Some(self.endpoint_of(service).ok()?.url),
            #[cfg(feature = "google")]
            Service::Google => self.google.address(),
            #[cfg(feature = "azure")]
            Service::Azure => self.azure.address(),
            #[cfg(not(all(feature = "azure", feature = "google")))]
            _ => None,
        }
    }

    /// Returns true if two objects are in the same service, which can then copy between them: they
    /// have the same scheme, or their endpoint names have the same URL and profile.
    #[must_use]
    pub fn is_one_service(&self, one: &ObjectLocation, other: &ObjectLocation) -> bool {
        match (one.service, other.service) {
            (Service::NamedS3(one), Service::NamedS3(other)) => self.named.are_one(one, other),
            (one, other) => one == other,
        }
    }

    /// Returns the names of the endpoints in the configuration file.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid.
    pub fn endpoint_names(&self) -> Result<Vec<EndpointName>> {
        self.named.names()
    }

    /// Returns the part of a service's identity that the location does not contain: the endpoint in
    /// the options or in the configuration. Empty for the default service of the scheme.
    #[must_use]
    pub fn service_of(&self, location: &Location) -> String {
        match location {
            Location::Object(object) => match object.service {
                // If the configuration is unusable, every request fails with the reason.
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

    /// Sends one signed request to another AWS service, and returns the whole response, whatever
    /// its status. Does not repeat the request.
    ///
    /// # Errors
    /// Missing credentials, a missing region, and errors of the connection.
    pub fn call_service(&self, request: &ServiceRequest<'_>) -> Result<ServiceAnswer> {
        self.s3.call_service(request)
    }

    /// Sends one `POST` with these headers to a web server, and reads the response. Does not repeat
    /// the request.
    ///
    /// # Errors
    /// Errors of the connection, and a status other than success.
    pub fn post(
        &self,
        url: &HttpUrl,
        headers: Vec<(String, String)>,
        body: &[u8],
        cancel: &Cancel,
    ) -> Result<()> {
        post::post(&self.client, url, headers, body, cancel)
    }

    /// Returns a URL by which any client may read or write one object until the URL expires. Sends
    /// one request if the region of the bucket is not known, otherwise none.
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

    /// Describes the object, file or directory at `location`. Usually sends one request. Sends two
    /// if there is no object of this name, and none for a local path.
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

    /// Describes the object at `location`, never a prefix. Usually sends one request; if a server
    /// refuses `HEAD`, a second one follows.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for a prefix; errors of the connection or the store.
    pub fn stat_object(&self, location: &Location) -> Result<Stat> {
        match location {
            Location::Object(object) if !object.key.is_empty() => self.objects(object)?.head(object),
            _ => self.stat(location),
        }
    }

    /// Describes one version of the object at `location`. Usually sends one request.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores other than S3 and Google, and the errors of
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

    /// Lists the versions of the objects below `location`, or of the object at `location`. The
    /// versions are sorted by key, and for each key from the newest to the oldest. Of the
    /// `options`, only `recursive` and `beginning` are used.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stores other than S3, and failures before the first entry. Later
    /// failures are items of the listing.
    pub fn list_versions(
        &self,
        location: &Location,
        options: &ListOptions,
    ) -> Result<impl Iterator<Item = Result<ObjectVersion>> + Send + use<>> {
        let object = object_with_versions(location)?;
        self.s3_of(object.service)?.list_versions(object, options)
    }

    /// Returns true if any key of an object store begins with the key of `location` and a `/`.
    /// Sends one request. Returns false for other stores, in which a file cannot be a directory
    /// too.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn has_below(&self, location: &Location) -> Result<bool> {
        match location {
            Location::Object(object) => self.objects(object)?.has_below(object),
            _ => Ok(false),
        }
    }

    /// Lists the entries below `location`.
    ///
    /// # Errors
    /// Failures before the first entry. Later failures are items of the listing.
    pub fn list(&self, location: &Location, options: &ListOptions) -> Result<Listing> {
        let entries = self.entries(location, options)?;
        let entries: Entries = match (options.order, location) {
            (EntryOrder::Any, _) => entries,
            (EntryOrder::Bytes, _) if self.is_unsorted(location) => Box::new(SortedListing::new(entries)),
            (EntryOrder::Bytes, Location::Object(object)) => {
                Box::new(OrderedListing::of_bucket(entries, object, &self.client.unsorted))
            }
            (EntryOrder::Bytes, _) => Box::new(OrderedListing::new(entries, location)),
        };
        Ok(Listing { entries })
    }

    /// Returns true if the store is known to list `location` out of order. An ordered listing is
    /// then sorted by this process. Its first entry comes only after the last page was read, even
    /// with `start_after`.
    #[must_use]
    pub fn is_unsorted(&self, location: &Location) -> bool {
        matches!(location, Location::Object(object) if self.client.unsorted.has(object))
    }

    /// Returns how many seconds the store's clock is ahead of this machine's, by the last response
    /// that showed it; negative if it is behind. `None` if no response has shown it.
    #[must_use]
    pub fn clock_ahead(&self, location: &Location) -> Option<i64> {
        match location {
            Location::Object(object) => self.client.clocks.ahead(object.service),
            _ => None,
        }
    }

    /// Returns the entries of a listing in the order of the store.
    fn entries(&self, location: &Location, options: &ListOptions) -> Result<Entries> {
        if options.recursive {
            require_bucket(location)?;
        }
        let entries: Entries = match location {
            Location::Local(path) => {
                Box::new(local::list(path, options, self.client.scoped_cancel(&Cancel::new()))?)
            }
            Location::Object(object) => self.objects(object)?.list(object, options)?,
            Location::Http(_) | Location::Sftp(_) => self.host(location)?.list(options)?,
        };
        Ok(entries)
    }

    /// Returns the first page of a listing. For an object store, sends one request, and the page
    /// has about a thousand names. For other stores, and for stores that list out of order, the
    /// page has all names in order.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list).
    pub fn list_page(&self, location: &Location, options: &ListOptions) -> Result<ListedPage> {
        if options.recursive {
            require_bucket(location)?;
        }
        match location {
            Location::Object(object) if !self.is_unsorted(location) => {
                self.objects(object)?.list_page(object, options)
            }
            _ => {
                let order = if self.is_unsorted(location) { EntryOrder::Bytes } else { options.order };
                let entries = self
                    .list(location, &ListOptions { order, ..options.clone() })?
                    .collect::<Result<Vec<_>>>()?;
                Ok(ListedPage { entries, is_last: true })
            }
        }
    }

    /// Writes a whole object atomically: readers see either the old or the new object.
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

    /// Copies an object within one service, without downloading its bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if source and destination are on different services, and the errors
    /// of [`put`](Self::put).
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
            _ => Err(unsupported(destination, COPY_WITHIN_SERVICE)),
        }
    }

    /// Deletes one object or file. Succeeds if it is missing.
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

    /// Creates a directory and its parents on an SFTP server.
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

    /// Removes an empty directory on an SFTP server. Succeeds if it is missing.
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

    /// Returns the kind of the entry with this name on an SFTP server. Does not follow links.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for other stores; [`Error::NotFound`], and errors of the connection.
    pub fn kind_of_name(&self, location: &Location) -> Result<EntryKind> {
        match location {
            #[cfg(feature = "sftp")]
            Location::Sftp(place) => self.sftp.kind_of_name(place),
            other => Err(unsupported(other, "a look at a link")),
        }
    }

    /// Deletes many objects or files, with as few requests as the store allows. Returns those not
    /// deleted, with their errors.
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
                // Errors cannot be cloned, so each object gets a new one.
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

    /// Creates a bucket in the region that the options name.
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

    /// Returns the counters since the store was created.
    #[must_use]
    pub fn counters(&self) -> StoreCounts {
        let counters = &self.client.counters;
        let requests = counters.requests.snapshot();
        let received = self.client.received();
        #[cfg(feature = "sftp")]
        let received = received + self.sftp.received();
        StoreCounts {
            requests: requests.total(),
            requests_by_kind: requests,
            retries: counters.retries.load(Ordering::Relaxed),
            received,
            sent: counters.sent.load(Ordering::Relaxed),
            unpriced: counters.unpriced.load(Ordering::Relaxed),
        }
    }
}

/// The operation for which both objects must be in one service, for errors.
const COPY_WITHIN_SERVICE: &str = "a copy within the service";
