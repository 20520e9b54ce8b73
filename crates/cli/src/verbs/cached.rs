//! Cache options, and operands that may be paths under a mount. Shared by `mount`, `hydrate`,
//! `release` and `status`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use firstbyte::operand::Operand;
use firstbyte::{environment, existing_cache};
use firstbyte_hydrate::HydrationSettings;
use firstbyte_hydrate::cache::Cache;
use firstbyte_location::{Location, shown, units};
use firstbyte_mount::Control;
use firstbyte_store::Sharing;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Result};

/// Options of the cache: its directory, its sharing, its name for the store, and its size.
#[derive(Args, Clone, Debug)]
pub struct CacheArgs {
    /// Cache directory, private to this user [default: $XDG_CACHE_HOME/firstbyte, without a
    /// writable home and in AWS Lambda /tmp/firstbyte-UID]
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    cache: Option<PathBuf>,
    /// Share the cache directory with its group, whose members are trusted: they can read what is
    /// cached, and change what the others read
    #[arg(long)]
    cache_shared: bool,
    /// Name of the store in the cache, instead of its endpoint: for one store at several addresses
    #[arg(long, value_name = "NAME")]
    cache_store: Option<String>,
    /// Most bytes that the cache may use [default: limited only by --reserve; in memory (tmpfs)
    /// half of the container's memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
    /// Bytes to leave free on the file system of the cache
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = units::parse_size)]
    reserve: u64,
}

impl CacheArgs {
    /// Returns the given cache directory, or the default one.
    pub fn directory(&self) -> PathBuf {
        self.named().cloned().unwrap_or_else(|| environment::cache_directory(&environment::variable))
    }

    /// Returns the directory given by `--cache` or its variable; `None` if neither is given, or if
    /// the name is empty. A caller may continue without the default directory, but not without a
    /// directory that the user has named.
    pub fn named(&self) -> Option<&PathBuf> {
        self.cache.as_ref().filter(|path| !path.as_os_str().is_empty())
    }

    fn sharing(&self) -> Sharing {
        if self.cache_shared { Sharing::Group } else { Sharing::Private }
    }

    /// Opens the cache for verbs that only read or release. Returns `None`, and creates nothing, if
    /// the cache does not exist. A cache of an older version is reported and not changed.
    pub fn open(&self, globals: &Globals) -> Result<Option<Cache>> {
        let directory = self.directory();
        let (sharing, cache_size, reserve) = (self.sharing(), self.cache_size, self.reserve);
        let cache = Some(directory.clone());
        let found = existing_cache(&HydrationSettings {
            cache,
            sharing,
            cache_size,
            reserve,
            ..HydrationSettings::default()
        })?;
        if found.is_none()
            && !globals.quiet
            && let Some(format) = Cache::older_format(&directory, sharing)
        {
            console::note(format_args!(
                "{}: a cache of an older version (format {format}), which the next mount or hydrate empties",
                shown(&directory)
            ));
        }
        Ok(found)
    }

    /// Opens the cache of the mount that contains the operands. If no mount contains them, opens
    /// the given cache.
    pub fn open_for(&self, places: &[CacheOperand], globals: &Globals) -> Result<Option<Cache>> {
        let mounted = places.iter().find_map(|place| place.mounted.as_ref());
        let Some(mounted) = mounted.filter(|_| self.named().is_none()) else {
            return self.open(globals);
        };
        let directory =
            firstbyte_mount::attribute(mounted, "cache")?.map(PathBuf::from).ok_or_else(|| {
                Error::failed(format!("{}: this mount keeps no cache", shown(mounted)))
                    .advise("mount it with --cache DIR, or name the location itself")
            })?;
        Self { cache: Some(directory), ..self.clone() }.open(globals)
    }

    /// Returns settings for an engine that uses this cache.
    pub fn settings(&self, globals: &Globals) -> HydrationSettings {
        HydrationSettings {
            cache: Some(self.directory()),
            sharing: self.sharing(),
            store_name: self.cache_store.clone(),
            cache_size: self.cache_size,
            reserve: self.reserve,
            memory: globals.memory_ceiling(),
            ..globals.options().reads
        }
    }
}

/// An operand: a location, or a path under a mount.
pub struct CacheOperand {
    /// The location, with a pattern if the operand has one.
    pub operand: Operand,
    /// The path as given, if it is under a mount.
    pub mounted: Option<PathBuf>,
}

impl CacheOperand {
    /// Parses `text`. A path under a mount becomes the location that is mounted there, also before
    /// a pattern.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let operand = Operand::parse(text)?;
        let Some(path) = operand.root.as_local() else {
            return Ok(Self { operand, mounted: None });
        };
        let Some(behind) = firstbyte_mount::attribute(path, "location")? else {
            return Ok(Self { operand, mounted: None });
        };
        let path = std::path::absolute(path).map_err(|error| Error::io(shown(path), &error))?;
        let root = Location::parse(&behind)?;
        let text = text.to_owned();
        Ok(Self { operand: Operand { root, glob: operand.glob, text }, mounted: Some(path) })
    }

    /// Parses all of `texts`.
    pub fn parse_all(texts: &[OsString]) -> Result<Vec<Self>> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// Connects to the daemon of the mount that contains the operand; `None` if no mount contains
    /// it.
    pub fn control(&self) -> Result<Option<Control>> {
        let Some(path) = &self.mounted else { return Ok(None) };
        Control::of(path)?.map(Some).ok_or_else(|| {
            Error::failed(format!("{}: the mount does not answer", shown(path)))
                .advise("only the user who mounted it can query it; see `firstbyte doctor`")
        })
    }
}
