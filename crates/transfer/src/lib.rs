//! Copies, moves, deletes and compares objects between any two locations. Transfers use bounded
//! memory, can be resumed, and are verified.
//!
//! A *job* is one object to copy. A job may be split into *pieces* (chunks of a download, parts of
//! an upload), and workers take pieces of started objects before they start another object. Copying
//! one object is a run with one job; copying a tree is a run with many. All jobs of a run share the
//! limit on requests, the memory ceiling, the rate limit, and the detection of silent requests.
//!
//! Modules import downwards only: `engine` (verbs), `tree` and `sync` (listings to jobs), `remove`
//! (deletions), `moving` (moves), `attributes` (the last pass of `cp -a`), `check`, `scheduler`
//! (queue, workers, supervisor), `named` (unchanged objects), the movers (`download`, `upload`,
//! `relay`, `spool`, `stream`), then `request` and `context`, `sources`, and values (`job`, `plan`,
//! `journal`, `verify`, `report`).

mod apart;
mod attributes;
mod bottleneck;
mod check;
mod compare;
mod contained;
mod context;
mod deferred;
mod download;
mod engine;
mod error;
mod extras;
mod job;
mod journal;
mod leftovers;
mod listing_prefetch;
mod local_root;
mod marker;
mod mounts;
mod moving;
mod named;
mod pieces;
mod plan;
mod relay;
mod remove;
mod report;
mod request;
mod scheduler;
mod settings;
mod side;
mod sources;
mod spelling;
mod spool;
mod stop;
mod stream;
mod sync;
mod times;
mod tree;
mod upload;
mod verify;

pub use check::{Check, ContentComparison};
pub use engine::Engine;
pub use error::{Error, Failure, Result, StreamEnd};
pub use firstbyte_store::ReplaceKind;
pub use job::{
    CopyJob, CopyJobs, EarlierSources, Effect, EmptySource, Extent, Extras, Levels, Move, Shard, Tree,
    TreeNames, is_unfinished,
};
pub use plan::ChunkPlan;
pub use remove::Removal;
pub use report::{Action, Bottleneck, Difference, NoObserver, OBJECTS, Observer, Summary, Verified};
pub use settings::{
    Compare, Concurrency, ContentTypes, Hedging, KeptAttributes, SourceLimits, TransferSettings,
};
pub use stop::Stop;
