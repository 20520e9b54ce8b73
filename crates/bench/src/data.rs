//! Generates test data from seeds, and checks content against the same seeds.
//!
//! Content is a function of seed and offset ([`fill`]). Names and sizes of files are functions of
//! seed and number. A delivered file is therefore checked without its source. The engine makes data
//! before it measures; workloads compare what they read.

mod blast;
mod check;
mod make;
mod stream;

pub use blast::{Database, database, queries, sequences_of};
pub use check::{check_file, check_files};
pub use make::{FileSizes, Spread, file, files, links, name_of, names, size_of, tree};
pub use stream::{fill, first_difference, seed_of};
