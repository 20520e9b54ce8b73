//! Sums counts by name in bounded memory. Names that do not fit into memory go to disk as sorted
//! rows. Called by `du`, whose threads may add to the same directory several times.

use super::sort::{Sort, SortDirection, Sorter};
use super::{RowsError, Schema, Value, record};
use crate::render::error::Result;

/// Number of bytes of records that are passed to the sorter at a time.
const PAGE_BYTES: usize = 64 << 10;

/// Counts by name. The schema consists of the name, followed by `N` numbers.
#[derive(Debug)]
pub struct NameSums<const N: usize> {
    schema: Schema,
    sorter: Sorter,
    page: Vec<u8>,
    /// The error after which nothing more can be added.
    broken: Option<RowsError>,
}

impl<const N: usize> NameSums<N> {
    /// Makes empty sums that use about `memory` bytes of memory. Counts that do not fit go to disk.
    pub fn new(schema: Schema, memory: usize) -> Self {
        let sorter = Sorter::new(schema, Sort::Name, SortDirection::Usual, memory);
        Self { schema, sorter, page: Vec::new(), broken: None }
    }

    /// Adds to the counts of a name. Errors, such as a full disk, are returned by
    /// [`finish`](Self::finish).
    pub fn add(&mut self, name: &[u8], counts: [u64; N]) {
        let numbers = counts.into_iter().map(|count| Value::Number(Some(count)));
        let row: Vec<Value<'_>> = std::iter::once(Value::Name(b"", name)).chain(numbers).collect();
        record::push(&row, &mut self.page);
        if self.page.len() >= PAGE_BYTES {
            self.hand_over();
        }
    }

    /// Passes each name once to `each`, with its total counts, in ascending byte order of the
    /// names.
    ///
    /// # Errors
    /// The temporary file of counts cannot be written or read.
    pub fn finish(mut self, mut each: impl FnMut(&[u8], [u64; N])) -> Result<()> {
        self.hand_over();
        if let Some(broken) = self.broken {
            return Err(broken.into());
        }
        let (schema, mut name, mut sum) = (self.schema, None::<Vec<u8>>, [0; N]);
        self.sorter.finish(|record| {
            let (found, counts): (&[u8], [u64; N]) = decode(schema, record);
            match &mut name {
                Some(name) if name == found => {}
                Some(name) => {
                    each(name, std::mem::replace(&mut sum, [0; N]));
                    name.clear();
                    name.extend_from_slice(found);
                }
                None => name = Some(found.to_vec()),
            }
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            Ok(())
        })?;
        if let Some(name) = name {
            each(&name, sum);
        }
        Ok(())
    }

    fn hand_over(&mut self) {
        if self.broken.is_none() {
            self.broken = self.sorter.add(&self.page).err();
        }
        self.page.clear();
    }
}

/// Decodes a record's name and counts.
fn decode<const N: usize>(schema: Schema, record: &[u8]) -> (&[u8], [u64; N]) {
    let (mut name, mut counts): (&[u8], _) = (b"", [0; N]);
    let mut places = counts.iter_mut();
    for value in record::values(schema, record) {
        match value {
            Value::Name(_, bytes) => name = bytes,
            Value::Number(number) => {
                if let Some(place) = places.next() {
                    *place = number.unwrap_or(0);
                }
            }
            Value::Kind(_) | Value::Time(_) | Value::Text(_) => {}
        }
    }
    (name, counts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::render::rows::{ColumnType, RowColumn};

    const SCHEMA: Schema = &[
        RowColumn { name: "name", holds: ColumnType::Name, width: None },
        RowColumn { name: "bytes", holds: ColumnType::Number, width: None },
        RowColumn { name: "files", holds: ColumnType::Number, width: None },
    ];

    #[test]
    fn the_counts_of_a_name_are_added_up_however_many_names_there_are_and_however_little_memory() {
        for memory in [4 << 10, 64 << 20] {
            let mut sums = NameSums::new(SCHEMA, memory);
            let mut expected: BTreeMap<Vec<u8>, [u64; 2]> = BTreeMap::new();
            for index in 0..20_000_u64 {
                let name = format!("d{}/", index * 7919 % 5003).into_bytes();
                sums.add(&name, [index, 1]);
                let sum = expected.entry(name).or_default();
                *sum = [sum[0] + index, sum[1] + 1];
            }
            let mut found = Vec::new();
            sums.finish(|name, counts| found.push((name.to_vec(), counts))).unwrap();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
        NameSums::<2>::new(SCHEMA, 4096).finish(|_, _| panic!("nothing was added")).unwrap();
    }
}
