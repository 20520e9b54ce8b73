//! Keeps decisions that are valid only if a store's listing is in order: the deletions of a sync
//! and the differences of a check. The decisions are kept until the listing has ended, first in
//! memory and then in an unnamed temporary file. Used by [`sync`](crate::sync) and
//! [`check`](crate::check).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use crate::error::{Error, Result};

/// Number of bytes of records in memory at which they are moved to the file.
const MAX_BUFFERED: usize = 256 << 10;

/// Records in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct DeferredRecords {
    /// The latest records, each preceded by its length.
    waiting: Vec<u8>,
    file: Option<File>,
    count: u64,
}

impl DeferredRecords {
    pub(crate) fn add(&mut self, record: &[u8]) -> Result<()> {
        self.waiting.extend((record.len() as u32).to_le_bytes());
        self.waiting.extend_from_slice(record);
        self.count += 1;
        if self.waiting.len() >= MAX_BUFFERED { self.spill().map_err(Error::temporary) } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    /// Returns all records, in order.
    pub(crate) fn into_records(self) -> Result<DeferredRecordReader> {
        let mut parts: Box<dyn Read + Send> = Box::new(io::Cursor::new(self.waiting));
        if let Some(mut file) = self.file {
            file.seek(SeekFrom::Start(0)).map_err(Error::temporary)?;
            parts = Box::new(BufReader::new(file).chain(parts));
        }
        Ok(DeferredRecordReader { parts, remaining: self.count })
    }
}

/// The records of a [`DeferredRecords`].
pub(crate) struct DeferredRecordReader {
    parts: Box<dyn Read + Send>,
    /// Number of records that have not been read yet.
    remaining: u64,
}

impl DeferredRecordReader {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.parts.read_exact(&mut length)?;
        let mut record = vec![0; u32::from_le_bytes(length) as usize];
        self.parts.read_exact(&mut record)?;
        Ok(record)
    }
}

impl Iterator for DeferredRecordReader {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let record = self.read().map_err(Error::temporary);
        if record.is_err() {
            self.remaining = 0;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_records_come_in_the_order_in_which_they_were_added() {
        for count in [0_u32, 3, 200_000] {
            let mut deferred = DeferredRecords::default();
            (0..count).for_each(|number| deferred.add(number.to_string().as_bytes()).unwrap());
            assert_eq!((deferred.count, deferred.file.is_some()), (count.into(), count > 3));
            let records: Vec<_> = deferred.into_records().unwrap().map(Result::unwrap).collect();
            assert!(records.into_iter().eq((0..count).map(|number| number.to_string().into_bytes())));
        }
    }
}
