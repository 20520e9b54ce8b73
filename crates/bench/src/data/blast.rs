//! Generates a nucleotide database for BLAST of any size, and queries that match sequences in it.
//!
//! The sequences are random, without biological meaning, but blastn works as it does with real
//! ones: it maps every volume and scans all of it. Queries are pieces of sequences, computed from
//! the seed without the database.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::stream::{fill, seed_of};
use crate::job::{Error, Result, program};

/// Bases in a sequence: about a contig of a bacterial genome.
const SEQUENCE_BASES: usize = 100_000;
/// Bases per byte of the database.
const BASES_PER_BYTE: u64 = 4;
/// Bases of a sequence that form a query. A read of a sequencer has 150 bases. blastn searches
/// queries together until they have `BATCH_SIZE` bases.
const QUERY_BASES: std::ops::Range<usize> = 1000..1150;
/// Name of the database in its directory.
const DATABASE_NAME: &str = "db";

/// Figures of a generated database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Database {
    /// Number of sequences.
    pub sequences: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
}

/// Makes `directory` with a database `db` of about `size` bytes by makeblastdb, in volumes of at
/// most `volume` bytes.
///
/// # Errors
/// makeblastdb is missing or fails, or the directory exists.
pub fn database(directory: &Path, size: u64, volume: u64, seed: u64) -> Result<Database> {
    fs::create_dir(directory).map_err(Error::at(directory))?;
    let sequences = sequences_of(size);
    let volume = format!("{volume}B");
    let mut command = Command::new("makeblastdb");
    command.args([
        "-in",
        "-",
        "-dbtype",
        "nucl",
        "-title",
        DATABASE_NAME,
        "-out",
        DATABASE_NAME,
        "-max_file_sz",
        &volume,
    ]);
    command.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut maker = program::spawn(&mut command, "makeblastdb", program::BLAST_PACKAGE)?;
    let written =
        maker.stdin.take().map_or(Ok(()), |pipe| write_all(&mut BufWriter::new(pipe), sequences, seed));
    // If makeblastdb ended early, its own error says more than the broken pipe.
    program::finish(maker, "makeblastdb")?;
    written.map_err(Error::at(directory))?;
    let mut bytes = 0;
    for entry in fs::read_dir(directory).map_err(Error::at(directory))? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(Error::at(directory))?.len();
    }
    Ok(Database { sequences, bytes })
}

/// Returns the number of sequences in a database of `size` bytes; an argument of [`queries`].
#[must_use]
pub fn sequences_of(size: u64) -> u64 {
    (size * BASES_PER_BYTE).div_ceil(SEQUENCE_BASES as u64)
}

fn write_all(out: &mut dyn Write, sequences: u64, seed: u64) -> std::io::Result<()> {
    let mut bases = vec![0; SEQUENCE_BASES];
    for number in 0..sequences {
        sequence(number, seed, &mut bases);
        writeln!(out, ">seq{number}")?;
        out.write_all(&bases)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes `path` with `count` queries for a database of `sequences` sequences of the same seed.
///
/// # Errors
/// The file cannot be written.
pub fn queries(path: &Path, count: u64, sequences: u64, seed: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path).map_err(Error::at(path))?);
    let mut bases = vec![0; SEQUENCE_BASES];
    // The stride spreads queries over the database, so that they do not all lie in its first
    // volume.
    let stride = (sequences / count.max(1)).max(1);
    let mut write = || {
        for query in 0..count {
            let number = query * stride % sequences.max(1);
            sequence(number, seed, &mut bases);
            // If there are more queries than sequences, each sequence gives several pieces.
            let shift = (query * stride / sequences.max(1)) as usize * QUERY_BASES.len()
                % (SEQUENCE_BASES - QUERY_BASES.end);
            writeln!(out, ">query{query}")?;
            out.write_all(&bases[QUERY_BASES.start + shift..QUERY_BASES.end + shift])?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    write().map_err(Error::at(path))
}

/// Computes the bases of sequence `number`.
fn sequence(number: u64, seed: u64, bases: &mut [u8]) {
    fill(seed_of(seed, &format!("seq{number}")), 0, bases);
    for base in bases {
        *base = b"ACGT"[usize::from(*base & 3)];
    }
}
