//! Adds copies to [`Client`](crate::Client): one object or a tree, between any two locations, by
//! the rules of [`copy_rules`](crate::copy_rules).

use std::ffi::OsStr;
use std::time::Instant;

use firstbyte_location::{Location, redacted_operand};
use firstbyte_store::{Checksum, Error as StoreError};
use firstbyte_transfer::{
    Effect, Engine, Levels, NoObserver, Observer, Shard, Stop, Summary, TransferSettings, Tree, TreeNames,
};

use crate::client::Client;
use crate::copy_rules::{Destination, ParsedSource, Wildcards};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::operand::OperandKind;
use crate::receipt::{FailedItem, Receipt};

/// Options of one copy.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// Extent of the copy: one object, or everything below a location.
    pub depth: OperandKind,
    /// The checksum that the object must have, for a copy of one object.
    pub checksum: Option<Checksum>,
    /// Maximum rate in bytes per second. Default: the client's option.
    pub limit_rate: Option<u64>,
    /// Selects the names of a tree that are copied.
    pub filter: Filter,
    /// Stops the copy from another thread. Repeating the same copy resumes it.
    pub stop: Stop,
}

impl Client {
    /// Copies an object or a tree. Each destination always contains either the old content or the
    /// complete new one. If a copy is interrupted, repeating it resumes it.
    ///
    /// ```no_run
    /// use firstbyte::{Client, ClientOptions, Copy, OperandKind};
    ///
    /// # fn main() -> firstbyte::Result<()> {
    /// let client = Client::new(ClientOptions::from_environment()?)?;
    /// let tree = Copy { depth: OperandKind::Tree, ..Copy::default() };
    /// let receipt = client.cp("results/", "s3://bucket/results/", &tree)?;
    /// assert!(receipt.failed.is_empty(), "{:?}", receipt.failed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error that has ended the run. The failures of single objects of a tree are in the
    /// receipt.
    pub fn cp(
        &self,
        source: impl AsRef<OsStr>,
        destination: impl AsRef<OsStr>,
        copy: &Copy,
    ) -> Result<Receipt> {
        let (source, destination, started) = (source.as_ref(), destination.as_ref(), Instant::now());
        let summary = self.cp_observed(source, destination, copy, &NoObserver)?;
        let mut receipt = Receipt::new("cp", redacted_text(source), Some(redacted_text(destination)));
        receipt.add(&summary);
        receipt.failed =
            summary.failed.into_iter().map(|failure| failed_item(failure.location, &failure.error)).collect();
        receipt.finish(started);
        Ok(receipt)
    }

    /// Copies like [`cp`](Self::cp), and reports the progress to `observer`. Returns the counts of
    /// the transfer engine.
    ///
    /// # Errors
    /// The errors of [`cp`](Self::cp).
    pub fn cp_observed(
        &self,
        source: impl AsRef<OsStr>,
        destination: impl AsRef<OsStr>,
        copy: &Copy,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        let (source, destination) = (source.as_ref().to_owned(), destination.as_ref());
        let parsed = ParsedSource::parse(&source, copy.depth, Wildcards::Off, self.store())?;
        let target = parsed.target(&Destination::parse(destination, &[source], Wildcards::Off)?)?;
        let engine = self.engine(copy);
        let root = match parsed {
            ParsedSource::Object(source) if engine.is_unchanged(&source, &target)? => {
                return Ok(Summary { skipped: 1, ..Summary::default() });
            }
            ParsedSource::Object(source) => {
                return engine
                    .copy(&source, &target, observer)
                    .map_err(|error| self.directory_error_if_prefix(&source, error));
            }
            ParsedSource::Tree { root, .. } | ParsedSource::Glob { base: root, .. } => root,
        };
        let tree = Tree {
            source: root,
            names: TreeNames::Listed,
            destination: target,
            beginning: String::new(),
            levels: Levels::All,
            select: &|name| copy.filter.takes(name),
            bounds: copy.filter.bounds(),
            shard: Shard::default(),
            effect: Effect::Apply,
        };
        let mut summary = engine.copy_tree(&tree, observer)?;
        match summary.ended.take() {
            Some(error) => Err(error.into()),
            None => Ok(summary),
        }
    }

    /// Converts the error of a copy. If the missing source is a prefix, the result is
    /// [`Error::Directory`].
    fn directory_error_if_prefix(&self, source: &Location, error: firstbyte_transfer::Error) -> Error {
        let is_missing = matches!(error, firstbyte_transfer::Error::Store(StoreError::NotFound { .. }));
        if is_missing && self.store().has_below(source).is_ok_and(|has| has) {
            return Error::Directory { location: source.to_string() };
        }
        error.into()
    }

    pub(crate) fn engine(&self, copy: &Copy) -> Engine {
        let settings = TransferSettings {
            checksum: copy.checksum.clone(),
            limit_rate: copy.limit_rate.or(self.copies.limit_rate),
            stop: copy.stop.clone(),
            ..self.copies.clone()
        };
        self.transfers(settings)
    }
}

/// Formats an operand for a receipt, without its secrets.
fn redacted_text(operand: &OsStr) -> String {
    redacted_operand(&operand.to_string_lossy()).into_owned()
}

/// Creates the item of a receipt for an object that has failed.
fn failed_item(location: String, error: &firstbyte_transfer::Error) -> FailedItem {
    FailedItem::new(location, error.to_string(), error.kind(), error.trace())
}
