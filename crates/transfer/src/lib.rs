//! Plans chunks (pure) and moves them between any two locations: bounded, resumable, verified.
//!
//! One mechanism carries everything. A *job* is one object on its way; a job may split into *pieces* (chunks of a
//! download, parts of an upload); workers take pieces of objects already begun before they begin another. A single copy
//! is a run of one job, a tree a run of many, and both share the level of concurrency, the memory ceiling, the rate
//! limit and the watch over stalled requests.
//!
//! Pure parts, tested without a disk or a network: [`Plan`] (which bytes form a chunk), `level` (how many requests at
//! once), `patience` (when a silent request is given up), `journal` (its records).

mod ahead;
mod begun;
mod bound;
mod compare;
pub mod control;
mod download;
mod engine;
mod error;
mod flight;
mod journal;
mod leftovers;
mod level;
mod observer;
mod part_limit;
mod patience;
mod pieces;
mod plan;
mod processors;
mod queue;
mod relay;
mod resume;
mod run;
mod settings;
mod single;
mod spool;
mod stop;
mod stream;
mod summary;
mod sync;
mod tree;
mod unchanged;
mod upload;
mod verify;
mod watch;
mod window;
mod worker;

pub use engine::{Engine, Job, Jobs};
pub use error::{Error, Failure, Result};
pub use firstbyte_store::Over;
pub use observer::{Action, Observer, Silent};
pub use plan::Plan;
pub use settings::{Compare, Concurrency, Hedging, Settings};
pub use stop::Stop;
pub use summary::{Bound, Summary, Verified};
pub use tree::{Effect, Empty, Extras, Levels, Shard, Tree};
