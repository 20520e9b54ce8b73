//! The options that `cp` and `sync` share: which names take part, and how they are moved.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use firstbyte_link::Rate;
use firstbyte_store::{Durability, Metadata, ServerSideEncryption, Store};
use firstbyte_transfer::{Compare, Effect, Settings, Shard, Stop};

use crate::args::Globals;
use crate::error::{Error, Result};
use crate::pattern::{Filter, Verdict};
use crate::size;

/// How names are chosen and bytes are moved.
#[derive(Args)]
pub struct Policy {
    #[command(flatten)]
    pub filter: Filter,
    /// What is on stable storage when a copy is reported done
    #[arg(long, value_enum, default_value_t = DurabilityName::None)]
    durability: DurabilityName,
    /// Bytes a second over all connections: 40MB, 100Mbit
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Rate>,
    /// Longest time the whole run may take; what has arrived by then is kept
    #[arg(long, value_name = "TIME", value_parser = size::parse_duration)]
    deadline: Option<Duration>,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// This worker's share of the names, counted from 0: 0/4 to 3/4
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Server-side encryption of what is uploaded
    #[arg(long, value_enum, value_name = "KIND")]
    sse: Option<Encryption>,
    /// Key for --sse aws:kms
    #[arg(long, value_name = "ID")]
    sse_kms_key_id: Option<String>,
    /// Content type of what is uploaded, instead of the source's own
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    /// What the kernel likes
    None,
    /// The bytes
    Data,
    /// The bytes, names and metadata
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

/// What `sync` compares, as it is written.
#[derive(Clone, Copy, ValueEnum)]
pub enum CompareName {
    /// Length and modification time
    SizeMtime,
    /// Content
    Checksum,
}

impl From<CompareName> for Compare {
    fn from(name: CompareName) -> Self {
        match name {
            CompareName::SizeMtime => Self::SizeMtime,
            CompareName::Checksum => Self::Checksum,
        }
    }
}

fn parse_shard(text: &str) -> std::result::Result<Shard, String> {
    let parts =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parts {
        Some((index, count)) if index < count => Ok(Shard { index, count }),
        _ => Err("write I/N with I from 0 to N-1, for example 0/4".into()),
    }
}

impl Policy {
    /// The store that these options describe.
    pub fn store(&self, globals: &Globals) -> Result<Store> {
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
        Ok(Store::new(globals.store_options(encryption))?)
    }

    /// The transfer settings that these options describe.
    pub fn settings(&self, globals: &Globals, stop: Stop) -> Settings {
        Settings {
            durability: match self.durability {
                DurabilityName::None => Durability::None,
                DurabilityName::Data => Durability::Data,
                DurabilityName::Full => Durability::Full,
            },
            limit_rate: self.limit_rate.map(Rate::get),
            deadline: self.deadline,
            content_type: self.content_type.clone(),
            ..globals.settings(stop)
        }
    }

    /// What travels with a stream, which has nothing of its own.
    pub fn metadata(&self) -> Metadata {
        Metadata { content_type: self.content_type.clone(), ..Metadata::default() }
    }

    /// Whether anything is done.
    pub fn effect(&self) -> Effect {
        if self.dry_run { Effect::DryRun } else { Effect::Apply }
    }

    /// This worker's share.
    pub fn shard(&self) -> Shard {
        self.shard.unwrap_or_default()
    }
}

/// `--include` and `--exclude` are one option in two spellings: their common order counts, which a derived parser
/// would lose.
impl Args for Filter {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, help: &'static str| {
            Arg::new(id).long(id).value_name("PATTERN").action(ArgAction::Append).help(help)
        };
        command.arg(option("include", "Take names that match, though an earlier --exclude leaves them")).arg(
            option("exclude", "Leave names that match; of several patterns the last that matches decides"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Filter {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = |id: &'static str, verdict: Verdict| {
            let places = matches.indices_of(id).into_iter().flatten();
            let texts = matches.get_many::<String>(id).into_iter().flatten();
            places.zip(texts).map(move |(place, text)| (place, verdict, text)).collect::<Vec<_>>()
        };
        let mut rules = given("include", Verdict::Include);
        rules.extend(given("exclude", Verdict::Exclude));
        rules.sort_by_key(|(place, ..)| *place);
        let mut filter = Self::default();
        rules.into_iter().for_each(|(_, verdict, text)| filter.push(verdict, text));
        Ok(filter)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
