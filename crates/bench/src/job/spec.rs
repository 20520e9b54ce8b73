//! The description of a job: its workload, its target, the access, and parameters.
//!
//! A job is parsed from JSON. Unknown fields, and parameters that the workload does not have, are
//! refused. The engine writes the JSON; `bench job` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use firstbyte_location::units::{UnitError, parse_size};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::error::{Error, Result};
use super::fio::Fio;

/// A job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// The work to do.
    pub workload: Workload,
    /// Location to read: an object, a directory, a prefix or a bucket. `upload` writes to it.
    pub target: String,
    /// Access to the target.
    pub access: Access,
    /// Object below the target, for workloads of one object. If empty, the target is the object. A
    /// mount shows the whole target, so a job can mount a bucket and read one object.
    pub object: String,
    /// Global options of firstbyte, such as `["--endpoint-url", "http://..."]`.
    pub options: Vec<String>,
    /// The firstbyte program that mounts; empty for this program.
    pub firstbyte: PathBuf,
    /// Destination of `cp`, and of the files that `copy-tree` and `one-big` write.
    pub destination: Option<PathBuf>,
    /// Directory of the cache. If `None`, `open` caches nothing, and `mount` uses a temporary
    /// directory.
    pub cache: Option<PathBuf>,
    /// Mount point of the target; `None` for a temporary directory.
    pub mount: Option<PathBuf>,
    /// Additional options of `firstbyte mount`.
    pub mount_options: Vec<String>,
    /// Expected content. If `None`, only lengths and counts are checked.
    pub expect: Option<ExpectedContent>,

    /// Bytes per read.
    pub block: Option<Size>,
    /// Offset of the first byte. With another offset in each run, a run reads bytes that were never
    /// read before.
    pub offset: Size,
    /// Number of bytes to read from `offset`; `None` for all up to the end.
    pub size: Option<Size>,
    /// Part to read before the whole: `1%` or a size, in pieces of 1 MiB spread over the object.
    pub read: Option<Share>,
    /// Limit of time in seconds, for example a gateway's. `open` computes how much of an object
    /// fits into it.
    #[serde(deserialize_with = "number")]
    pub limit_seconds: Option<u64>,
    /// Last stage of `open`.
    pub until: OpenStage,
    /// Number of operations, expected files, or repetitions.
    #[serde(deserialize_with = "number")]
    pub count: Option<u64>,
    /// Number of requests, threads or files at once.
    #[serde(deserialize_with = "number")]
    pub concurrency: Option<usize>,
    /// Order in which many files are read.
    pub order: Order,
    /// Names to read: `FROM..TO` in byte order, without `TO`. Either may be empty.
    pub names: Option<Names>,
    /// Seed of random offsets and choices.
    pub seed: u64,
    /// True if a listing includes sizes and times.
    pub details: bool,
    /// True if a listing is recursive.
    pub recursive: bool,
    /// Buffer of a local listing, in bytes for one getdents64 call.
    pub buffer: Option<Size>,
    /// Local file or directory that `upload` copies to the target.
    pub source: Option<PathBuf>,
    /// True if the job may write to its target.
    pub write: bool,
    /// Weights of the workloads in `mixed`.
    pub shares: BTreeMap<Workload, u32>,
    /// Words of the command. `{target}` stands for the target or the directory where it is mounted.
    pub command: Vec<String>,
    /// Name of the BLAST database below the target.
    pub database: String,
    /// File of BLAST queries.
    pub query: Option<PathBuf>,
    /// `BATCH_SIZE` of blastn: number of query bases that it searches together.
    #[serde(deserialize_with = "number")]
    pub batch_size: Option<u64>,
    /// Parameters of fio.
    pub fio: Fio,
}

/// The work of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads one object in stages: ready, opened, first byte, a part, all.
    #[default]
    Open,
    /// The same work as `open`. The engine starts it several times at once.
    ColdStart,
    /// Reads one object from start to end.
    OneBig,
    /// Reads all objects of a directory or prefix.
    ManySmall,
    /// Reads one object sequentially, in reads of one size.
    SeqRead,
    /// Reads at random offsets, in reads of one size.
    RandRead,
    /// Reads every page of a file, or of all files of a directory, through a mapping.
    Mapped,
    /// Lists names, with or without details.
    List,
    /// Copies recursively to a destination.
    CopyTree,
    /// Hydrates the target into firstbyte's cache.
    Hydrate,
    /// Copies a local file or directory to the target.
    Upload,
    /// Mixes operations of several workloads by weight.
    Mixed,
    /// Searches with blastn.
    Blast,
    /// Runs any program.
    Command,
    /// Runs fio.
    Fio,
    /// Measures the figures of `firstbyte probe`.
    Probe,
}

/// Access to the target.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A local path, by plain calls.
    #[default]
    Path,
    /// firstbyte's lazy files.
    Open,
    /// A mount by `firstbyte mount`, by plain calls.
    Mount,
    /// A copy by `firstbyte cp`, then a local path.
    Cp,
}

/// Order in which many files are read.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Reads at most `concurrency` files at once.
    #[default]
    Parallel,
    /// Reads one file after another.
    Sequential,
}

/// A stage of `open`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "kebab-case")]
pub enum OpenStage {
    /// The client exists, the mount is mounted, or the copy is complete.
    Ready,
    /// The object is open.
    Opened,
    /// The first byte was read.
    FirstByte,
    /// A part was read.
    Part,
    /// Everything was read.
    #[default]
    All,
}

/// The expected content of files.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExpectedContent {
    /// Seed with which [`crate::data`] made the content: a single object by its function `file`,
    /// many files by its function `files`. The files may be in any directories.
    pub seed: u64,
    /// Part of each read to compare.
    #[serde(default)]
    pub compare: ComparedPart,
}

/// Part of each read to compare.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedPart {
    /// The first and last bytes, which takes no measurable time.
    #[default]
    Ends,
    /// All bytes, for runs that are not timed.
    All,
}

/// A size in bytes: a number, or text with a unit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(try_from = "NumberOrText")]
pub struct Size(pub u64);

/// A part of an object.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "NumberOrText")]
pub enum Share {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage.
    Percent(f64),
}

/// A range of names in byte order.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(try_from = "String")]
pub struct Names {
    /// First name.
    pub from: String,
    /// Name after the last one; empty for no limit.
    pub to: String,
}

impl Share {
    /// Returns the bytes of this part of an object of `size` bytes, at most `size`.
    #[must_use]
    pub fn of(self, size: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.min(size),
            Self::Percent(percent) => ((size as f64 * percent / 100.0) as u64).min(size),
        }
    }
}

impl Names {
    /// True if `name` is in the range.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        name >= self.from.as_str() && (self.to.is_empty() || name < self.to.as_str())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Workload {
    /// Returns the parameters of this workload, in addition to those of every workload.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Open | Self::ColdStart => &["object", "read", "until", "block", "limit_seconds"],
            Self::OneBig => &["object", "block", "offset", "size", "concurrency"],
            Self::SeqRead => &["object", "block", "offset", "size"],
            Self::RandRead => &["object", "block", "offset", "size", "count", "concurrency", "seed"],
            Self::ManySmall => &["block", "count", "concurrency", "order", "names"],
            Self::Mapped => &["object", "concurrency"],
            Self::List => &["count", "details", "recursive", "buffer", "concurrency"],
            Self::CopyTree | Self::Hydrate => &["count", "concurrency"],
            Self::Upload => &["source", "write", "concurrency"],
            Self::Mixed => &["object", "block", "count", "concurrency", "seed", "shares", "order", "read"],
            Self::Blast => &["database", "query", "batch_size", "count", "concurrency"],
            Self::Command => &["command"],
            Self::Fio => &["object", "block", "size", "offset", "concurrency", "seed", "fio"],
            Self::Probe => &["limit_seconds"],
        }
    }

    /// Returns the accesses that this workload supports.
    fn accesses(self) -> &'static [Access] {
        use Access::{Cp, Mount, Open, Path};
        match self {
            Self::List => &[Path, Open, Mount],
            Self::CopyTree => &[Path, Cp, Mount],
            Self::Hydrate | Self::Probe => &[Open],
            Self::Upload => &[Cp],
            Self::Mapped | Self::Blast | Self::Fio => &[Path, Mount, Cp],
            Self::Mixed => &[Path, Open, Mount],
            _ => &[Path, Open, Mount, Cp],
        }
    }
}

/// Parameters of every workload.
const COMMON_PARAMETERS: &[&str] = &[
    "workload",
    "target",
    "access",
    "options",
    "firstbyte",
    "destination",
    "cache",
    "mount",
    "mount_options",
    "expect",
];

impl Job {
    /// True if the job reads one object, not all objects of a directory.
    pub(crate) fn is_of_one_object(&self) -> bool {
        match self.workload {
            Workload::Mapped | Workload::Command => !self.object.is_empty() || !self.target.ends_with('/'),
            Workload::Open | Workload::ColdStart | Workload::OneBig => true,
            Workload::SeqRead | Workload::RandRead | Workload::Fio => true,
            _ => false,
        }
    }

    /// Parses a job from JSON. Checks that its parameters belong to the workload and are complete.
    ///
    /// # Errors
    /// [`Error::Job`] with the mistake.
    pub fn parse(json: &str) -> Result<Self> {
        let wrong = |error| Error::job(format!("not a job: {error}"));
        let given: Map<String, Value> = serde_json::from_str(json).map_err(wrong)?;
        let job = Self::deserialize(Value::Object(given.clone())).map_err(wrong)?;
        let Self { workload, access, target, .. } = &job;
        let is_unknown = |name: &&String| {
            !COMMON_PARAMETERS.contains(&name.as_str()) && !workload.parameters().contains(&name.as_str())
        };
        let zeros = [
            ("count", job.count == Some(0)),
            ("concurrency", job.concurrency == Some(0)),
            ("block", job.block == Some(Size(0))),
            ("buffer", job.buffer == Some(Size(0))),
        ];
        if target.is_empty() {
            return Err(Error::job(format!("{workload}: no target")));
        }
        if !workload.accesses().contains(access) {
            return Err(Error::job(format!("{workload} cannot reach a target by {access}")));
        }
        if let Some(name) = given.keys().find(is_unknown) {
            return Err(Error::job(format!("{workload} has no parameter {name}")));
        }
        if *access == Access::Path && target.contains("://") {
            return Err(Error::job(format!("{target}: not a local path; use another access than path")));
        }
        if let Some((name, _)) = zeros.iter().find(|(_, zero)| *zero) {
            return Err(Error::job(format!("{name}: at least 1 is needed")));
        }
        job.check_needs()?;
        Ok(job)
    }

    /// Checks that all parameters that the workload needs are set.
    fn check_needs(&self) -> Result<()> {
        let missing = |name: &str| Err(Error::job(format!("{}: {name} is missing", self.workload)));
        match self.workload {
            Workload::Upload if self.source.is_none() => missing("source"),
            Workload::Upload if !self.write => Err(Error::job("upload writes to its target: give write")),
            Workload::Mixed if self.shares.values().all(|weight| *weight == 0) => missing("shares"),
            Workload::Command if self.command.is_empty() => missing("command"),
            Workload::Blast if self.database.is_empty() => missing("database"),
            Workload::Blast if self.query.is_none() => missing("query"),
            Workload::Hydrate if self.cache.is_none() => missing("cache"),
            Workload::CopyTree if self.destination.is_none() => missing("destination"),
            _ if self.access == Access::Cp
                && self.destination.is_none()
                && self.workload != Workload::Upload =>
            {
                missing("destination")
            }
            _ => Ok(()),
        }
    }
}

/// A value given as text or as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

/// Parses a number, also from text, because a plan's placeholders are text.
pub(crate) fn number<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<T>, D::Error> {
    let wrong = |text: String| serde::de::Error::custom(format!("`{text}` is not a number from 0 on"));
    let value = match Option::<NumberOrText>::deserialize(from)? {
        None => return Ok(None),
        Some(NumberOrText::Number(value)) => value,
        Some(NumberOrText::Text(text)) => text.trim().parse().map_err(|_| wrong(text))?,
    };
    T::try_from(value).map(Some).map_err(|_| wrong(value.to_string()))
}

impl TryFrom<NumberOrText> for Size {
    type Error = UnitError;

    fn try_from(given: NumberOrText) -> std::result::Result<Self, UnitError> {
        match given {
            NumberOrText::Number(bytes) => Ok(Self(bytes)),
            NumberOrText::Text(text) => parse_size(&text).map(Self),
        }
    }
}

impl TryFrom<NumberOrText> for Share {
    type Error = String;

    fn try_from(given: NumberOrText) -> std::result::Result<Self, String> {
        let text = match given {
            NumberOrText::Number(bytes) => return Ok(Self::Bytes(bytes)),
            NumberOrText::Text(text) => text,
        };
        let Some(percent) = text.strip_suffix('%') else {
            return parse_size(&text).map(Self::Bytes).map_err(|error| error.to_string());
        };
        match percent.trim().parse() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
            _ => Err(format!("`{text}` is not a part; write for example 1% or 64MiB")),
        }
    }
}

impl TryFrom<String> for Names {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let range = text.split_once("..");
        let (from, to) = range.ok_or_else(|| format!("`{text}` is not a range of names; write FROM..TO"))?;
        Ok(Self { from: from.to_owned(), to: to.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_with_units() {
        let text = r#"{"workload": "rand-read", "target": "s3://b/k", "access": "open", "block": "4KiB", "count": "100",
            "concurrency": 8, "options": ["--endpoint-url", "http://h"], "expect": {"seed": 3, "compare": "all"}}"#;
        let job = Job::parse(text).unwrap();
        assert_eq!((job.block, job.count, job.concurrency), (Some(Size(4096)), Some(100), Some(8)));
        assert_eq!(job.expect, Some(ExpectedContent { seed: 3, compare: ComparedPart::All }));
        let part =
            |text: &str| Job::parse(&format!(r#"{{"target": "/x", "read": {text}}}"#)).unwrap().read.unwrap();
        assert_eq!([part("\"1%\"").of(1000), part("\"4KiB\"").of(1 << 20), part("7").of(5)], [10, 4096, 5]);
        let names = Names { from: "b".into(), to: "d".into() };
        assert_eq!(["a", "b", "c", "d"].map(|name| names.contains(name)), [false, true, true, false]);
    }

    #[test]
    fn a_wrong_job_is_refused_with_its_mistake() {
        for (fields, why) in [
            (r#""workload": "fly""#, "unknown variant `fly`"),
            (r#""speed": 3"#, "unknown field `speed`"),
            (r#""block": "4 apples""#, "`4 apples` is not a size"),
            (r#""read": "200%""#, "`200%` is not a part"),
            (r#""count": "many""#, "`many` is not a number"),
            (r#""workload": "list", "block": 4096"#, "list has no parameter block"),
            (r#""workload": "open", "shares": {"list": 1}"#, "open has no parameter shares"),
            (r#""workload": "list", "access": "cp""#, "list cannot reach a target by cp"),
            (r#""workload": "seq-read", "block": 0"#, "block: at least 1"),
            (r#""workload": "rand-read", "concurrency": 0"#, "concurrency: at least 1"),
            (r#""workload": "one-big", "access": "cp""#, "destination is missing"),
            (r#""workload": "upload", "access": "cp", "source": "/s""#, "give write"),
            (r#""workload": "mixed", "shares": {"list": 0}"#, "shares is missing"),
            (r#""workload": "mixed", "access": "cp""#, "cannot reach"),
            (r#""workload": "command""#, "command is missing"),
            (r#""workload": "blast", "database": "db""#, "query is missing"),
            (r#""workload": "hydrate", "access": "open""#, "cache is missing"),
        ] {
            let error = Job::parse(&format!(r#"{{"target": "/x", {fields}}}"#)).unwrap_err().to_string();
            assert!(error.contains(why), "{fields}: {error}");
        }
        assert!(Job::parse("{}").unwrap_err().to_string().contains("no target"));
        let error = Job::parse(r#"{"target": "s3://b/k"}"#).unwrap_err().to_string();
        assert!(error.contains("use another access than path"), "{error}");
    }
}
