//! The options that `cp`, `sync` and `mv` share: which names are copied, and how they are copied.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use firstbyte::Client;
use firstbyte::account::Account;
use firstbyte::manifest::ShardRun;
use firstbyte::name_list::NameList;
use firstbyte::operand::{Glob, OperandKind};
use firstbyte_location::units::PositiveDuration;
use firstbyte_location::{Location, shown, units};
use firstbyte_store::{
    Durability, Metadata, ServerSideEncryption, Spending, StoreOptions, WalkBounds, check_header_value,
    expires_header,
};
use firstbyte_transfer::{Compare, ContentTypes, Effect, SourceLimits, Stop, TransferSettings};

use super::account::AccountArgs;
use super::filter::{FilterArgs, parts};
use super::sharding::Sharding;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Result};
use crate::signals::RunDeadline;

/// Options of `cp` and `sync`: which names are copied, and how.
#[derive(Args)]
pub struct Policy {
    #[command(flatten)]
    transfer_args: TransferArgs,
    /// Data that must be on stable storage before a copy is reported as done
    #[arg(long, value_enum, default_value_t = DurabilityName::None)]
    durability: DurabilityName,
    /// How -r, patterns and sync recognize unchanged objects, which they skip
    #[arg(long, value_enum, default_value_t = CompareName::SizeMtime, group = "rule")]
    compare: CompareName,
    /// Skip objects that are as new or newer in DST
    #[arg(short, long, group = "rule")]
    update: bool,
    /// Skip objects of the same size in DST, whatever their times
    #[arg(long, group = "rule")]
    size_only: bool,
    /// Skip objects that exist in DST, whatever their content
    #[arg(long, group = "rule")]
    no_clobber: bool,
    /// Copy only the names in FILE, one per line, relative to SRC; they keep their names below DST.
    /// `-` is standard input; # begins a comment
    #[arg(long, value_name = "FILE", conflicts_with = "manifest")]
    files_from: Option<OsString>,
    #[command(flatten)]
    sharding: Sharding,
}

/// Options of `cp`, `sync` and `mv`: which names are transferred, and how.
#[derive(Args)]
pub struct TransferArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    account: AccountArgs,
    /// Limit on bytes per second over all connections: 40MB, 100Mbit
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_rate: Option<u64>,
    /// Longest time of the whole run; data that has arrived by then is kept
    #[arg(long, value_name = "TIME")]
    deadline: Option<PositiveDuration>,
    /// Show what would be copied and deleted, without copying or deleting it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Descend at most N levels (1: only entries directly in SRC)
    #[arg(long, value_name = "N")]
    max_depth: Option<NonZeroUsize>,
    /// Include only objects of at least this size
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    min_size: Option<u64>,
    /// Include only objects of at most this size
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    max_size: Option<u64>,
    /// Include only objects modified at least this long ago
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    min_age: Option<Duration>,
    /// Include only objects modified at most this long ago
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    max_age: Option<Duration>,
    /// Server-side encryption of uploads
    #[arg(long, value_enum, value_name = "KIND")]
    sse: Option<Encryption>,
    /// Key for --sse aws:kms
    #[arg(long, value_name = "ID")]
    sse_kms_key_id: Option<String>,
    /// Content type of uploads, instead of the source's own
    #[arg(long, value_name = "TYPE", value_parser = parse_content_type)]
    content_type: Option<String>,
    /// Do not guess content types from extensions; sources without one get the store's default
    #[arg(long)]
    no_guess_mime_type: bool,
    /// Cache-Control header of uploads
    #[arg(long, value_name = "TEXT", value_parser = parse_cache_control)]
    cache_control: Option<String>,
    /// Content-Encoding header of uploads, such as gzip. Bytes are sent as they are
    #[arg(long, value_name = "TEXT", value_parser = parse_header_value)]
    content_encoding: Option<String>,
    /// Content-Disposition header of uploads, such as attachment
    #[arg(long, value_name = "TEXT", value_parser = parse_header_value)]
    content_disposition: Option<String>,
    /// Content-Language header of uploads, such as de
    #[arg(long, value_name = "TEXT", value_parser = parse_header_value)]
    content_language: Option<String>,
    /// Expires header of uploads to S3, such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = expires_header)]
    expires: Option<String>,
    /// User metadata of uploads, in addition to the source's own. Repeat the option, or separate
    /// pairs with commas
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_metadata)]
    metadata: Vec<Pairs>,
    /// S3 storage class of uploads, such as STANDARD_IA or GLACIER_IR
    #[arg(long, value_name = "CLASS", value_parser = parse_storage_class)]
    storage_class: Option<String>,
    /// Access list of uploads
    #[arg(long, value_name = "NAME", value_parser = CANNED_ACLS)]
    acl: Option<String>,
    /// Tags of uploads. Repeat the option, or separate pairs with commas
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tags)]
    tag: Vec<Pairs>,
}

/// The canned access lists of S3.
const CANNED_ACLS: [&str; 7] = [
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];

/// Maximum number of tags of an object.
const MAX_TAGS: usize = 10;

/// Keys and values of user metadata or of tags.
type Pairs = BTreeMap<String, String>;

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    /// No fsync; the kernel writes back in its own time
    None,
    /// The content of files
    Data,
    /// The content, names and metadata of files
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encryption {
    /// With the store's own keys
    #[value(name = "AES256")]
    Aes256,
    /// With a key of the key service
    #[value(name = "aws:kms")]
    Kms,
}

/// Properties that are compared, by the names of `--compare`.
#[derive(Clone, Copy, ValueEnum)]
enum CompareName {
    /// Length and modification time
    SizeMtime,
    /// Content
    Checksum,
    /// Nothing: copy everything
    None,
}

impl From<CompareName> for Compare {
    fn from(name: CompareName) -> Self {
        match name {
            CompareName::SizeMtime => Self::SizeMtime,
            CompareName::Checksum => Self::Checksum,
            CompareName::None => Self::None,
        }
    }
}

/// Parses `KEY=VALUE[,KEY=VALUE...]` like the aws command: a comma that is not followed by `KEY=`
/// is part of the value.
fn parse_metadata(text: &str) -> std::result::Result<Pairs, String> {
    let is_key =
        |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let mut pairs = Pairs::new();
    let mut last = None;
    for piece in text.split(',') {
        match (piece.split_once('=').filter(|(key, _)| is_key(key)), &last) {
            (Some((key, value)), _) => {
                let key = key.to_ascii_lowercase();
                last = Some(key.clone());
                pairs.insert(key, value.to_owned());
            }
            (None, Some(key)) => pairs.entry(key.clone()).or_default().extend([",", piece]),
            (None, None) => return Err("write KEY=VALUE, KEY of letters, digits, `-`, `_` and `.`".into()),
        }
    }
    if pairs.contains_key("mtime") {
        return Err("`mtime` is what the source's modification time is kept as; choose another key".into());
    }
    match pairs.iter().find(|(_, value)| value.contains(char::is_control)) {
        Some((key, _)) => Err(format!("the value of {key} has a line break or another control character")),
        None => Ok(pairs),
    }
}

/// Parses `KEY=VALUE[,KEY=VALUE...]`. Keys and values of tags cannot contain commas.
fn parse_tags(text: &str) -> std::result::Result<Pairs, String> {
    let legal = |text: &str| text.chars().all(|c| c.is_alphanumeric() || " +-=._:/@".contains(c));
    let pair = |piece: &str| match piece.split_once('=') {
        Some((key, value)) if !key.is_empty() && legal(key) && legal(value) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("write KEY=VALUE, of letters, digits, spaces and + - = . _ : / @".to_owned()),
    };
    text.split(',').map(pair).collect()
}

fn parse_content_type(text: &str) -> std::result::Result<String, String> {
    check_header_value(text)
        .map(|()| text.to_owned())
        .map_err(|why| format!("it {why}; write a type such as text/plain"))
}

fn parse_cache_control(text: &str) -> std::result::Result<String, String> {
    check_header_value(text)
        .map(|()| text.to_owned())
        .map_err(|why| format!("it {why}; write directives such as max-age=3600"))
}

fn parse_header_value(text: &str) -> std::result::Result<String, String> {
    check_header_value(text).map(|()| text.to_owned()).map_err(|why| format!("it {why}"))
}

fn parse_storage_class(text: &str) -> std::result::Result<String, String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !text.is_empty() && text.bytes().all(legal) {
        return Ok(text.to_owned());
    }
    Err("write a class as the service names it, such as STANDARD_IA".into())
}

impl TransferArgs {
    /// Opens the account of a run on these operands. An operand `-` is a stream and has no account.
    pub fn account(&self, operands: &[OsString], globals: &Globals) -> Result<Account> {
        let named = operands.iter().filter(|text| *text != "-");
        let locations = named.map(|text| Ok(Location::parse(text)?)).collect::<Result<Vec<_>>>()?;
        self.account.open(&locations, globals)
    }

    /// Makes a client with these options that spends at most `spending`.
    pub fn client(&self, globals: &Globals, spending: Option<Spending>) -> Result<Client> {
        let encryption = match (self.sse, &self.sse_kms_key_id) {
            (None, None) => None,
            (Some(Encryption::Aes256), None) => Some(ServerSideEncryption::S3),
            (Some(Encryption::Kms), key) | (None, key @ Some(_)) => {
                Some(ServerSideEncryption::Kms(key.clone()))
            }
            (Some(Encryption::Aes256), Some(_)) => {
                return Err(Error::usage("--sse-kms-key-id belongs to --sse aws:kms, not to AES256"));
            }
        };
        let tags: Pairs =
            self.tag.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        if tags.len() > MAX_TAGS {
            return Err(Error::usage(format!("--tag: an object can have {MAX_TAGS} tags")));
        }
        let options = globals.options();
        let store = StoreOptions {
            encryption,
            storage_class: self.storage_class.clone(),
            acl: self.acl.clone(),
            tags: tags.into_iter().collect(),
            spending,
            ..options.store
        };
        Ok(Client::waiting(firstbyte::ClientOptions { store, ..options })?)
    }

    /// Returns the transfer settings that these options determine.
    pub fn settings(&self, globals: &Globals, stop: Stop) -> TransferSettings {
        TransferSettings {
            limit_rate: self.limit_rate,
            limits: self.limits(),
            metadata: Metadata {
                content_type: self.content_type.clone(),
                headers: self
                    .headers()
                    .filter_map(|(name, _, value)| Some((name.to_owned(), value.clone()?)))
                    .collect(),
                user: self
                    .metadata
                    .iter()
                    .flatten()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
                ..Metadata::default()
            },
            content_types: match self.no_guess_mime_type {
                true => ContentTypes::FromStore,
                false => ContentTypes::ByName,
            },
            ..globals.settings(stop)
        }
    }

    /// Returns the headers of uploads: the name of each header, its option, and its value if given.
    fn headers(&self) -> impl Iterator<Item = (&'static str, &'static str, &Option<String>)> {
        [
            ("cache-control", "--cache-control", &self.cache_control),
            ("content-encoding", "--content-encoding", &self.content_encoding),
            ("content-disposition", "--content-disposition", &self.content_disposition),
            ("content-language", "--content-language", &self.content_language),
            ("expires", "--expires", &self.expires),
        ]
        .into_iter()
    }

    /// Returns the time limit of the run on `source`; `None` if there is no limit.
    pub fn deadline<'s>(&self, source: &'s OsStr) -> Option<RunDeadline<'s>> {
        self.deadline.map(|after| RunDeadline { after: after.get(), source })
    }

    /// Returns whether `name`, relative to the source, is admitted by the depth limit and by
    /// `--include` and `--exclude`.
    pub fn takes(&self, name: &[u8]) -> bool {
        self.max_depth.is_none_or(|depth| parts(name) <= depth.get()) && self.filter.takes(name)
    }

    /// Converts the limit on the depth, the filter and `glob` to bounds for listings of
    /// directories.
    pub fn bounds(&self, glob: Option<(&Glob, OperandKind)>) -> WalkBounds {
        self.filter.bounds(glob, self.max_depth)
    }

    /// Returns whether every name is included.
    pub fn takes_all(&self) -> bool {
        self.filter.filter.is_empty() && self.max_depth.is_none() && !self.limits().is_any()
    }

    /// Returns the limits of size and age.
    fn limits(&self) -> SourceLimits {
        let before = |age: Option<Duration>| age.and_then(|age| SystemTime::now().checked_sub(age));
        SourceLimits {
            least_size: self.min_size,
            greatest_size: self.max_size,
            modified_since: before(self.max_age),
            modified_until: before(self.min_age),
        }
    }

    /// Refuses options that the given locations do not support.
    pub fn check<'l>(
        &self,
        sources: impl IntoIterator<Item = &'l OsString>,
        destination: &OsStr,
    ) -> Result<()> {
        let headers = self.headers().map(|(_, option, value)| (option, value.is_some()));
        let others = [("--acl", self.acl.is_some()), ("--tag", !self.tag.is_empty())];
        if let Some((name, _)) = headers.chain(others).find(|(_, given)| *given)
            && matches!(Location::parse(destination)?, Location::Local(_) | Location::Sftp(_))
        {
            return Err(Error::usage(format!("{name}: applies to uploads, not to local files")));
        }
        let is_web = |text: &OsString| matches!(Location::parse(text), Ok(Location::Http(_)));
        if self.limits().is_any() && sources.into_iter().any(is_web) {
            return Err(Error::usage("--min-size, --max-size, --min-age and --max-age: not for web servers")
                .advise("their listings need not have sizes and times"));
        }
        Ok(())
    }

    /// Returns whether changes are made, or only shown.
    pub fn effect(&self) -> Effect {
        if self.dry_run { Effect::DryRun } else { Effect::Apply }
    }
}

impl Policy {
    /// Returns the options for names and transfers, which `mv` has too.
    pub fn transfer_args(&self) -> &TransferArgs {
        &self.transfer_args
    }

    /// Returns the transfer settings that these options determine.
    pub fn settings(&self, globals: &Globals, stop: Stop) -> TransferSettings {
        TransferSettings {
            durability: match self.durability {
                DurabilityName::None => Durability::None,
                DurabilityName::Data => Durability::Data,
                DurabilityName::Full => Durability::Full,
            },
            compare: self.rule(),
            ..self.transfer_args.settings(globals, stop)
        }
    }

    /// Returns the rule that decides which existing objects in DST are skipped.
    fn rule(&self) -> Compare {
        match (self.update, self.size_only, self.no_clobber) {
            (true, ..) => Compare::Newer,
            (_, true, _) => Compare::Size,
            (.., true) => Compare::Existence,
            _ => self.compare.into(),
        }
    }

    /// Returns whether an object that exists in DST stays, whatever its content is.
    pub fn keeps_existing(&self) -> bool {
        self.no_clobber
    }

    /// Refuses the options that compare lengths or times, which a stream does not have.
    pub fn check_stream(&self) -> Result<()> {
        let TransferArgs { min_size, max_size, min_age, max_age, .. } = &self.transfer_args;
        let options = [
            ("--update", self.update),
            ("--size-only", self.size_only),
            ("--min-size", min_size.is_some()),
            ("--max-size", max_size.is_some()),
            ("--min-age", min_age.is_some()),
            ("--max-age", max_age.is_some()),
        ];
        match options.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::usage(format!("{name}: a stream has no length and no time to compare"))
                    .advise("leave it out"))
            }
        }
    }

    /// Returns the options of this worker's share.
    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Returns the list of names to copy; `None` for all names.
    pub fn names(&self) -> Result<Option<NameList>> {
        let Some(path) = &self.files_from else { return Ok(None) };
        let at_list = |error: &io::Error| Error::io(format_args!("--files-from {}", shown(path)), error);
        let list = if path == "-" {
            let mut list = Vec::new();
            console::standard_input()?.read_to_end(&mut list).map(|_| list)
        } else {
            std::fs::read(path)
        };
        let list = list.map_err(|error| at_list(&error))?;
        Ok(Some(NameList::parse(&list, self.transfer_args.filter.end)?))
    }

    /// Returns the shard of a manifest to copy; `None` if no manifest is given.
    pub fn shard_of_manifest(&self) -> Result<Option<ShardRun>> {
        if self.sharding.names_manifest() {
            self.transfer_args.account.refuse("--manifest")?;
        }
        let run = self.sharding.of_manifest()?;
        if run.is_some() && !self.transfer_args.takes_all() {
            return Err(Error::usage("--include and --exclude are fixed when the manifest is written")
                .advise("give them to firstbyte plan"));
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_written_as_the_aws_command_has_it() {
        let pairs = |text: &str| parse_metadata(text).unwrap().into_iter().collect::<Vec<_>>();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("Run=7,lab=x=y"), [pair("lab", "x=y"), pair("run", "7")]);
        assert_eq!(pairs("note=one, two,three,n="), [pair("n", ""), pair("note", "one, two,three")]);
        assert!(parse_metadata("alone").unwrap_err().contains("KEY=VALUE"));
        assert!(parse_metadata("a b=1").is_err());
        assert!(parse_metadata("mtime=1").unwrap_err().contains("modification time"));
        assert!(parse_metadata("a=x\r\nx-amz-acl: public-read").unwrap_err().contains("control"));
    }

    #[test]
    fn tags_are_pairs_of_what_s3_allows() {
        let tags: Vec<_> = parse_tags("run=7,owner=a@b c").unwrap().into_iter().collect();
        assert_eq!(tags, [("owner".into(), "a@b c".into()), ("run".into(), "7".into())]);
        for wrong in ["run", "=7", "a=b\nc", "a=b,c", "a=x&y"] {
            assert!(parse_tags(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_content_type_is_one_line_of_ascii() {
        assert_eq!(
            parse_content_type("text/plain; charset=utf-8").as_deref(),
            Ok("text/plain; charset=utf-8")
        );
        for wrong in ["text/plain\r\nx-amz-acl: public-read", "a\0b", "te\u{e4}xt/plain", "", " "] {
            assert!(parse_content_type(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_storage_class_is_a_word() {
        assert_eq!(parse_storage_class("DEEP_ARCHIVE").as_deref(), Ok("DEEP_ARCHIVE"));
        assert!(parse_storage_class("").is_err() && parse_storage_class("A\nB").is_err());
    }
}
