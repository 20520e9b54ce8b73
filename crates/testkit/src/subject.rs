//! Defines a store under test: a backend with its server, a base location, and the backend's
//! capabilities.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firstbyte_hydrate::{HydrationSettings, Hydrator};
use firstbyte_location::{Location, ObjectLocation, Service, Strength};
use firstbyte_serve::{
    Authentication, Config, GatewayConfig, RunningServer, ServeSource, Server, ServerKeys, TlsFiles,
    WritePolicy,
};
use firstbyte_store::{
    AzureConnection, Error, Get, Payload, PutOptions, Result, Signing, Store, StoreOptions, Via,
};
use tempfile::TempDir;

use crate::certificate::{Certificate, CertificateKind};
use crate::data::scratch;
use crate::process::Process;
use crate::quirk::Quirk;
use crate::quirk_store::QuirkStore;
use crate::servers::{
    ACCESS_KEY, AZURE_KEY, BUCKET, SECRET_KEY, azure_connection, azurite, fake_gcs_server, minio_with, nginx,
    set_credentials, versitygw,
};
use crate::sshd::{SshClientKind, Sshd};

/// The backends under test, each with a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Local files.
    Local,
    /// versitygw.
    Versitygw,
    /// MinIO.
    Minio,
    /// `serve`, by its S3 API.
    ServeS3,
    /// `serve`, by plain HTTP.
    ServeHttp,
    /// A gateway of `serve`, by its S3 API, whose origin is a `serve` over a directory.
    Gateway,
    /// [`Minio`](Self::Minio) over TLS.
    MinioTls,
    /// [`ServeS3`](Self::ServeS3) over TLS.
    ServeS3Tls,
    /// [`ServeHttp`](Self::ServeHttp) over TLS.
    ServeHttpTls,
    /// nginx.
    Nginx,
    /// fake-gcs-server, for Google Cloud Storage.
    Google,
    /// Azurite, for Azure Blob Storage.
    Azure,
    /// OpenSSH's server, by SFTP.
    Sftp,
    /// [`QuirkStore`] without quirks.
    WithoutQuirks,
}

/// The support of a backend for a feature or, if there is none, the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Supported.
    Yes,
    /// Not supported, for this reason. Attempts must fail.
    No(&'static str),
}

impl Support {
    /// True if the feature is supported. Otherwise makes the `attempt`, which must fail.
    ///
    /// # Panics
    /// The feature is not supported, but the attempt succeeds.
    pub fn or_refuses<T>(self, attempt: impl FnOnce() -> Result<T>) -> bool {
        let Self::No(reason) = self else { return true };
        match attempt() {
            Ok(_) => panic!("done, although {reason}"),
            Err(error) => assert!(!error.to_string().contains('\n'), "not one line: {error}"),
        }
        false
    }
}

/// The features that a backend supports in addition to reading.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Objects can be written and deleted.
    pub write: Support,
    /// Names below a prefix can be listed.
    pub list: Support,
    /// Listings contain names that begin with a dot.
    pub listed_dots: Support,
    /// Objects can be written in parts.
    pub multipart: Support,
    /// Unfinished uploads can be listed by a prefix of their keys. If this is not supported, they
    /// can be listed only by a whole key.
    pub stale_by_prefix: Support,
    /// Unfinished uploads can be listed.
    pub lists_uploads: Support,
    /// Aborting an upload deletes its parts at once.
    pub aborts: Support,
    /// Completing an aborted upload fails.
    pub refuses_aborted: Support,
    /// Content type and user metadata are kept.
    pub metadata: Support,
    /// The modification time of a copied file is kept.
    pub modified: Support,
    /// Objects can be copied within the service.
    pub copy: Support,
    /// Keys need not be paths: empty, `.` and `..` components are ordinary names. If this is not
    /// supported, such keys must be refused, or be distinct from all other keys.
    pub free_keys: Support,
    /// Names that are refused because the service would change them.
    pub refused_names: &'static [&'static str],
    /// Keys that the service confuses with other keys.
    pub mistaken_keys: &'static [&'static str],
    /// A component of a key may be longer than a file name.
    pub long_components: Support,
    /// Requests without valid keys are refused.
    pub denies: Support,
    /// A write can be made conditional on the current version.
    pub replace_if_matches: Support,
    /// How reliably versions identify content.
    pub strength: Strength,
    /// Number of names in large listings. It fills several pages of a thousand names, and is
    /// smaller for a server that takes milliseconds for each name.
    pub large_listing_names: usize,
}

const FULL: Capabilities = Capabilities {
    write: Support::Yes,
    list: Support::Yes,
    listed_dots: Support::Yes,
    multipart: Support::Yes,
    stale_by_prefix: Support::Yes,
    lists_uploads: Support::Yes,
    aborts: Support::Yes,
    refuses_aborted: Support::Yes,
    metadata: Support::Yes,
    modified: Support::Yes,
    copy: Support::Yes,
    free_keys: Support::Yes,
    refused_names: &[],
    mistaken_keys: &[],
    long_components: Support::Yes,
    denies: Support::Yes,
    replace_if_matches: Support::Yes,
    strength: Strength::Strong,
    large_listing_names: 3105,
};

const KEYS_ARE_PATHS: Support = Support::No("keys are kept as paths of files");
const NAMES_ARE_FILES: Support = Support::No("a component of a key is the name of a file");
const PLAIN_HTTP: Support = Support::No("plain HTTP does not define it");
const WHOLE_FILE: Support = Support::No("a file is written whole, by one session");
const GATEWAY: Support = Support::No("a gateway only reads");
const NGINX_IS_READ_ONLY: Support = Support::No("nginx is configured for reading only");

/// Returns the capabilities of local files, from those of servers that keep objects in files.
fn of_local_files(files: Capabilities) -> Capabilities {
    let is_root = rustix::process::geteuid().is_root();
    Capabilities {
        multipart: Support::No("a file is written in place, by position"),
        stale_by_prefix: Support::No("a file is written in place, by position"),
        metadata: Support::No("a file has a time and no other metadata"),
        copy: Support::No("there is no service"),
        denies: if is_root { Support::No("root may read every file") } else { Support::Yes },
        ..files
    }
}

/// Returns the capabilities of a gateway whose origin has the capabilities `origin`.
fn of_gateway(origin: Capabilities) -> Capabilities {
    Capabilities {
        write: GATEWAY,
        stale_by_prefix: GATEWAY,
        metadata: GATEWAY,
        modified: GATEWAY,
        copy: GATEWAY,
        replace_if_matches: GATEWAY,
        ..origin
    }
}

impl Backend {
    fn is_tls(self) -> bool {
        matches!(self, Self::MinioTls | Self::ServeS3Tls | Self::ServeHttpTls)
    }

    fn keeps_files(self) -> bool {
        !matches!(self, Self::Minio | Self::MinioTls | Self::Google | Self::Azure | Self::WithoutQuirks)
    }

    /// Returns the options of a store for this backend's server.
    fn options(self, url: Option<&str>, azure_key: &str) -> StoreOptions {
        let url = url.map(ToOwned::to_owned);
        match self {
            Self::Google => StoreOptions { google_endpoint: url, ..StoreOptions::default() },
            Self::Azure => {
                let connection = azure_connection(&url.unwrap_or_default(), azure_key);
                StoreOptions {
                    azure_connection: Some(AzureConnection(connection)),
                    ..StoreOptions::default()
                }
            }
            _ => StoreOptions { endpoint_url: url, ..StoreOptions::default() },
        }
    }

    /// Returns the capabilities of this backend.
    #[must_use]
    pub fn capabilities(self) -> Capabilities {
        let files = Capabilities { free_keys: KEYS_ARE_PATHS, long_components: NAMES_ARE_FILES, ..FULL };
        let http = Capabilities {
            multipart: PLAIN_HTTP,
            stale_by_prefix: PLAIN_HTTP,
            metadata: PLAIN_HTTP,
            modified: PLAIN_HTTP,
            copy: PLAIN_HTTP,
            ..files
        };
        match self {
            Self::Local => of_local_files(files),
            Self::ServeS3 | Self::ServeS3Tls => files,
            Self::Gateway => of_gateway(files),
            Self::Versitygw => Capabilities {
                mistaken_keys: &["a//b", "./x", "x/./y", "a/../b", "../up", "/lead", "a/b//"],
                refuses_aborted: Support::No("versitygw reports success and changes nothing"),
                ..files
            },
            Self::Minio | Self::MinioTls => Capabilities {
                mistaken_keys: &["/lead"],
                stale_by_prefix: Support::No("MinIO lists uploads by whole key only"),
                ..files
            },
            Self::Sftp => Capabilities {
                multipart: WHOLE_FILE,
                stale_by_prefix: WHOLE_FILE,
                metadata: Support::No("a file has a time and no other metadata"),
                modified: Support::No("version 3 of SFTP has whole seconds"),
                copy: Support::No("version 3 of SFTP does not define it"),
                strength: Strength::Weak,
                ..files
            },
            // Plain HTTP stores metadata from S3's headers, and returns it in them.
            Self::ServeHttp | Self::ServeHttpTls => Capabilities {
                metadata: Support::Yes,
                modified: Support::Yes,
                denies: Support::No("served without keys"),
                ..http
            },
            Self::WithoutQuirks => {
                Capabilities { denies: Support::No("signatures are not verified"), ..FULL }
            }
            Self::Google => Capabilities {
                multipart: Support::No("Google's JSON interface has no parts, and fake-gcs-server no other"),
                denies: Support::No("fake-gcs-server reads no credentials"),
                large_listing_names: 1205,
                ..FULL
            },
            Self::Azure => Capabilities {
                lists_uploads: Support::No("Azure lists blocks by whole key only"),
                large_listing_names: 1205,
                refused_names: &["back\\slash"],
                aborts: Support::No("Azure deletes blocks when the blob is written, or after a week"),
                ..FULL
            },
            Self::Nginx => Capabilities {
                write: NGINX_IS_READ_ONLY,
                replace_if_matches: NGINX_IS_READ_ONLY,
                listed_dots: Support::No("nginx omits them from its directory pages"),
                ..http
            },
        }
    }

    /// Returns the location of the test bucket on a server at `url`. For local files, returns the
    /// directory `files`.
    fn base(self, url: &str, files: &Path) -> Location {
        let parse = |text: String| Location::parse(text.as_ref()).expect("a URL");
        match self {
            Self::Local => Location::Local(files.to_owned()),
            Self::Nginx | Self::ServeHttp | Self::ServeHttpTls => parse(format!("{url}/{BUCKET}/")),
            Self::Google => bucket(Service::Google),
            Self::Azure => bucket(Service::Azure),
            Self::Sftp => parse(format!("{url}{}", files.display())),
            Self::Versitygw
            | Self::Minio
            | Self::MinioTls
            | Self::ServeS3
            | Self::ServeS3Tls
            | Self::Gateway
            | Self::WithoutQuirks => bucket(Service::S3),
        }
    }
}

enum Backing {
    Directory,
    Shared(#[allow(dead_code, reason = "held for its drop, the last of which ends the server")] Arc<Process>),
    Process(#[allow(dead_code, reason = "held for its drop, which ends the server")] Process),
    Serve(#[allow(dead_code, reason = "held for its drop, which ends the server")] RunningServer),
    Gateway(#[allow(dead_code, reason = "held for its drop, which ends the servers")] [RunningServer; 2]),
    Sshd(Sshd),
    Scripted(#[allow(dead_code, reason = "held for its drop, which ends the server")] QuirkStore),
}

/// A store under test and a base location. Dropping this value removes the server and all files.
pub struct Subject {
    /// The store under test.
    pub store: Store,
    /// The base location of tests: a directory, a bucket, or a URL.
    pub base: Location,
    /// The URL of the server; `None` for local files.
    pub url: Option<String>,
    /// The backend's capabilities.
    pub can: Capabilities,
    /// A store for the same server, without valid keys.
    stranger: Store,
    /// The directory in which the server keeps objects as plain files. `None` if the server keeps
    /// objects in another form.
    files: Option<PathBuf>,
    // Fields are dropped in this order: the server must end before its directory is removed.
    _backing: Backing,
    _certificate: Option<Certificate>,
    scratch: TempDir,
}

impl Subject {
    /// Starts the server of `place`.
    ///
    /// # Panics
    /// The server cannot be started.
    #[must_use]
    pub fn start(place: Backend) -> Self {
        set_credentials();
        let scratch = scratch();
        let root = scratch.path().join("root");
        let files = root.join(BUCKET);
        fs::create_dir_all(&files).expect("the bucket's directory");
        let certificate = place.is_tls().then(|| Certificate::make(CertificateKind::Authority));
        let (backing, url) = match place {
            Backend::Local => (Backing::Directory, String::new()),
            Backend::Versitygw => process(versitygw(&root)),
            Backend::Minio | Backend::MinioTls => process(minio_with(&root, certificate.as_ref())),
            Backend::Nginx => process(nginx(&root, scratch.path())),
            Backend::Gateway => gateway(&root, &scratch.path().join("cache")),
            Backend::Google => process(fake_gcs_server()),
            Backend::Azure => {
                let process = azurite();
                let url = process.url();
                (Backing::Shared(process), url)
            }
            Backend::WithoutQuirks => start_quirk_store(&[]),
            Backend::Sftp => {
                let sshd = Sshd::start(scratch.path());
                let url = sshd.url();
                (Backing::Sshd(sshd), url)
            }
            Backend::ServeS3 | Backend::ServeHttp | Backend::ServeS3Tls | Backend::ServeHttpTls => {
                serve(&root, place, certificate.as_ref())
            }
        };
        let base = place.base(&url, &files);
        let url = (!url.is_empty()).then_some(url);
        let ca_bundle = certificate.as_ref().map(Certificate::certificate);
        let ssh = |client| match &backing {
            Backing::Sshd(sshd) => Some(sshd.ssh(client)),
            _ => None,
        };
        let endpoint = url.as_deref().filter(|_| place != Backend::Sftp);
        let options =
            StoreOptions { ca_bundle, ssh: ssh(SshClientKind::Friend), ..place.options(endpoint, AZURE_KEY) };
        let stranger = match place {
            // Azurite reports a missing container to clients without a key, so the stranger uses a
            // wrong key.
            Backend::Azure => place.options(endpoint, "d3Jvbmc="),
            _ => StoreOptions {
                signing: Signing::Anonymous,
                ssh: ssh(SshClientKind::Stranger),
                ..options.clone()
            },
        };
        let store = Store::new(options).expect("a store");
        if matches!(place, Backend::Google | Backend::Azure) {
            store.create_bucket(&base).expect("a bucket");
        }
        Self {
            store,
            base,
            url,
            can: place.capabilities(),
            stranger: Store::new(stranger).expect("a store"),
            files: place.keeps_files().then_some(files),
            _backing: backing,
            _certificate: certificate,
            scratch,
        }
    }

    /// Starts a subject whose server is a [`QuirkStore`] with these quirks.
    ///
    /// # Panics
    /// The store cannot be started.
    #[must_use]
    pub fn with_quirks(quirks: &[Quirk]) -> Self {
        let subject = Self::start(Backend::WithoutQuirks);
        if let Backing::Scripted(store) = &subject._backing {
            store.set_quirks(quirks);
        }
        subject
    }

    /// Returns the location of an object.
    #[must_use]
    pub fn at(&self, name: &str) -> Location {
        self.base.join(name.as_bytes())
    }

    /// Returns the path of the plain file that holds an object.
    ///
    /// # Panics
    /// The backend does not keep objects as files.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.as_ref().expect("a place of files").join(name)
    }

    /// Writes an object through the store. If the store cannot write, writes its file.
    ///
    /// # Panics
    /// The object cannot be written.
    pub fn place(&self, name: &str, bytes: &[u8]) {
        if self.can.write == Support::Yes {
            let written = self.store.put(&self.at(name), Payload::Bytes(bytes), &PutOptions::default());
            written.unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            self.place_file(name, bytes);
        }
    }

    /// Writes many small objects, directly as files if possible.
    ///
    /// # Panics
    /// An object cannot be written.
    pub fn place_many(&self, names: &[String]) {
        if self.files.is_some() {
            names.iter().for_each(|name| self.place_file(name, name.as_bytes()));
            return;
        }
        std::thread::scope(|scope| {
            for share in names.chunks(names.len().div_ceil(8)) {
                scope.spawn(move || share.iter().for_each(|name| self.place(name, name.as_bytes())));
            }
        });
    }

    fn place_file(&self, name: &str, bytes: &[u8]) {
        let path = self.files.as_ref().expect("a place of files").join(name);
        fs::create_dir_all(path.parent().expect("a directory above")).expect("that directory");
        // Each write makes a new file, because a file's version is its identity.
        let fresh = self.scratch.path().join("fresh");
        fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, &path)).expect("a file");
    }

    /// Reads the part of an object that `get` selects.
    ///
    /// # Errors
    /// The error of the store.
    pub fn read(&self, name: &str, get: &Get) -> Result<Vec<u8>> {
        read(&self.store, &self.at(name), get)
    }

    /// Reads the part of the object at `location` that `get` selects.
    ///
    /// # Errors
    /// The error of the store.
    pub fn read_at(&self, location: &Location, get: &Get) -> Result<Vec<u8>> {
        read(&self.store, location, get)
    }

    /// Reads an object without valid keys.
    ///
    /// # Errors
    /// The store's refusal, which the caller expects.
    pub fn read_as_stranger(&self) -> Result<Vec<u8>> {
        self.place("denied/x", b"secret");
        if let (Location::Local(_), Some(files)) = (&self.base, &self.files) {
            use std::os::unix::fs::PermissionsExt;
            let path = files.join("denied/x");
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).expect("its permissions");
        }
        read(&self.stranger, &self.at("denied/x"), &Get::default())
    }
}

/// Makes the location of a bucket for one subject.
fn bucket(service: Service) -> Location {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let bucket = match service {
        Service::S3 | Service::NamedS3(_) | Service::Google => BUCKET.to_owned(),
        // All subjects share one server, so each gets its own bucket.
        Service::Azure => format!("{BUCKET}-{}", MADE.fetch_add(1, Ordering::Relaxed)),
    };
    Location::Object(ObjectLocation { service, bucket, key: String::new() })
}

fn read(store: &Store, location: &Location, get: &Get) -> Result<Vec<u8>> {
    let mut body = store.get(location, get)?;
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

fn start_quirk_store(quirks: &[Quirk]) -> (Backing, String) {
    let store = QuirkStore::start(quirks);
    // With large pages, large listings take few requests.
    store.set_page(1000);
    let url = store.url().to_owned();
    (Backing::Scripted(store), url)
}

fn process(process: Process) -> (Backing, String) {
    let url = process.url();
    (Backing::Process(process), url)
}

fn serve(root: &std::path::Path, place: Backend, certificate: Option<&Certificate>) -> (Backing, String) {
    let tls = certificate.map(|made| TlsFiles { certificate: made.certificate(), key: made.key() });
    let mut config = Config { writing: WritePolicy::Allowed, tls, ..Config::new(root) };
    if matches!(place, Backend::ServeS3 | Backend::ServeS3Tls) {
        let keys = ServerKeys::parse(&format!("{ACCESS_KEY} {SECRET_KEY} write")).expect("a key");
        config.authentication = Authentication::Keys(keys);
    }
    let server = Server::start(config).expect("our own server");
    let url = server.url().to_owned();
    (Backing::Serve(server), url)
}

/// Starts a gateway, whose clients need keys, and its origin. Each request looks up its object at
/// the origin, because tests write the origin's files directly.
fn gateway(root: &std::path::Path, cache: &std::path::Path) -> (Backing, String) {
    let origin = Server::start(Config::new(root)).expect("our own server");
    let via = Via::default();
    let endpoint_url = Some(origin.url().to_owned());
    let store = Store::new(StoreOptions { endpoint_url, via: via.clone(), ..StoreOptions::default() })
        .expect("a store");
    let settings = HydrationSettings { cache: Some(cache.to_owned()), ..HydrationSettings::default() };
    let config = GatewayConfig {
        location: bucket(Service::S3),
        hydrator: Hydrator::new(store, settings).expect("a cache"),
        fresh: Duration::ZERO,
        stale: Duration::ZERO,
        memory: 8 << 20,
        deadline: Duration::from_secs(30),
        via,
        usd_per_request: None,
        names: None,
    };
    let keys = ServerKeys::parse(&format!("{ACCESS_KEY} {SECRET_KEY} read")).expect("a key");
    let authentication = Authentication::Keys(keys);
    let config = Config { authentication, ..Config::of(ServeSource::Gateway(config)) };
    let server = Server::start(config).expect("our own gateway");
    let url = server.url().to_owned();
    (Backing::Gateway([server, origin]), url)
}

/// True if an error reports a lack of rights.
#[must_use]
pub(crate) fn is_denial(error: &Error) -> bool {
    match error {
        // An SSH host refuses a client with an unknown key when it connects.
        Error::Denied { .. } | Error::Credentials { .. } => true,
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
        _ => false,
    }
}
